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
//! The command changes nothing in a capture. It can read a capture while a recorder writes it. `export --node NAME` copies
//! the capture of that node's recorder, through the API server:
//!
//! ```text
//! $ plegctl capture export --node n1 --token-file token --incident 1 one.plegcap
//! ```

mod html;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};

use super::args::{GlobalArgs, whole_number};
use super::event_loop::block_on;
use super::flags::remote_node::{RemoteNodeArgs, TokenArgs};
use super::render::capture as text;
use super::term::output::Output;
use super::term::streams;
use super::{Error, Exit};
use crate::capture::list::{CaptureList, CheckReport};
use crate::capture::report::CaptureReport;
use crate::capture::{self, Capture, Exported, Pseudonyms, Range, export};
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
        /// The directory of a recorder, or an exported file
        #[arg(value_name = "CAPTURE", value_hint = ValueHint::AnyPath)]
        capture: PathBuf,
        /// How to print
        #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Jsonl]))]
        output: Output,
    },
    /// Export a part of a capture to one file, which can be used like the capture itself
    Export {
        /// CAPTURE: the directory of a recorder, or an exported file; not with --node. FILE: the file to write; `-` for
        /// stdout
        #[arg(value_names = ["CAPTURE", "FILE"], value_hint = ValueHint::AnyPath, num_args = 1..=2, required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        remote: RemoteNodeArgs,
        #[command(flatten)]
        token: TokenArgs,
        /// Only the part that is pinned for this incident
        #[arg(long, value_name = "N", value_parser = whole_number::<u64>, conflicts_with_all = ["from", "to"])]
        incident: Option<u64>,
        /// Start of the range: RFC 3339, `HH:MM:SS`, or `+90s` from the start; with --node only RFC 3339
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
        #[arg(long, value_name = "N", value_parser = whole_number::<u64>)]
        incident: Option<u64>,
        /// How to print
        #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Html, Output::Json, Output::Yaml, Output::Jsonl]))]
        output: Output,
    },
    /// Read every entry and every answer, and report what is missing; exit status 1 if anything is missing
    Check {
        /// The directory of a recorder, or an exported file
        #[arg(value_name = "CAPTURE", value_hint = ValueHint::AnyPath)]
        capture: PathBuf,

        /// How to print
        #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Jsonl]))]
        output: Output,
    },
}

/// Runs the command.
pub fn run(arguments: &CaptureArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    match &arguments.action {
        CaptureAction::Ls { capture, output } => {
            let list = CaptureList::of(&Capture::open(capture)?);
            output.print(&document(&list), global.style(), |out| text::list(&list, out))?;
            Ok(Exit::Good)
        }
        CaptureAction::Export { paths, remote, token, incident, from, to, anonymise } => {
            match (remote.connect(global)?, paths.as_slice()) {
                (Some(node), [file]) => {
                    let query = query(*incident, (from.as_deref(), to.as_deref()), *anonymise)?;
                    let (bytes, pod) = block_on(node.capture(&query, token))??;
                    write_export(file, |out| out.write_all(&bytes))?;
                    global.remark(&text::fetched(&bytes, &pod, &node.name));
                }
                (None, [capture, file]) => {
                    let capture = Capture::open_for_export(capture)?;
                    let range = match incident {
                        Some(number) => pinned_range(&capture, *number)?,
                        None => Range {
                            from: from.as_deref().map(|time| capture.time(time)).transpose()?,
                            to: to.as_deref().map(|time| capture.time(time)).transpose()?,
                        },
                    };
                    let pseudonyms = anonymise.then(Pseudonyms::default);
                    let mut exported = Exported::default();
                    write_export(file, |out| {
                        exported = export(&capture, range, pseudonyms, out)?;
                        Ok(())
                    })?;
                    global.remark(&text::exported(exported));
                }
                (Some(_), _) => return Err(Error::ExportPaths { needed: "only the FILE with --node" }),
                (None, _) => return Err(Error::ExportPaths { needed: "a CAPTURE and a FILE" }),
            }
            Ok(Exit::Good)
        }
        CaptureAction::Report { capture, incident, output } => {
            let capture = Capture::open(capture)?;
            let range =
                incident.map(|number| pinned_range(&capture, number)).transpose()?.unwrap_or_default();
            let report = CaptureReport::of(&capture, range)?;
            match output {
                Output::Html => streams::document(|out| html::page(&report, out))?,
                _ => output.print(&document(&report), global.style(), |out| text::report(&report, out))?,
            }
            Ok(Exit::Good)
        }
        CaptureAction::Check { capture, output } => {
            let report = CheckReport::of(&Capture::open(capture)?);
            output.print(&document(&report), global.style(), |out| text::check(&report, out))?;
            Ok(match report.is_damaged() {
                true => Exit::Bad,
                false if report.not_judged_answers > 0 => Exit::NoAnswer,
                false => Exit::Good,
            })
        }
    }
}

/// Writes an export to a file, or to stdout for `-`.
fn write_export(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    if file.as_os_str() == "-" {
        streams::document(write)?;
    } else {
        save::write(file, write)?;
    }
    Ok(())
}

/// Returns the query of a recorder's `/capture`.
fn query(
    incident: Option<u64>,
    (from, to): (Option<&str>, Option<&str>),
    anonymise: bool,
) -> Result<String, Error> {
    let mut parts: Vec<String> = incident.map(|number| format!("incident={number}")).into_iter().collect();
    for (name, text) in [("from", from), ("to", to)] {
        let Some(text) = text else { continue };
        let time: Wall = text.parse().map_err(|_| capture::Error::Moment { time: text.to_owned() })?;
        parts.push(format!("{name}={time}"));
    }
    parts.extend(anonymise.then(|| "anonymise=1".to_owned()));
    Ok(parts.join("&"))
}

/// Returns the time range that is pinned for an incident.
fn pinned_range(capture: &Capture, number: u64) -> Result<Range, Error> {
    // For an unknown number, this call fails with an error that lists the known incidents.
    capture.time(&format!("incident:{number}"))?;
    let incident = capture.incidents.get(&number).cloned().unwrap_or_default();
    let to = (incident.to > 0).then(|| Wall::from_nanos(incident.pinned_to));
    Ok(Range { from: Some(Wall::from_nanos(incident.pinned_from)), to })
}
