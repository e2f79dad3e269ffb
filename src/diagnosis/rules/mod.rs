//! The rules of `health`. A rule is a function that reads the evidence and returns findings or nothing. No rule makes calls.
//!
//! A rule has a row in the table at the end of this file, a file that is named for what it finds, with the function `find`, and
//! beside it one with its texts. The other files have what several rules share.

pub mod approaching_limit;
mod blocked_tasks;
mod catalogue;
mod cpu_starved;
mod cri_missing;
mod dead_containers;
pub mod estimate;
mod evented_pleg;
mod exec_storm;
mod exhausted_limits;
mod exited_but_alive;
mod failing_list;
pub mod failing_pods;
mod failing_status;
mod flapping_pleg;
mod frozen_cgroup;
mod full_disk;
mod hidden_stall;
mod hung_list;
mod hung_process;
mod hung_status;
mod inconsistent_state;
mod invalid_certificate;
mod kernel_wait;
mod known_bad_version;
mod kubelet;
mod kubelet_down;
mod large_daemon;
mod large_list;
mod left_over_shims;
mod list_size;
mod load;
pub mod lost_exit;
mod many_clients;
mod network_not_ready;
mod never_relisted;
pub mod nothing_found;
mod out_of_memory;
mod owners;
mod ready_and_dead;
mod recovering_runtime;
mod remote_storage_stall;
mod removal;
mod reserved_name;
mod runtime_not_ready;
pub mod runtime_state;
pub mod silent_calls;
mod silent_runtime;
mod slow_lists;
mod slow_statuses;
mod stale_kubelet;
pub(in crate::diagnosis) mod steps;
mod storage_stall;
mod stuck_systemd;
mod throttled_runtime;
mod unary_fallback;
mod unreachable_runtime;
mod watchdog_restarts;

use std::time::Duration;

/// What many rules use.
mod prelude {
    pub(super) use std::collections::BTreeSet;
    pub(super) use std::time::Duration;

    pub(super) use super::steps::{Place, of_process, steps_of};
    pub(super) use super::{Case, finding};
    pub(super) use crate::clock::Wall;
    pub(super) use crate::cri::{Error, Rpc, Sandbox, StreamedAnswer};
    pub(super) use crate::diagnosis::advice::DaemonFamily;
    pub(super) use crate::diagnosis::evidence::{
        Evidence, HostEvidence, Population, RuntimeEvidence, StatusRecord, container_parts,
    };
    pub(super) use crate::diagnosis::facts::{Bytes, FactKind, ProcessRef, Quoted, Resource};
    pub(super) use crate::diagnosis::failing_pods::{FailingPod, FailureCause};
    pub(super) use crate::diagnosis::kubelet::Healthz;
    pub(super) use crate::diagnosis::proc::{ProcSample, Process, Psi, Role};
    pub(super) use crate::diagnosis::report::{Confidence, HealthFinding, Phase, PodRef, RuleId, Severity};
    pub(super) use crate::diagnosis::words::short;
    pub(super) use crate::diagnosis::{advice, limits, overdue_processes};
    pub(super) use crate::report::{Command, Step};
}

pub use blocked_tasks::known_wait;
pub use catalogue::{ConfidenceIsOf, EveryPod, Impact, OwnPod, StacksHelp, Trait, catalogue, rules_about};
use catalogue::{HealthRule, RuleFunction, rows};
pub use kubelet::disagreements;
pub use large_list::{judge_message, judge_size};
pub(in crate::diagnosis) use list_size::{Refusal, is_over};
pub(in crate::diagnosis) use network_not_ready::has_network_problem;

use super::evidence::Evidence;
use super::evidence::container_parts::still_blocked;
use super::facts::Fact;
use super::proc::{Blocked, Process};
use super::report::{Confidence, HealthFinding, Phase, Severity};
use crate::cri::Rpc;
use crate::diagnosis::pod_holders::report::HolderKind;
use crate::panics::catch_panic;
use crate::report::{Step, word_enum};
use estimate::Estimate;
use steps::steps_of;

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
        Self { evidence, estimate: estimate::estimate(evidence), culprits: silent_calls::culprits(evidence) }
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
    pub(in crate::diagnosis) fn add_fact(&mut self, fact: impl Into<Fact>) {
        let fact = fact.into();
        self.evidence.push(fact.to_string());
        self.facts.push(fact);
    }

    /// Adds measured facts.
    pub(in crate::diagnosis) fn add_facts<F: Into<Fact>>(&mut self, facts: impl IntoIterator<Item = F>) {
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
    pub(in crate::diagnosis) fn add_step(&mut self, step: Step) {
        self.steps.push(step);
    }
}

/// Applies all rules. A rule that panics counts as not applied and is returned with its message; the findings
/// of the others stay.
pub fn apply(case: &Case<'_>) -> (Vec<HealthFinding>, Vec<(RuleId, String)>) {
    let functions = catalogue().map(|rule| (rule.id, rule.function));
    let (mut findings, mut failed) = findings_of(functions, case);
    match catch_panic(|| silent_calls::silent_so_far(case)) {
        Ok(silent) => findings.extend(silent),
        Err(why) => failed.push((RuleId::HungStatus, why)),
    }
    match catch_panic(|| slow_lists::find(case, &findings)) {
        Ok(slow) => findings.extend(slow),
        Err(why) => failed.push((RuleId::SlowLists, why)),
    }
    for finding in &mut findings {
        finding.steps.extend(steps_of(finding.id.as_str(), &[]));
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

/// Creates a finding with only its title, which is its first fact.
pub(in crate::diagnosis) fn finding(
    id: RuleId,
    severity: Severity,
    confidence: Confidence,
    title: impl Into<Fact>,
) -> HealthFinding {
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

#[rustfmt::skip]
rows! {
    // Rule, id, file, rank, phase, function; makes unhealthy, finds silence, impact, whether stacks help; words, what the confidence is of; what holds a
    // pod, whether it holds its own pod, and which others; whether a process may hang
    // that no call shows; traits.
    NothingFound = "D00", nothing_found, 36, None, AfterOthers, false, false, OfRelist, Yes, "healthy", Nothing, Runtime, Yes, No, false, [];
    HungStatus = "D01", hung_status, 19, Status, One, false, true, OfRelist, Yes, "status hang", Symptom, Runtime, Yes, No, false, [];
    HungList = "D02", hung_list, 16, List, One, false, true, OfRelist, Yes, "list hang", Symptom, Runtime, Yes, Yes, false, [ExplainsSlowList];
    LargeList = "D03", large_list, 4, List, One, false, false, OfRelist, No, "list too large", Cause, Runtime, Yes, No, false, [ExplainsSlowList];
    DeadContainers = "D04", dead_containers, 21, List, One, false, false, OfRelist, No, "dead containers", Nothing, Runtime, No, No, false, [ExplainsSlowList, IsAboutRelists];
    SlowStatuses = "D05", slow_statuses, 20, Status, One, false, false, OfRelist, IfCallsAreSlow, "slow status pass", Estimate, Runtime, No, No, false, [ExplainsSlowList, IsAboutRelists];
    UnreachableRuntime = "D06", unreachable_runtime, 1, Connect, One, false, false, OfRelist, No, "runtime unreachable", Symptom, Runtime, Yes, Yes, false, [];
    SilentRuntime = "D07", silent_runtime, 3, Connect, One, true, true, OfRelist, Yes, "runtime silent", Symptom, Runtime, Yes, WhileItLasts, false, [ExplainsSlowList];
    StorageStall = "D08", storage_stall, 8, None, One, false, false, OfRelist, Yes, "storage stall", Cause, Runtime, Yes, No, false, [ExplainsSlowList];
    RemoteStorageStall = "D09", remote_storage_stall, 6, None, One, false, false, OfRelist, Yes, "remote storage stall", Cause, Kernel, UnlessWaitIsFound, No, false, [];
    HungProcess = "D10", hung_process, 15, None, Many, false, false, OfRelist, UnlessStopped, "shim or runc hang", Cause, Runtime, Yes, No, true, [];
    FrozenCgroup = "D11", frozen_cgroup, 7, None, Many, false, false, OfRelist, Yes, "frozen cgroup", Cause, Kernel, Yes, No, false, [];
    OutOfMemory = "D12", out_of_memory, 10, None, One, false, false, OfRelist, Yes, "out of memory", Cause, Runtime, Yes, No, false, [ExplainsSlowList];
    CpuStarved = "D13", cpu_starved, 13, None, One, false, false, OfRelist, Yes, "cpu starved", Cause, Runtime, Yes, No, false, [ExplainsSlowList];
    ExhaustedLimits = "D14", exhausted_limits, 11, None, One, false, false, OfRelist, Yes, "limits exhausted", Cause, Runtime, Yes, Starts, false, [];
    StuckSystemd = "D15", stuck_systemd, 12, None, One, false, false, OfRelist, Yes, "systemd stuck", Cause, Runtime, Yes, No, false, [];
    NetworkNotReady = "D16", network_not_ready, 24, None, One, false, false, OfRelist, Yes, "network not ready", Symptom, Network, Yes, StartsIfCall, true, [];
    ExecStorm = "D17", exec_storm, 25, None, One, false, false, OfRelist, Yes, "exec probe storm", Cause, Runtime, No, No, false, [];
    ReservedName = "D18", reserved_name, 23, None, One, false, false, OfRelist, Yes, "name reserved", Cause, Runtime, Yes, No, false, [];
    InconsistentState = "D19", inconsistent_state, 27, List, One, false, false, OfRelist, IfStuck, "state inconsistent", Symptom, Runtime, Yes, No, false, [];
    FailingStatus = "D20", failing_status, 26, Status, One, false, false, OfRelist, Yes, "status fails", Symptom, Runtime, Yes, No, false, [];
    RecoveringRuntime = "D21", recovering_runtime, 0, None, One, false, false, OfRelist, UnlessRestoring, "runtime recovering", Cause, Runtime, Yes, No, false, [];
    StaleKubelet = "D22", stale_kubelet, 28, Kubelet, One, false, false, NoSync, IfStuck, "kubelet stale", Symptom, Kubelet, Yes, Yes, false, [KubeletStacksHelp];
    EventedPleg = "D23", evented_pleg, 32, Kubelet, One, false, false, OfRelist, Yes, "evented pleg", Cause, Runtime, Yes, No, false, [];
    NeverRelisted = "D24", never_relisted, 30, Kubelet, One, false, false, OfRelist, Yes, "never relisted", Symptom, Runtime, Yes, No, false, [];
    FlappingPleg = "D25", flapping_pleg, 33, Kubelet, One, false, false, OfRelist, Yes, "pleg flaps", Symptom, Runtime, Yes, No, false, [];
    WatchdogRestarts = "D26", watchdog_restarts, 34, Kubelet, One, false, false, OfRelist, Yes, "watchdog restarts", Symptom, Runtime, Yes, No, false, [];
    KnownBadVersion = "D27", known_bad_version, 35, None, Many, false, false, OfRelist, Yes, "known bad version", Nothing, Runtime, No, No, false, [];
    HiddenStall = "D28", hidden_stall, 31, Status, One, false, false, OfRelist, Yes, "hidden stall", Symptom, Runtime, No, No, false, [];
    FailingList = "D29", failing_list, 17, List, One, false, false, OfRelist, Yes, "list fails", Symptom, Runtime, Yes, No, false, [];
    SlowLists = "D30", slow_lists, 22, List, AfterOthers, false, false, OfRelist, Yes, "lists slow", Symptom, Runtime, Yes, No, false, [IsAboutRelists];
    RuntimeNotReady = "D31", runtime_not_ready, 18, None, One, true, false, NoRuntime, Yes, "runtime not ready", Symptom, Runtime, Yes, Yes, false, [];
    KubeletDown = "D32", kubelet_down, 29, Kubelet, One, true, false, NoKubelet, IfStuck, "kubelet down", Symptom, Kubelet, Yes, Yes, false, [];
    LostExit = "D33", lost_exit, 14, Status, One, false, false, OfRelist, Yes, "exit lost", Symptom, Runtime, No, No, false, [];
    FullDisk = "D34", full_disk, 9, None, One, false, false, OfRelist, Yes, "disk full", Cause, Runtime, Yes, Starts, false, [];
    ThrottledRuntime = "D35", throttled_runtime, 2, None, One, false, false, OfRelist, Yes, "runtime throttled", Cause, Runtime, Yes, No, false, [ExplainsSlowList];
    InvalidCertificate = "D36", invalid_certificate, 37, Kubelet, Many, false, false, OfRelist, Yes, "certificate invalid", Nothing, Runtime, Yes, No, false, [];
    KernelWait = "D37", kernel_wait, 5, None, Many, false, false, OfRelist, KernelShowsMore, "kernel wait", Cause, Kernel, Yes, No, true, [];
    LeftOverShims = "D38", left_over_shims, 38, None, One, false, false, OfRelist, No, "left-over shims", Nothing, Runtime, No, No, false, [];
    ManyClients = "D39", many_clients, 39, None, One, false, false, OfRelist, Yes, "many clients", Nothing, Runtime, No, No, false, [];
    LargeDaemon = "D40", large_daemon, 40, None, Many, false, false, OfRelist, Yes, "a large daemon", Nothing, Runtime, No, No, false, [];
    ReadyAndDead = "D41", ready_and_dead, 41, Kubelet, One, true, false, StaysReady, IfStuck, "ready and dead", Symptom, Kubelet, Yes, No, false, [KubeletStacksHelp];
    ExitedButAlive = "D42", exited_but_alive, 42, None, Many, false, false, OfRelist, No, "exited but alive", Symptom, Runtime, Yes, No, false, [];
    UnaryFallback = "D43", unary_fallback, 43, List, One, false, false, OfRelist, No, "unary fallback", Cause, Runtime, No, No, false, [IsAboutRelists];
    StuckWorkers = "D44", stuck_workers, 44, Kubelet, AfterOthers, false, false, StaysReady, Yes, "pod workers wait", Symptom, Runtime, Yes, No, false, [];
    FailingPods = "D45", failing_pods, 45, None, Many, false, false, OfRelist, No, "creates or deletes fail", Cause, Runtime, AsLogged, No, false, [];
    ApproachingLimit = "D46", approaching_limit, 46, None, Many, false, false, OfRelist, No, "limit forecast", Nothing, Runtime, No, No, false, [];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_panics_does_not_affect_other_rules() {
        let evidence = Evidence::default();
        let case = Case::new(&evidence);
        let works = RuleFunction::One(|case| Some(nothing_found::find(case)));
        let fails = RuleFunction::Many(|_| panic!("a bug in the rule"));
        let rules = [(RuleId::HungStatus, works), (RuleId::HungList, fails), (RuleId::LargeList, works)];
        let (found, failed) = findings_of(rules.into_iter(), &case);
        assert_eq!(found.len(), 2);
        assert_eq!(failed, [(RuleId::HungList, "a bug in the rule".to_owned())]);
    }
}
