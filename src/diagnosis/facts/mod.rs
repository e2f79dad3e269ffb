//! [`Fact`]: what a rule measured or concluded, with its numbers, times and references. A finding consists of facts; the
//! first one is its title, the others are its evidence.
//!
//! `words.rs` has one row for each kind of fact, with its fields and its English words. To change a sentence, change its row:
//! nothing else in plegctl reads the words. `health -o json` has the fields of each fact under `facts`.

mod owner;
#[cfg(feature = "testing")]
mod testing;
#[cfg(test)]
pub mod tests;
mod values;
mod words;

use std::fmt;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::report::Rename;
pub use owner::OwnerProcess;
pub use values::{
    Address, Bytes, Call, ConditionName, Counted, Decimal, DescriptorUse, ExpectedLoad, FilePath, FileSystem,
    Function, Item, Items, Name, PodAge, PodBytes, PodChange, ProcessRef, Program, Quoted, Refusal, Release,
    Resource, Share, Took, Waits, Word,
};
pub use words::{FactKind, WaitOwner};

/// A fact of a finding. Its words are those of `Display`.
#[derive(Clone, Debug, PartialEq, Eq, Rename)]
pub struct Fact(pub FactKind);

impl Fact {
    /// Creates a fact whose words another part of plegctl has written.
    pub fn line(words: String) -> Self {
        Self(FactKind::Line { words: Quoted(words) })
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FactKind> for Fact {
    fn from(kind: FactKind) -> Self {
        Self(kind)
    }
}

/// Writes the kind, then the fields that have a value.
impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fact = serde_json::to_value(&self.0).map_err(S::Error::custom)?;
        let fields = fact.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let (kind, others): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| *name == "kind");
        serializer.collect_map(kind.into_iter().chain(others))
    }
}

/// A fact of a kind that this release does not know is `FactKind::Unknown`; the report has its words too.
impl<'de> Deserialize<'de> for Fact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(serde_json::from_value(value).unwrap_or(FactKind::Unknown)))
    }
}
