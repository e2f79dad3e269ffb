//! The columns of the catalogue, whose rows are in `mod.rs`: everything in which the rules of `health` differ. The texts, which
//! `explain` and the documents show, are in a file beside the rule's code.
//!
//! A rule without a row does not compile, and neither does a row without one of the columns. No other code may decide by the
//! id of a rule.

use std::sync::LazyLock;

use super::{Case, RuleId, row};
use crate::diagnosis::pod_holders::report::HolderKind;
use crate::diagnosis::report::{HealthFinding, Phase};
use crate::report::Rule;

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
    (@function $file:ident $kind:ident) => { RuleFunction::$kind($file::find) };
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
pub(super) use rows;

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

    /// Returns the texts of the files in a folder of the diagnosis that are about single rules.
    fn texts(folder: &str) -> impl Iterator<Item = String> {
        let folder = format!("{}/../../src/diagnosis/{folder}", env!("CARGO_MANIFEST_DIR"));
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let shared = ["mod.rs", "catalogue.rs"];
        let of_rules = paths.filter(move |path| !shared.iter().any(|name| path.ends_with(name)));
        of_rules.map(|path| std::fs::read_to_string(path).unwrap())
    }

    /// The tests of a rule are found by its name: `grep -rl RuleId::HungList src/diagnosis`.
    #[test]
    fn every_rule_has_a_test_of_its_own() {
        let at_the_end = |text: String| Some(text.split_once("#[cfg(test)]")?.1.to_owned());
        let tests: String = texts("tests").chain(texts("rules").filter_map(at_the_end)).collect();
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
