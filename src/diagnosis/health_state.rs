//! What one run of `health` leaves for the next: the hung call, since when it hangs, and when it may be
//! repeated.
//!
//! A run every half minute would leave one more pending call in the runtime each time. So the next run only
//! calls Version and repeats the hung call, with a pause that grows up to the kubelet's own time-out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::{CulpritOutcome, HealthReport, Verdict};
use crate::clock::Wall;
use crate::cri::{Outcome, Rpc};
use crate::report::{API_VERSION, Confidence};

/// The pause after the first call.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// The longest pause between two calls: the kubelet's own time-out, so that plegctl never adds more calls
/// than the kubelet.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The number of good runs in a row after which an announced problem ends.
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
    #[serde(default)]
    announced: bool,
    /// The number of bad runs in a row, up to the last one.
    #[serde(default)]
    bad_runs: u32,
    /// The number of good runs in a row, up to the last one.
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
    /// When the call was first silent.
    since: Wall,
    /// When the call was last made.
    asked_at: Wall,
    /// How often the call was made.
    asked: u32,
    /// The report of the run that first found the call silent.
    report: Box<HealthReport>,
}

/// What the next run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// It runs all probes, because no call is known to hang.
    Judge,
    /// It calls Version and repeats the hung call.
    AskAgain,
    /// It calls Version only: it is too early to repeat the hung call.
    Wait,
}

impl HealthState {
    /// Value of `kind`.
    pub const KIND: &'static str = "HealthState";

    /// Creates the state for a runtime of which nothing is known.
    pub fn new(endpoint: &str) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: Self::KIND.to_owned(),
            endpoint: endpoint.to_owned(),
            hang: None,
            announced: false,
            bad_runs: 0,
            good_runs: 0,
        }
    }

    /// Whether the document is of this kind and about this runtime.
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
            return NextRun::Judge;
        };
        if now < hang.asked_at || now >= hang.asked_at.plus(hang.pause()) {
            NextRun::AskAgain
        } else {
            NextRun::Wait
        }
    }

    /// Notes that the call was made again at `now` and was silent.
    pub fn asked_again(&mut self, now: Wall) {
        if let Some(hang) = &mut self.hang {
            hang.asked_at = now;
            hang.asked = hang.asked.saturating_add(1);
        }
    }

    /// Notes that Version is silent too, so that only Version is called from now on.
    pub fn nobody_answers(&mut self, now: Wall) {
        if let Some(hang) = &mut self.hang {
            Rpc::Version.name().clone_into(&mut hang.rpc);
            hang.id = None;
            hang.asked_at = now;
            hang.asked = 1;
        }
    }

    /// Stores the result of a full run.
    pub fn learn(&mut self, report: &HealthReport, now: Wall) {
        self.hang = silent_call(report).map(|(rpc, id)| RememberedHang {
            rpc: rpc.name().to_owned(),
            id,
            since: report.taken_at,
            asked_at: now,
            asked: 1,
            report: Box::new(report.clone()),
        });
    }

    /// Decides whether to report a problem, if this run's own judgement is `bad`, and `certain` or not. A
    /// likely problem has to be found twice, and a reported problem ends with the second good run: whoever
    /// acts on the report may drain a node without checking again.
    pub fn announce(&mut self, bad: bool, certain: bool) -> bool {
        if bad {
            self.good_runs = 0;
            self.bad_runs = self.bad_runs.saturating_add(1);
            self.announced |= certain || self.bad_runs > 1;
        } else {
            self.bad_runs = 0;
            self.good_runs = self.good_runs.saturating_add(1);
            self.announced &= self.good_runs < GOOD_RUNS;
        }
        self.announced
    }
}

impl RememberedHang {
    /// Returns the call and its id.
    pub fn call(&self) -> Option<(Rpc, Option<&str>)> {
        Some((rpc_named(&self.rpc)?, self.id.as_deref()))
    }

    fn pause(&self) -> Duration {
        let doublings = self.asked.saturating_sub(1).min(8);
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
        let age = humantime::format_duration(Duration::from_secs(self.age(now).as_secs()));
        let times = if self.asked == 1 { "once".to_owned() } else { format!("{} times", self.asked) };
        let said = format!("{} is still silent after {age}, asked {times}", self.rpc);
        let twice = self.asked > 1;
        for finding in report.primary.iter_mut().chain(report.findings.first_mut()) {
            finding.evidence.insert(0, said.clone());
            if twice && finding.confidence == Confidence::Likely {
                finding.confidence = Confidence::Certain;
            }
        }
        for culprit in &mut report.culprits {
            if Some(&culprit.id) == self.id.as_ref() && twice {
                culprit.confidence = Confidence::Certain;
                culprit.waited_seconds = self.age(now).as_secs_f64();
            }
        }
        report
    }
}

fn rpc_named(name: &str) -> Option<Rpc> {
    Rpc::ALL.into_iter().find(|rpc| rpc.name() == name)
}

/// Returns the call that the next run repeats: Version if silent, else a list, else a status call.
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
    Some((rpc_named(&culprit.rpc)?, Some(culprit.id.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::report::{CulpritReport, ProbeReport};

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
    fn pause_between_two_calls_grows_to_the_kubelets_own() {
        let mut state = hung_list();
        let mut asked = Vec::new();
        for second in (4..604).step_by(10) {
            if state.step(at(second)) == NextRun::AskAgain {
                asked.push(second);
                state.asked_again(at(second));
            }
        }
        assert_eq!(asked, [34, 94, 214, 334, 454, 574]);
    }

    #[test]
    fn clock_that_goes_back_does_not_suppress_calls() {
        assert_eq!(hung_list().step(at(3)), NextRun::AskAgain);
        assert_eq!(hung_list().step(at(5)), NextRun::Wait);
    }

    #[test]
    fn call_that_is_silent_twice_is_certain_and_reported_with_its_age() {
        let mut state = hung_list();
        let first = state.hang().unwrap().report(at(20));
        assert_eq!(first.primary.unwrap().confidence, Confidence::Likely);
        state.asked_again(at(34));
        let again = state.hang().unwrap().report(at(64));
        assert_eq!(again.taken_at, at(64));
        let primary = again.primary.unwrap();
        assert_eq!(primary.confidence, Confidence::Certain);
        assert_eq!(again.findings[0], primary);
        assert_eq!(primary.evidence, ["ListContainers is still silent after 1m 4s, asked 2 times"]);
    }

    #[test]
    fn first_silent_call_of_a_relist_is_repeated() {
        let culprit = CulpritReport {
            rpc: "ContainerStatus".to_owned(),
            id: "abc".to_owned(),
            pod: None,
            container: None,
            waited_seconds: 3.0,
            outcome: CulpritOutcome::Silent,
            confidence: Confidence::Likely,
            holder: None,
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
    fn silent_runtime_gets_only_version_calls() {
        let mut state = hung_list();
        state.nobody_answers(at(34));
        assert_eq!(state.hang().and_then(RememberedHang::call), Some((Rpc::Version, None)));
        assert_eq!(state.step(at(63)), NextRun::Wait);
        assert_eq!(state.step(at(64)), NextRun::AskAgain);
    }

    #[test]
    fn likely_finding_counts_from_the_second_run_and_ends_with_the_second_good_run() {
        let mut state = HealthState::new("unix:///x");
        let said: Vec<bool> =
            [(true, false), (true, false), (false, true), (true, false), (false, true), (false, true)]
                .into_iter()
                .map(|(bad, certain)| state.announce(bad, certain))
                .collect();
        assert_eq!(said, [false, true, true, true, true, false]);
        assert!(state.announce(true, true), "what is certain needs no second run");
    }

    #[test]
    fn state_belongs_to_one_runtime() {
        let state = hung_list();
        let text = serde_json::to_string(&state).unwrap();
        let read: HealthState = serde_json::from_str(&text).unwrap();
        assert!(read.is_about("unix:///x") && !read.is_about("unix:///y"));
        assert_eq!(read.step(at(5)), NextRun::Wait);
    }
}
