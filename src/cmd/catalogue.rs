//! Every id that this program prints, from each catalogue.

use crate::diagnosis::rules::CATALOGUE;
use crate::manifests::Check;
use crate::report::Rule;
use crate::stacks::signatures::rules;

/// One entry of any catalogue.
pub struct Entry {
    /// What is known of it.
    pub rule: &'static Rule,
    /// For a check of manifests: where it stands in the manual and how much it matters.
    pub check: Option<Check>,
}

/// The ids, for whoever completes one.
pub fn ids() -> impl Iterator<Item = String> {
    entries().into_iter().map(|entry| entry.rule.id.to_owned())
}

/// Every id that this program prints, catalogue by catalogue.
pub fn entries() -> Vec<Entry> {
    let bare = |rule| Entry { rule, check: None };
    let checks = Check::ALL.iter().map(|check| Entry { rule: &check.row().rule, check: Some(*check) });
    CATALOGUE.iter().map(|row| &row.rule).chain(rules()).map(bare).chain(checks).collect()
}
