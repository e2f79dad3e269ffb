//! The catalogue of the rules of `health`: one row for each, with everything in which rules differ. The texts, which `explain`
//! and the documents show, are in a file beside the rule's code.
//!
//! A rule without a row does not compile, and neither does a row without one of the columns. No other code may decide by the
//! id of a rule.

use std::sync::LazyLock;

use super::Case;
use crate::diagnosis::pod_holders::report::HolderKind;
use crate::diagnosis::report::{HealthFinding, Phase};
use crate::report::{Rule, word_enum};

/// One row of the catalogue.
pub struct HealthRule {
    /// The rule's id.
    pub id: RuleId,
    /// The rank in the chain of causes: a rule with a lower rank explains one with a higher rank. No two rules have the same; one
    /// outside the chain takes the next free number.
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
    pub traits: &'static [Trait],
    /// The texts, which `explain` and the documents show: the content of the rule's file.
    pub texts: &'static str,
    /// Two or three words for node-problem-detector, the same in every run.
    pub words: &'static str,
    /// What the confidence of a finding is about.
    pub confidence_is_of: ConfidenceIsOf,
    /// By what a finding about a pod keeps it from starting or ending, for `pods --why`.
    pub holder: HolderKind,
    /// Whether a finding about a pod holds it.
    pub own: OwnPod,
    /// Whether a finding that is not about the pod holds it.
    pub every: EveryPod,
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

/// Whether a finding about a pod holds this pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPod {
    /// It does not; it is only worth knowing.
    No,
    /// It does.
    Yes,
    /// It does, unless the look at the pod has found a wait in the kernel, of which the look knows more.
    UnlessWaitIsFound,
    /// It does, and the kubelet's errors about this pod say more than the finding.
    AsLogged,
}

/// Whether a finding holds every pod of the node.
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

/// A property that few rules have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// A slow list needs no other explanation (D30).
    ExplainsSlowList,
    /// The finding is about the duration of a relist, so a relist that is quick enough keeps the node Ready.
    IsAboutRelists,
    /// The goroutine stacks of the kubelet may show more.
    KubeletStacksHelp,
}

impl HealthRule {
    /// Returns the rule's texts.
    pub fn rule(&self) -> &'static Rule {
        static RULES: LazyLock<Vec<Rule>> =
            LazyLock::new(|| catalogue().flat_map(|row| Rule::table(row.texts)).collect());
        let id = self.id.to_string();
        RULES.iter().find(|rule| rule.id == id).unwrap_or(Rule::MISSING)
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

/// Returns all rows, by id.
pub fn catalogue() -> impl Iterator<Item = HealthRule> {
    RuleId::ALL.into_iter().map(row)
}

/// Returns the rules that report a problem in one of these phases: silence, or something else.
pub fn rules_about(phases: &[Phase], silence: bool) -> Vec<RuleId> {
    let fits = |row: &HealthRule| row.finds_silence == silence && phases.contains(&row.phase);
    catalogue().filter(fits).map(|row| row.id).collect()
}

/// Defines the rules, and the function that returns the row of each.
macro_rules! rows {
    (@function $file:ident AfterOthers) => { RuleFunction::AfterOthers };
    (@function $file:ident $kind:ident) => { RuleFunction::$kind(super::$file::find) };
    ($($id:ident = $word:literal, $file:ident, $rank:literal, $phase:ident, $function:ident, $unhealthy:literal, $silence:literal, $impact:ident, $stacks:ident,
       $words:literal, $confidence:ident, $kind:ident, $own:ident, $every:ident, $may_hang:literal,
       [$($trait:ident),*];)*) => {
        word_enum! {
            /// A rule of the catalogue. Its word is the id that users see.
            #[derive(PartialOrd, Ord, Hash)]
            #[expect(missing_docs, reason = "the title of each is in its file in `rules/`")]
            pub json enum RuleId: as_str { $($id = $word,)* } ALL
        }

        /// Returns the row of a rule.
        pub const fn row(id: RuleId) -> HealthRule {
            match id {
                $(RuleId::$id => HealthRule {
                    id,
                    rank: $rank,
                    phase: Phase::$phase,
                    function: rows!(@function $file $function),
                    makes_unhealthy: $unhealthy,
                    impact: Impact::$impact,
                    stacks: StacksHelp::$stacks,
                    traits: &[$(Trait::$trait),*],
                    texts: include_str!(concat!(stringify!($file), ".txt")),
                    words: $words,
                    confidence_is_of: ConfidenceIsOf::$confidence,
                    holder: HolderKind::$kind,
                    own: OwnPod::$own,
                    every: EveryPod::$every,
                    may_hang: $may_hang,
                    finds_silence: $silence,
                },)*
            }
        }
    };
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

    /// The tests of a rule are found by its name: `grep -rl RuleId::HungList src/diagnosis/tests`.
    #[test]
    fn every_rule_has_a_test_of_its_own() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/diagnosis/tests");
        let files = std::fs::read_dir(folder).unwrap();
        let tests: String =
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        for id in RuleId::ALL {
            let name = format!("RuleId::{id:?}");
            let is_named = tests.match_indices(&name).any(|(at, _)| {
                !tests[at + name.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
            });
            assert!(is_named, "no test names {name} ({id})");
        }
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
