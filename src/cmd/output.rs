//! `-o`: the output formats of all commands.

use std::io::{self, Write};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use super::render::{json, yaml};

/// How to print. No command has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// Like table, with all details
    Wide,
    /// One document
    Json,
    /// The same as YAML
    Yaml,
    /// The same on one line
    Jsonl,
    /// Names only, one a line
    Name,
    /// Metrics
    Prometheus,
    /// One self-contained page
    Html,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations for GitHub Actions
    Github,
}

impl Output {
    /// Parses one of `forms`; another format is a usage error.
    pub fn one_of(forms: &'static [Self]) -> impl TypedValueParser<Value = Self> {
        let names = PossibleValuesParser::new(forms.iter().filter_map(Self::to_possible_value));
        names.try_map(|name| Self::from_str(&name, false))
    }

    /// Prints the document if this is a format for programs; returns whether it did.
    pub fn document(self, document: &impl Serialize, out: &mut dyn Write) -> io::Result<bool> {
        match self {
            Self::Json => json::pretty(document, out)?,
            Self::Yaml => yaml::write(document, out)?,
            Self::Jsonl => json::line(document, out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Prints to stdout: a document directly, other formats through `text`.
    pub fn print(
        self,
        document: &impl Serialize,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        if !self.document(document, &mut out)? {
            text(&mut out)?;
        }
        out.flush()
    }
}
