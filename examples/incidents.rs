//! Reads a capture of the flight recorder and prints its incidents.
//!
//! ```console
//! $ cargo run --example incidents -- /var/lib/plegctl/capture
//! $ cargo run --example incidents -- tests/captures/0.1.0.plegcap
//! ```
//!
//! The path is the recorder's directory, which may be in use, or a file from `plegctl capture export`. A damaged part
//! is left out and counted.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use plegctl_engine::capture::Capture;
use plegctl_engine::clock::Wall;

/// Reads the path from the command line.
pub fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: incidents CAPTURE")?;
    run(Path::new(&path), &mut io::stdout())
}

/// Prints one line for each incident, then what the capture contains.
pub fn run(path: &Path, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let capture = Capture::open(path)?;
    for incident in capture.incidents.values() {
        let begin = Wall::known(incident.from).map_or_else(|| "<unknown>".to_owned(), |at| at.to_string());
        let lasted = match incident.duration() {
            Some(duration) => format!("{duration:.1?}"),
            None => "still open".to_owned(),
        };
        writeln!(out, "{} {begin} {lasted} {}: {}", incident.number, incident.verdict, incident.summary)?;
    }
    writeln!(
        out,
        "{} incidents, {} relists, {} damaged bytes",
        capture.incidents.len(),
        capture.relists.len(),
        capture.damaged()
    )?;
    Ok(())
}
