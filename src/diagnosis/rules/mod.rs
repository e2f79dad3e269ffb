//! The rules D00 to D42. A rule is a function that reads the evidence and returns findings or nothing. No rule makes calls.
//!
//! [`catalogue()`] lists the rules with their texts; the files have the functions, grouped by the kind of evidence.

mod catalogue;
mod certificates;
mod clients;
mod cri_missing;
mod disk;
pub mod estimate;
mod growth;
pub mod hang;
mod journal;
mod kernel;
mod kubelet;
mod load;
mod node;
mod owners;
mod pods;
mod reach;
mod removal;
mod shims;
mod size;
pub mod state;
mod versions;

use std::time::Duration;

use catalogue::RuleFunction;
#[cfg(feature = "cli")]
pub use catalogue::{ConfidenceIsOf, EveryPod, OwnPod, rules_about};
pub use catalogue::{Impact, StacksHelp, catalogue, row};
pub(crate) use kubelet::disagreements;
pub(crate) use node::known_wait;
#[cfg(feature = "cli")]
pub(crate) use size::judge_size;
pub(in crate::diagnosis) use state::has_network_problem;

use super::evidence::container_parts::still_blocked;
use super::evidence::{Evidence, Population};
use super::facts::{Fact, FactKind};
use super::limits::{CRASH_LOOP_PAUSE, MANY_RESTARTS};
use super::proc::{Blocked, Process};
use super::report::{Confidence, HealthFinding, Phase, RuleId, Severity};
use super::words::short;
use crate::clock::Wall;
use crate::cri::Rpc;
use crate::panics::catch_panic;
use crate::report::duration::elapsed;
use crate::report::{Command, Step};
use estimate::Estimate;

/// The input of a rule.
#[derive(Debug)]
pub struct Case<'a> {
    /// The measurements.
    pub evidence: &'a Evidence,
    /// The estimate of the kubelet's relist.
    pub estimate: Estimate,
    /// The ids that findings may name as culprits.
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

    /// Returns whether the run made the calls on which the estimate is based; an interrupted run may not have made them.
    pub fn estimate_is_known(&self) -> bool {
        let runtime = &self.evidence.runtime;
        !self.evidence.interrupted
            || (runtime.lists_are_known()
                && runtime.ids_left_out == 0
                && runtime.cut_short().next().is_none())
    }

    /// Returns the confidence in what the answers of status calls show. In a capture, they are older than the moment, so only
    /// a call that was open then is certain.
    pub const fn confidence_in_answers(&self) -> Confidence {
        if self.evidence.moment.is_some() { Confidence::Likely } else { Confidence::Certain }
    }

    /// Returns whether a list call or a status call hangs.
    pub fn hangs(&self) -> bool {
        !self.evidence.runtime.hung_lists().is_empty() || self.evidence.runtime.hung().next().is_some()
    }

    /// Returns the phase of the hang.
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

    /// Returns the hung call: the list if a list hangs, otherwise the status call.
    pub fn hung_rpc(&self) -> Option<Rpc> {
        let lists = self.evidence.runtime.hung_lists();
        lists.first().map(|(rpc, _)| *rpc).or_else(|| self.culprits.first().map(|culprit| culprit.rpc))
    }

    /// Returns whether a list or a status call hangs, or Version is not answered.
    pub fn stuck(&self) -> bool {
        self.hangs() || self.evidence.runtime.version_answer().is_none()
    }

    /// Returns the severity of a cause: critical if there is a hang that it explains, otherwise a warning.
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

    /// Creates a finding about a cause, with the phase and the call of the hang if there is a hang.
    fn cause(
        &self,
        id: RuleId,
        severity: Severity,
        confidence: Confidence,
        title: impl Into<Fact>,
    ) -> HealthFinding {
        HealthFinding {
            phase: self.hang_phase(),
            rpc: self.hung_rpc().map(|rpc| rpc.name().to_owned()),
            ..finding(id, severity, confidence, title)
        }
    }

    /// Sets the pod, the container and the id of a finding, if the id is known.
    fn about(&self, finding: HealthFinding, id: Option<&str>) -> HealthFinding {
        let Some(id) = id else { return finding };
        HealthFinding {
            pod: self.evidence.names.pod(id),
            container: self.evidence.names.container(id),
            ids: vec![id.to_owned()],
            ..finding
        }
    }
}

impl HealthFinding {
    /// Adds a measured fact.
    fn add_fact(&mut self, fact: impl Into<Fact>) {
        let fact = fact.into();
        self.evidence.push(fact.to_string());
        self.facts.push(fact);
    }

    /// Adds measured facts.
    fn add_facts<F: Into<Fact>>(&mut self, facts: impl IntoIterator<Item = F>) {
        facts.into_iter().for_each(|fact| self.add_fact(fact));
    }

    /// Adds a measured fact before all others.
    pub(in crate::diagnosis) fn put_fact_first(&mut self, fact: impl Into<Fact>) {
        let fact = fact.into();
        self.evidence.insert(0, fact.to_string());
        self.facts.insert(self.facts.len().min(1), fact);
    }

    /// Replaces the title.
    fn set_title(&mut self, fact: impl Into<Fact>) {
        let fact = fact.into();
        self.title = fact.to_string();
        self.facts.splice(..self.facts.len().min(1), [fact]);
    }

    /// Adds a suggested step.
    fn add_step(&mut self, step: Step) {
        self.steps.push(step);
    }
}

/// Applies all rules. A rule that panics counts as not applied and is returned with its message; the findings
/// of the others stay.
pub fn apply(case: &Case<'_>) -> (Vec<HealthFinding>, Vec<(RuleId, String)>) {
    let functions = catalogue().map(|rule| (rule.id, rule.function));
    let (mut findings, mut failed) = findings_of(functions, case);
    match catch_panic(|| hang::silent_so_far(case)) {
        Ok(silent) => findings.extend(silent),
        Err(why) => failed.push((RuleId::HungStatus, why)),
    }
    match catch_panic(|| size::slow_lists(case, &findings)) {
        Ok(slow) => findings.extend(slow),
        Err(why) => failed.push((RuleId::SlowLists, why)),
    }
    for finding in &mut findings {
        // A finding that is only possible must not change the verdict.
        if finding.confidence == Confidence::Possible {
            finding.severity = Severity::Info;
        }
    }
    (findings, failed)
}

/// Returns the findings of rules, and the rules that panicked with their messages.
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

/// Returns the finding D00: every call is answered, and nothing on the node needs a person, as far as plegctl has looked.
pub fn nothing_found(case: &Case<'_>) -> HealthFinding {
    let estimate = &case.estimate;
    let population = case.evidence.runtime.population();
    let pods = case.evidence.runtime.pod_uids().len();
    let kubelet = &case.evidence.kubelet;
    let is_unchecked = kubelet.healthz.is_none() && kubelet.latest().is_none();
    let title = FactKind::NothingFound { serial: estimate.serial.into(), kubelet_is_unchecked: is_unchecked };
    let mut finding = finding(RuleId::NothingFound, Severity::Info, Confidence::Certain, title);
    let Population { sandboxes, containers, running, exited, .. } = population;
    finding.add_fact(FactKind::Population { pods, sandboxes, containers, running, exited });
    finding.add_facts(
        estimate
            .lists
            .map(|lists| FactKind::RelistDurations { lists: lists.into(), full: estimate.full.into() }),
    );
    let threshold = case.evidence.settings.threshold.value.into();
    finding.add_fact(FactKind::UnhealthyAfter { threshold });
    let node = case.evidence.node_or_placeholder();
    let for_node = |purpose: &str, template| Step::look(purpose).with(Command::new(template).arg(node));
    if is_unchecked {
        finding
            .add_step(for_node("after an alert, first look at the kubelet too", "plegctl health --node {}"));
    }
    finding.add_step(for_node("if the node is NotReady", "kubectl describe node {}"));
    if case.evidence.has_systemd() {
        let messages = "journalctl --no-pager -u kubelet -S -6h | grep -e 'PLEG is not healthy'";
        finding.add_step(Step::look("if it was NotReady before").with(Command::new(messages)));
    }
    finding.steps.extend(most_restarted(case.evidence));
    let if_not = [
        ("if it comes and goes (waits, then says why)", "plegctl watch --until-slow 2s"),
        ("if pod states are late or wrong: lost events (until Ctrl-C)", "plegctl watch --mode compare"),
        ("if pods do not start or end (one pod: plegctl pods --why NS/POD)", "plegctl pods"),
        ("if a static pod is missing, outdated or not removed", "plegctl static-pods lint"),
    ];
    finding.steps.extend(if_not.map(|(purpose, command)| Step::look(purpose).with(Command::new(command))));
    finding
}

/// Returns the step that shows why the container that was restarted most often ended.
fn most_restarted(evidence: &Evidence) -> Option<Step> {
    let containers = evidence.runtime.containers.items().into_iter().flatten();
    let attempts = containers
        .filter_map(|container| Some((container.metadata.as_ref()?.attempt, &container.id, container)));
    let (attempt, id, newest) = attempts
        .max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)))
        .filter(|(attempt, ..)| *attempt >= MANY_RESTARTS)?;
    let age = |created_at| evidence.taken_at.duration_since(Wall::from_nanos(created_at));
    let last = age(newest.created_at);
    let (pod, container) = (evidence.names.pod(id)?, evidence.names.container(id)?);
    let (namespace, name, container) = (&pod.namespace, &pod.name, container.name);
    // The API server may be the container that is restarted, and another pod may have the same name.
    let sandboxes = || evidence.runtime.sandboxes.items().into_iter().flatten();
    let same_name = sandboxes().filter(|sandbox| {
        sandbox.metadata.as_ref().is_some_and(|other| other.namespace == *namespace && other.name == *name)
    });
    let (short_id, sandbox) = (short(id), short(&newest.sandbox_id));
    let (place, log) = if same_name.count() > 1 {
        (
            format!(" in sandbox {sandbox}"),
            Command::limited(20, "crictl --timeout {}s logs --tail 20 {}").arg(short_id),
        )
    } else {
        let log = Command::limited(20, "kubectl --request-timeout={}s -n {} logs {} -c {} -p --tail 20");
        (String::new(), log.arg(namespace).arg(name).arg(&container))
    };
    // Of a pod that is days old, five restarts are no loop, also if the last one was just now. A new sandbox restarts its
    // containers too.
    let first_sandbox = sandboxes().find(|sandbox| {
        sandbox.id == newest.sandbox_id && sandbox.metadata.as_ref().is_some_and(|of| of.attempt == 0)
    });
    let is_loop = last <= CRASH_LOOP_PAUSE
        && first_sandbox.is_some_and(|sandbox| age(sandbox.created_at) / attempt <= CRASH_LOOP_PAUSE);
    let again = if is_loop { "crashes again and again:" } else { "was" };
    let last = elapsed(last);
    let restarted = format!(
        "{namespace}/{name}/{container}{place} {again} restarted {attempt} times, last {last} ago; its log"
    );
    Some(Step::look(restarted).with(log))
}

/// Creates a finding with only its title, which is its first fact.
fn finding(id: RuleId, severity: Severity, confidence: Confidence, title: impl Into<Fact>) -> HealthFinding {
    let fact = title.into();
    HealthFinding {
        id,
        title: fact.to_string(),
        severity,
        confidence,
        phase: row(id).phase,
        rpc: None,
        pod: None,
        container: None,
        ids: Vec::new(),
        evidence: Vec::new(),
        facts: vec![fact],
        steps: Vec::new(),
        kernel_reason: None,
        pid: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_panics_does_not_affect_other_rules() {
        let evidence = Evidence::default();
        let case = Case::new(&evidence);
        let works = RuleFunction::One(|case| Some(nothing_found(case)));
        let fails = RuleFunction::Many(|_| panic!("a bug in the rule"));
        let rules = [(RuleId::HungStatus, works), (RuleId::HungList, fails), (RuleId::LargeList, works)];
        let (found, failed) = findings_of(rules.into_iter(), &case);
        assert_eq!(found.len(), 2);
        assert_eq!(failed, [(RuleId::HungList, "a bug in the rule".to_owned())]);
    }
}
