//! Detects when an incident begins and when it is over, from observations, finished relists and verdicts of diagnoses. The
//! detector returns [`IncidentAction`]s for its caller; it makes no call, reads no clock and never waits.

use std::collections::BTreeSet;
use std::time::Duration;

use super::entry::{Incident, nanos};
use crate::clock::{Mono, Wall};
use crate::cri::{Outcome, Rpc};
use crate::diagnosis::facts::{Call, Fact, FactKind};
use crate::diagnosis::report::Verdict;
use crate::pleg::stream::Relist;
use crate::pleg::{CallRecord, Seconds};
use crate::report::json;

/// The number of good relists in a row that end an incident.
const RELISTS_TO_CLOSE: u32 = 3;

/// The share of the threshold at which the age of the last relist opens an incident.
const NEAR_THRESHOLD: f64 = 0.75;

/// The fault of a relist whose calls succeeded but took too long.
const SLOW: &str = "slow";

/// The first pause between two diagnoses of one incident. Each further pause is twice as long, because a diagnosis sends
/// calls to the runtime.
const FIRST_DIAGNOSIS_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between two diagnoses of one incident.
const MAX_DIAGNOSIS_PAUSE: Duration = Duration::from_secs(300);

/// The limits beyond which an incident begins, and the time around an incident that is pinned: kept when older parts of
/// the capture are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncidentRules {
    /// The duration at which a call or a relist is slow.
    pub slow: Duration,
    /// The age at which PLEG is not healthy.
    pub threshold: Duration,
    /// How long before the incident the pinned time begins.
    pub before: Duration,
    /// How long after the incident the pinned time ends.
    pub after: Duration,
}

/// An action that the detector requests from its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncidentAction {
    /// Record this incident, which was opened or closed.
    Record(Incident),
    /// Diagnose the open incident.
    Diagnose,
}

/// The state of calls, PLEG and the kubelet at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The time since the running relist began or, without a relist, since the pending call was sent.
    pub waited: Duration,
    /// The call or the relist of `waited`.
    pub what: Option<Fact>,
    /// The age of the last relist whose list calls succeeded.
    pub age: Option<Duration>,
    /// The pending call of the relist: its RPC and its container or sandbox.
    pub call: Option<String>,
    /// The time since the pending Version call was sent.
    pub version: Option<Duration>,
    /// The fault of the kubelet's process.
    pub kubelet: Option<Fact>,
    /// The restart of the kubelet since the last observation.
    pub restarted: Option<Fact>,
    /// The shim that a signal has stopped.
    pub shim: Option<Fact>,
    /// What the last look at the node found.
    pub found: Option<Fact>,
}

/// Detects incidents, one at a time.
#[derive(Debug)]
pub struct IncidentDetector {
    rules: IncidentRules,
    /// The number of the last incident.
    last: u64,
    open: Option<CurrentIncident>,
}

/// The incident that lasts at the moment, and the state that decides when it ends and when it is diagnosed again.
#[derive(Debug, Default)]
struct CurrentIncident {
    incident: Incident,
    /// The beginning, by the monotonic clock.
    began: Mono,
    /// The last moment at which a fault was observed, by both clocks.
    last_bad: (Wall, Mono),
    /// The number of good relists since `last_bad`.
    good: u32,
    /// The end of the first of these good relists, by both clocks.
    first_good: (Wall, Mono),
    /// The longest wait so far.
    longest_wait: Duration,
    /// Whether a diagnosis was requested because the age of PLEG is near the threshold.
    diagnosed_near: bool,
    /// The weight and the certainty of the present verdict, so that a less serious verdict does not replace it.
    weight: (u8, u8),
    /// The subject of the verdict.
    subject: Option<FindingSubject>,
    /// Whether the peak (the worst moment) is the moment of a verdict.
    peak_is_verdict: bool,
    /// The faults at the start of the last diagnosis.
    diagnosed: BTreeSet<String>,
    /// The start of the last diagnosis.
    diagnosed_at: Mono,
    /// The pause after the last diagnosis.
    pause: Duration,
    /// The fault of the last relist.
    failing: Option<String>,
    /// The time at which the node becomes `NotReady` at the latest, as the diagnoses of the present hang have predicted.
    not_ready_at: Option<Wall>,
}

/// The subject of a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindingSubject {
    /// The id of the rule.
    pub rule: String,
    /// The ids of sandboxes and containers.
    pub ids: Vec<String>,
}

impl FindingSubject {
    /// Whether both subjects may belong to the same fault. If both name containers or sandboxes, they must share one;
    /// otherwise they must have the same rule.
    pub fn may_be_same_fault(&self, other: &Self) -> bool {
        let both_named = !self.ids.is_empty() && !other.ids.is_empty();
        if both_named { self.ids.iter().any(|id| other.ids.contains(id)) } else { self.rule == other.rule }
    }
}

/// A time that a diagnosis predicted: the node becomes `NotReady` then at the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The subject of the verdict.
    pub subject: FindingSubject,
    /// The time.
    pub not_ready_at: Wall,
}

/// The verdict of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The first line of the diagnosis.
    pub summary: Fact,
    /// The primary finding as JSON.
    pub primary: Option<String>,
    /// The certainty of the verdict; a higher number is more certain.
    pub certainty: u8,
    /// The subject; `None` if every finding is only possible.
    pub subject: Option<FindingSubject>,
    /// The time at which the node becomes `NotReady` at the latest.
    pub not_ready_at: Option<Wall>,
}

impl IncidentDetector {
    /// Creates a detector; `last` is the number of the last incident in the capture.
    pub const fn new(rules: IncidentRules, last: u64) -> Self {
        Self { rules, last, open: None }
    }

    /// Returns the open incident.
    pub fn open_incident(&self) -> Option<&Incident> {
        self.open.as_ref().map(|open| &open.incident)
    }

    /// Returns the last moment at which a fault of the open incident was observed.
    pub fn last_fault(&self) -> Option<Mono> {
        self.open.as_ref().map(|open| open.last_bad.1)
    }

    /// Returns what the diagnoses of the present hang have predicted. A later diagnosis of the same hang keeps this time:
    /// the hang has gone on since.
    pub fn prediction(&self) -> Option<Prediction> {
        let open = self.open.as_ref()?;
        Some(Prediction { subject: open.subject.clone()?, not_ready_at: open.not_ready_at? })
    }

    /// Returns the age at which PLEG is not healthy.
    pub const fn threshold(&self) -> Duration {
        self.rules.threshold
    }

    /// Returns the time until the age of the last relist reaches the next limit; `None` if it has passed the last limit.
    pub fn time_to_age_limit(&self, age: Duration) -> Option<Duration> {
        let threshold = self.rules.threshold;
        let left = |limit: Duration| limit.checked_sub(age).filter(|left| !left.is_zero());
        [threshold.mul_f64(NEAR_THRESHOLD), threshold].into_iter().find_map(left)
    }

    /// Opens or continues an incident according to an observation.
    pub fn observe(&mut self, now: (Wall, Mono), seen: &Observation) -> Vec<IncidentAction> {
        let near = seen.age.is_some_and(|age| age >= self.rules.threshold.mul_f64(NEAR_THRESHOLD));
        let slow = seen.waited >= self.rules.slow;
        let silent = seen.version.is_some_and(|waited| waited >= self.rules.slow);
        let other = [&seen.kubelet, &seen.restarted, &seen.shim, &seen.found].into_iter().flatten().next();
        let bad = slow || near || silent || other.is_some();
        let mut actions = Vec::new();
        if self.open.is_none() {
            let why = match (&seen.what, seen.age) {
                (Some(what), _) if slow => what.clone(),
                _ if silent => {
                    let call = Call { rpc: Rpc::Version, of: None };
                    let waited = seen.version.unwrap_or_default().into();
                    FactKind::CallIsOpen { call, waited }.into()
                }
                (_, Some(age)) if near => FactKind::LastRelistIsOld { age: age.into() }.into(),
                _ => match other {
                    Some(fact) => fact.clone(),
                    None => return actions,
                },
            };
            actions.extend(self.begin(now, &why));
        }
        if let Some(open) = &mut self.open {
            if bad {
                open.last_bad = now;
                open.good = 0;
            } else if open.failing.is_none() {
                // The hang is over, so its prediction does not count for the next one.
                open.not_ready_at = None;
            }
            if slow && seen.waited >= open.longest_wait {
                open.longest_wait = seen.waited;
                if !open.peak_is_verdict {
                    open.incident.peak = now.0.nanos();
                }
            }
            let diagnose = !actions.contains(&IncidentAction::Diagnose);
            if near && !open.diagnosed_near {
                open.diagnosed_near = true;
                if diagnose {
                    actions.push(IncidentAction::Diagnose);
                }
            } else if diagnose && open.needs_new_diagnosis(&open.faults(&self.rules, seen), now.1) {
                actions.push(IncidentAction::Diagnose);
            }
        }
        actions
    }

    /// Notes that a diagnosis of the open incident has begun.
    pub fn diagnosis_started(&mut self, now: Mono, seen: &Observation) {
        let Some(open) = &mut self.open else { return };
        open.pause = (open.pause * 2).clamp(FIRST_DIAGNOSIS_PAUSE, MAX_DIAGNOSIS_PAUSE);
        open.diagnosed = open.faults(&self.rules, seen);
        open.diagnosed_at = now;
    }

    /// Opens, continues or closes an incident according to a finished relist.
    pub fn relist_finished(&mut self, mono: Mono, relist: &Relist) -> Vec<IncidentAction> {
        let now = (relist.time, mono);
        let fault = self.fault(relist);
        if let Some(open) = &mut self.open {
            open.failing = fault.as_ref().map(|(what, _)| what.clone());
        }
        let Some((what, why)) = fault else { return self.count_good_relist(now) };
        if let Some(open) = &mut self.open {
            open.last_bad = now;
            open.good = 0;
            return Vec::new();
        }
        let actions = self.begin(now, &why.into());
        if let Some(open) = &mut self.open {
            open.failing = Some(what);
        }
        actions
    }

    /// Returns the fault of a relist, with a key that identifies it.
    fn fault(&self, relist: &Relist) -> Option<(String, FactKind)> {
        if let Some(error) = relist.error.as_ref().filter(|_| relist.outcome != Outcome::Ok) {
            return Some((error.clone(), FactKind::CallFailed { error: error.into() }));
        }
        // On every node, a container may be removed between the list and its status call.
        let failed =
            |call: &&CallRecord| call.outcome != Outcome::Ok && call.code.as_deref() != Some("NotFound");
        if let Some(call) = relist.calls.iter().find(failed) {
            let error = call.message.as_deref().unwrap_or_else(|| call.outcome.as_str()).into();
            let (key, call) = (format!("{} {:?}", call.rpc, call.id), fact_of(call)?);
            return Some((key, FactKind::CallHasFailed { call, error }));
        }
        let slow = Seconds::from(self.rules.slow);
        if let Some(call) = relist.calls.iter().find(|call| call.duration_seconds >= slow) {
            let took = call.duration_seconds.duration().into();
            return Some((SLOW.to_owned(), FactKind::CallWasSlow { call: fact_of(call)?, took }));
        }
        let took = relist.duration_seconds.duration().into();
        (relist.duration_seconds >= slow)
            .then(|| (SLOW.to_owned(), FactKind::RelistWasSlow { relist: relist.relist, took }))
    }

    /// Opens an incident.
    fn begin(&mut self, now: (Wall, Mono), why: &Fact) -> Vec<IncidentAction> {
        let open = self.new_incident(now, why);
        let incident = open.incident.clone();
        self.open = Some(open);
        vec![IncidentAction::Record(incident), IncidentAction::Diagnose]
    }

    /// Creates an incident with the next number.
    fn new_incident(&mut self, (now, mono): (Wall, Mono), why: &Fact) -> CurrentIncident {
        self.last += 1;
        let incident = Incident {
            number: self.last,
            from: now.nanos(),
            peak: now.nanos(),
            why: why.to_string(),
            reason: json::text(why).unwrap_or_default(),
            pinned_from: now.minus(self.rules.before).nanos(),
            // This end counts if the recorder ends before the incident.
            pinned_to: now.plus(self.rules.after).nanos(),
            ..Incident::default()
        };
        CurrentIncident {
            incident,
            began: mono,
            last_bad: (now, mono),
            diagnosed_at: mono,
            ..CurrentIncident::default()
        }
    }

    /// Closes the incident after enough good relists. A fault that was observed only once lasted until the first of them.
    fn count_good_relist(&mut self, now: (Wall, Mono)) -> Vec<IncidentAction> {
        let Some(open) = &mut self.open else { return Vec::new() };
        open.good += 1;
        if open.good == 1 {
            open.first_good = now;
        }
        if open.good < RELISTS_TO_CLOSE {
            return Vec::new();
        }
        let end = if open.last_bad.1 == open.began { open.first_good } else { open.last_bad };
        self.close(end).into_iter().map(IncidentAction::Record).collect()
    }

    /// Closes the open incident at this moment.
    fn close(&mut self, (end, mono): (Wall, Mono)) -> Option<Incident> {
        let open = self.open.take()?;
        let mut incident = open.incident;
        incident.to = end.nanos();
        incident.lasted = nanos(mono.since(open.began));
        // If the wall clock was set during the incident, the pinned time covers the old and the new time.
        let before = Wall::from_nanos(incident.from);
        incident.pinned_from = incident.pinned_from.min(end.minus(self.rules.before).nanos());
        incident.pinned_to = end.max(before).plus(self.rules.after).nanos();
        Some(incident)
    }

    /// Adds the verdict of a diagnosis to the open incident; returns the incidents to record. A verdict does not replace a
    /// worse or more certain one. A verdict about another subject closes the incident and opens another one.
    pub fn apply_verdict(&mut self, now: (Wall, Mono), verdict: IncidentVerdict) -> Vec<Incident> {
        let Some(open) = &mut self.open else { return Vec::new() };
        let mut to_record = Vec::new();
        if let (Some(known), Some(found)) = (&open.subject, &verdict.subject)
            && !known.may_be_same_fault(found)
        {
            let again = CurrentIncident {
                diagnosed: open.diagnosed.clone(),
                diagnosed_at: open.diagnosed_at,
                failing: open.failing.clone(),
                ..self.new_incident(now, &verdict.summary)
            };
            to_record.extend(self.close(now));
            self.open = Some(again);
        }
        let Some(open) = &mut self.open else { return to_record };
        let weight = (verdict.verdict.seriousness(), verdict.certainty);
        if weight < open.weight {
            return to_record;
        }
        // At this moment, a replay knows what the diagnosis knew and the facts that it measured, so that it gives the same
        // verdict.
        open.incident.peak = now.0.nanos();
        open.peak_is_verdict = true;
        open.weight = weight;
        open.subject = verdict.subject;
        open.not_ready_at = verdict.not_ready_at;
        verdict.verdict.as_str().clone_into(&mut open.incident.verdict);
        open.incident.summary = verdict.summary.to_string();
        open.incident.primary = verdict.primary.unwrap_or_default();
        to_record.push(open.incident.clone());
        to_record
    }
}

impl CurrentIncident {
    /// Returns the keys of the present faults.
    fn faults(&self, rules: &IncidentRules, seen: &Observation) -> BTreeSet<String> {
        let call = seen.call.clone().filter(|_| seen.waited >= rules.slow);
        let version = seen.version.filter(|waited| *waited >= rules.slow).map(|_| "Version".to_owned());
        let key = |fact: &Fact| format!("{fact:?}");
        let others = [&seen.kubelet, &seen.shim].into_iter().flatten().map(key);
        // A look is a diagnosis itself, so what it finds needs no further one when its words change.
        let found = seen.found.as_ref().map(|_| "found".to_owned());
        [call, version, self.failing.clone(), found].into_iter().flatten().chain(others).collect()
    }

    /// Whether the faults differ from those at the last diagnosis, and the pause after that diagnosis is over.
    fn needs_new_diagnosis(&self, faults: &BTreeSet<String>, now: Mono) -> bool {
        !faults.is_empty() && *faults != self.diagnosed && now.since(self.diagnosed_at) >= self.pause
    }
}

/// Describes a finished call.
fn fact_of(call: &CallRecord) -> Option<Call> {
    let rpc = Rpc::named(&call.rpc)?;
    Some(Call::of_pod(rpc, call.id.as_deref(), call.pod.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::facts::ProcessRef;

    const RULES: IncidentRules = IncidentRules {
        slow: Duration::from_secs(2),
        threshold: Duration::from_secs(180),
        before: Duration::from_secs(600),
        after: Duration::from_secs(300),
    };

    fn at(second: u64) -> Wall {
        Wall::from_nanos(1_700_000_000_000_000_000).plus(Duration::from_secs(second))
    }

    fn mono(second: u64) -> Mono {
        Mono::at(Duration::from_secs(second))
    }

    fn now(second: u64) -> (Wall, Mono) {
        (at(second), mono(second))
    }

    fn relist(second: u64, took: u64) -> Relist {
        let duration_seconds = Duration::from_secs(took).into();
        Relist { duration_seconds, pods: 1, sandboxes: 1, containers: 1, ..Relist::new(at(second), second) }
    }

    fn waiting(seconds: u64, age: u64) -> Observation {
        let (waited, age) = (Duration::from_secs(seconds), Some(Duration::from_secs(age)));
        let call = Call { rpc: Rpc::ListContainers, of: None };
        let what = Some(FactKind::CallIsOpen { call, waited: waited.into() }.into());
        Observation { waited, what, age, ..Observation::default() }
    }

    fn recorded_incidents(actions: &[IncidentAction]) -> Vec<&Incident> {
        let incidents = actions.iter().filter_map(|step| match step {
            IncidentAction::Record(incident) => Some(incident),
            IncidentAction::Diagnose => None,
        });
        incidents.collect()
    }

    #[test]
    fn hang_is_one_incident_and_is_diagnosed_twice() {
        let mut detector = IncidentDetector::new(RULES, 4);
        assert!(detector.observe(now(1), &waiting(1, 1)).is_empty());
        let actions = detector.observe(now(2), &waiting(2, 2));
        assert_eq!(recorded_incidents(&actions)[0].number, 5);
        assert_eq!(recorded_incidents(&actions)[0].why, "ListContainers has not been answered for 2s");
        assert_eq!(recorded_incidents(&actions)[0].pinned_from, at(2).nanos() - 600_000_000_000);
        assert!(actions.contains(&IncidentAction::Diagnose));
        let mut diagnoses = 0;
        for second in 3..300 {
            diagnoses += detector.observe(now(second), &waiting(second, second)).len();
        }
        assert_eq!(diagnoses, 1, "the second diagnosis is near the threshold");
        assert!(detector.relist_finished(mono(300), &relist(300, 300)).is_empty());
        assert!(detector.relist_finished(mono(305), &relist(305, 0)).is_empty());
        assert!(detector.relist_finished(mono(310), &relist(310, 0)).is_empty());
        let closed = detector.relist_finished(mono(315), &relist(315, 0));
        let closed = recorded_incidents(&closed)[0];
        assert_eq!((closed.number, closed.to, closed.peak), (5, at(300).nanos(), at(299).nanos()));
        assert_eq!(closed.pinned_to, at(600).nanos());
        assert!(detector.open_incident().is_none());
    }

    #[test]
    fn duration_of_an_incident_does_not_depend_on_the_wall_clock() {
        for (set, by) in [(3600_i64, "forward"), (-3600, "back")] {
            let mut detector = IncidentDetector::new(RULES, 0);
            detector.observe(now(2), &waiting(2, 2));
            let then = |second: u64| Wall::from_nanos(at(second).nanos() + set * 1_000_000_000);
            detector.observe((then(60), mono(60)), &waiting(60, 60));
            let good = |second: u64| Relist { time: then(second), ..relist(second, 0) };
            let closed = (61..64)
                .flat_map(|second| detector.relist_finished(mono(second), &good(second)))
                .collect::<Vec<_>>();
            let closed = recorded_incidents(&closed)[0];
            assert_eq!(closed.duration(), Some(Duration::from_secs(58)), "{by}");
            assert_eq!((closed.from, closed.to), (at(2).nanos(), then(60).nanos()), "{by}");
            for kept in [at(2), at(59), then(60)] {
                assert!(
                    closed.pinned_from <= kept.nanos() && kept.nanos() <= closed.pinned_to,
                    "{by}: {kept}"
                );
            }
        }
    }

    #[test]
    fn fault_that_was_observed_once_lasts_until_the_next_good_relist() {
        let mut detector = IncidentDetector::new(RULES, 0);
        let failed = Relist { outcome: Outcome::Error, error: Some("no".into()), ..relist(5, 0) };
        detector.relist_finished(mono(5), &failed);
        let closed: Vec<_> = [10, 15, 20]
            .into_iter()
            .flat_map(|second| detector.relist_finished(mono(second), &relist(second, 0)))
            .collect();
        let closed = recorded_incidents(&closed)[0];
        assert_eq!((closed.to, closed.duration()), (at(10).nanos(), Some(Duration::from_secs(5))));
    }

    #[test]
    fn next_check_is_due_when_the_age_reaches_a_limit() {
        let detector = IncidentDetector::new(RULES, 0);
        let (near, threshold) = (RULES.threshold.mul_f64(NEAR_THRESHOLD), RULES.threshold);
        for (age, turn) in [(Duration::ZERO, Some(near)), (near, Some(threshold)), (threshold, None)] {
            assert_eq!(detector.time_to_age_limit(age).map(|left| age + left), turn, "{age:?}");
        }
    }

    #[test]
    fn failed_call_opens_an_incident_and_a_removed_container_does_not() {
        let mut detector = IncidentDetector::new(RULES, 0);
        let call = |code: &str| CallRecord {
            rpc: "ContainerStatus".into(),
            id: Some("c".into()),
            pod: None,
            duration_seconds: Seconds::default(),
            response_bytes: 0,
            stream: None,
            outcome: Outcome::Error,
            code: Some(code.into()),
            message: Some("no".into()),
        };
        let race = Relist { calls: vec![call("NotFound")], ..relist(1, 0) };
        assert!(detector.relist_finished(mono(1), &race).is_empty());
        let failed = Relist { calls: vec![call("Unknown")], ..relist(2, 0) };
        assert_eq!(
            recorded_incidents(&detector.relist_finished(mono(2), &failed))[0].why,
            "ContainerStatus of c: no"
        );
        // The same fault again belongs to the same incident.
        assert!(detector.relist_finished(mono(2), &failed).is_empty());
    }

    #[test]
    fn better_verdict_does_not_replace_a_worse_one() {
        let mut detector = IncidentDetector::new(RULES, 0);
        detector.relist_finished(mono(1), &relist(1, 5));
        let verdict = |verdict| IncidentVerdict {
            verdict,
            summary: Fact::line(String::new()),
            primary: None,
            certainty: 0,
            subject: None,
            not_ready_at: None,
        };
        assert_eq!(detector.apply_verdict(now(2), verdict(Verdict::Unhealthy))[0].verdict, "unhealthy");
        assert_eq!(detector.apply_verdict(now(3), verdict(Verdict::Healthy)), []);
        assert_eq!(detector.open_incident().unwrap().verdict, "unhealthy");
    }

    fn verdict(rule: &str, ids: &[&str], verdict: Verdict, certainty: u8) -> IncidentVerdict {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        IncidentVerdict {
            verdict,
            summary: Fact::line(rule.into()),
            primary: Some(rule.into()),
            certainty,
            subject: Some(FindingSubject { rule: rule.into(), ids }),
            not_ready_at: None,
        }
    }

    #[test]
    fn worst_moment_is_that_of_the_diagnosis_whose_words_are_shown() {
        let mut detector = IncidentDetector::new(RULES, 0);
        detector.observe(now(2), &waiting(2, 2));
        for (second, rule, weight) in
            [(7, "D01", Verdict::Unhealthy), (12, "D10", Verdict::Unhealthy), (30, "D08", Verdict::Degraded)]
        {
            detector.apply_verdict(now(second), verdict(rule, &["c1"], weight, 2));
        }
        let open = detector.open_incident().unwrap();
        assert_eq!((open.primary.as_str(), open.peak), ("D10", at(12).nanos()));
    }

    #[test]
    fn worst_moment_is_that_of_the_most_serious_diagnosis_however_long_the_call_waits() {
        let mut detector = IncidentDetector::new(RULES, 0);
        let peak = |detector: &IncidentDetector| detector.open_incident().unwrap().peak;
        detector.observe(now(2), &waiting(2, 2));
        detector.apply_verdict(now(8), verdict("D01", &["c1"], Verdict::Degraded, 1));
        detector.observe(now(60), &waiting(60, 60));
        assert_eq!(peak(&detector), at(8).nanos());
        detector.apply_verdict(now(62), verdict("D01", &["c1"], Verdict::Unhealthy, 2));
        detector.observe(now(100), &waiting(100, 100));
        assert_eq!(peak(&detector), at(62).nanos());
    }

    #[test]
    fn verdict_about_another_subject_opens_another_incident() {
        let mut detector = IncidentDetector::new(RULES, 0);
        detector.observe(now(2), &waiting(2, 2));
        assert_eq!(detector.apply_verdict(now(7), verdict("D01", &["c1"], Verdict::Degraded, 1)).len(), 1);
        // Another rule about the same container is the same fault.
        assert_eq!(
            detector.apply_verdict(now(12), verdict("D10", &["c1"], Verdict::Degraded, 2))[0].number,
            1
        );
        let to_record = detector.apply_verdict(now(30), verdict("D07", &[], Verdict::Unhealthy, 2));
        let incidents =
            to_record.iter().map(|incident| (incident.number, incident.to, incident.primary.as_str()));
        assert_eq!(incidents.collect::<Vec<_>>(), [(1, at(30).nanos(), "D10"), (2, 0, "D07")]);
        assert_eq!(detector.open_incident().unwrap().from, at(30).nanos());
    }

    #[test]
    fn predicted_time_stays_while_relists_fail_and_is_forgotten_when_the_hang_is_over() {
        let mut detector = IncidentDetector::new(RULES, 0);
        detector.observe(now(2), &waiting(2, 2));
        let predicted = Prediction {
            subject: FindingSubject { rule: "D02".into(), ids: Vec::new() },
            not_ready_at: at(190),
        };
        let hung =
            IncidentVerdict { not_ready_at: Some(at(190)), ..verdict("D02", &[], Verdict::Unhealthy, 2) };
        detector.apply_verdict(now(8), hung);
        assert_eq!(detector.prediction().as_ref(), Some(&predicted));
        let failed = Relist {
            outcome: Outcome::Silent,
            error: Some("ListContainers did not answer".into()),
            ..relist(120, 120)
        };
        detector.relist_finished(mono(120), &failed);
        // The next relist has just begun.
        detector.observe(now(121), &waiting(1, 121));
        assert_eq!(detector.prediction().as_ref(), Some(&predicted));
        detector.relist_finished(mono(130), &relist(130, 0));
        detector.observe(now(130), &waiting(0, 0));
        assert_eq!(detector.prediction(), None);
    }

    #[test]
    fn new_fault_is_diagnosed_after_ever_longer_pauses() {
        let mut detector = IncidentDetector::new(RULES, 0);
        let hung = |call: &str, second| Observation { call: Some(call.into()), ..waiting(second, 1) };
        let first = hung("c1", 2);
        assert!(detector.observe(now(2), &first).contains(&IncidentAction::Diagnose));
        detector.diagnosis_started(mono(2), &first);
        assert!(detector.observe(now(20), &hung("c1", 20)).is_empty(), "the fault has not changed");
        let silent = Observation { version: Some(Duration::from_secs(3)), ..hung("c1", 21) };
        assert_eq!(detector.observe(now(21), &silent), [IncidentAction::Diagnose]);
        detector.diagnosis_started(mono(21), &silent);
        // The next diagnosis is due ten seconds later, and the one after that twenty seconds later.
        assert!(detector.observe(now(29), &hung("c2", 5)).is_empty());
        assert_eq!(detector.observe(now(31), &hung("c2", 7)), [IncidentAction::Diagnose]);
        detector.diagnosis_started(mono(31), &hung("c2", 7));
        assert!(detector.observe(now(50), &hung("c3", 5)).is_empty());
        assert_eq!(detector.observe(now(51), &hung("c3", 6)), [IncidentAction::Diagnose]);
    }

    #[test]
    fn silent_version_faulty_kubelet_and_stopped_shim_open_incidents() {
        let process = ProcessRef { name: "containerd-shim".into(), pid: 7 };
        let observations = [
            (
                Observation { version: Some(Duration::from_secs(3)), ..Observation::default() },
                "Version has not been answered for 3s",
            ),
            (
                Observation { kubelet: Some(FactKind::KubeletGone.into()), ..Observation::default() },
                "the kubelet is gone",
            ),
            (
                Observation {
                    shim: Some(FactKind::ProcessIsStopped { process }.into()),
                    ..Observation::default()
                },
                "containerd-shim is stopped: process 7",
            ),
            (
                Observation { restarted: Some(FactKind::KubeletWasStarted.into()), ..Observation::default() },
                "the kubelet was restarted",
            ),
        ];
        for (seen, why) in observations {
            let mut detector = IncidentDetector::new(RULES, 0);
            let actions = detector.observe(now(5), &seen);
            assert_eq!(recorded_incidents(&actions)[0].why, why);
            // The incident lasts until three good relists follow.
            detector.observe(now(9), &seen);
            let closed: Vec<_> = (10..13)
                .flat_map(|second| detector.relist_finished(mono(second), &relist(second, 0)))
                .collect();
            assert_eq!(recorded_incidents(&closed)[0].to, at(9).nanos());
        }
    }

    #[test]
    fn what_a_look_has_found_keeps_the_incident_open_and_needs_no_further_diagnosis() {
        let found = |words: String| Observation { found: Some(Fact::line(words)), ..Observation::default() };
        let mut detector = IncidentDetector::new(RULES, 0);
        let first = found("a shim hangs".into());
        assert_eq!(recorded_incidents(&detector.observe(now(5), &first))[0].why, "a shim hangs");
        detector.diagnosis_started(mono(5), &first);
        for second in 10..40 {
            assert_eq!(detector.relist_finished(mono(second), &relist(second, 0)), []);
            let again = found(format!("a shim hangs for {second}s"));
            assert_eq!(detector.observe(now(second), &again), []);
        }
        let closed: Vec<_> =
            (40..43).flat_map(|second| detector.relist_finished(mono(second), &relist(second, 0))).collect();
        assert_eq!(recorded_incidents(&closed)[0].to, at(39).nanos());
    }
}
