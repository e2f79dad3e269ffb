//! A difference as text.

use std::io::{self, Write};

use super::watch::{event, pod};
use super::words::{or_none, short_id};
use crate::pleg::DiffReport;
use crate::pleg::diff::Unnoticed;
use crate::report::escape::escaped;

/// One line for each event, then one for each change that PLEG would not have noticed.
pub fn table(difference: &DiffReport, out: &mut dyn Write) -> io::Result<()> {
    if difference.is_empty() {
        return writeln!(
            out,
            "no difference between {} and {}",
            difference.before.taken_at, difference.after.taken_at
        );
    }
    for change in &difference.events {
        writeln!(out, "{}", event(change))?;
    }
    if !difference.unnoticed.is_empty() {
        writeln!(out, "not noticed by PLEG:")?;
    }
    for change in &difference.unnoticed {
        writeln!(out, "  {}", unnoticed(change))?;
    }
    Ok(())
}

fn unnoticed(change: &Unnoticed) -> String {
    let of = change.pod.as_ref().map_or_else(|| "runtime".to_owned(), pod);
    let subject = match (&change.name, &change.id) {
        (Some(name), _) if !name.is_empty() => format!("  {}", escaped(name)),
        (_, Some(id)) => format!("  {}", short_id(id)),
        _ => String::new(),
    };
    let side = |value: &Option<String>| or_none(value.as_deref().unwrap_or_default());
    format!("{of}{subject}  {}: {} → {}", escaped(&change.field), side(&change.before), side(&change.after))
}
