//! The severity of a finding.

use serde::{Deserialize, Serialize};

/// The severity of a finding. The most severe level is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; nothing is wrong.
    Info,
    /// Someone should look at it.
    Warning,
    /// The kubelet rejects, ignores or stops a manifest.
    Error,
    /// The node is affected or will soon be.
    Critical,
}

impl Severity {
    /// The name in JSON and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}
