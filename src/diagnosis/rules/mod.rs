//! The catalogue: one entry for each diagnosis, with what it needs to be said and what it must not conclude.
//!
//! A rule is a function of the evidence; it returns what it found, or nothing. None of them asks anything.

mod catalogue;
mod disk;
pub mod hang;
mod journal;
mod kubelet;
mod load;
mod node;
mod reach;
mod size;
pub mod state;
mod versions;

use std::time::Duration;

pub use catalogue::{CATALOGUE, row};
pub use kubelet::disagreements;

use super::estimate::Estimate;
use super::evidence::Evidence;
use super::join::still_blocked;
use super::proc::{Blocked, Process};
use super::report::{Confidence, Finding, Phase, RuleId, Severity};
use super::words::seconds;
use crate::cri::Rpc;
use crate::panics::held;

/// What a rule is given.
#[derive(Debug)]
pub struct Case<'a> {
    /// What was seen.
    pub evidence: &'a Evidence,
    /// What the kubelet would make of it.
    pub estimate: Estimate,
    /// Ids that may be called guilty of a hang.
    pub culprits: Vec<Culprit>,
}

/// An id whose status call hangs while others answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Its full id.
    pub id: String,
    /// The call that hangs on it.
    pub rpc: Rpc,
    /// How long it was waited for.
    pub waited: Duration,
    /// How sure we are that it hangs.
    pub confidence: Confidence,
}

impl<'a> Case<'a> {
    /// Prepares the evidence for the rules.
    pub fn new(evidence: &'a Evidence) -> Self {
        Self { evidence, estimate: Self::estimate_of(evidence), culprits: hang::culprits(evidence) }
    }

    /// Whether what the estimate rests on was seen. A run that somebody ended has not asked everything.
    pub fn estimate_is_known(&self) -> bool {
        let runtime = &self.evidence.runtime;
        !self.evidence.interrupted
            || (runtime.lists_are_known() && runtime.unasked == 0 && runtime.cut_short().next().is_none())
    }

    /// Whether any call of the relist hangs.
    pub fn hangs(&self) -> bool {
        !self.evidence.runtime.hung_lists().is_empty() || self.evidence.runtime.hung().next().is_some()
    }

    /// The phase that the hang is in.
    pub fn hang_phase(&self) -> Phase {
        if !self.evidence.runtime.hung_lists().is_empty() {
            Phase::List
        } else if self.hangs() {
            Phase::Status
        } else if self.evidence.runtime.version_answer().is_none() {
            Phase::Connect
        } else {
            Phase::None
        }
    }

    /// The call that hangs: the list if one does, else the status call.
    pub fn hung_rpc(&self) -> Option<Rpc> {
        let lists = self.evidence.runtime.hung_lists();
        lists.first().map(|(rpc, _)| *rpc).or_else(|| self.culprits.first().map(|culprit| culprit.rpc))
    }

    /// Whether the runtime itself keeps us waiting, in a list, a status call or Version.
    pub fn stuck(&self) -> bool {
        self.hangs() || self.evidence.runtime.version_answer().is_none()
    }

    /// How bad a cause is: critical when it explains a hang, a warning otherwise.
    pub fn severity_of_cause(&self) -> Severity {
        if self.stuck() { Severity::Critical } else { Severity::Warning }
    }

    /// Tasks of kubelet, runtime, shims, OCI runtimes and containers that wait uninterruptibly in every look.
    pub fn blocked(&self) -> Vec<(&Process, &Blocked)> {
        let Some(host) = self.evidence.node() else {
            return Vec::new();
        };
        host.latest()
            .processes
            .values()
            .filter(|process| !process.blocked.is_empty() && self.evidence.concerns(process))
            .flat_map(|process| process.blocked.iter().map(move |task| (process, task)))
            .filter(|(_, task)| still_blocked(host, task.tid))
            .collect()
    }

    /// A finding about one container or sandbox, with its names.
    pub(super) fn about(&self, finding: Finding, id: &str) -> Finding {
        Finding {
            pod: self.evidence.names.pod(id),
            container: self.evidence.names.container(id),
            ids: vec![id.to_owned()],
            ..finding
        }
    }
}

/// Applies all of them. A rule that fails of itself is one that was not applied, by its id and with its words; what the
/// others found stands.
pub fn apply(case: &Case<'_>) -> (Vec<Finding>, Vec<(RuleId, String)>) {
    let judges = CATALOGUE.iter().filter_map(|row| Some((row.id, row.judge?)));
    let (mut findings, mut failed) = judged(judges, case);
    match held(|| hang::silent_so_far(case)) {
        Ok(silent) => findings.extend(silent),
        Err(why) => failed.push((RuleId::D01, why)),
    }
    match held(|| size::slow_lists(case, &findings)) {
        Ok(slow) => findings.extend(slow),
        Err(why) => failed.push((RuleId::D30, why)),
    }
    for finding in &mut findings {
        // What is only possible does not matter until something else agrees.
        if finding.confidence == Confidence::Possible {
            finding.severity = Severity::Info;
        }
    }
    (findings, failed)
}

/// What each of these found, and which of them failed over it.
fn judged(
    judges: impl Iterator<Item = (RuleId, catalogue::Judge)>,
    case: &Case<'_>,
) -> (Vec<Finding>, Vec<(RuleId, String)>) {
    let (mut findings, mut failed) = (Vec::new(), Vec::new());
    for (id, judge) in judges {
        match held(|| judge(case)) {
            Ok(found) => findings.extend(found),
            Err(why) => failed.push((id, why)),
        }
    }
    (findings, failed)
}

/// D00: everything answers.
pub fn nothing_found(case: &Case<'_>) -> Finding {
    let estimate = &case.estimate;
    let population = case.evidence.runtime.population();
    let pods = case.evidence.runtime.pod_uids().len();
    let mut finding = finding(
        RuleId::D00,
        Severity::Info,
        Confidence::Certain,
        "every probe is answered; a relist takes ".to_owned() + &seconds(estimate.serial),
    );
    finding.evidence.push(format!(
        "{pods} pods, {} sandboxes, {} containers ({} running, {} exited)",
        population.sandboxes, population.containers, population.running, population.exited
    ));
    if let Some(lists) = estimate.lists {
        finding.evidence.push(format!(
            "both lists {}; a relist of every pod, as after a kubelet restart, {}",
            seconds(lists),
            seconds(estimate.full)
        ));
    }
    finding.next.push("trouble may come and go: plegctl watch --until-slow 2s".into());
    finding
}

/// A finding with nothing but its line.
fn finding(id: RuleId, severity: Severity, confidence: Confidence, title: impl Into<String>) -> Finding {
    Finding {
        id,
        title: title.into(),
        severity,
        confidence,
        phase: Phase::None,
        rpc: None,
        pod: None,
        container: None,
        ids: Vec::new(),
        evidence: Vec::new(),
        next: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_fails_of_itself_takes_no_other_with_it() {
        let evidence = Evidence::default();
        let case = Case::new(&evidence);
        let sound: catalogue::Judge = |case| vec![nothing_found(case)];
        let fails: catalogue::Judge = |_| panic!("of its own");
        let rules = [(RuleId::D01, sound), (RuleId::D02, fails), (RuleId::D03, sound)];
        let (found, failed) = judged(rules.into_iter(), &case);
        assert_eq!(found.len(), 2);
        assert_eq!(failed, [(RuleId::D02, "of its own".to_owned())]);
    }
}
