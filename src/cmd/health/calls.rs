//! `health -vv`: prints a line on stderr when a call to the runtime ends.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use prost::bytes::Bytes;

use crate::cmd::render::words::{short_id, took};
use crate::cmd::term::streams;
use crate::cri::server::RequestSubject;
use crate::cri::{CallEnd, CallObserver, Rpc};
use crate::report::bytes::bytes;
use crate::threads::locked;

/// Prints each call with its duration and its outcome.
#[derive(Default)]
pub(super) struct CallPrinter(Mutex<PrintedCalls>);

#[derive(Default)]
struct PrintedCalls {
    last_number: u64,
    /// The descriptions of the pending calls, by the number of the call.
    calls: HashMap<u64, String>,
}

impl CallObserver for CallPrinter {
    fn call_started(&self, rpc: Rpc, request: Bytes) -> u64 {
        let what = match RequestSubject::read(rpc, request) {
            Ok(RequestSubject::One(id)) => format!("{rpc} {}", short_id(&id)),
            Ok(RequestSubject::Sandboxes(filter)) if !filter.matches_all() => format!("{rpc} with a filter"),
            Ok(RequestSubject::Containers(filter)) if !filter.matches_all() => format!("{rpc} with a filter"),
            _ => rpc.to_string(),
        };
        let mut open = locked(&self.0);
        open.last_number += 1;
        let number = open.last_number;
        open.calls.insert(number, what);
        number
    }

    fn call_ended(&self, call: u64, duration: Duration, end: CallEnd<'_>) {
        let what = locked(&self.0).calls.remove(&call);
        let line = line(&what.unwrap_or_default(), duration, &end);
        streams::remark(line);
    }
}

fn line(what: &str, duration: Duration, end: &CallEnd<'_>) -> String {
    let duration = took(duration);
    match end {
        CallEnd::Answered(messages) => {
            let size = messages.iter().map(Bytes::len).sum::<usize>();
            format!("{what}: {duration}, {}", bytes(u64::try_from(size).unwrap_or(u64::MAX)))
        }
        CallEnd::Failed(why) => format!("{what}: {duration}, {why}"),
        CallEnd::Abandoned => format!("{what}: no answer for {duration}, no longer waiting"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Error;

    #[test]
    fn line_names_the_call_its_duration_and_its_outcome() {
        let took = Duration::from_millis(1200);
        let answered = CallEnd::Answered(vec![Bytes::from_static(b"abc"), Bytes::from_static(b"d")]);
        assert_eq!(line("Version", took, &answered), "Version: 1.20s, 4 B");
        let why = Error::Silent { rpc: Rpc::Status, waited: took };
        let failed = line("Status", took, &CallEnd::Failed(&why));
        assert!(failed.starts_with("Status: 1.20s, Status did not answer"), "{failed}");
        assert!(line("ContainerStatus c1", took, &CallEnd::Abandoned).contains("no answer for 1.20s"));
    }
}
