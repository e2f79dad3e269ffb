//! `plegctl explain`: what an id means, how it shows, how to confirm it, what not to conclude, what to do.
//!
//! ```text
//! $ plegctl explain D28
//! D28  Ready, but events are late
//! …
//! ```
//!
//! Reads nothing but the tables that the judgements themselves are made by; works on a machine without a node.

use std::io::{self, Write};

use clap::Args;

use super::context::Context;
use super::{Error, Exit};
use crate::diagnosis::rules::CATALOGUE;
use crate::manifests::checks::catalogue::CHECKS;
use crate::report::Rule;
use crate::report::escape::escaped;
use crate::stacks::signatures::rules;

/// What a finding's id means: D of `health`, ST of `stacks`, SP of `static-pods lint`. Without an id: the list.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The id, in any case: D01, ST05, SP053
    #[arg(value_name = "ID")]
    id: Option<String>,
}

/// One entry of any catalogue.
struct Entry {
    id: String,
    title: &'static str,
    rest: Rest,
}

/// What is known beyond the title.
enum Rest {
    Row(&'static Rule),
    Check { severity: &'static str, section: &'static str },
}

/// Every id that this program prints, catalogue by catalogue.
fn entries() -> Vec<Entry> {
    let diagnoses = CATALOGUE.iter().map(|row| Entry {
        id: row.rule.id.to_owned(),
        title: row.rule.title,
        rest: Rest::Row(&row.rule),
    });
    let checks = CHECKS.iter().map(|check| Entry {
        id: check.id.to_string(),
        title: check.title,
        rest: Rest::Check { severity: check.severity.as_str(), section: check.section() },
    });
    let signatures =
        rules().map(|rule| Entry { id: rule.id.to_owned(), title: rule.title, rest: Rest::Row(rule) });
    diagnoses.chain(signatures).chain(checks).collect()
}

/// Runs the command.
pub fn run(arguments: &ExplainArgs, context: &Context) -> Result<Exit, Error> {
    let entries = entries();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let Some(wanted) = arguments.id.as_deref() else {
        for entry in &entries {
            writeln!(out, "{}  {}", entry.id, entry.title)?;
        }
        out.flush()?;
        return Ok(Exit::Good);
    };
    match entries.iter().find(|entry| entry.id.eq_ignore_ascii_case(wanted)) {
        Some(entry) => {
            write(entry, &mut out, context.style().color)?;
            out.flush()?;
            Ok(Exit::Good)
        }
        None => Err(Error::NoSuchId { id: escaped(wanted).into_owned(), nearest: nearest(wanted, &entries) }),
    }
}

/// The id that was probably meant.
fn nearest(wanted: &str, entries: &[Entry]) -> Option<String> {
    let wanted = wanted.to_ascii_uppercase();
    entries
        .iter()
        .map(|entry| (strsim::levenshtein(&wanted, &entry.id), &entry.id))
        .filter(|(distance, id)| *distance < id.len())
        .min()
        .map(|(_, id)| id.clone())
}

fn write(entry: &Entry, out: &mut dyn Write, color: bool) -> io::Result<()> {
    let head = |text: &str| if color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() };
    writeln!(out, "{}  {}", head(&entry.id), entry.title)?;
    match &entry.rest {
        Rest::Row(rule) => {
            writeln!(out, "\n{}", rule.means)?;
            let parts = [
                ("how it shows", std::slice::from_ref(&rule.shows)),
                ("to confirm it", rule.confirm),
                ("do not conclude", rule.never),
                ("what to do", rule.act),
            ];
            for (name, lines) in parts {
                writeln!(out, "\n{}", head(name))?;
                lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            }
            Ok(())
        }
        Rest::Check { severity, section } => {
            writeln!(out, "\n{section}; {severity} as a rule")?;
            writeln!(out, "\n{}", head("to confirm it"))?;
            writeln!(
                out,
                "  plegctl static-pods lint   # the line, what the kubelet does with the file, and the fix"
            )?;
            writeln!(out, "\n{}", head("to leave it out"))?;
            writeln!(out, "  plegctl static-pods lint --ignore {}", entry.id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_a_slip_finds_the_nearest() {
        let entries = entries();
        let ids: std::collections::BTreeSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids.len(), entries.len());
        assert!(ids.contains("D00") && ids.contains("D33") && ids.contains("ST01") && ids.contains("SP053"));
        assert_eq!(nearest("d1", &entries).as_deref(), Some("D01"));
        assert_eq!(nearest("SP53", &entries).as_deref(), Some("SP053"));
        assert_eq!(nearest("completely else", &entries), None);
    }
}
