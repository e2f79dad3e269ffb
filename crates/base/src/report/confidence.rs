//! [`Confidence`], how certain a finding is, and [`NotChecked`], a check that could not be made.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rename::Rename;
use super::word_enum;

word_enum! {
    /// How certain a finding is. The most certain level is the smallest.
    #[derive(PartialOrd, Ord)]
    pub json enum Confidence: as_str {
        /// The evidence shows the fault itself.
        Certain = "certain",
        /// The evidence fits the fault, and another explanation is improbable. A second, independent piece of evidence can
        /// make the finding certain.
        Likely = "likely",
        /// The evidence fits the fault, but does not show it: other explanations are as good. This level never changes a
        /// verdict.
        Possible = "possible",
    }
}

/// A check that could not be made.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Word(what), Text(why))]
pub struct NotChecked {
    /// The check.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl NotChecked {
    /// Creates the note about a check that could not be made.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}
