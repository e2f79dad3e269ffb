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
use clap_complete::ArgValueCompleter;

use super::catalogue::{Entry, entries};
use super::context::Context;
use super::{Error, Exit, complete};
use crate::report::escape::escaped;
use crate::report::most_similar;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The id, in any case: D01, ST05, SP053, KP011
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::ids))]
    id: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &ExplainArgs, context: &Context) -> Result<Exit, Error> {
    let entries = entries();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let Some(wanted) = arguments.id.as_deref() else {
        for entry in &entries {
            writeln!(out, "{}  {}", entry.rule.id, entry.rule.title)?;
        }
        out.flush()?;
        return Ok(Exit::Good);
    };
    match entries.iter().find(|entry| entry.rule.id.eq_ignore_ascii_case(wanted)) {
        Some(entry) => {
            write(entry, &mut out, context.style().color)?;
            out.flush()?;
            Ok(Exit::Good)
        }
        None => Err(Error::NoSuchId { id: escaped(wanted).into_owned(), nearest: nearest(wanted, &entries) }),
    }
}

/// Returns the most similar id. Ids are short, so one or two typing errors, or one missing zero, are
/// accepted.
fn nearest(wanted: &str, entries: &[Entry]) -> Option<String> {
    most_similar(&wanted.to_ascii_uppercase(), entries.iter().map(|entry| entry.rule.id)).map(str::to_owned)
}

fn write(entry: &Entry, out: &mut dyn Write, color: bool) -> io::Result<()> {
    let head = |text: &str| if color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() };
    let rule = entry.rule;
    writeln!(out, "{}  {}", head(rule.id), rule.title)?;
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
    if let Some(check) = &entry.check {
        writeln!(out, "\n{}; usually {}", check.section, check.severity.as_str())?;
        writeln!(out, "\n{}", head("to leave it out"))?;
        writeln!(out, "  plegctl {} --ignore {}", check.command, rule.id)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_a_slip_finds_the_nearest() {
        let entries = entries();
        let ids: std::collections::BTreeSet<&str> = entries.iter().map(|entry| entry.rule.id).collect();
        assert_eq!(ids.len(), entries.len());
        assert!(
            ids.contains("D00")
                && ids.contains("D33")
                && ids.contains("ST01")
                && ids.contains("SP053")
                && ids.contains("KP011")
        );
        assert_eq!(nearest("d1", &entries).as_deref(), Some("D01"));
        assert_eq!(nearest("SP53", &entries).as_deref(), Some("SP053"));
        assert_eq!(nearest("completely else", &entries), None);
    }
}
