//! `plegctl schema KIND`: prints the JSON Schema (2020-12) of a kind of document. Without a kind: lists all kinds.
//!
//! ```text
//! $ plegctl schema Event
//! {
//!   "$schema": "https://json-schema.org/draft/2020-12/schema",
//! …
//! ```
//!
//! The unit tests generate the schemas from the types of the documents and write them to `docs/schema/`, and compressed
//! to `schemas.deflate`. The command reads no file and calls no runtime.

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use clap::Args;
use clap_complete::ArgValueCompleter;
use flate2::read::DeflateDecoder;
use serde_json::Value;

use super::{Error, Exit, complete};
use crate::report::escape::escaped;
use crate::report::{json, most_similar};

/// The texts of all schemas, with a zero byte between two of them.
const COMPRESSED: &[u8] = include_bytes!("schemas.deflate");

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The value of `kind` in the document, in any case: `RelistReport`, `Event`
    #[arg(value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    kind: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &SchemaArgs) -> Result<Exit, Error> {
    let texts = texts()?;
    let kinds: Vec<(String, &str)> = texts.split('\0').map(|text| (text_of(text, "title"), text)).collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let Some(wanted) = arguments.kind.as_deref() else {
        let width = kinds.iter().map(|(kind, _)| kind.len()).max().unwrap_or_default();
        for (kind, text) in &kinds {
            writeln!(out, "{kind:width$}  {}", text_of(text, "description"))?;
        }
        out.flush()?;
        return Ok(Exit::Good);
    };
    match kinds.iter().find(|(kind, _)| kind.eq_ignore_ascii_case(wanted)) {
        Some((_, text)) => {
            out.write_all(text.as_bytes())?;
            out.flush()?;
            Ok(Exit::Good)
        }
        None => Err(Error::NoSuchKind {
            kind: escaped(wanted).into_owned(),
            nearest: nearest(wanted, kinds.iter().map(|(kind, _)| kind.as_str())),
        }),
    }
}

/// Returns the names of all kinds.
pub fn kinds() -> Vec<String> {
    texts().unwrap_or_default().split('\0').map(|text| text_of(text, "title")).collect()
}

/// Decompresses the texts of all schemas.
fn texts() -> io::Result<String> {
    let mut texts = String::new();
    DeflateDecoder::new(COMPRESSED).read_to_string(&mut texts)?;
    Ok(texts)
}

/// Returns the text of a top-level key of a schema; empty if the schema has no such text.
fn text_of(schema: &str, key: &str) -> String {
    let schema: Value = json::parse(schema).unwrap_or_default();
    schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the most similar kind, whatever its case.
fn nearest<'a>(wanted: &str, kinds: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let lower: Vec<String> = kinds.clone().map(str::to_ascii_lowercase).collect();
    let found = most_similar(&wanted.to_ascii_lowercase(), lower.iter().map(String::as_str))?;
    kinds.into_iter().find(|kind| kind.eq_ignore_ascii_case(found)).map(str::to_owned)
}
