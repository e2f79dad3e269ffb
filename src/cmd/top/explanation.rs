//! Writes the page of `top` about the selected row: its details in full, commands that only look, and the text of
//! `plegctl explain`.

use super::model::{EntryKind, Judgement, Model, SilentCall, call_and_target, pod_name};
use super::view::RowId;
use crate::clock::Mono;
use crate::cmd::explain;
use crate::cmd::render::words::took;
use crate::pleg::stream::EventSubject;
use crate::pleg::{PlegState, PodRef};
use crate::report::duration::elapsed;
use crate::report::escape::shell_word;
use crate::report::plural;

/// Returns the text about a row, or about the verdict if no row is selected.
pub fn lines(model: &Model, row: Option<&RowId>, now: Mono) -> Vec<String> {
    let judgement = model.judge(now);
    let mut lines = Vec::new();
    match row {
        Some(RowId::Call(rpc, id)) => {
            let calls = model.silent_calls(now);
            match calls.iter().find(|call| (&call.rpc, &call.id) == (rpc, id)) {
                Some(call) => about_call(call, model, &judgement, &mut lines),
                None => lines.push("this call has ended".to_owned()),
            }
        }
        Some(RowId::Pod(uid)) => match model.slow_pods().into_iter().find(|slow| slow.pod.uid == *uid) {
            Some(slow) => {
                lines.push(pod_name(&slow.pod));
                lines.push(format!("  uid {uid}"));
                lines.push(format!("  {} in the last 5 minutes", plural(slow.calls, "call")));
                let container =
                    slow.container.map(|name| format!(" of container {name}")).unwrap_or_default();
                lines.push(format!("  the slowest: {}{container}, {}", slow.rpc, took(slow.took)));
                commands(&slow.rpc, slow.id.as_deref(), Some(&slow.pod), &mut lines);
            }
            None => lines.push("no call for this pod in the last 5 minutes".to_owned()),
        },
        Some(RowId::Entry(number)) => {
            match model.entries.iter().find(|entry| entry.number == *number).map(|entry| &entry.kind) {
                Some(EntryKind::Notice(_, text)) => lines.push(text.clone()),
                Some(EntryKind::Event(event)) => {
                    lines.push(format!("{} of {}", event.event_type.as_str(), pod_name(&event.pod)));
                    lines.push(format!("  at {}", event.time));
                    let state = |state: Option<PlegState>| state.map_or("unknown", PlegState::as_str);
                    lines.push(format!("  {} → {}", state(event.from), state(event.to)));
                    lines.extend(event.exit_code.map(|code| format!("  exit code {code}")));
                    lines.extend(event.reason.as_ref().map(|why| format!("  reason {why}")));
                    lines.extend(event.name.as_ref().map(|name| format!("  container {name}")));
                    lines.extend(event.id.as_ref().map(|id| format!("  id {id}")));
                    lines.push(format!("  pod uid {}", event.pod.uid));
                    if !event.delivered {
                        lines.push("  the kubelet computes this event and does not deliver it".to_owned());
                    }
                    let is_sandbox = event.subject == EventSubject::Sandbox;
                    let rpc = if is_sandbox { "PodSandboxStatus" } else { "ContainerStatus" };
                    commands(rpc, event.id.as_deref(), Some(&event.pod), &mut lines);
                }
                None => lines.push("this transition is no longer kept".to_owned()),
            }
        }
        None => {
            lines.push(judgement.title.clone());
            commands("", None, None, &mut lines);
            explain_ids(&judgement, &mut lines);
        }
    }
    lines
}

fn about_call(call: &SilentCall, model: &Model, judgement: &Judgement, lines: &mut Vec<String>) {
    lines.push(call_and_target(call));
    let waited = elapsed(call.waited);
    lines.push(if call.given_up {
        format!("  given up after {waited}")
    } else {
        format!("  pending for {waited}; the kubelet gives it up after {}", elapsed(model.settings.timeout))
    });
    lines.extend(call.id.as_ref().map(|id| format!("  id {id}")));
    lines.extend(call.pod.as_ref().map(|pod| format!("  pod uid {}", pod.uid)));
    commands(&call.rpc, call.id.as_deref(), call.pod.as_ref(), lines);
    explain_ids(judgement, lines);
}

/// Adds the text of `plegctl explain` about the verdict's ids.
fn explain_ids(judgement: &Judgement, lines: &mut Vec<String>) {
    for id in &judgement.ids {
        lines.push(String::new());
        lines.extend(explain::lines(&id.to_string()));
    }
}

/// Adds commands that only look.
fn commands(rpc: &str, id: Option<&str>, pod: Option<&PodRef>, lines: &mut Vec<String>) {
    lines.push(String::new());
    lines.push("to look further".to_owned());
    if let Some(id) = id {
        let verb = if rpc == "PodSandboxStatus" { "inspectp" } else { "inspect" };
        lines.push(format!("  crictl --timeout 20s {verb} {}", shell_word(id)));
    }
    if let Some(pod) = pod.filter(|pod| !pod.name.is_empty()) {
        lines.push(format!(
            "  kubectl -n {} describe pod {}",
            shell_word(&pod.namespace),
            shell_word(&pod.name)
        ));
    }
    lines.push("  plegctl health".to_owned());
    lines.push("  plegctl stacks".to_owned());
}
