//! What a check says: one finding, with its catalogue id, its place in the file and what to do.

use std::fmt;

use serde::{Serialize, Serializer};

use super::tree::Position;
pub use crate::report::Severity;

/// A number of the check catalogue, printed as `SP053`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckId(u16);

impl CheckId {
    /// The check with this number.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number alone.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SP{:03}", self.0)
    }
}

impl Serialize for CheckId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing that a check has to say about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which check.
    pub id: CheckId,
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
    pub fn new(id: CheckId, severity: Severity, message: impl Into<String>) -> Self {
        Self { id, severity, message: message.into(), fix: None, field: None, line: None, column: None }
    }

    /// An error of check `id`.
    pub fn error(id: u16, message: impl Into<String>) -> Self {
        Self::new(CheckId::new(id), Severity::Error, message)
    }

    /// A warning of check `id`.
    pub fn warning(id: u16, message: impl Into<String>) -> Self {
        Self::new(CheckId::new(id), Severity::Warning, message)
    }

    /// An information of check `id`.
    pub fn info(id: u16, message: impl Into<String>) -> Self {
        Self::new(CheckId::new(id), Severity::Info, message)
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
