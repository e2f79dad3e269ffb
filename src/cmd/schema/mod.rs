//! `plegctl schema KIND`: prints the JSON Schema (2020-12) of a kind of document. Without a kind: lists all kinds.
//!
//! ```text
//! $ plegctl schema Event
//! {
//!   "$schema": "https://json-schema.org/draft/2020-12/schema",
//! …
//! ```
//!
//! The unit tests generate the schemas from the types of the documents and write them to `docs/schema/`; the program
//! contains these files. The command reads no file and calls no runtime.

#[cfg(test)]
mod tests;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde_json::Value;

use super::render::PLAIN;
use super::{Error, Exit, complete};
use crate::cmd::term::streams;
use crate::report::most_similar;

/// Defines the table of all schemas, each with its kind and the text of its file.
macro_rules! schemas {
    ($($kind:ident)*) => {
        &[$((stringify!($kind), include_str!(concat!("../../../docs/schema/", stringify!($kind), ".json")))),*]
    };
}

/// The kind and the text of each schema.
const SCHEMAS: &[(&str, &str)] = schemas![
    CaptureList
    CaptureReport
    CheckReport
    DiffReport
    Divergence
    Event
    FleetCaptures
    FleetIncidents
    FleetPreflight
    Health
    HealthBundle
    HealthReport
    IncidentList
    LintReport
    NodesReport
    PodFollow
    PodSourceError
    PodUpdate
    PodWhy
    PodsReport
    PreflightReport
    RecorderVerdict
    Relist
    RelistReport
    RuleList
    ScenarioList
    Silence
    StackReport
    Stream
    VersionReport
    WatchStarted
    WatchSummary
];

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The value of `kind` in the document, in any case: `RelistReport`, `Event`
    #[arg(value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    kind: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &SchemaArgs) -> Result<Exit, Error> {
    let Some(wanted) = arguments.kind.as_deref() else {
        let width = kinds().map(str::len).max().unwrap_or_default();
        streams::text(PLAIN, |out| {
            let mut schemas = SCHEMAS.iter();
            schemas
                .try_for_each(|(kind, text)| writeln!(out, "{kind:width$}  {}", text_of(text, "description")))
        })?;
        return Ok(Exit::Good);
    };
    match SCHEMAS.iter().find(|(kind, _)| kind.eq_ignore_ascii_case(wanted)) {
        Some((_, text)) => {
            streams::document(|out| out.write_all(text.as_bytes()))?;
            Ok(Exit::Good)
        }
        None => Err(Error::Unknown {
            wanted: format!("document of the kind `{wanted}`"),
            nearest: nearest(wanted, kinds()),
            list: "schema lists every kind",
        }),
    }
}

/// Returns the names of all kinds.
pub fn kinds() -> impl Iterator<Item = &'static str> + Clone {
    SCHEMAS.iter().map(|(kind, _)| *kind)
}

/// Returns the text of a top-level key of a schema; empty if the schema has no such text.
fn text_of(schema: &str, key: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the most similar kind, whatever its case.
fn nearest<'a>(wanted: &str, kinds: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let lower: Vec<String> = kinds.clone().map(str::to_ascii_lowercase).collect();
    let found = most_similar(&wanted.to_ascii_lowercase(), lower.iter().map(String::as_str))?;
    kinds.into_iter().find(|kind| kind.eq_ignore_ascii_case(found)).map(str::to_owned)
}
