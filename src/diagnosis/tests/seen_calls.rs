//! Judges the calls of relists alone, and compares this verdict with that of `health`. The tests of the command line include
//! this file too.

use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::diagnosis::calls::RelistSettings;
use crate::diagnosis::report::{HealthFinding, HealthReport, Phase, Verdict};
use crate::diagnosis::{VerdictFacts, Weight, verdict};
use crate::pleg::relist_calls::RelistCalls;
use crate::pleg::stream::Event;
use crate::pleg::{CallRecord, OpenCall, SharedState, Sink};
use crate::threads::locked;

/// Notes what the calls of the relists show.
#[derive(Clone)]
pub struct SeenCalls {
    pub calls: Arc<Mutex<RelistCalls>>,
    pub clock: Arc<dyn Clock>,
}

impl SeenCalls {
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { calls: Arc::new(Mutex::new(RelistCalls::new(clock.mono()))), clock: Arc::clone(clock) }
    }

    /// Returns the verdict of a command that knows only these calls.
    pub fn verdict(&self, shared: &SharedState) -> Verdict {
        let settings = RelistSettings::default();
        let last_list = shared.last_list();
        verdict(&VerdictFacts::of_calls(&locked(&self.calls), &settings, last_list, self.clock.mono()))
    }
}

impl Sink for SeenCalls {
    fn event(&mut self, _event: Event) {}

    fn call_started(&mut self, call: &OpenCall) {
        locked(&self.calls).call_started(call);
    }

    fn call_finished(&mut self, call: &CallRecord) {
        locked(&self.calls).call_finished(call);
    }
}

/// Asserts that the verdict from fewer facts is that of `health`, or *unknown*. A healthy verdict says what was not looked at, so
/// a finding that no call shows may be missing from it.
#[track_caller]
pub fn assert_agrees(what: &str, by_calls: Verdict, report: &HealthReport) {
    let is_about_a_call = |finding: &HealthFinding| {
        !matches!(finding.phase, Phase::None | Phase::Kubelet) && Weight::of(finding) > Weight::Nothing
    };
    let agrees = [Verdict::Unknown, report.verdict].contains(&by_calls)
        || by_calls == Verdict::Healthy && !report.findings.iter().any(is_about_a_call);
    assert!(agrees, "{what}: the relists say {by_calls:?}, and health {:?}: {report:#?}", report.verdict);
}
