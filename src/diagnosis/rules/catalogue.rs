//! The catalogue of the rules of `health`: for each rule its function and its rank in the chain of causes. The texts, which
//! `explain` and the documents show, are in `rules.txt`.

#[cfg(feature = "cli")]
use std::sync::LazyLock;

use super::{
    Case, certificates, clients, disk, growth, hang, journal, kernel, kubelet, load, node, pods, reach,
    shims, size, state, versions,
};
use crate::diagnosis::report::{HealthFinding, RuleId};
#[cfg(feature = "cli")]
use crate::report::{Rule, packed::PackedText};

/// One entry of the catalogue.
pub struct HealthRule {
    /// The rule's id.
    pub id: RuleId,
    /// The rank in the chain of causes: a rule with a lower rank explains one with a higher rank.
    pub rank: u8,
    /// The rule's function.
    pub function: RuleFunction,
}

#[cfg(feature = "cli")]
impl HealthRule {
    /// Returns the rule's texts.
    pub fn rule(&self) -> &'static Rule {
        static TEXTS: PackedText = PackedText::new("diagnosis/rules/rules.txt");
        static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| Rule::table(TEXTS.get()));
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

/// Returns the entry of a rule.
pub fn row(id: RuleId) -> Option<&'static HealthRule> {
    CATALOGUE.iter().find(|row| row.id == id)
}

use RuleFunction::{AfterOthers, Many, One};

/// Makes an entry.
const fn entry(id: RuleId, rank: u8, function: RuleFunction) -> HealthRule {
    HealthRule { id, rank, function }
}

/// All entries, by id.
pub const CATALOGUE: &[HealthRule] = &[
    entry(RuleId::D00, 36, AfterOthers),
    entry(RuleId::D01, 19, One(hang::status_hangs)),
    entry(RuleId::D02, 16, One(hang::list_hangs)),
    entry(RuleId::D03, 4, One(size::too_large)),
    entry(RuleId::D04, 21, One(size::backlog)),
    entry(RuleId::D05, 20, One(size::slow_pass)),
    entry(RuleId::D06, 1, One(reach::unreachable)),
    entry(RuleId::D07, 3, One(reach::silent)),
    entry(RuleId::D08, 8, One(node::storage)),
    entry(RuleId::D09, 6, One(node::remote)),
    entry(RuleId::D10, 15, Many(node::blocking_processes)),
    entry(RuleId::D11, 7, Many(node::frozen)),
    entry(RuleId::D12, 10, One(load::memory)),
    entry(RuleId::D13, 13, One(load::cpu)),
    entry(RuleId::D14, 11, One(load::exhausted)),
    entry(RuleId::D15, 12, One(load::systemd)),
    entry(RuleId::D16, 24, One(state::network)),
    entry(RuleId::D17, 25, One(load::execs)),
    entry(RuleId::D18, 23, One(journal::reserved)),
    entry(RuleId::D19, 27, One(state::inconsistent)),
    entry(RuleId::D20, 26, One(state::failing_status)),
    entry(RuleId::D21, 0, One(journal::recovering)),
    entry(RuleId::D22, 28, One(kubelet::stale)),
    entry(RuleId::D23, 32, One(kubelet::evented)),
    entry(RuleId::D24, 30, One(journal::never_relisted)),
    entry(RuleId::D25, 33, One(journal::flapping)),
    entry(RuleId::D26, 34, One(journal::watchdog)),
    entry(RuleId::D27, 35, Many(versions::known_bad)),
    entry(RuleId::D28, 31, One(hang::hidden_stall)),
    entry(RuleId::D29, 17, One(reach::list_fails)),
    entry(RuleId::D30, 22, AfterOthers),
    entry(RuleId::D31, 18, One(state::not_ready)),
    entry(RuleId::D32, 29, One(kubelet::absent)),
    entry(RuleId::D33, 14, One(state::lost_exit)),
    entry(RuleId::D34, 9, One(disk::full)),
    entry(RuleId::D35, 2, One(load::throttled)),
    entry(RuleId::D36, 37, Many(certificates::invalid)),
    entry(RuleId::D37, 5, Many(kernel::reasons)),
    entry(RuleId::D38, 38, One(shims::left_over)),
    entry(RuleId::D39, 39, One(clients::many)),
    entry(RuleId::D40, 40, Many(growth::too_large)),
    entry(RuleId::D41, 41, One(pods::ready_and_dead)),
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
