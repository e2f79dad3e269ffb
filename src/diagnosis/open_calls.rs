//! Counts the calls of a run and names those that are still open, for the line that a user sees while the run waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::words::{seconds, short};
use crate::clock::Mono;
use crate::cri::Rpc;
use crate::report::plural;
use crate::threads::locked;

/// How long a call must be silent before it is shown.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// The calls of one run.
#[derive(Debug, Default)]
pub struct OpenCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    sent: usize,
    /// The open calls, by the number of the call: the oldest comes first.
    open: BTreeMap<usize, UnansweredCall>,
}

#[derive(Debug)]
struct UnansweredCall {
    rpc: Rpc,
    id: Option<String>,
    /// The pod and the container, if they are known.
    name: Option<String>,
    started: Mono,
}

/// Keeps a call open until it is dropped. The caller drops it when the call has an answer, and when it gives the call up.
pub(super) struct OpenCallGuard {
    calls: Arc<OpenCalls>,
    number: usize,
}

impl Drop for OpenCallGuard {
    fn drop(&mut self) {
        locked(&self.calls.0).open.remove(&self.number);
    }
}

impl OpenCalls {
    /// Counts a call as sent and open.
    pub(super) fn send(self: &Arc<Self>, now: Mono, rpc: Rpc, id: Option<&str>) -> OpenCallGuard {
        let mut calls = locked(&self.0);
        calls.sent += 1;
        let number = calls.sent;
        calls
            .open
            .insert(number, UnansweredCall { rpc, id: id.map(str::to_owned), name: None, started: now });
        OpenCallGuard { calls: Arc::clone(self), number }
    }

    /// Names the pods of the silent calls.
    pub(super) fn name_silent(&self, now: Mono, name_of: &dyn Fn(&str) -> Option<String>) {
        for call in locked(&self.0).open.values_mut() {
            if call.name.is_none() && now.since(call.started) >= SHOWN_AFTER {
                call.name = call.id.as_deref().and_then(name_of);
            }
        }
    }

    /// Formats the line: `54 of 55 calls ended; silent for 8.0 s: ContainerStatus of shop/db-0/postgres (55f1fe6bb863)`.
    /// While no call is silent, the line has the present step instead.
    pub fn line(&self, now: Mono, step: &str) -> String {
        let calls = locked(&self.0);
        let ended = calls.sent - calls.open.len();
        let counts = format!("{ended} of {} ended", plural(calls.sent, "call"));
        let mut silent = calls.open.values().filter(|call| now.since(call.started) >= SHOWN_AFTER);
        let Some(oldest) = silent.next() else { return format!("{step} ({counts})") };
        let about = match (&oldest.id, &oldest.name) {
            (Some(id), Some(name)) => format!(" of {name} ({})", short(id)),
            (Some(id), None) => format!(" of {}", short(id)),
            (None, _) => String::new(),
        };
        let more = match silent.count() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!("{counts}; silent for {}: {}{about}{more}", seconds(now.since(oldest.started)), oldest.rpc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::at(Duration::from_millis(millis))
    }

    #[test]
    fn the_line_counts_the_answers_and_names_the_oldest_silent_call() {
        let calls = Arc::<OpenCalls>::default();
        let version = calls.send(at(0), Rpc::Version, None);
        assert_eq!(calls.line(at(100), "Version"), "Version (0 of 1 call ended)");
        drop(version);
        let first = calls.send(at(200), Rpc::ContainerStatus, Some("55f1fe6bb8630000"));
        let second = calls.send(at(300), Rpc::PodSandboxStatus, Some("77aa"));
        calls.name_silent(at(400), &|_| unreachable!("no call is silent yet"));
        calls.name_silent(at(8_200), &|id| id.starts_with("55f1").then(|| "shop/db-0/postgres".to_owned()));
        assert_eq!(
            calls.line(at(8_200), "status of every pod"),
            "1 of 3 calls ended; silent for 8.0 s: ContainerStatus of shop/db-0/postgres (55f1fe6bb863), and 1 more"
        );
        drop(first);
        assert_eq!(
            calls.line(at(8_200), "status of every pod"),
            "2 of 3 calls ended; silent for 7.9 s: PodSandboxStatus of 77aa"
        );
        drop(second);
        assert_eq!(calls.line(at(8_200), "the journal"), "the journal (3 of 3 calls ended)");
    }
}
