//! Writes the files of `health`: `--state`, `--save` and `--bundle`. Each file is written in a thread, which is
//! abandoned if the disk does not answer in time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::saved::SavedReport;
use super::{Error, HealthArgs, ReportWithEvidence, bundle};
use crate::cmd::node::Node;
use crate::diagnosis::RunFacts;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::health_state::HealthState;
use crate::diagnosis::report::HealthReport;
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
    let report = Arc::new(report);
    let saved = arguments.save.clone().map_or(Ok(()), |path| {
        let (report, file) = (Arc::clone(&report), path.clone());
        let measured = evidence.as_deref().map(|evidence| RunFacts::from(evidence.clone()));
        in_time(&path, time_limit, move || {
            let measured = measured.and_then(|mut facts| facts.text(usize::MAX));
            Ok(save(&SavedReport::new(&*report, measured, None), &file)?)
        })
    });
    if let Some((path, read)) = arguments.bundle.clone().zip(read) {
        let (report, file) = (Arc::clone(&report), path.clone());
        in_time(&path, time_limit, move || bundle::write_outside(&file, &report, &read))?;
    }
    let bundled = arguments.bundle.clone().zip(evidence);
    let bundled = bundled.map_or(Ok(()), |(path, evidence)| write_bundle(&path, report, evidence));
    bundled.and(saved)
}

/// Writes a bundle.
pub(super) fn write_bundle(
    path: &Path,
    report: Arc<HealthReport>,
    evidence: Box<Evidence>,
) -> Result<(), Error> {
    let file = path.to_path_buf();
    in_time(path, TIME_LIMIT, move || bundle::write(&file, &report, &evidence))
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
