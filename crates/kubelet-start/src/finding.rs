//! A finding of `preflight`: a problem of the settings or the node, the setting with its file and line, and the message
//! with which the kubelet would refuse to start.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::catalogue::StartCheck;
use super::node_facts::CertificateUse;
use super::settings::Origin;
use plegctl_base::report::rename::{Rename, without_names};
use plegctl_base::report::{Confidence, Places, Severity, TextTable};

/// One finding.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Text(title, message, field, kubelet_reason, fix), NodePath(file))]
pub struct StartFinding {
    /// The check.
    pub id: StartCheck,
    /// The check's title.
    pub title: Cow<'static, str>,
    /// The severity.
    pub severity: Severity,
    /// How sure plegctl is of the finding.
    pub confidence: Confidence,
    /// The problem, in plain words.
    pub message: String,
    /// The path of the field, or the flag with its dashes.
    pub field: Option<String>,
    /// The file.
    pub file: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<u32>,
    /// The column in the line, in characters, from 1.
    pub column: Option<u32>,
    /// The kubelet's own message, as far as it is known.
    pub kubelet_reason: Option<String>,
    /// What the user can do about the problem.
    pub fix: Option<String>,
    /// Whether the problem is the kubelet's default for a setting.
    #[serde(skip)]
    pub rests_on_default: bool,
}

impl StartFinding {
    /// Creates a certain finding with the texts of a row of `findings.txt`.
    pub fn of(row: &str, places: &Places<'_>) -> Self {
        static TABLE: LazyLock<TextTable> = LazyLock::new(|| TextTable::read(include_str!("findings.txt")));
        let texts = TABLE.filled(row, places);
        // A test makes sure that each id is that of a check.
        let finding =
            Self::new(StartCheck::named(texts.id).unwrap_or(StartCheck::ValueRefused), texts.message);
        Self {
            severity: texts.severity.unwrap_or(finding.severity),
            confidence: texts.confidence.unwrap_or(Confidence::Certain),
            kubelet_reason: texts.reason,
            fix: texts.fix,
            ..finding
        }
    }

    /// Creates a finding about a flag with the texts of a row of `findings.txt`.
    pub fn of_flag(flag: &str, row: &str, places: &Places<'_>) -> Self {
        Self::of(row, places).at(&Origin::Flag(flag.to_owned()))
    }

    /// Creates a certain finding with the check's usual severity.
    pub fn new(check: StartCheck, message: impl Into<String>) -> Self {
        let row = check.row();
        Self {
            id: check,
            title: row.rule.title.into(),
            severity: row.severity,
            confidence: Confidence::Certain,
            message: message.into(),
            field: None,
            file: None,
            line: None,
            column: None,
            kubelet_reason: None,
            fix: None,
            rests_on_default: false,
        }
    }

    /// Adds the flag, or the file with line and column, that sets the value.
    #[must_use]
    pub fn at(mut self, origin: &Origin) -> Self {
        match origin {
            Origin::Flag(name) => self.field = Some(format!("--{name}")),
            Origin::File { file, position } => {
                self.file = Some(file.to_string());
                self.line = Some(position.line);
                self.column = Some(position.column);
            }
            Origin::Default => self.rests_on_default = true,
        }
        self
    }

    /// Adds the path of the field, unless the finding already names a flag.
    #[must_use]
    pub fn on(mut self, field: &str) -> Self {
        self.field.get_or_insert_with(|| field.to_owned());
        self
    }

    /// Adds the kubelet's message.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.kubelet_reason = Some(reason.into());
        self
    }

    /// Adds a fix.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Changes the severity.
    #[must_use]
    pub const fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Changes the confidence.
    #[must_use]
    pub const fn with_confidence(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }
}

without_names! { CertificateUse StartCheck }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table_has_the_id_of_a_check() {
        for row in include_str!("findings.txt").split("\n\n").skip(1) {
            let id = row.split_whitespace().nth(1).unwrap();
            assert!(StartCheck::named(id).is_some(), "{row}");
        }
    }
}
