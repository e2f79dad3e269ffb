//! `plegctl explain ID`: prints what the finding with this id means, how it shows, how to confirm it, what not to
//! conclude from it, and what to do. Without an id: lists all ids. `-o json` has the same texts for programs.
//!
//! ```text
//! $ plegctl explain D28
//! D28  Ready, but events are late
//! …
//! ```
//!
//! The texts come from the catalogues that the other commands use. The command reads no file and calls no runtime,
//! so it works on any machine.

use std::io;
use std::sync::LazyLock;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Serialize;

use super::args::GlobalArgs;
use super::catalogue::{CatalogueEntry, entries};
use super::render::PLAIN;
use super::render::page::{Line, Page};
use super::render::words::wrapped;
use super::term::output::Output;
use super::term::streams;
use super::{Error, Exit, complete};
use crate::report::{document, most_similar};
use crate::sim::{self, Scenario};

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The id, in any case: D01, ST05, SP053, KP011
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::ids))]
    id: Option<String>,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Jsonl, Output::Name]))]
    output: Output,
}

/// The document of this command: one rule, or all.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind")]
pub struct RuleList {
    /// The rules, in the order of their ids.
    rules: Vec<ExplainedRule>,
}

/// A rule with its texts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ExplainedRule {
    /// The rule's id, such as `D01`.
    id: &'static str,
    /// The rule in one line.
    title: &'static str,
    /// What a finding of the rule means.
    meaning: &'static str,
    /// Where the problem shows.
    shows: &'static str,
    /// How to confirm the finding.
    confirm: &'static [&'static str],
    /// What the finding does not prove.
    do_not_conclude: &'static [&'static str],
    /// What to do.
    next: &'static [&'static str],
    /// The simulated nodes on which the rule has a finding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scenarios: Vec<String>,
    /// The usual severity of a check that a command can ignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
}

impl From<&CatalogueEntry> for ExplainedRule {
    fn from(entry: &CatalogueEntry) -> Self {
        let rule = entry.rule;
        Self {
            id: rule.id,
            title: rule.title,
            meaning: rule.means,
            shows: rule.shows,
            confirm: rule.confirm,
            do_not_conclude: rule.never,
            next: rule.act,
            scenarios: scenarios(rule.id),
            severity: entry.check.as_ref().map(|check| check.severity.as_str()),
        }
    }
}

/// Runs the command.
pub fn run(arguments: &ExplainArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let mut entries = entries();
    if let Some(wanted) = arguments.id.as_deref() {
        let nearest = nearest(wanted, &entries);
        entries.retain(|entry| entry.rule.id.eq_ignore_ascii_case(wanted));
        if entries.is_empty() {
            let (wanted, list) = (format!("finding with the id `{wanted}`"), "explain lists every id");
            return Err(Error::Unknown { wanted, nearest, list });
        }
    }
    let list = RuleList { rules: entries.iter().map(ExplainedRule::from).collect() };
    let columns = streams::stdout_columns();
    arguments.output.print(&document(&list), global.style(), |out| {
        match (arguments.output, entries.as_slice()) {
            (Output::Name, entries) => {
                entries.iter().try_for_each(|entry| writeln!(out, "{}", entry.rule.id))
            }
            (_, [entry]) => write(entry, out, columns),
            (_, entries) => {
                entries.iter().try_for_each(|entry| writeln!(out, "{}  {}", entry.rule.id, entry.rule.title))
            }
        }
    })?;
    Ok(Exit::Good)
}

/// Returns the endpoints of the simulated nodes on which a rule has its finding.
fn scenarios(id: &str) -> Vec<String> {
    // A scenario of ours that is damaged is a failed test, and no reason not to explain a rule.
    static ALL: LazyLock<Vec<Scenario>> = LazyLock::new(|| sim::built_in().unwrap_or_default());
    let shown = ALL.iter().filter(|scenario| scenario.finds.as_deref() == Some(id));
    shown.map(|scenario| format!("sim:{}", scenario.name)).collect()
}

/// Returns the most similar id. Ids are short, so one or two typing errors, or one missing zero, are
/// accepted.
fn nearest(wanted: &str, entries: &[CatalogueEntry]) -> Option<String> {
    most_similar(&wanted.to_ascii_uppercase(), entries.iter().map(|entry| entry.rule.id)).map(str::to_owned)
}

/// Returns the explanation of an id, line by line.
pub fn lines(id: &str) -> Vec<String> {
    let entries = entries();
    let Some(entry) = entries.iter().find(|entry| entry.rule.id == id) else { return Vec::new() };
    let lines = Page::lines_of(PLAIN, |page| write(entry, page, None));
    // Writing to memory cannot fail.
    lines.unwrap_or_default().iter().map(Line::text).collect()
}

/// Writes the explanation of a rule. On a terminal, sentences break between words; a command stays one line.
fn write(entry: &CatalogueEntry, out: &mut Page<'_>, columns: Option<usize>) -> io::Result<()> {
    let columns = columns.unwrap_or(usize::MAX);
    let rule = entry.rule;
    out.line(&Line::colored("1", rule.id).and("", format_args!("  {}", rule.title)))?;
    writeln!(out)?;
    wrapped(rule.means, columns, "").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let parts = [
        ("how it shows", std::slice::from_ref(&rule.shows), columns),
        ("to confirm it", rule.confirm, usize::MAX),
        ("do not conclude", rule.never, columns),
        ("what to do", rule.act, columns),
    ];
    for (name, texts, columns) in parts {
        writeln!(out)?;
        out.colored("1", name)?;
        let mut lines = texts.iter().flat_map(|text| wrapped(&format!("  {text}"), columns, "    "));
        lines.try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let scenarios = scenarios(rule.id);
    if !scenarios.is_empty() {
        writeln!(out)?;
        out.colored("1", "to see it on a simulated node")?;
        scenarios.iter().try_for_each(|name| writeln!(out, "  plegctl health -r {name}"))?;
    }
    if let Some(check) = &entry.check {
        writeln!(out)?;
        writeln!(out, "{}; usually {}", check.section, check.severity.as_str())?;
        writeln!(out)?;
        out.colored("1", "to leave it out")?;
        writeln!(out, "  plegctl {} --ignore {}", check.command, rule.id)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_a_mistyped_id_finds_the_most_similar() {
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
