//! The catalogue: one entry for each diagnosis, with what it needs to be said and what it must not conclude.
//!
//! A rule is a function of the evidence; it returns what it found, or nothing. None of them asks anything.

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

/// One entry of the catalogue.
pub struct Rule {
    /// Its number.
    pub id: RuleId,
    /// What it is about.
    pub about: &'static str,
    /// Judges.
    pub judge: fn(&Case<'_>) -> Vec<Finding>,
}

const fn rule(id: RuleId, about: &'static str, judge: fn(&Case<'_>) -> Vec<Finding>) -> Rule {
    Rule { id, about, judge }
}

/// The rules that look at the evidence alone. D00 and D30 look at what these found.
#[rustfmt::skip]
pub const RULES: [Rule; 31] = [
    rule(RuleId::D01, "a single pod or container does not answer its status call", hang::status_hangs),
    rule(RuleId::D02, "a list hangs and the daemon is alive", hang::list_hangs),
    rule(RuleId::D03, "a list is too large for gRPC", size::too_large),
    rule(RuleId::D04, "dead containers or sandboxes pile up", size::backlog),
    rule(RuleId::D05, "the serial status pass is too slow", size::slow_pass),
    rule(RuleId::D06, "the endpoint cannot be reached", reach::unreachable),
    rule(RuleId::D07, "the daemon does not answer at all", reach::silent),
    rule(RuleId::D08, "storage stalls", node::storage),
    rule(RuleId::D09, "a network or user-space file system does not answer", node::remote),
    rule(RuleId::D10, "an OCI runtime process or a shim hangs", node::holder),
    rule(RuleId::D11, "a cgroup is frozen", node::frozen),
    rule(RuleId::D12, "memory is exhausted", load::memory),
    rule(RuleId::D13, "the CPU is starved", load::cpu),
    rule(RuleId::D14, "processes, threads or descriptors are exhausted", load::exhausted),
    rule(RuleId::D15, "systemd or D-Bus does not answer", load::systemd),
    rule(RuleId::D16, "the network plugin is slow or not ready", state::network),
    rule(RuleId::D17, "exec probes leak or storm", load::execs),
    rule(RuleId::D18, "a name stays reserved", journal::reserved),
    rule(RuleId::D19, "the runtime's state contradicts reality", state::inconsistent),
    rule(RuleId::D20, "status calls fail", state::failing_status),
    rule(RuleId::D21, "the runtime restarts or recovers", journal::recovering),
    rule(RuleId::D22, "the runtime is well and the kubelet's PLEG is stale", kubelet::stale),
    rule(RuleId::D23, "Evented PLEG is in use", kubelet::evented),
    rule(RuleId::D24, "the first relist never succeeded", journal::never_relisted),
    rule(RuleId::D25, "PLEG flaps", journal::flapping),
    rule(RuleId::D26, "a watchdog restarts the kubelet", journal::watchdog),
    rule(RuleId::D27, "a version with a known fault", versions::known_bad),
    rule(RuleId::D28, "healthy, but events are late", hang::hidden_stall),
    rule(RuleId::D29, "a list fails", reach::list_fails),
    rule(RuleId::D31, "the runtime says that it is not ready", state::not_ready),
    rule(RuleId::D32, "the kubelet does not run or does not answer", kubelet::absent),
];

/// Applies all of them. A rule that fails of itself is one that was not applied, by its id and with its words; what the
/// others found stands.
pub fn apply(case: &Case<'_>) -> (Vec<Finding>, Vec<(RuleId, String)>) {
    let mut findings = Vec::new();
    let mut failed = Vec::new();
    for rule in &RULES {
        match held(|| (rule.judge)(case)) {
            Ok(found) => findings.extend(found),
            Err(why) => failed.push((rule.id, why)),
        }
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
            "both lists {}, a relist of every pod {}",
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
