//! [`ScenarioRun`]: a scenario that a real recorder records in a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::sync::oneshot;

use crate::capture::recorder_verdict::RecorderVerdict;
use crate::clock::{Clock, Wall};
use crate::cmd::record::{self, RecordArgs, RecordingHandles};
use crate::cmd::{Error, GlobalArgs};
use crate::diagnosis::report::Verdict;
use crate::kubelet::timing::THRESHOLD;
use crate::pleg::health::Unhealthy;
use crate::sim::{KubeletPages, Scenario, load};
use crate::threads::StartedWork;

/// How long a recorder may need to end.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The command line of a recorder.
#[derive(Debug, Parser)]
struct RecorderCommand {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(flatten)]
    record: RecordArgs,
}

/// A scenario and its recorder.
pub struct ScenarioRun {
    pub scenario: Scenario,
    /// What the recorder knows.
    pub recorder: RecordingHandles,
    /// The directory of its capture.
    pub capture: PathBuf,
    /// The kubelet, if the scenario simulates its process.
    kubelet: Option<KubeletPages>,
    /// When the run began.
    started: Wall,
}

/// The threads of recorders. All of them have ended when this is dropped.
#[derive(Default)]
pub struct RecorderThreads(Vec<RecorderThread>);

/// A thread with a recorder, and what ends the recorder when it is dropped.
type RecorderThread = (oneshot::Sender<()>, StartedWork<Result<(), Error>>);

impl ScenarioRun {
    /// Starts a recorder of a built-in scenario in one of `threads`, with its capture in a new directory.
    pub async fn start(
        name: &str,
        capture: PathBuf,
        clock: &Arc<dyn Clock>,
        threads: &mut RecorderThreads,
    ) -> Result<Self, Error> {
        let scenario = load(name)?;
        let pages = |processes| KubeletPages::new(processes, Arc::clone(clock));
        let kubelet = scenario.processes.clone().map(pages);
        let command = RecorderCommand::parse_from([
            "record".into(),
            "--quiet".into(),
            "--max-size=16MiB".into(),
            "--period=1s".into(),
            format!("--runtime-endpoint=sim:{name}").into(),
            capture.clone().into_os_string(),
        ]);
        let ((stop, stopped), (begun, handles)) = (oneshot::channel(), oneshot::channel());
        let thread =
            record::start_thread(command.global, command.record, stopped, begun).map_err(Error::Start)?;
        let started = clock.wall();
        match handles.await {
            Ok(recorder) => {
                threads.0.push((stop, thread));
                Ok(Self { scenario, recorder, capture, kubelet, started })
            }
            // The thread has ended, with the reason.
            Err(_) => match thread.wait(END_LIMIT) {
                Ok(Err(why)) => Err(why),
                Ok(Ok(())) => Err(Error::Start(std::io::ErrorKind::UnexpectedEof.into())),
                Err(why) => Err(Error::Start(why)),
            },
        }
    }

    /// Whether the recorder has found what is wrong in the scenario.
    pub fn has_found_the_fault(&self) -> bool {
        let verdict = RecorderVerdict::from_snapshot(&self.recorder.view.snapshot(), "", "");
        match &self.scenario.finds {
            Some(id) => verdict.primary.is_some_and(|primary| primary.id.to_string() == *id),
            None => verdict.verdict == Verdict::Healthy,
        }
    }

    /// Returns the start of the last relist of the node's kubelet whose lists were answered.
    pub fn last_relist(&self) -> Option<Wall> {
        self.kubelet.as_ref().and_then(KubeletPages::last_relist).or_else(|| {
            let snapshot = self.recorder.view.snapshot();
            let last = snapshot.last_list?;
            Some(snapshot.taken_at.minus(snapshot.now.since(last)))
        })
    }

    /// Returns the kubelet's health check of PLEG, and since when it fails.
    pub fn pleg_health(&self, now: Wall) -> Result<(), (Unhealthy, Wall)> {
        let Some(last) = self.last_relist() else { return Err((Unhealthy::NeverSuccessful, self.started)) };
        let (elapsed, threshold) = (now.duration_since(last), THRESHOLD);
        if elapsed <= threshold {
            return Ok(());
        }
        Err((Unhealthy::TooOld { elapsed, threshold }, last.plus(threshold)))
    }
}

impl Drop for RecorderThreads {
    fn drop(&mut self) {
        let threads: Vec<_> = self.0.drain(..).map(|(_stop, thread)| thread).collect();
        for thread in threads {
            // A recorder that writes no more leaves no file in a directory that is removed.
            let _ = thread.wait(END_LIMIT);
        }
    }
}
