//! `plegctl capture`: lists, exports, reports and checks what the flight recorder wrote.
//!
//! ```text
//! $ plegctl capture ls /var/lib/plegctl
//! 2026-11-21T03:00:00Z to 2026-11-21T09:12:44Z, 4471 relists, 1.3 MiB in 1 segments
//!
//! INCIDENT   FROM                   LASTED   VERDICT     KEPT   WHAT
//! 1          2026-11-21T04:11:02Z   2m3s     unhealthy   yes    UNHEALTHY: ContainerStatus of shop/db-0/postgres …
//! ```
//!
//! The command changes nothing in a capture. It can read a capture while a recorder writes it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};

use super::context::Context;
use super::output::Output;
use super::render::{capture as text, capture_html as html};
use super::{Error, Exit};
use crate::capture::list::{CaptureList, CheckReport};
use crate::capture::report::CaptureReport;
use crate::capture::{Capture, Exported, Pseudonyms, Range, export};
use crate::clock::Wall;
use crate::report::{document, save};

#[derive(Debug, Args)]
pub struct CaptureArgs {
    #[command(subcommand)]
    action: CaptureAction,
}

#[derive(Debug, Subcommand)]
enum CaptureAction {
    /// Show the time range and the incidents of a capture
    Ls {
        #[command(flatten)]
        source: CaptureSource,
    },
    /// Export a part of a capture to one file, which can be used like the capture itself
    Export {
        /// The directory of a recorder, or an exported file
        #[arg(value_name = "CAPTURE", value_hint = ValueHint::AnyPath)]
        capture: PathBuf,
        /// The file to write; `-` for stdout
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Only the part that is pinned for this incident
        #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"])]
        incident: Option<u64>,
        /// Start of the range: RFC 3339, `HH:MM:SS`, or `+90s` from the start
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// End of the range
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        /// Replace every name (pods, namespaces, containers, images, labels, addresses, paths, the node), and every
        /// text that plegctl did not write with its length
        #[arg(long)]
        anonymise: bool,
    },
    /// Show the timeline: relist latency, age of PLEG and threshold, incidents, calls and events
    Report {
        /// The directory of a recorder, or an exported file
        #[arg(value_name = "CAPTURE", value_hint = ValueHint::AnyPath)]
        capture: PathBuf,
        /// Only the part that is pinned for this incident
        #[arg(long, value_name = "N")]
        incident: Option<u64>,
        /// How to print
        #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Html, Output::Json, Output::Yaml, Output::Jsonl]))]
        output: Output,
    },
    /// Read every entry and every answer, and report what is missing; exit status 1 if anything is missing
    Check {
        #[command(flatten)]
        source: CaptureSource,
    },
}

#[derive(Debug, Args)]
struct CaptureSource {
    /// The directory of a recorder, or an exported file
    #[arg(value_name = "CAPTURE", value_hint = ValueHint::AnyPath)]
    capture: PathBuf,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Jsonl]))]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &CaptureArgs, context: &Context) -> Result<Exit, Error> {
    match &arguments.action {
        CaptureAction::Ls { source } => {
            let list = CaptureList::of(&open(&source.capture)?);
            source.output.print(&document(&list), |out| text::list(&list, context.style(), out))?;
            Ok(Exit::Good)
        }
        CaptureAction::Export { capture, file, incident, from, to, anonymise } => {
            let capture = open(capture)?;
            let range = match incident {
                Some(number) => pinned_range(&capture, *number)?,
                None => Range {
                    from: moment_of(&capture, from.as_deref())?,
                    to: moment_of(&capture, to.as_deref())?,
                },
            };
            let pseudonyms = anonymise.then(Pseudonyms::default);
            let mut exported = Exported::default();
            let write = |out: &mut dyn Write| {
                exported = export(&capture, range, pseudonyms, out)?;
                Ok(())
            };
            if file.as_os_str() == "-" {
                let mut out = io::BufWriter::new(io::stdout().lock());
                write(&mut out)?;
                out.flush()?;
            } else {
                save::write(file, write)?;
            }
            context.remark(&text::exported(exported));
            Ok(Exit::Good)
        }
        CaptureAction::Report { capture, incident, output } => {
            let capture = open(capture)?;
            let range = match incident {
                Some(number) => pinned_range(&capture, *number)?,
                None => Range::default(),
            };
            let report = CaptureReport::of(&capture, range)?;
            output.print(&document(&report), |out| match output {
                Output::Html => html::page(&report, out),
                _ => text::report(&report, context.style(), out),
            })?;
            Ok(Exit::Good)
        }
        CaptureAction::Check { source } => {
            let report = CheckReport::of(&open(&source.capture)?);
            source.output.print(&document(&report), |out| text::check(&report, context.style(), out))?;
            Ok(match report.is_damaged() {
                true => Exit::Bad,
                false if report.not_judged_answers > 0 => Exit::NoAnswer,
                false => Exit::Good,
            })
        }
    }
}

/// Returns the time range that is pinned for an incident.
fn pinned_range(capture: &Capture, number: u64) -> Result<Range, Error> {
    // For an unknown number, this call fails with an error that lists the known incidents.
    capture.moment(Some(&format!("incident:{number}")))?;
    let incident = capture.incidents.get(&number).cloned().unwrap_or_default();
    let to = (incident.to > 0).then(|| Wall::from_nanos(incident.pinned_to));
    Ok(Range { from: Some(Wall::from_nanos(incident.pinned_from)), to })
}

/// Converts the text of `--from` or `--to` to a time of the capture.
fn moment_of(capture: &Capture, time: Option<&str>) -> Result<Option<Wall>, Error> {
    Ok(match time {
        Some(time) => Some(capture.moment(Some(time))?.1),
        None => None,
    })
}

fn open(path: &Path) -> Result<Capture, Error> {
    Ok(Capture::open(path)?)
}
