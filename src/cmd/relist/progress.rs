//! The status line of a relist on a terminal: the number of pods with finished status calls, and the call that has
//! been pending longest.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::Clock;
use crate::cmd::node::Node;
use crate::cmd::render::watch::{about, waiting};
use crate::cmd::term::streams::ProgressLine;
use crate::pleg::single_relist::CallProgress;
use crate::pleg::{CallRecord, OpenCall};
use crate::report::plural;
use crate::threads::locked;

/// How long a call must be pending before the line shows it.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// The status line on stderr, if stderr is a terminal.
pub struct RelistProgressLine<'a> {
    bar: ProgressLine,
    clock: &'a dyn Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of pods with status calls; 0 until the lists are answered.
    pods: usize,
    /// The number of pods whose status calls are finished.
    inspected: usize,
    open: Vec<OpenCall>,
}

impl<'a> RelistProgressLine<'a> {
    /// Creates the line; it is hidden unless stderr is a terminal that can rewrite a line.
    pub fn begin(node: &'a Node) -> Self {
        let bar = ProgressLine::sentence(node.global.quiet);
        Self { bar, clock: &*node.clock, state: Mutex::default() }
    }

    /// Shows the line until `work` ends, then removes it.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.bar.during(|| Some(self.line()), work).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Formats `status of 12 of 240 pods, waiting 3.20s for ContainerStatus of shop/db-0 3f2a9c1b7d55`.
    fn line(&self) -> String {
        let state = self.state();
        let now = self.clock.mono();
        let oldest = state.open.iter().min_by_key(|open| open.started);
        let oldest = oldest.map(|open| (open, now.since(open.started)));
        let is_silent = |(_, waited): &(&OpenCall, Duration)| *waited >= SHOWN_AFTER;
        let waits =
            oldest.filter(is_silent).map(|(open, waited)| format!("waiting {}", waiting(open, waited)));
        match (state.pods, oldest, waits) {
            (0, _, Some(waits)) => waits,
            (0, Some((open, _)), None) => about(open.rpc.name(), open.pod.as_ref(), open.id.as_deref()),
            (0, None, None) => "relist".to_owned(),
            (pods, _, waits) => {
                let status = format!("status of {} of {}", state.inspected, plural(pods, "pod"));
                [status].into_iter().chain(waits).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl CallProgress for RelistProgressLine<'_> {
    fn pods_to_inspect(&self, pods: usize) {
        self.state().pods = pods;
    }

    fn call_started(&self, call: &OpenCall) {
        self.state().open.push(call.clone());
    }

    fn call_finished(&self, call: &CallRecord) {
        let mut state = self.state();
        let ended =
            |open: &OpenCall| open.rpc.name() == call.rpc && open.id == call.id && open.pod == call.pod;
        if let Some(place) = state.open.iter().position(ended) {
            state.open.swap_remove(place);
        }
    }

    fn pod_inspected(&self) {
        self.state().inspected += 1;
    }
}
