//! A document as JSON, for reading or for a stream.

use std::io::{self, Write};

use serde::Serialize;

/// Indented, over many lines.
pub fn pretty(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// On one line.
pub fn line(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    writeln!(out)
}
