//! Formats the difference of two relists as text, for `plegctl diff`.

use std::collections::HashMap;
use std::io;

use crate::cmd::render::page::Page;
use crate::cmd::render::watch::{Columns, pod};
use crate::cmd::render::words::{or_none, short_id};
use crate::pleg::DiffReport;
use crate::pleg::diff::Unnoticed;

/// Prints one line for each event, then one for each change that PLEG would have missed.
pub fn table(difference: &DiffReport, out: &mut Page<'_>) -> io::Result<()> {
    if difference.is_empty() {
        return writeln!(
            out,
            "no difference between {} and {}",
            difference.before.taken_at, difference.after.taken_at
        );
    }
    let columns = Columns::with_limit(None, false);
    let events = difference.events.iter();
    let events = events.map(|change| (columns.event(change), change.id.as_deref())).collect();
    write_distinct(events, "", out)?;
    if !difference.unnoticed.is_empty() {
        writeln!(out, "changes that PLEG would not have noticed:")?;
    }
    let unnoticed = difference.unnoticed.iter();
    let unnoticed = unnoticed.map(|change| (unnoticed_line(change), change.id.as_deref())).collect();
    write_distinct(unnoticed, "  ", out)
}

/// Prints lines. Equal lines, such as those of two dead containers with the same name, get the containers' ids.
fn write_distinct(lines: Vec<(String, Option<&str>)>, indent: &str, out: &mut Page<'_>) -> io::Result<()> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for (line, _) in &lines {
        *counts.entry(line.clone()).or_default() += 1;
    }
    for (line, id) in lines {
        let is_repeated = counts.get(&line).is_some_and(|count| *count > 1);
        match id.filter(|_| is_repeated) {
            Some(id) => writeln!(out, "{indent}{line}  {}", short_id(id))?,
            None => writeln!(out, "{indent}{line}")?,
        }
    }
    Ok(())
}

fn unnoticed_line(change: &Unnoticed) -> String {
    let of = change.pod.as_ref().map_or_else(|| "runtime".to_owned(), pod);
    let subject = match (&change.name, &change.id) {
        (Some(name), _) if !name.is_empty() => format!("  {name}"),
        (_, Some(id)) => format!("  {}", short_id(id)),
        _ => String::new(),
    };
    let side = |value: &Option<String>| or_none(value.as_deref().unwrap_or_default());
    format!("{of}{subject}  {}: {} → {}", change.field, side(&change.before), side(&change.after))
}
