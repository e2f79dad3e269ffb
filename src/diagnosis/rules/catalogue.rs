//! The catalogue of the rules of `health`: for each rule its function and its rank in the chain of causes. The texts, which
//! `explain` and the documents show, are in `rules.txt`.

use std::sync::LazyLock;

use super::{
    Case, certificates, clients, disk, hang, journal, kernel, kubelet, load, node, reach, shims, size, state,
    versions,
};
use crate::diagnosis::report::{HealthFinding, RuleId};
use crate::report::Rule;

/// One entry of the catalogue.
pub struct HealthRule {
    /// The rule's id.
    pub id: RuleId,
    /// Two or three words for node-problem-detector, the same in every run.
    pub phrase: &'static str,
    /// The rank in the chain of causes: a rule with a lower rank explains one with a higher rank.
    pub rank: u8,
    /// The rule's function.
    pub function: RuleFunction,
}

impl HealthRule {
    /// The rule's texts.
    pub fn rule(&self) -> &'static Rule {
        static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| Rule::table(include_str!("rules.txt")));
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
    /// The rule needs the findings of the others, so it is applied after them.
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

/// Returns the entry of a rule.
pub fn row(id: RuleId) -> Option<&'static HealthRule> {
    CATALOGUE.iter().find(|row| row.id == id)
}

use RuleFunction::{AfterOthers, Many, One};

/// Makes an entry.
const fn entry(id: RuleId, rank: u8, phrase: &'static str, function: RuleFunction) -> HealthRule {
    HealthRule { id, phrase, rank, function }
}

/// All entries, by id.
pub const CATALOGUE: &[HealthRule] = &[
    entry(RuleId::D00, 36, "healthy", AfterOthers),
    entry(RuleId::D01, 19, "status hang", One(hang::status_hangs)),
    entry(RuleId::D02, 16, "list hang", One(hang::list_hangs)),
    entry(RuleId::D03, 4, "list too large", One(size::too_large)),
    entry(RuleId::D04, 21, "dead containers", One(size::backlog)),
    entry(RuleId::D05, 20, "slow status pass", One(size::slow_pass)),
    entry(RuleId::D06, 1, "runtime unreachable", One(reach::unreachable)),
    entry(RuleId::D07, 3, "runtime silent", One(reach::silent)),
    entry(RuleId::D08, 8, "storage stall", One(node::storage)),
    entry(RuleId::D09, 6, "remote storage stall", One(node::remote)),
    entry(RuleId::D10, 15, "shim or runc hang", Many(node::blocking_processes)),
    entry(RuleId::D11, 7, "frozen cgroup", Many(node::frozen)),
    entry(RuleId::D12, 10, "out of memory", One(load::memory)),
    entry(RuleId::D13, 13, "cpu starved", One(load::cpu)),
    entry(RuleId::D14, 11, "limits exhausted", One(load::exhausted)),
    entry(RuleId::D15, 12, "systemd stuck", One(load::systemd)),
    entry(RuleId::D16, 24, "network not ready", One(state::network)),
    entry(RuleId::D17, 25, "exec probe storm", One(load::execs)),
    entry(RuleId::D18, 23, "name reserved", One(journal::reserved)),
    entry(RuleId::D19, 27, "state inconsistent", One(state::inconsistent)),
    entry(RuleId::D20, 26, "status fails", One(state::failing_status)),
    entry(RuleId::D21, 0, "runtime recovering", One(journal::recovering)),
    entry(RuleId::D22, 28, "kubelet stale", One(kubelet::stale)),
    entry(RuleId::D23, 32, "evented pleg", One(kubelet::evented)),
    entry(RuleId::D24, 30, "never relisted", One(journal::never_relisted)),
    entry(RuleId::D25, 33, "pleg flaps", One(journal::flapping)),
    entry(RuleId::D26, 34, "watchdog restarts", One(journal::watchdog)),
    entry(RuleId::D27, 35, "known bad version", Many(versions::known_bad)),
    entry(RuleId::D28, 31, "hidden stall", One(hang::hidden_stall)),
    entry(RuleId::D29, 17, "list fails", One(reach::list_fails)),
    entry(RuleId::D30, 22, "lists slow", AfterOthers),
    entry(RuleId::D31, 18, "runtime not ready", One(state::not_ready)),
    entry(RuleId::D32, 29, "kubelet down", One(kubelet::absent)),
    entry(RuleId::D33, 14, "exit lost", One(state::lost_exit)),
    entry(RuleId::D34, 9, "disk full", One(disk::full)),
    entry(RuleId::D35, 2, "runtime throttled", One(load::throttled)),
    entry(RuleId::D36, 37, "certificate invalid", Many(certificates::invalid)),
    entry(RuleId::D37, 5, "kernel wait", Many(kernel::reasons)),
    entry(RuleId::D38, 38, "left-over shims", One(shims::left_over)),
    entry(RuleId::D39, 39, "many clients", One(clients::many)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_has_one_row_and_every_rank_one_id() {
        let names: Vec<String> = CATALOGUE.iter().map(|row| row.id.to_string()).collect();
        let wanted: Vec<String> = (0..CATALOGUE.len()).map(|number| format!("D{number:02}")).collect();
        assert_eq!(names, wanted);
        assert!(CATALOGUE.iter().all(|row| row.rule().id == row.id.to_string()));
        let ranks: BTreeSet<u8> = CATALOGUE.iter().map(|row| row.rank).collect();
        assert_eq!(ranks.len(), CATALOGUE.len());
    }

    #[test]
    fn every_rule_has_all_texts() {
        for row in CATALOGUE {
            let rule = row.rule();
            let parts = [rule.confirm, rule.never, rule.act];
            assert!(parts.iter().all(|lines| !lines.is_empty()), "{}", rule.id);
            let texts = [row.phrase, rule.title, rule.means, rule.shows];
            let all = parts.into_iter().flatten().chain(&texts);
            assert!(
                all.into_iter()
                    .all(|text| !text.trim().is_empty() && !text.contains("  ") || text.contains("   #")),
                "{}",
                rule.id
            );
            assert!(row.phrase.is_ascii() && row.phrase.len() <= 24);
        }
    }
}
