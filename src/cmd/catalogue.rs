//! All rule ids that plegctl prints, from every catalogue.

use crate::diagnosis::rules::CATALOGUE;
use crate::manifests::Check;
use crate::report::Rule;
use crate::stacks::signatures::rules;

/// One entry of a catalogue.
pub struct Entry {
    /// The rule's texts.
    pub rule: &'static Rule,
    /// The check behind an SP… id, for its section in the Kubernetes manual and its severity.
    pub check: Option<Check>,
}

/// Returns all ids, for shell completion.
pub fn ids() -> impl Iterator<Item = String> {
    entries().into_iter().map(|entry| entry.rule.id.to_owned())
}

/// Returns all entries, catalogue by catalogue.
pub fn entries() -> Vec<Entry> {
    let bare = |rule| Entry { rule, check: None };
    let checks = Check::ALL.iter().map(|check| Entry { rule: &check.row().rule, check: Some(*check) });
    CATALOGUE.iter().map(|row| &row.rule).chain(rules()).map(bare).chain(checks).collect()
}
