//! How certain a finding is, and what was not checked.

use serde::{Deserialize, Serialize};

/// How certain a finding is. The most certain level is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The evidence itself is the fault.
    Certain,
    /// Two independent pieces of evidence agree.
    Likely,
    /// One circumstantial piece of evidence. This level never changes a verdict.
    Possible,
}

impl Confidence {
    /// The name in JSON and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// A check that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotChecked {
    /// The check.
    pub what: String,
    /// The reason.
    pub why: String,
}
