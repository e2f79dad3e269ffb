//! What a check says: one finding, with its catalogue id, its place in the file and what to do.

use serde::Serialize;

use super::catalogue::Check;
use super::tree::Position;
pub use crate::report::Severity;

/// One thing that a check has to say about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which check.
    pub id: Check,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong, in plain words.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The field, written like `spec.containers[0].image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in the line, in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl Finding {
    /// A finding without place, field or fix.
    pub fn new(check: Check, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            id: check,
            severity,
            message: message.into(),
            fix: None,
            field: None,
            line: None,
            column: None,
        }
    }

    /// An error of `check`.
    pub fn error(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Error, message)
    }

    /// A warning of `check`.
    pub fn warning(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, message)
    }

    /// An information of `check`.
    pub fn info(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Info, message)
    }

    /// The same finding, with what to do.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The same finding, about `field`.
    #[must_use]
    pub fn on_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same finding, at `position`.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.line = Some(position.line);
        self.column = Some(position.column);
        self
    }
}
