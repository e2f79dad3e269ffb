//! The catalogue of the rules of `health`: for each rule its function and its rank in the chain of causes. The texts, which
//! `explain` and the documents show, are in `rules.txt`.

#[cfg(feature = "cli")]
use std::sync::LazyLock;

use super::{
    Case, certificates, clients, disk, growth, hang, journal, kernel, kubelet, load, node, pods, reach,
    shims, size, state, versions,
};
use crate::diagnosis::report::{HealthFinding, Phase, RuleId};
#[cfg(feature = "cli")]
use crate::report::Rule;

/// One entry of the catalogue.
pub struct HealthRule {
    /// The rule's id.
    pub id: RuleId,
    /// The rank in the chain of causes: a rule with a lower rank explains one with a higher rank.
    pub rank: u8,
    /// The phase of the rule's findings; `Phase::None` if they have none or it differs between them.
    pub phase: Phase,
    /// The rule's function.
    pub function: RuleFunction,
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
const fn entry(id: RuleId, rank: u8, phase: Phase, function: RuleFunction) -> HealthRule {
    HealthRule { id, rank, phase, function }
}

/// All entries, by id.
pub const CATALOGUE: &[HealthRule] = &[
    entry(RuleId::D00, 36, Phase::None, AfterOthers),
    entry(RuleId::D01, 19, Phase::Status, One(hang::status_hangs)),
    entry(RuleId::D02, 16, Phase::List, One(hang::list_hangs)),
    entry(RuleId::D03, 4, Phase::List, One(size::too_large)),
    entry(RuleId::D04, 21, Phase::List, One(size::backlog)),
    entry(RuleId::D05, 20, Phase::Status, One(size::slow_pass)),
    entry(RuleId::D06, 1, Phase::Connect, One(reach::unreachable)),
    entry(RuleId::D07, 3, Phase::Connect, One(reach::silent)),
    entry(RuleId::D08, 8, Phase::None, One(node::storage)),
    entry(RuleId::D09, 6, Phase::None, One(node::remote)),
    entry(RuleId::D10, 15, Phase::None, Many(node::blocking_processes)),
    entry(RuleId::D11, 7, Phase::None, Many(node::frozen)),
    entry(RuleId::D12, 10, Phase::None, One(load::memory)),
    entry(RuleId::D13, 13, Phase::None, One(load::cpu)),
    entry(RuleId::D14, 11, Phase::None, One(load::exhausted)),
    entry(RuleId::D15, 12, Phase::None, One(load::systemd)),
    entry(RuleId::D16, 24, Phase::None, One(state::network)),
    entry(RuleId::D17, 25, Phase::None, One(load::execs)),
    entry(RuleId::D18, 23, Phase::None, One(journal::reserved)),
    entry(RuleId::D19, 27, Phase::List, One(state::inconsistent)),
    entry(RuleId::D20, 26, Phase::Status, One(state::failing_status)),
    entry(RuleId::D21, 0, Phase::None, One(journal::recovering)),
    entry(RuleId::D22, 28, Phase::Kubelet, One(kubelet::stale)),
    entry(RuleId::D23, 32, Phase::Kubelet, One(kubelet::evented)),
    entry(RuleId::D24, 30, Phase::Kubelet, One(journal::never_relisted)),
    entry(RuleId::D25, 33, Phase::Kubelet, One(journal::flapping)),
    entry(RuleId::D26, 34, Phase::Kubelet, One(journal::watchdog)),
    entry(RuleId::D27, 35, Phase::None, Many(versions::known_bad)),
    entry(RuleId::D28, 31, Phase::Status, One(hang::hidden_stall)),
    entry(RuleId::D29, 17, Phase::List, One(reach::list_fails)),
    entry(RuleId::D30, 22, Phase::List, AfterOthers),
    entry(RuleId::D31, 18, Phase::None, One(state::not_ready)),
    entry(RuleId::D32, 29, Phase::Kubelet, One(kubelet::absent)),
    entry(RuleId::D33, 14, Phase::Status, One(state::lost_exit)),
    entry(RuleId::D34, 9, Phase::None, One(disk::full)),
    entry(RuleId::D35, 2, Phase::None, One(load::throttled)),
    entry(RuleId::D36, 37, Phase::Kubelet, Many(certificates::invalid)),
    entry(RuleId::D37, 5, Phase::None, Many(kernel::reasons)),
    entry(RuleId::D38, 38, Phase::None, One(shims::left_over)),
    entry(RuleId::D39, 39, Phase::None, One(clients::many)),
    entry(RuleId::D40, 40, Phase::None, Many(growth::too_large)),
    entry(RuleId::D41, 41, Phase::Kubelet, One(pods::ready_and_dead)),
    entry(RuleId::D42, 42, Phase::None, Many(state::exited_but_alive)),
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
