//! Writes the files of `health`: `--state`, `--save` and `--bundle`. Each file is written in a thread, which is
//! abandoned if the disk does not answer in time.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::saved::SavedReport;
use super::{Error, HealthArgs, ReportWithEvidence, bundle};
use crate::cmd::node::Node;
use crate::diagnosis::RunFacts;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::health_state::HealthState;
use crate::diagnosis::report::HealthReport;
use crate::report::json;
use crate::report::save::{self, save};
use crate::threads;

/// The time limit for writing a file.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The time limit with `--npd`: node-problem-detector kills plegctl five seconds after its start.
const NPD_TIME_LIMIT: Duration = Duration::from_millis(500);

/// Writes the files that the user requested. If the state file cannot be written, this is only a remark; for the
/// other files it is an error.
pub(super) fn write(
    arguments: &HealthArgs,
    node: &Node,
    found: ReportWithEvidence,
    health_state: Option<HealthState>,
) -> Result<(), Error> {
    let time_limit = if arguments.npd { NPD_TIME_LIMIT } else { TIME_LIMIT };
    // With a state file, the next run skips calls. Without the file, it makes all calls.
    if let (Some(path), Some(health_state)) = (arguments.state.clone(), health_state) {
        let state = path.clone();
        let written = in_time(&path, time_limit, move || Ok(save(&health_state, &state)?));
        if let Err(why) = written {
            node.remark(&format!("{why}: the next run makes all calls again"));
        }
    }
    let ReportWithEvidence { report, evidence, read } = found;
    let saved = arguments.save.as_deref().map_or(Ok(()), |path| {
        let measured =
            evidence.as_deref().and_then(|evidence| RunFacts::from(evidence.clone()).text(usize::MAX));
        write_bytes(path, time_limit, json::pretty_bytes(&SavedReport::new(&report, measured, None)))
    });
    if let Some((path, read)) = arguments.bundle.as_deref().zip(read) {
        write_bytes(path, time_limit, bundle::bytes_of_outside(&report, &read))?;
    }
    let bundled = arguments.bundle.as_deref().zip(evidence);
    let bundled = bundled.map_or(Ok(()), |(path, evidence)| write_bundle(path, &report, &evidence));
    bundled.and(saved)
}

/// Writes a bundle.
pub(super) fn write_bundle(path: &Path, report: &HealthReport, evidence: &Evidence) -> Result<(), Error> {
    write_bytes(path, TIME_LIMIT, bundle::bytes_of(report, evidence))
}

/// Writes a whole file. The time limit is for the disk alone: a slow processor needs longer for the bytes of a large node.
fn write_bytes(path: &Path, time_limit: Duration, bytes: io::Result<Vec<u8>>) -> Result<(), Error> {
    let file = path.to_path_buf();
    let bytes = bytes.map_err(|source| save::Error { path: file.clone(), source })?;
    in_time(path, time_limit, move || Ok(save::write(&file, |out| out.write_all(&bytes))?))
}

/// Runs `work`, which writes to `path`; fails if that takes too long.
fn in_time(
    path: &Path,
    time_limit: Duration,
    work: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    let failed = |source: io::Error| Err(save::Error { path: path.to_path_buf(), source }.into());
    threads::with_time_limit(time_limit, work).unwrap_or_else(failed)
}
