//! The words that all parts share: how bad something is, and what is known of a rule by its id.
//!
//! Knows neither terminals nor runtimes. Commands and engines speak it; what they write in JSON follows from it.

mod rule;
mod severity;

pub use rule::Rule;
pub use severity::Severity;
