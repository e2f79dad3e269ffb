//! [`ParallelWork`]: what a recording does while a relist runs and between two relists.

use std::pin::pin;

use tokio::time::Interval;

use super::incident_handler::IncidentHandler;
use super::{RecordingHost, RecordingNotice, RecordingSignal, RecordingSignals};
use crate::capture::entry::Session;
use crate::clock::Mono;
use crate::cri::Version;
use crate::threads::locked;

/// The work in parallel with relists: checks for incidents, signals and samples of the node.
pub struct ParallelWork<'a, H, S> {
    pub handler: IncidentHandler<'a, H>,
    pub signals: S,
    pub sample_ticks: Interval,
    /// The session as written to the capture, until the runtime has answered Version and its name can be added; `None`
    /// as soon as the runtime has answered Version.
    pub unnamed_session: Option<Session>,
}

/// A reason to work while a relist runs or is not yet due.
enum Interruption {
    /// A signal arrived.
    Signal(RecordingSignal),
    /// The next sample of the node is due.
    Sample,
    /// The next check for incidents is due.
    Check,
}

impl<H: RecordingHost, S: RecordingSignals> ParallelWork<'_, H, S> {
    /// Runs the parallel work until `work` is done. `relist` is the time at which the current relist began, if one runs.
    /// Fails with the reason if the recording is over.
    pub async fn work_during<T>(
        &mut self,
        work: impl Future<Output = T>,
        relist: Option<Mono>,
    ) -> Result<T, &'static str> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Ok(result),
                end = self.handle_next(relist) => {
                    if let Some(why) = end {
                        return Err(why);
                    }
                }
            }
        }
    }

    /// Waits for the next interruption or background result, and handles it. Returns the reason if the recording is over.
    /// The future may be dropped while it waits.
    async fn handle_next(&mut self, relist: Option<Mono>) -> Option<&'static str> {
        let Self { handler, signals, sample_ticks, .. } = self;
        let time_to_check = handler.time_to_next_check(relist);
        let interruption = tokio::select! {
            biased;
            result = handler.background.next() => {
                if let Some(version) = handler.background_finished(result) {
                    self.runtime_answered(version);
                }
                return None;
            }
            signal = signals.next() => Interruption::Signal(signal),
            _ = sample_ticks.tick() => Interruption::Sample,
            () = tokio::time::sleep(time_to_check) => Interruption::Check,
        };
        match interruption {
            Interruption::Signal(RecordingSignal::End(why)) => return Some(why),
            Interruption::Signal(RecordingSignal::Reopen) => handler.recorder.reopen(),
            Interruption::Sample => handler.sample(),
            Interruption::Check => handler.check(relist),
        }
        None
    }

    /// Records the name of a runtime that answered Version for the first time.
    fn runtime_answered(&mut self, version: Version) {
        let Some(mut session) = self.unnamed_session.take() else { return };
        self.handler.host.notify(RecordingNotice::RuntimeAnswered(&version));
        session.runtime.clone_from(&version.runtime_name);
        session.runtime_version.clone_from(&version.runtime_version);
        self.handler.recorder.update_session(session);
        locked(&self.handler.state).runtime = Some(version);
    }

    /// After a relist, requests the version of a runtime that has just answered its first call.
    pub fn relist_finished(&mut self, answered: bool) {
        if answered && self.unnamed_session.is_some() {
            self.handler.request_version(self.handler.host.clock().mono());
        }
    }
}
