//! The rules: one for each diagnosis, with the evidence that it needs and what it must not conclude.
//!
//! A rule is a function of the evidence; it returns findings, or nothing. No rule makes calls.

mod catalogue;
mod disk;
pub mod estimate;
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

use catalogue::RuleFunction;
pub use catalogue::{CATALOGUE, row};
pub use kubelet::disagreements;

use super::evidence::Evidence;
use super::evidence::holders::still_blocked;
use super::proc::{Blocked, Process};
use super::report::{Confidence, HealthFinding, Phase, RuleId, Severity};
use super::words::seconds;
use crate::cri::Rpc;
use crate::panics::catch_panic;
use estimate::Estimate;

/// The input of a rule.
#[derive(Debug)]
pub struct Case<'a> {
    /// The measurements.
    pub evidence: &'a Evidence,
    /// The estimate of the kubelet's relist.
    pub estimate: Estimate,
    /// The ids that may be named as culprits.
    pub culprits: Vec<Culprit>,
}

/// An id whose status call hangs while others are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Its full id.
    pub id: String,
    /// The hung call.
    pub rpc: Rpc,
    /// How long the call has been silent.
    pub waited: Duration,
    /// How certain the hang is.
    pub confidence: Confidence,
}

impl<'a> Case<'a> {
    /// Computes the estimate and the culprits.
    pub fn new(evidence: &'a Evidence) -> Self {
        Self { evidence, estimate: estimate::estimate(evidence), culprits: hang::culprits(evidence) }
    }

    /// Whether the run made the calls on which the estimate is based; an interrupted run did not.
    pub fn estimate_is_known(&self) -> bool {
        let runtime = &self.evidence.runtime;
        !self.evidence.interrupted
            || (runtime.lists_are_known()
                && runtime.ids_left_out == 0
                && runtime.cut_short().next().is_none())
    }

    /// Whether any call of a relist hangs.
    pub fn hangs(&self) -> bool {
        !self.evidence.runtime.hung_lists().is_empty() || self.evidence.runtime.hung().next().is_some()
    }

    /// The phase of the hang.
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

    /// The hung call: the list if a list hangs, else the status call.
    pub fn hung_rpc(&self) -> Option<Rpc> {
        let lists = self.evidence.runtime.hung_lists();
        lists.first().map(|(rpc, _)| *rpc).or_else(|| self.culprits.first().map(|culprit| culprit.rpc))
    }

    /// Whether a list, a status call or Version hangs.
    pub fn stuck(&self) -> bool {
        self.hangs() || self.evidence.runtime.version_answer().is_none()
    }

    /// The severity of a cause: critical if it explains a hang, else a warning.
    pub fn severity_of_cause(&self) -> Severity {
        if self.stuck() { Severity::Critical } else { Severity::Warning }
    }

    /// Returns the tasks of the kubelet, the runtime, its shims, OCI runtimes and containers that are in
    /// uninterruptible sleep in every sample.
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

    /// Creates a finding about the cause of the hang, if there is a hang.
    fn cause(
        &self,
        id: RuleId,
        severity: Severity,
        confidence: Confidence,
        title: impl Into<String>,
    ) -> HealthFinding {
        HealthFinding {
            phase: self.hang_phase(),
            rpc: self.hung_rpc().map(|rpc| rpc.name().to_owned()),
            ..finding(id, severity, confidence, title)
        }
    }

    /// Adds the names of a container or sandbox to a finding.
    pub(super) fn about(&self, finding: HealthFinding, id: &str) -> HealthFinding {
        HealthFinding {
            pod: self.evidence.names.pod(id),
            container: self.evidence.names.container(id),
            ids: vec![id.to_owned()],
            ..finding
        }
    }
}

/// Applies all rules. A rule that panics counts as not applied and is returned with its message; the findings
/// of the others stay.
pub fn apply(case: &Case<'_>) -> (Vec<HealthFinding>, Vec<(RuleId, String)>) {
    let functions = CATALOGUE.iter().map(|rule| (rule.id, rule.function));
    let (mut findings, mut failed) = findings_of(functions, case);
    match catch_panic(|| hang::silent_so_far(case)) {
        Ok(silent) => findings.extend(silent),
        Err(why) => failed.push((RuleId::D01, why)),
    }
    match catch_panic(|| size::slow_lists(case, &findings)) {
        Ok(slow) => findings.extend(slow),
        Err(why) => failed.push((RuleId::D30, why)),
    }
    for finding in &mut findings {
        // A possible finding does not matter until something else confirms it.
        if finding.confidence == Confidence::Possible {
            finding.severity = Severity::Info;
        }
    }
    (findings, failed)
}

/// Collects the findings of some rules, and the rules that panicked.
fn findings_of(
    functions: impl Iterator<Item = (RuleId, RuleFunction)>,
    case: &Case<'_>,
) -> (Vec<HealthFinding>, Vec<(RuleId, String)>) {
    let (mut findings, mut failed) = (Vec::new(), Vec::new());
    for (id, function) in functions {
        match catch_panic(|| function.apply(case)) {
            Ok(found) => findings.extend(found),
            Err(why) => failed.push((id, why)),
        }
    }
    (findings, failed)
}

/// Returns D00: every call is answered.
pub fn nothing_found(case: &Case<'_>) -> HealthFinding {
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
    finding.next.push("the problem may come and go; wait for it with: plegctl watch --until-slow 2s".into());
    finding
}

/// Creates a finding with only its title.
fn finding(
    id: RuleId,
    severity: Severity,
    confidence: Confidence,
    title: impl Into<String>,
) -> HealthFinding {
    HealthFinding {
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
    fn rule_that_panics_does_not_affect_the_others() {
        let evidence = Evidence::default();
        let case = Case::new(&evidence);
        let sound = RuleFunction::One(|case| Some(nothing_found(case)));
        let fails = RuleFunction::Many(|_| panic!("of its own"));
        let rules = [(RuleId::D01, sound), (RuleId::D02, fails), (RuleId::D03, sound)];
        let (found, failed) = findings_of(rules.into_iter(), &case);
        assert_eq!(found.len(), 2);
        assert_eq!(failed, [(RuleId::D02, "of its own".to_owned())]);
    }
}
