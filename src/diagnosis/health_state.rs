//! The document that one run of `health` stores for the next run (`--state`): the hung call, when a run first found it
//! silent, and when it was last made. From these times the next run computes whether it may repeat the call.
//!
//! Without it, a run every half minute would leave another pending call in the runtime each time. With it, the next run
//! calls only Version and the hung call, and repeats the hung call with pauses that grow up to the kubelet's own time-out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::facts::FactKind;
use super::report::{CulpritOutcome, HealthReport, Verdict};
use crate::clock::Wall;
use crate::cri::{Outcome, Rpc};
use crate::report::{API_VERSION, Confidence};

/// The pause between the first call and its repetition.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// The longest pause between two calls. It is the kubelet's own time-out, so that plegctl makes no more calls than the
/// kubelet.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The number of consecutive good runs after which a reported problem ends.
const GOOD_RUNS: u32 = 2;

/// The document that is stored between two runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthState {
    api_version: String,
    kind: String,
    /// The endpoint of the runtime.
    endpoint: String,
    /// The call that hung in the last run.
    #[serde(default)]
    hang: Option<RememberedHang>,
    /// Whether the last run reported a problem.
    #[serde(default, rename = "announced")]
    reported: bool,
    /// How many runs in a row were bad, counted back from the last run.
    #[serde(default)]
    bad_runs: u32,
    /// How many runs in a row were good, counted back from the last run.
    #[serde(default)]
    good_runs: u32,
}

/// A hung call, and the report of the run that found it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RememberedHang {
    /// The RPC's name.
    rpc: String,
    /// The id of the sandbox or container.
    #[serde(default)]
    id: Option<String>,
    /// The time of the run that first found the call silent.
    since: Wall,
    /// When the call was last made.
    #[serde(rename = "askedAt")]
    called_at: Wall,
    /// How many times the call was made.
    #[serde(rename = "asked")]
    times_called: u32,
    /// The report of the run that first found the call silent.
    report: Box<HealthReport>,
}

/// What the next run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// It is a full run with all probes, because no call is known to hang.
    FullRun,
    /// It calls Version and repeats the hung call.
    RepeatCall,
    /// It calls Version only: it is too early to repeat the hung call.
    Wait,
}

impl HealthState {
    /// The value of `kind`.
    pub const KIND: &'static str = "HealthState";

    /// Creates the state for a runtime without an earlier run.
    pub fn new(endpoint: &str) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: Self::KIND.to_owned(),
            endpoint: endpoint.to_owned(),
            hang: None,
            reported: false,
            bad_runs: 0,
            good_runs: 0,
        }
    }

    /// Returns whether the document is of this kind and about this runtime.
    pub fn is_about(&self, endpoint: &str) -> bool {
        self.api_version == API_VERSION && self.kind == Self::KIND && self.endpoint == endpoint
    }

    /// Returns the call that hung at the end of the last run.
    pub fn hang(&self) -> Option<&RememberedHang> {
        self.hang.as_ref()
    }

    /// Decides what a run at `now` does. If the clock went backwards, the call is repeated.
    pub fn step(&self, now: Wall) -> NextRun {
        let Some(hang) = self.hang.as_ref().filter(|hang| hang.call().is_some()) else {
            return NextRun::FullRun;
        };
        if now < hang.called_at || now >= hang.called_at.plus(hang.pause()) {
            NextRun::RepeatCall
        } else {
            NextRun::Wait
        }
    }

    /// Records that the call was repeated at `now` and was silent.
    pub fn call_repeated(&mut self, now: Wall) {
        if let Some(hang) = &mut self.hang {
            hang.called_at = now;
            hang.times_called = hang.times_called.saturating_add(1);
        }
    }

    /// Records that Version is silent too, so that the next runs call only Version.
    pub fn version_is_silent(&mut self, now: Wall) {
        if let Some(hang) = &mut self.hang {
            Rpc::Version.name().clone_into(&mut hang.rpc);
            hang.id = None;
            hang.called_at = now;
            hang.times_called = 1;
        }
    }

    /// Stores the result of a full run.
    pub fn learn(&mut self, report: &HealthReport, now: Wall) {
        self.hang = silent_call(report).map(|(rpc, id)| RememberedHang {
            rpc: rpc.name().to_owned(),
            id,
            since: report.taken_at,
            called_at: now,
            times_called: 1,
            report: Box::new(report.clone()),
        });
    }

    /// Records the result of one run. Returns whether to report a problem. `bad` and `certain` are the result of this
    /// run alone.
    ///
    /// A certain problem is reported at once. A problem that is only likely is reported after the second bad run in a
    /// row, because the reader of the report may drain the node without another check. A reported problem ends after
    /// the second good run in a row.
    pub fn record_run(&mut self, bad: bool, certain: bool) -> bool {
        if bad {
            self.good_runs = 0;
            self.bad_runs = self.bad_runs.saturating_add(1);
            self.reported |= certain || self.bad_runs > 1;
        } else {
            self.bad_runs = 0;
            self.good_runs = self.good_runs.saturating_add(1);
            self.reported &= self.good_runs < GOOD_RUNS;
        }
        self.reported
    }
}

impl RememberedHang {
    /// Returns the call and the id of its sandbox or container.
    pub fn call(&self) -> Option<(Rpc, Option<&str>)> {
        Some((Rpc::named(&self.rpc)?, self.id.as_deref()))
    }

    /// Returns the pause before the call may be repeated; it doubles with each call.
    fn pause(&self) -> Duration {
        let doublings = self.times_called.saturating_sub(1).min(8);
        FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE)
    }

    /// Returns how long the call has been silent.
    pub fn age(&self, now: Wall) -> Duration {
        now.duration_since(self.since)
    }

    /// Returns the stored report, updated to `now`.
    pub fn report(&self, now: Wall) -> HealthReport {
        let mut report = HealthReport::clone(&self.report);
        report.taken_at = now;
        report.duration_seconds = 0.0;
        report.probes.clear();
        if let Some(not_ready) = report.not_ready() {
            report.set_not_ready(not_ready, now);
        }
        let age = Duration::from_secs(self.age(now).as_secs()).into();
        let still_silent =
            Rpc::named(&self.rpc).map(|rpc| FactKind::StillSilent { rpc, age, calls: self.times_called });
        let repeated = self.times_called > 1;
        for finding in report.primary.iter_mut().chain(report.findings.first_mut()) {
            if let Some(fact) = &still_silent {
                finding.put_fact_first(fact.clone());
            }
            if repeated && finding.confidence == Confidence::Likely {
                finding.confidence = Confidence::Certain;
            }
        }
        for culprit in &mut report.culprits {
            if Some(&culprit.id) == self.id.as_ref() && repeated {
                culprit.confidence = Confidence::Certain;
                culprit.waited_seconds = self.age(now).as_secs_f64();
            }
        }
        report
    }
}

/// Returns the call that the next run repeats: Version if it is silent, otherwise a silent list call, otherwise a silent
/// status call.
fn silent_call(report: &HealthReport) -> Option<(Rpc, Option<String>)> {
    if report.verdict == Verdict::Healthy {
        return None;
    }
    let silent = |rpc: Rpc| {
        report.probes.iter().any(|probe| probe.name == rpc.name() && probe.outcome == Outcome::Silent)
    };
    if silent(Rpc::Version) {
        return Some((Rpc::Version, None));
    }
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::StreamPodSandboxes, Rpc::StreamContainers];
    if let Some(list) = lists.into_iter().find(|list| silent(*list)) {
        return Some((list, None));
    }
    let culprit = report.culprits.iter().find(|culprit| culprit.outcome == CulpritOutcome::Silent)?;
    Some((Rpc::named(&culprit.rpc)?, Some(culprit.id.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::not_ready::NotReady;
    use crate::diagnosis::report::{CulpritReport, EstimateReport, ProbeReport};

    fn at(seconds: u64) -> Wall {
        Wall::from_nanos(1_700_000_000_000_000_000).plus(Duration::from_secs(seconds))
    }

    fn unhealthy() -> HealthReport {
        let text = r#"{"apiVersion": "plegctl/v1", "kind": "HealthReport", "takenAt": "2023-11-14T22:13:20Z",
            "runtime": {"endpoint": "unix:///x"}, "durationSeconds": 3.9, "verdict": "unhealthy", "phase": "list",
            "findings": [{"id": "D02", "title": "a list hangs", "severity": "critical", "confidence": "likely",
                "phase": "list", "rpc": "ListContainers"}],
            "probes": [], "abandonedCalls": 1, "notChecked": []}"#;
        let mut report: HealthReport = serde_json::from_str(text).unwrap();
        report.primary = report.findings.first().cloned();
        report
    }

    fn probe(name: &str) -> ProbeReport {
        ProbeReport {
            name: name.to_owned(),
            outcome: Outcome::Silent,
            duration_seconds: 3.9,
            response_bytes: None,
            stream: None,
            calls: None,
            message: None,
        }
    }

    fn hung_list() -> HealthState {
        let mut report = unhealthy();
        report.probes.push(probe("ListContainers"));
        let mut state = HealthState::new("unix:///x");
        state.learn(&report, at(4));
        state
    }

    #[test]
    fn the_pause_between_two_calls_grows_to_the_kubelets_time_out() {
        let mut state = hung_list();
        let mut calls = Vec::new();
        for second in (4..604).step_by(10) {
            if state.step(at(second)) == NextRun::RepeatCall {
                calls.push(second);
                state.call_repeated(at(second));
            }
        }
        assert_eq!(calls, [34, 94, 214, 334, 454, 574]);
    }

    #[test]
    fn a_call_is_repeated_if_the_clock_went_backwards() {
        assert_eq!(hung_list().step(at(3)), NextRun::RepeatCall);
        assert_eq!(hung_list().step(at(5)), NextRun::Wait);
    }

    #[test]
    fn the_finding_about_a_call_that_is_silent_twice_is_certain_and_has_the_calls_age() {
        let mut state = hung_list();
        let first = state.hang().unwrap().report(at(20));
        assert_eq!(first.primary.unwrap().confidence, Confidence::Likely);
        state.call_repeated(at(34));
        let again = state.hang().unwrap().report(at(64));
        assert_eq!(again.taken_at, at(64));
        let primary = again.primary.unwrap();
        assert_eq!(primary.confidence, Confidence::Certain);
        assert_eq!(again.findings[0], primary);
        assert_eq!(primary.evidence, ["ListContainers is still silent after 1m 4s, called 2 times"]);
    }

    #[test]
    fn the_time_of_notready_stays_and_its_distance_is_that_of_the_run() {
        let mut report = unhealthy();
        report.probes.push(probe("ListContainers"));
        report.estimate = Some(EstimateReport::default());
        report.set_not_ready(NotReady::AtLatest(at(190)), at(4));
        let mut state = HealthState::new("unix:///x");
        state.learn(&report, at(4));
        for (now, distance) in [(34, "in 2m36s"), (214, "24s ago")] {
            let again = state.hang().unwrap().report(at(now));
            let time = format!("NotReady at the latest at 22:16:30 UTC ({distance})");
            assert_eq!(again.summary, format!("a list hangs: {time}"));
            assert_eq!(again.not_ready(), Some(NotReady::AtLatest(at(190))));
        }
    }

    #[test]
    fn the_next_run_repeats_version_before_lists_and_lists_before_status_calls() {
        let culprit = CulpritReport {
            rpc: "ContainerStatus".to_owned(),
            id: "abc".to_owned(),
            pod: None,
            container: None,
            waited_seconds: 3.0,
            outcome: CulpritOutcome::Silent,
            confidence: Confidence::Likely,
            holder: None,
            holder_fact: None,
        };
        let mut report = unhealthy();
        assert_eq!(silent_call(&report), None);
        report.culprits.push(CulpritReport {
            outcome: CulpritOutcome::Slow,
            id: "slow".to_owned(),
            ..culprit.clone()
        });
        report.culprits.push(culprit);
        assert_eq!(silent_call(&report), Some((Rpc::ContainerStatus, Some("abc".to_owned()))));
        report.probes.push(probe("ListPodSandbox"));
        assert_eq!(silent_call(&report), Some((Rpc::ListPodSandbox, None)));
        report.probes.push(probe("Version"));
        assert_eq!(silent_call(&report), Some((Rpc::Version, None)));
    }

    #[test]
    fn a_runtime_whose_version_is_silent_gets_only_version_calls() {
        let mut state = hung_list();
        state.version_is_silent(at(34));
        assert_eq!(state.hang().and_then(RememberedHang::call), Some((Rpc::Version, None)));
        assert_eq!(state.step(at(63)), NextRun::Wait);
        assert_eq!(state.step(at(64)), NextRun::RepeatCall);
    }

    #[test]
    fn a_likely_problem_is_reported_from_the_second_bad_run_to_the_second_good_run() {
        let mut state = HealthState::new("unix:///x");
        let reported: Vec<bool> =
            [(true, false), (true, false), (false, true), (true, false), (false, true), (false, true)]
                .into_iter()
                .map(|(bad, certain)| state.record_run(bad, certain))
                .collect();
        assert_eq!(reported, [false, true, true, true, true, false]);
        assert!(state.record_run(true, true), "a certain problem is reported at once");
    }

    #[test]
    fn a_stored_state_is_about_one_endpoint() {
        let state = hung_list();
        let text = serde_json::to_string(&state).unwrap();
        let read: HealthState = serde_json::from_str(&text).unwrap();
        assert!(read.is_about("unix:///x") && !read.is_about("unix:///y"));
        assert_eq!(read.step(at(5)), NextRun::Wait);
    }
}
