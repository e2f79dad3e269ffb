//! How much a finding matters.

use serde::{Deserialize, Serialize};

/// How much a finding matters. The worse one is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; nothing is wrong.
    Info,
    /// Somebody should look.
    Warning,
    /// A manifest that the kubelet rejects, ignores or stops.
    Error,
    /// The node suffers from it, or is about to.
    Critical,
}

impl Severity {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}
