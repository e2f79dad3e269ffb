//! A finding of `static-pods lint` about a file: the check's id, a message, the position in the file and a fix.

use std::sync::LazyLock;

use serde::Serialize;

use super::catalogue::Check;
use super::pod_field::PodField;
use plegctl_api_values::tree::Position;
pub use plegctl_base::report::Severity;
use plegctl_base::report::{Places, TextTable};

/// One finding about a file.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// The check that made the finding.
    pub id: Check,
    /// The severity.
    pub severity: Severity,
    /// The problem, in plain words.
    pub message: String,
    /// What the user can do about the problem.
    pub fix: Option<String>,
    /// The path of the field, such as `spec.containers[0].image`.
    pub field: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<u32>,
    /// The column in the line, in characters, from 1.
    pub column: Option<u32>,
}

impl LintFinding {
    /// Creates a finding with the texts of a row of `findings.txt`.
    pub(super) fn of(row: &str, places: &Places<'_>) -> Self {
        Self::of_refusal(row, places).0
    }

    /// Returns also the kubelet's message, as far as it is known.
    pub(super) fn of_refusal(row: &str, places: &Places<'_>) -> (Self, String) {
        static TABLE: LazyLock<TextTable> = LazyLock::new(|| TextTable::read(include_str!("findings.txt")));
        let texts = TABLE.filled(row, places);
        // A test makes sure that each id is that of a check.
        let finding = Self::new(Check::named(texts.id).unwrap_or(Check::NotJudged), texts.message);
        let severity = texts.severity.unwrap_or(finding.severity);
        (Self { severity, fix: texts.fix, ..finding }, texts.reason.unwrap_or_default())
    }

    /// Creates a finding with the severity of its check, without position, field or fix.
    pub fn new(check: Check, message: impl Into<String>) -> Self {
        Self {
            id: check,
            severity: check.row().severity,
            message: message.into(),
            fix: None,
            field: None,
            line: None,
            column: None,
        }
    }

    /// Adds a fix.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Adds the path of a field.
    #[must_use]
    pub fn on_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds the path and the position of a field.
    #[must_use]
    pub(super) fn about(self, at: &PodField<'_>) -> Self {
        self.on_field(at.path()).at(at.position())
    }

    /// Adds a position.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.line = Some(position.line);
        self.column = Some(position.column);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table_has_the_id_of_a_check() {
        for row in include_str!("findings.txt").split("\n\n").skip(1) {
            let id = row.split_whitespace().nth(1).unwrap();
            assert!(Check::named(id).is_some(), "{row}");
        }
    }
}
