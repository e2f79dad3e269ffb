//! `-o FORMAT`: the output formats of all commands, and printing a report in one of them.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use crate::cmd::error::Error;
use crate::cmd::render::page::Page;
use crate::cmd::render::{PLAIN, Style, json, yaml};
use crate::cmd::term::streams;
use crate::report::save;

/// An output format. No command has all of them.
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
    /// Returns a parser that accepts only these `formats`.
    pub fn one_of(formats: &'static [Self]) -> impl TypedValueParser<Value = Self> {
        let names = PossibleValuesParser::new(formats.iter().filter_map(Self::to_possible_value));
        names.try_map(|name| Self::from_str(&name, false))
    }

    /// Parses `FORMAT=FILE` with one of these formats.
    pub fn of_file(text: &str, formats: &[Self]) -> Result<(Self, PathBuf), String> {
        let (format, file) =
            text.split_once('=').ok_or("give a format and a file, such as json=report.json".to_owned())?;
        let known = Self::from_str(format, true).ok().filter(|known| formats.contains(known));
        let format = known.ok_or_else(|| {
            let names = formats.iter().filter_map(Self::to_possible_value);
            let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
            format!("there is no format {format}; there are {}", names.join(", "))
        })?;
        if file.is_empty() {
            return Err("the file has no name".to_owned());
        }
        Ok((format, PathBuf::from(file)))
    }

    /// Writes `document` if this is JSON, YAML or JSON lines. Returns whether it was written.
    pub fn write_document(self, document: &impl Serialize, out: &mut dyn Write) -> io::Result<bool> {
        match self {
            Self::Json => json::pretty(document, out)?,
            Self::Yaml => yaml::write(document, out)?,
            Self::Jsonl => json::line(document, out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Prints to stdout: `document` as JSON, JSON lines or YAML; for every other format, what `text` writes.
    pub fn print(
        self,
        document: &impl Serialize,
        style: Style,
        text: impl FnOnce(&mut Page<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        streams::document(|out| {
            if self.write_document(document, out)? { Ok(()) } else { text(&mut streams::page(out, style)) }
        })
    }

    /// Writes the files of `--output-file`, and prints to stdout. A file that cannot be written is an error only after
    /// everything is printed. `render` gets a function that makes a page for people.
    pub fn print_and_save(
        self,
        files: &[(Self, PathBuf)],
        style: Style,
        render: impl Fn(Self, &mut dyn Write, &dyn Fn(&mut dyn Write) -> Page<'_>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let mut written = Ok(());
        for (format, path) in files {
            let plain = |file: &mut dyn Write| render(*format, file, &|out| Page::new(out, PLAIN));
            written = written.and(save::write(path, plain));
        }
        streams::document(|out| render(self, out, &|out| streams::page(out, style)))?;
        Ok(written?)
    }
}
