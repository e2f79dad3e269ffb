//! All rule ids that plegctl prints, from every catalogue.

use crate::diagnosis::rules::CATALOGUE;
use crate::manifests::Check;
use crate::manifests::preflight::StartCheck;
use crate::report::{Rule, Severity};
use crate::stacks::signatures::rules;

/// One entry of a catalogue.
pub struct Entry {
    /// The rule's texts.
    pub rule: &'static Rule,
    /// The section and the severity of a check that can be ignored, and the command that does so.
    pub check: Option<IgnorableCheck>,
}

/// A check that a command can leave out.
pub struct IgnorableCheck {
    /// The section of the manual.
    pub section: &'static str,
    /// The usual severity.
    pub severity: Severity,
    /// The command.
    pub command: &'static str,
}

/// Returns all ids, for shell completion.
pub fn ids() -> impl Iterator<Item = String> {
    entries().into_iter().map(|entry| entry.rule.id.to_owned())
}

/// Returns all entries, catalogue by catalogue.
pub fn entries() -> Vec<Entry> {
    let bare = |rule| Entry { rule, check: None };
    let ignorable = |rule, section, severity, command| {
        let check = Some(IgnorableCheck { section, severity, command });
        Entry { rule, check }
    };
    let checks = Check::ALL.iter().map(|check| check.row());
    let checks = checks.map(|row| ignorable(&row.rule, row.section, row.severity, "static-pods lint"));
    let starts = StartCheck::ALL.iter().map(|check| check.row());
    let starts = starts.map(|row| ignorable(&row.rule, row.section, row.severity, "preflight"));
    CATALOGUE.iter().map(|row| &row.rule).chain(rules()).map(bare).chain(checks).chain(starts).collect()
}
