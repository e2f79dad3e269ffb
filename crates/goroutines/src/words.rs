//! Writes English for the report: names of locks, of what a goroutine waits for, and a finding as one sentence.
//!
//! A *root* is a goroutine that waits for something outside the process, which is the cause. Other goroutines wait
//! *behind* the root, often for a lock that it holds.

use std::fmt::Write;

use plegctl_base::report::duration::elapsed;
use plegctl_base::report::plural;

use super::functions::{LOCKS, meaning};
use super::report::{Finding, PastDump, WaitKind, WaitsFor};
use super::wait::ExternalWait;
use plegctl_base::report::Seconds;

/// Names a lock by the function that wants it.
pub fn lock_name(function: &str) -> &'static str {
    meaning(&LOCKS, |part| function.contains(part)).unwrap_or("a lock")
}

/// Returns the kind and the name of what a root waits for. A dump does not name a child process or the server of a ttrpc
/// client, so the signature decides what it is. `rpc` is the call that the root makes.
pub fn wait_target(wait: Option<ExternalWait>, signature: &str, rpc: Option<&str>) -> (WaitKind, String) {
    match wait {
        Some(ExternalWait::Shim(_)) if signature == "ST09" => (WaitKind::Process, "an NRI plugin".to_owned()),
        Some(ExternalWait::Shim(_)) => (WaitKind::Shim, "its shim".to_owned()),
        Some(ExternalWait::Child(_)) => (WaitKind::Process, child(signature).to_owned()),
        Some(ExternalWait::Pipe) => {
            (WaitKind::Process, format!("the output of {}, which a process keeps open", child(signature)))
        }
        Some(ExternalWait::File(operation, _)) => (WaitKind::File, format!("the file system ({operation})")),
        Some(ExternalWait::Network) => (WaitKind::Network, "the network".to_owned()),
        Some(ExternalWait::Runtime) => (
            WaitKind::Process,
            rpc.map_or_else(|| "the runtime".to_owned(), |rpc| format!("the runtime's {rpc}")),
        ),
        Some(ExternalWait::DBus) => (WaitKind::Process, "systemd (D-Bus)".to_owned()),
        Some(ExternalWait::EventReader) => (WaitKind::Network, "a reader of the event stream".to_owned()),
        None => target_of_signature(signature),
    }
}

/// Returns what a root waits for if its innermost frames do not show it.
fn target_of_signature(signature: &str) -> (WaitKind, String) {
    let (kind, name) = match signature {
        "ST06" => (WaitKind::Process, "the OCI runtime"),
        "ST07" => (WaitKind::Network, "the registry"),
        "ST08" => (WaitKind::Network, "a reader of the event stream"),
        "ST10" => (WaitKind::Process, "an NRI plugin to register"),
        "ST12" => (WaitKind::Process, "a container to stop"),
        "ST19" => (WaitKind::Process, child(signature)),
        _ => (WaitKind::Unknown, "something that the dump does not name"),
    };
    (kind, name.to_owned())
}

/// Returns the name of the kubelet's loop that waits, for signatures where the loop is clearer than the call.
pub fn kubelet_loop(signature: &str) -> Option<&'static str> {
    match signature {
        "ST13" => Some("PLEG's relist"),
        "ST14" => Some("the sync loop"),
        _ => None,
    }
}

fn child(signature: &str) -> &'static str {
    match signature {
        "ST03" => "a CNI plugin",
        "ST06" => "the OCI runtime",
        "ST19" => "the command in the container",
        _ => "a child process",
    }
}

/// Puts an article before the name of a call: `an UpdateContainerResources`, `a RunPodSandbox`. Several words stay
/// unchanged.
fn with_article(noun: &str) -> String {
    if noun.contains(' ') {
        return noun.to_owned();
    }
    let article =
        if noun.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// Returns the duration of a wait, such as ` about 3 min`; an empty text if it is not known.
pub fn waited(waited: Option<Seconds>, is_lower_bound: bool) -> String {
    let Some(waited) = waited else { return String::new() };
    let bound = if is_lower_bound { "at least" } else { "about" };
    match waited.duration().as_secs() {
        0 => " less than 1 s".to_owned(),
        seconds @ 1..60 => format!(" {bound} {seconds} s"),
        seconds => format!(" {bound} {} min", seconds / 60),
    }
}

/// Puts the age of a dump that does not show the present state before a sentence about it.
pub fn as_of(past: Option<PastDump>, sentence: String) -> String {
    let Some(past) = past else { return sentence };
    let ended = if past.process_ended { " (the process has ended since)" } else { "" };
    format!("as of {} ago{ended}: {sentence}", elapsed(past.age_seconds.duration()))
}

/// Describes a finding in one sentence: who waits for which lock, who holds it, and what the holder waits for.
pub fn sentence(finding: &Finding) -> String {
    let chain = &finding.chain;
    if let Some(recorded) = &chain.recorded {
        return recorded.clone();
    }
    let holder = finding.holder.as_ref();
    let target =
        holder.map_or_else(|| chain.target.clone(), |holder| with_process(&chain.target, &holder.waits_for));
    let waited = waited(finding.waited_seconds, finding.waited_at_least);
    let subject = match (&chain.root_call, chain.root_count) {
        (Some(call), 1) => with_article(call),
        (Some(call), count) => format!("{count} goroutines ({call})"),
        (None, 1) => holder.map_or_else(|| "a goroutine".to_owned(), |holder| holder.function.clone()),
        (None, count) => plural(count, "goroutine"),
    };
    let pod = holder.and_then(|holder| holder.pod.as_ref()).map(ToString::to_string);
    if chain.behind.is_empty() || finding.waiters == 0 {
        let for_pod = pod.map_or_else(String::new, |pod| format!(" for {pod}"));
        let for_target = if chain.target.is_empty() { String::new() } else { format!(" for {target}") };
        return format!("{subject}{for_pod} {}{waited}{for_target}", waits(chain.root_count));
    }
    let mut text = String::new();
    let noun = if chain.behind.iter().all(|behind| behind.call.is_some()) { "call" } else { "goroutine" };
    // Loops that wait for the same runtime do not wait for each other.
    if finding.id == "ST13" {
        let others = plural(finding.waiters, "other loop");
        let verb = waits(finding.waiters);
        return format!("{subject} waits{waited} for {target}; {others} of the kubelet {verb} for it too");
    }
    let _ = write!(text, "{}", plural(finding.waiters, noun));
    let calls = waiters_calls(finding);
    if !calls.is_empty() {
        let _ = write!(text, " ({})", calls.join(", "));
    }
    let verb = waits(finding.waiters);
    match &chain.lock {
        Some(lock) if chain.root_count == 0 => {
            let _ = write!(text, " {verb}{waited} for {lock}; the dump does not show who holds it");
            return text;
        }
        Some(lock) => {
            let lock = match &pod {
                Some(pod) => lock.replacen("a container's", &format!("{pod}'s"), 1).replacen(
                    "a sandbox's",
                    &format!("{pod}'s"),
                    1,
                ),
                None => lock.clone(),
            };
            let _ = write!(text, " {verb} for {lock}, held by {subject} that {}", waits(chain.root_count));
        }
        None => {
            let _ = write!(text, " {verb} behind {subject} that {}", waits(chain.root_count));
        }
    }
    let _ = write!(text, "{waited}");
    if !chain.target.is_empty() {
        let _ = write!(text, " for {target}");
    }
    text
}

const fn waits(count: u64) -> &'static str {
    if count == 1 { "waits" } else { "wait" }
}

/// Returns the most frequent call of the waiters with its number, or the names of up to three calls if each occurs once.
fn waiters_calls(finding: &Finding) -> Vec<String> {
    let mut by_call: Vec<(u64, &str)> = Vec::new();
    for behind in &finding.chain.behind {
        let Some(call) = &behind.call else { continue };
        match by_call.iter_mut().find(|(_, known)| known == call) {
            Some((count, _)) => *count += behind.count,
            None => by_call.push((behind.count, call)),
        }
    }
    by_call.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    match by_call.first() {
        Some((count, call)) if *count > 1 => vec![format!("{count} {call}")],
        _ => by_call.into_iter().take(3).map(|(_, call)| call.to_owned()).collect(),
    }
}

/// Adds what is known about the process or file to a target: `its shim (pid 812, stopped)`.
fn with_process(target: &str, waits_for: &WaitsFor) -> String {
    let mut known = Vec::new();
    if let Some(pid) = waits_for.pid {
        known.push(format!("pid {pid}"));
    }
    known.extend(waits_for.state.clone());
    known.extend(waits_for.path.clone());
    if known.is_empty() { target.to_owned() } else { format!("{target} ({})", known.join(", ")) }
}
