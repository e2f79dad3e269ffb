//! Writes the summary of a report: the most important finding in one sentence, with the time at which the node becomes
//! `NotReady` if that is known.

use super::not_ready::NotReady;
use crate::cri::Rpc;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::facts::FactKind;
use crate::diagnosis::proc::Role;
use crate::diagnosis::report::{Confidence, HealthFinding, NotChecked, Phase, Verdict};
use crate::diagnosis::rules::runtime_state::condition;
use crate::diagnosis::rules::{Case, Trait, row};
use crate::diagnosis::words::seconds;

/// Returns the summary.
pub(super) fn sentence(
    case: &Case<'_>,
    verdict: Verdict,
    primary: Option<&HealthFinding>,
    not_ready: Option<NotReady>,
) -> String {
    // If a moment is not recorded, a finding that is only possible is not the reason for the verdict.
    let is_hidden = |primary: &HealthFinding| {
        verdict == Verdict::Unknown
            && (case.evidence.moment.is_some() || case.evidence.list_may_be_large())
            && primary.confidence == Confidence::Possible
    };
    let Some(primary) = primary.filter(|primary| !is_hidden(primary)) else {
        let skipped = |skipped: &NotChecked| format!("{}: {}", skipped.what, skipped.why);
        let why = why_unknown(case.evidence, skipped);
        return why.map_or_else(|| "not judged".to_owned(), |why| format!("not judged: {why}"));
    };
    let title = &primary.title;
    match verdict {
        Verdict::Unknown if primary.phase == Phase::Connect => title.clone(),
        Verdict::Unknown => {
            let open = why_unknown(case.evidence, |skipped| skipped.what.clone())
                .map(|why| format!("; not judged: {why}"));
            format!("{title}{}", open.unwrap_or_default())
        }
        Verdict::Degraded if stays_ready(case, primary) => {
            format!("{title}; this alone does not make the node NotReady")
        }
        Verdict::Healthy | Verdict::Degraded => title.clone(),
        Verdict::Unhealthy => match not_ready {
            Some(not_ready) => not_ready.summary(title, case.evidence.taken_at.plus(case.evidence.took)),
            None => title.clone(),
        },
    }
}

/// Whether the finding affects only PLEG or one pod, and PLEG stays healthy.
fn stays_ready(case: &Case<'_>, primary: &HealthFinding) -> bool {
    // A wait of the daemon or of the kubelet itself may become a wait of everything.
    let processes = case.evidence.node().map(|host| &host.latest().processes);
    let waiting = primary.kernel_reason.as_ref().map(|reason| reason.pid).or(primary.pid);
    let process = waiting.and_then(|pid| processes?.get(&pid));
    let is_central = process.is_some_and(|process| matches!(process.role, Role::Daemon | Role::Kubelet));
    let is_limited =
        row(primary.id).traits.contains(&Trait::IsAboutRelists) || primary.pod.is_some() && !is_central;
    // Without a network the node is NotReady in any case.
    let has_network = condition(case.evidence, "NetworkReady").is_some_and(|network| network.holds);
    case.estimate_is_known()
        && !case.estimate.would_trip
        && (case.estimate.hung_calls > 0 || is_limited && has_network && case.estimate.lists.is_some())
}

/// Returns the reason why the verdict is unknown.
fn why_unknown(evidence: &Evidence, skipped: impl Fn(&NotChecked) -> String) -> Option<String> {
    let bad = evidence.bad_input.first().cloned();
    let unread = || evidence.runtime.unread_lists().next().map(ToString::to_string);
    let ended_early = || evidence.ended_early.clone();
    let recorded =
        || Some(format!("the recorder's diagnosis found: {}", evidence.recorded_diagnosis.as_ref()?));
    // Without the lists, nothing else is known.
    let is_list = |skipped: &&NotChecked| Rpc::named(&skipped.what).is_some_and(Rpc::is_list);
    let list = evidence.not_checked.iter().find(is_list);
    let list = || list.map(&skipped);
    let runtime = &evidence.runtime;
    let silent_list = runtime.sandboxes.silent().or_else(|| runtime.containers.silent());
    let silent_version = || runtime.version.as_ref()?.silence();
    // A silence that is too short for a verdict.
    let silent = || {
        let (rpc, waited) = silent_list.or_else(silent_version)?;
        Some(format!("{rpc} had no answer yet after {}", seconds(waited)))
    };
    let first = || evidence.not_checked.first().map(&skipped);
    let again = || evidence.lacks_second_samples.then(|| "no time was left for a second look".to_owned());
    let size = || evidence.list_may_be_large().then(|| FactKind::ListMayBeLarge.to_string());
    bad.or_else(unread)
        .or_else(ended_early)
        .or_else(list)
        .or_else(recorded)
        .or_else(silent)
        .or_else(again)
        .or_else(size)
        .or_else(first)
}
