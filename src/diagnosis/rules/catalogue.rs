//! The catalogue of the rules of `health`: one row for each, with everything in which rules differ. The texts, which `explain`
//! and the documents show, are in `rules.txt`.
//!
//! A rule without a row does not compile, and neither does a row without one of the columns. No other code may decide by the
//! id of a rule.

#[cfg(feature = "cli")]
use std::sync::LazyLock;

use super::{
    Case, certificates, clients, disk, growth, hang, journal, kernel, kubelet, load, node, pods, reach,
    shims, size, state, versions,
};
#[cfg(feature = "cli")]
use crate::diagnosis::pod_holders::report::HolderKind;
use crate::diagnosis::report::{HealthFinding, Phase, RuleId};
#[cfg(feature = "cli")]
use crate::report::Rule;

/// One row of the catalogue.
pub struct HealthRule {
    /// The rule's id.
    pub id: RuleId,
    /// The rank in the chain of causes: a rule with a lower rank explains one with a higher rank.
    pub rank: u8,
    /// The phase of the rule's findings; `Phase::None` if they have none or it differs between them.
    pub phase: Phase,
    /// The rule's function.
    pub function: RuleFunction,
    /// Whether a critical finding of this rule makes the node unhealthy by itself. The findings of the other rules do so only
    /// if relists fail or take too long because of what they found.
    pub makes_unhealthy: bool,
    /// What the finding means for the pods of the node.
    pub impact: Impact,
    /// Whether the goroutine stacks of the runtime may show more.
    pub stacks: StacksHelp,
    /// Further properties.
    pub traits: Traits,
    /// What only the screens show.
    #[cfg(feature = "cli")]
    pub screen: ScreenColumns,
}

/// What only the screens show of a rule.
#[cfg(feature = "cli")]
#[derive(Clone, Copy)]
pub struct ScreenColumns {
    /// Two or three words for node-problem-detector, the same in every run.
    pub words: &'static str,
    /// What the confidence of a finding is about.
    pub confidence_is_of: ConfidenceIsOf,
    /// What a finding about a pod keeps from starting or ending.
    pub holds: Holds,
    /// Whether a process may hang that no call shows, so that a possible finding is always on the short screen.
    pub may_hang: bool,
    /// Whether the rule reports a call or a runtime that is silent. Then a likely finding differs from a certain one only in
    /// the length of the silence.
    pub finds_silence: bool,
}

/// What a finding means for the pods of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impact {
    /// The pods run on, and after the node is `NotReady`, none starts or ends.
    OfRelist,
    /// The kubelet does no work for any pod.
    NoSync,
    /// No kubelet runs.
    NoKubelet,
    /// The kubelet reports that the runtime is down.
    NoRuntime,
    /// The node stays Ready although no pod starts or ends.
    StaysReady,
}

/// Whether the goroutine stacks of the runtime may show more about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StacksHelp {
    /// They may.
    Yes,
    /// Nothing listens, there is too much to list, or the runtime does not know the processes concerned.
    No,
    /// The kubelet is the cause, unless a call hangs.
    IfStuck,
    /// CRI-O gives no stacks before it has restored its containers.
    UnlessRestoring,
    /// Many quick calls wait for nothing.
    IfCallsAreSlow,
    /// No goroutine shows why a process is stopped.
    UnlessStopped,
    /// The kernel shows why a task waits, and the runtime does not.
    KernelShowsMore,
}

/// What the confidence of a finding is about.
#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfidenceIsOf {
    /// The finding is neither a symptom nor a cause.
    Nothing,
    /// The symptom: its cause is not proven.
    Symptom,
    /// An estimate of a relist, unless the finding is certain.
    Estimate,
    /// The cause.
    Cause,
}

/// What a finding keeps from starting or ending, for `pods --why`.
#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// By what a finding about a pod holds it.
    pub kind: HolderKind,
    /// Whether a finding about a pod holds it.
    pub own: OwnPod,
    /// Whether a finding that is not about the pod holds it.
    pub every: EveryPod,
}

/// Whether a finding about a pod holds this pod.
#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPod {
    /// It does not; it is only worth knowing.
    No,
    /// It does.
    Yes,
    /// It does, unless the look at the pod has found a wait in the kernel, of which the look knows more.
    UnlessWaitIsFound,
}

/// Whether a finding holds every pod of the node.
#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EveryPod {
    /// No pod but its own.
    No,
    /// Every pod that starts or ends.
    Yes,
    /// Every pod, while the finding has a phase. Without one, the problem is over.
    WhileItLasts,
    /// Every pod that starts.
    Starts,
    /// Every pod that starts, if a call shows the problem. Otherwise the finding is about another pod.
    StartsIfCall,
}

/// Properties that few rules have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// A slow list needs no other explanation (D30).
    pub explains_slow_list: bool,
    /// The finding is about the duration of a relist, so a relist that is quick enough keeps the node Ready.
    pub is_about_relists: bool,
    /// The goroutine stacks of the kubelet may show more.
    pub kubelet_stacks_help: bool,
}

#[cfg(feature = "cli")]
impl HealthRule {
    /// Returns the rule's texts.
    pub fn rule(&self) -> &'static Rule {
        const TEXTS: &str = include_str!("rules.txt");
        static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| Rule::table(TEXTS));
        let id = self.id.to_string();
        RULES.iter().find(|rule| rule.id == id).unwrap_or(Rule::MISSING)
    }
}

impl Traits {
    const NONE: Self =
        Self { explains_slow_list: false, is_about_relists: false, kubelet_stacks_help: false };

    const fn explains_slow_list(self) -> Self {
        Self { explains_slow_list: true, ..self }
    }

    const fn is_about_relists(self) -> Self {
        Self { is_about_relists: true, ..self }
    }

    const fn kubelet_stacks_help(self) -> Self {
        Self { kubelet_stacks_help: true, ..self }
    }
}

/// Applies one rule.
#[derive(Clone, Copy)]
pub enum RuleFunction {
    /// The rule has at most one finding.
    One(fn(&Case<'_>) -> Option<HealthFinding>),
    /// The rule has a finding for each item concerned.
    Many(fn(&Case<'_>) -> Vec<HealthFinding>),
    /// The rule needs the findings of the others, so `rules::apply` calls it after them.
    AfterOthers,
}

impl RuleFunction {
    /// Returns the rule's findings.
    pub fn apply(self, case: &Case<'_>) -> Vec<HealthFinding> {
        match self {
            Self::One(function) => function(case).into_iter().collect(),
            Self::Many(function) => function(case),
            Self::AfterOthers => Vec::new(),
        }
    }
}

/// Returns the row of a rule.
pub const fn row(id: RuleId) -> HealthRule {
    rows(id)
}

/// Returns all rows, by id.
pub fn catalogue() -> impl Iterator<Item = HealthRule> {
    RuleId::ALL.into_iter().map(row)
}

/// Returns the rules that report a problem in one of these phases: silence, or something else.
#[cfg(feature = "cli")]
pub fn rules_about(phases: &[Phase], silence: bool) -> Vec<RuleId> {
    let fits = |row: &HealthRule| row.screen.finds_silence == silence && phases.contains(&row.phase);
    catalogue().filter(fits).map(|row| row.id).collect()
}

use RuleFunction::{AfterOthers, Many, One};

/// Makes the function that returns the row of each rule.
macro_rules! rows {
    ($($id:ident, $rank:literal, $phase:ident, $function:expr, $unhealthy:literal, $silence:literal, $impact:ident, $stacks:ident,
       $words:literal, $confidence:ident, $kind:ident, $own:ident, $every:ident, $may_hang:literal,
       [$($trait:ident),*];)*) => {
        const fn rows(id: RuleId) -> HealthRule {
            match id {
                $(RuleId::$id => HealthRule {
                    id,
                    rank: $rank,
                    phase: Phase::$phase,
                    function: $function,
                    makes_unhealthy: $unhealthy,
                    impact: Impact::$impact,
                    stacks: StacksHelp::$stacks,
                    traits: Traits::NONE$(.$trait())*,
                    #[cfg(feature = "cli")]
                    screen: ScreenColumns {
                        words: $words,
                        confidence_is_of: ConfidenceIsOf::$confidence,
                        holds: Holds { kind: HolderKind::$kind, own: OwnPod::$own, every: EveryPod::$every },
                        may_hang: $may_hang,
                        finds_silence: $silence,
                    },
                },)*
            }
        }
    };
}

#[rustfmt::skip]
rows! {
    // Rule, rank, phase, function; makes unhealthy, finds silence, impact, whether stacks help; words, what the confidence is of; what holds a
    // pod, whether it holds its own pod, and which others; whether a process may hang
    // that no call shows; traits.
    NothingFound, 36, None, AfterOthers, false, false, OfRelist, Yes, "healthy", Nothing, Runtime, Yes, No, false, [];
    HungStatus, 19, Status, One(hang::status_hangs), false, true, OfRelist, Yes, "status hang", Symptom, Runtime, Yes, No, false, [];
    HungList, 16, List, One(hang::list_hangs), false, true, OfRelist, Yes, "list hang", Symptom, Runtime, Yes, Yes, false, [explains_slow_list];
    LargeList, 4, List, One(size::too_large), false, false, OfRelist, No, "list too large", Cause, Runtime, Yes, No, false, [explains_slow_list];
    DeadContainers, 21, List, One(size::backlog), false, false, OfRelist, No, "dead containers", Nothing, Runtime, No, No, false, [explains_slow_list, is_about_relists];
    SlowStatuses, 20, Status, One(size::slow_pass), false, false, OfRelist, IfCallsAreSlow, "slow status pass", Estimate, Runtime, No, No, false, [explains_slow_list, is_about_relists];
    UnreachableRuntime, 1, Connect, One(reach::unreachable), false, false, OfRelist, No, "runtime unreachable", Symptom, Runtime, Yes, Yes, false, [];
    SilentRuntime, 3, Connect, One(reach::silent), true, true, OfRelist, Yes, "runtime silent", Symptom, Runtime, Yes, WhileItLasts, false, [explains_slow_list];
    StorageStall, 8, None, One(node::storage), false, false, OfRelist, Yes, "storage stall", Cause, Runtime, Yes, No, false, [explains_slow_list];
    RemoteStorageStall, 6, None, One(node::remote), false, false, OfRelist, Yes, "remote storage stall", Cause, Kernel, UnlessWaitIsFound, No, false, [];
    HungProcess, 15, None, Many(node::blocking_processes), false, false, OfRelist, UnlessStopped, "shim or runc hang", Cause, Runtime, Yes, No, true, [];
    FrozenCgroup, 7, None, Many(node::frozen), false, false, OfRelist, Yes, "frozen cgroup", Cause, Kernel, Yes, No, false, [];
    OutOfMemory, 10, None, One(load::memory), false, false, OfRelist, Yes, "out of memory", Cause, Runtime, Yes, No, false, [explains_slow_list];
    CpuStarved, 13, None, One(load::cpu), false, false, OfRelist, Yes, "cpu starved", Cause, Runtime, Yes, No, false, [explains_slow_list];
    ExhaustedLimits, 11, None, One(load::exhausted), false, false, OfRelist, Yes, "limits exhausted", Cause, Runtime, Yes, Starts, false, [];
    StuckSystemd, 12, None, One(load::systemd), false, false, OfRelist, Yes, "systemd stuck", Cause, Runtime, Yes, No, false, [];
    NetworkNotReady, 24, None, One(state::network), false, false, OfRelist, Yes, "network not ready", Symptom, Network, Yes, StartsIfCall, true, [];
    ExecStorm, 25, None, One(load::execs), false, false, OfRelist, Yes, "exec probe storm", Cause, Runtime, No, No, false, [];
    ReservedName, 23, None, One(journal::reserved), false, false, OfRelist, Yes, "name reserved", Cause, Runtime, Yes, No, false, [];
    InconsistentState, 27, List, One(state::inconsistent), false, false, OfRelist, IfStuck, "state inconsistent", Symptom, Runtime, Yes, No, false, [];
    FailingStatus, 26, Status, One(state::failing_status), false, false, OfRelist, Yes, "status fails", Symptom, Runtime, Yes, No, false, [];
    RecoveringRuntime, 0, None, One(journal::recovering), false, false, OfRelist, UnlessRestoring, "runtime recovering", Cause, Runtime, Yes, No, false, [];
    StaleKubelet, 28, Kubelet, One(kubelet::stale), false, false, NoSync, IfStuck, "kubelet stale", Symptom, Kubelet, Yes, Yes, false, [kubelet_stacks_help];
    EventedPleg, 32, Kubelet, One(kubelet::evented), false, false, OfRelist, Yes, "evented pleg", Cause, Runtime, Yes, No, false, [];
    NeverRelisted, 30, Kubelet, One(journal::never_relisted), false, false, OfRelist, Yes, "never relisted", Symptom, Runtime, Yes, No, false, [];
    FlappingPleg, 33, Kubelet, One(journal::flapping), false, false, OfRelist, Yes, "pleg flaps", Symptom, Runtime, Yes, No, false, [];
    WatchdogRestarts, 34, Kubelet, One(journal::watchdog), false, false, OfRelist, Yes, "watchdog restarts", Symptom, Runtime, Yes, No, false, [];
    KnownBadVersion, 35, None, Many(versions::known_bad), false, false, OfRelist, Yes, "known bad version", Nothing, Runtime, No, No, false, [];
    HiddenStall, 31, Status, One(hang::hidden_stall), false, false, OfRelist, Yes, "hidden stall", Symptom, Runtime, No, No, false, [];
    FailingList, 17, List, One(reach::list_fails), false, false, OfRelist, Yes, "list fails", Symptom, Runtime, Yes, No, false, [];
    SlowLists, 22, List, AfterOthers, false, false, OfRelist, Yes, "lists slow", Symptom, Runtime, Yes, No, false, [is_about_relists];
    RuntimeNotReady, 18, None, One(state::not_ready), true, false, NoRuntime, Yes, "runtime not ready", Symptom, Runtime, Yes, Yes, false, [];
    KubeletDown, 29, Kubelet, One(kubelet::absent), true, false, NoKubelet, IfStuck, "kubelet down", Symptom, Kubelet, Yes, Yes, false, [];
    LostExit, 14, Status, One(state::lost_exit), false, false, OfRelist, Yes, "exit lost", Symptom, Runtime, No, No, false, [];
    FullDisk, 9, None, One(disk::full), false, false, OfRelist, Yes, "disk full", Cause, Runtime, Yes, Starts, false, [];
    ThrottledRuntime, 2, None, One(load::throttled), false, false, OfRelist, Yes, "runtime throttled", Cause, Runtime, Yes, No, false, [explains_slow_list];
    InvalidCertificate, 37, Kubelet, Many(certificates::invalid), false, false, OfRelist, Yes, "certificate invalid", Nothing, Runtime, Yes, No, false, [];
    KernelWait, 5, None, Many(kernel::reasons), false, false, OfRelist, KernelShowsMore, "kernel wait", Cause, Kernel, Yes, No, true, [];
    LeftOverShims, 38, None, One(shims::left_over), false, false, OfRelist, No, "left-over shims", Nothing, Runtime, No, No, false, [];
    ManyClients, 39, None, One(clients::many), false, false, OfRelist, Yes, "many clients", Nothing, Runtime, No, No, false, [];
    LargeDaemon, 40, None, Many(growth::too_large), false, false, OfRelist, Yes, "a large daemon", Nothing, Runtime, No, No, false, [];
    ReadyAndDead, 41, Kubelet, One(pods::ready_and_dead), true, false, StaysReady, IfStuck, "ready and dead", Symptom, Kubelet, Yes, No, false, [kubelet_stacks_help];
    ExitedButAlive, 42, None, Many(state::exited_but_alive), false, false, OfRelist, No, "exited but alive", Symptom, Runtime, Yes, No, false, [];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_has_one_row_and_every_rank_one_id() {
        let names: Vec<String> = catalogue().map(|row| row.id.to_string()).collect();
        let wanted: Vec<String> = (0..names.len()).map(|number| format!("D{number:02}")).collect();
        assert_eq!(names, wanted);
        assert!(catalogue().all(|row| row.rule().id == row.id.to_string()));
        let ranks: BTreeSet<u8> = catalogue().map(|row| row.rank).collect();
        assert_eq!(ranks.len(), names.len());
    }

    #[test]
    fn every_rule_has_all_texts() {
        for row in catalogue() {
            let rule = row.rule();
            let parts = [rule.confirm, rule.never, rule.act];
            assert!(parts.iter().all(|lines| !lines.is_empty()), "{}", rule.id);
            let texts = [rule.title, rule.means, rule.shows];
            let all = parts.into_iter().flatten().chain(&texts);
            assert!(
                all.into_iter()
                    .all(|text| !text.trim().is_empty() && !text.contains("  ") || text.contains("   #")),
                "{}",
                rule.id
            );
        }
    }
}
