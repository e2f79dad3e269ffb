//! Joins the catalogues of all commands: every rule, check and signature whose id plegctl can print.

use crate::diagnosis::kernel_waits::KernelWaitReason;
use crate::diagnosis::rules::catalogue;
use crate::manifests::Check;
use crate::manifests::preflight::StartCheck;
use crate::report::{Rule, Severity, most_similar};
use crate::stacks::signatures::rules;

/// One rule of a catalogue, and how a user can ignore it.
pub struct CatalogueEntry {
    /// The rule's texts.
    pub rule: &'static Rule,
    /// More about a check of `static-pods lint` or `preflight`; a rule of another command cannot be ignored.
    pub check: Option<IgnorableCheck>,
}

/// A check that a command leaves out if the user passes `--ignore`.
pub struct IgnorableCheck {
    /// The section of the command's documentation in which the check is listed.
    pub section: &'static str,
    /// The usual severity.
    pub severity: Severity,
    /// The command that accepts `--ignore` with this check's id.
    pub command: &'static str,
}

/// Returns all ids, for shell completion.
pub fn ids() -> impl Iterator<Item = String> {
    entries().into_iter().map(|entry| entry.rule.id.to_owned())
}

/// Returns all entries, catalogue by catalogue.
pub fn entries() -> Vec<CatalogueEntry> {
    let fixed = |rule| CatalogueEntry { rule, check: None };
    let ignorable = |rule, section, severity, command| {
        let check = Some(IgnorableCheck { section, severity, command });
        CatalogueEntry { rule, check }
    };
    let checks = Check::ALL.iter().map(|check| check.row());
    let checks = checks.map(|row| ignorable(row.rule, row.section, row.severity, "static-pods lint"));
    let starts = StartCheck::ALL.iter().map(|check| check.row());
    let starts = starts.map(|row| ignorable(row.rule, row.section, row.severity, "preflight"));
    let reasons = KernelWaitReason::all().iter().map(|reason| reason.rule);
    let health = catalogue().map(|row| row.rule()).chain(reasons);
    health.chain(rules()).map(fixed).chain(checks).chain(starts).collect()
}

/// Says that no check has the id `text`, and names the most similar one of the `ids`. Without one, names an `example`.
pub fn no_such_check(text: &str, ids: impl Iterator<Item = &'static str>, example: &str) -> String {
    match most_similar(&text.to_uppercase(), ids) {
        Some(near) => format!("there is no such check; did you mean {near}?"),
        None => format!("there is no such check; their names look like {example}"),
    }
}
