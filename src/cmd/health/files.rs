//! Writes the files of `health`: `--state`, `--save`, `--bundle`. The verdict is printed first; each file is
//! written in a thread that is left behind if its disk does not answer.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Diagnosis, Error, HealthArgs, bundle};
use crate::cmd::context::{Context, block_on};
use crate::diagnosis::health_state::HealthState;
use crate::report::save::{self, save};
use crate::threads;

/// The time limit for writing a file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time limit with `--npd`: node-problem-detector kills plegctl five seconds after its start.
const NPD_PATIENCE: Duration = Duration::from_millis(500);

/// Writes the requested files. A state file that cannot be written is only a remark; another file is an
/// error.
pub(super) fn write(
    arguments: &HealthArgs,
    context: &Context,
    found: Diagnosis,
    health_state: Option<HealthState>,
) -> Result<(), Error> {
    let patience = if arguments.npd { NPD_PATIENCE } else { PATIENCE };
    if let (Some(path), Some(health_state)) = (arguments.state.clone(), health_state) {
        let state = path.clone();
        let written = in_time(&path, patience, move || Ok(save(&health_state, &state)?));
        if let Err(why) = written {
            context.remark(&format!("{why}: the next run makes all calls again"));
        }
    }
    let Diagnosis { report, evidence } = found;
    let report = Arc::new(report);
    let saved = arguments.save.clone().map_or(Ok(()), |path| {
        let (report, file) = (Arc::clone(&report), path.clone());
        in_time(&path, patience, move || Ok(save(&*report, &file)?))
    });
    let bundled = arguments.bundle.clone().zip(evidence).map_or(Ok(()), |(path, evidence)| {
        let (clock, file) = (Arc::clone(&context.clock), path.clone());
        in_time(&path, patience, move || block_on(bundle::write(&file, &report, &evidence, &*clock))?)
    });
    bundled.and(saved)
}

/// Runs `work`, which writes to `path`; fails if that takes too long.
fn in_time(
    path: &Path,
    patience: Duration,
    work: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    let failed = |source: io::Error| Err(save::Error { path: path.to_path_buf(), source }.into());
    threads::with_time_limit(patience, work).unwrap_or_else(failed)
}
