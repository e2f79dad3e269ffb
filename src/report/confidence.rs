//! How sure a judgement is, and what nobody looked at.

use serde::{Deserialize, Serialize};

/// How sure we are. The surer one is the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The evidence is the fault.
    Certain,
    /// Two independent pieces of evidence agree.
    Likely,
    /// One circumstantial piece. Never moves the verdict.
    Possible,
}

impl Confidence {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotChecked {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}
