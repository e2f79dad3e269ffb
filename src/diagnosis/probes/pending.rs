//! The pending calls of a run. A call stays pending until it is answered or the run ends, so that a late answer counts as
//! slow and only a missing answer as a hang.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{self, JoinHandle, JoinSet};

use super::super::budget::RunBudget;
use super::super::evidence::{Evidence, RuntimeEvidence, StatusRecord, StatusTarget};
use super::super::limits;
use super::super::listening_clock::ListeningClock;
use super::super::report::Confidence;
use super::super::silence::SilenceLimits;
use super::{failed, not_answered};
use crate::clock::Mono;
use crate::cri::{
    Call, Container, Error, ProgressObserver, Rpc, RuntimeStatus, Sandbox, StreamedAnswer, Version,
    observe_progress,
};
use crate::threads::locked;

/// One pending call.
pub(super) struct PendingCall<T> {
    rpc: Rpc,
    progress: Arc<PendingProgress>,
    handle: JoinHandle<Call<T>>,
    /// Whether the call continues after the run.
    continues: bool,
}

/// When a call was sent, and how much of its answer has arrived. Silence counts from the last byte, because a list that is
/// still arriving does not hang.
struct PendingProgress {
    listening: Arc<ListeningClock>,
    started: Mono,
    /// How long the caller of this run had waited for the call at `started`; zero for the run's own calls.
    before: Duration,
    /// The number of bytes, and the time of the last of them.
    seen: Mutex<Option<(u64, Mono)>>,
    /// What has arrived of a streamed list.
    stream: Mutex<Option<StreamedAnswer>>,
}

impl PendingProgress {
    /// Creates the progress of a call that is about to be sent, or that the caller of this run had sent when the run began.
    fn nothing_yet(listening: &Arc<ListeningClock>, before: Duration) -> Arc<Self> {
        let (listening, started) = (Arc::clone(listening), listening.now());
        let is_callers = !before.is_zero() && !listening.recorded;
        let since_begin = if is_callers { started.since(Mono::default()) } else { Duration::ZERO };
        Arc::new(Self {
            started,
            listening,
            before: before + since_begin,
            seen: Mutex::default(),
            stream: Mutex::default(),
        })
    }

    /// Returns the number of bytes so far and the time of the last of them; `None` if no byte has arrived.
    fn so_far(&self) -> Option<(u64, Mono)> {
        *locked(&self.seen)
    }

    /// Returns how long the call has been silent, including the time before this run.
    fn waited(&self, now: Mono) -> Duration {
        self.so_far().map_or_else(|| self.took(now), |(_, last)| now.since(last))
    }

    /// Returns the time since the call was sent.
    fn took(&self, now: Mono) -> Duration {
        self.before + now.since(self.started)
    }
}

impl ProgressObserver for PendingProgress {
    fn received(&self, bytes: u64) {
        self.listening.add_received(bytes);
        let now = self.listening.now();
        let mut seen = locked(&self.seen);
        let before = seen.map_or(0, |(bytes, _)| bytes);
        *seen = Some((before.saturating_add(bytes), now));
    }

    fn streamed(&self, so_far: StreamedAnswer) {
        *locked(&self.stream) = Some(so_far);
    }
}

impl<T> Drop for PendingCall<T> {
    fn drop(&mut self) {
        if !self.continues {
            self.handle.abort();
        }
    }
}

impl<T: Send + 'static> PendingCall<T> {
    /// Starts a task that makes the call. `before` is how long the caller of this run had waited for the call.
    pub(super) fn start(
        listening: &Arc<ListeningClock>,
        before: Duration,
        rpc: Rpc,
        call: impl Future<Output = Call<T>> + Send + 'static,
    ) -> Self {
        let progress = PendingProgress::nothing_yet(listening, before);
        let sent = listening.send(rpc, None);
        let call = async move {
            let answer = call.await;
            drop(sent);
            answer
        };
        Self {
            rpc,
            handle: tokio::spawn(observe_progress(Arc::<PendingProgress>::clone(&progress), call)),
            progress,
            continues: false,
        }
    }

    /// Returns whether the caller of this run made the call.
    pub(super) fn is_callers(&self) -> bool {
        !self.progress.before.is_zero()
    }

    /// Returns how long the call has been silent, including the time before this run.
    pub(super) fn waited(&self) -> Duration {
        self.progress.waited(self.progress.listening.now())
    }

    /// Returns how long the call has been silent in this run.
    pub(super) fn silent_for(&self) -> Duration {
        let last = self.progress.so_far().map_or(self.progress.started, |(_, last)| last);
        self.progress.listening.now().since(last)
    }

    /// Returns the answer, if it arrives within `limit` from now.
    pub(super) async fn within(&mut self, limit: Duration) -> Option<Call<T>> {
        let ended = tokio::time::timeout(limit, &mut self.handle).await.ok()?;
        Some(self.to_call(ended))
    }

    /// Returns the present outcome: silent, or unfinished while the answer is arriving.
    pub(super) fn so_far(&self, silence: SilenceLimits) -> Call<T> {
        let (rpc, waited) = (self.rpc, self.waited());
        let stream = *locked(&self.progress.stream);
        let silent = Call { stream, ..not_answered(rpc, waited) };
        match self.progress.so_far() {
            Some((received, _)) if !silence.hangs(waited) => {
                let waited = self.progress.took(self.progress.listening.now());
                Call {
                    duration: waited,
                    response_bytes: received,
                    result: Err(Error::Unfinished { rpc, waited, received }),
                    ..silent
                }
            }
            Some((received, _)) => Call { response_bytes: received, ..silent },
            None => silent,
        }
    }

    /// Converts the end of the task into the result of the call.
    fn to_call(&self, ended: Result<Call<T>, task::JoinError>) -> Call<T> {
        let (rpc, listening) = (self.rpc, &self.progress.listening);
        let waited = self.progress.took(listening.now());
        match ended {
            Ok(call) => Call { duration: listening.runtime_share(call.duration, waited), ..call },
            Err(why) => failed(rpc, waited, Error::Internal { rpc, detail: why.to_string() }),
        }
    }
}

/// Returns the answer of a pending call, if it arrives within `limit` from now.
pub(super) async fn end_of<T: Send + 'static>(
    call: &mut Option<PendingCall<T>>,
    limit: Duration,
) -> Option<Call<T>> {
    let ended = call.as_mut()?.within(limit).await?;
    *call = None;
    Some(ended)
}

struct PendingStatusCall {
    target: StatusTarget,
    rpc: Rpc,
    progress: Arc<PendingProgress>,
    task: task::AbortHandle,
}

/// The pending status calls.
#[derive(Default)]
pub(super) struct PendingStatusCalls {
    tasks: JoinSet<StatusRecord>,
    pending: HashMap<task::Id, PendingStatusCall>,
}

impl PendingStatusCalls {
    /// Starts a task that makes the call. `before` is how long the caller of this run had waited for the call.
    pub(super) fn start(
        &mut self,
        listening: &Arc<ListeningClock>,
        before: Duration,
        target: StatusTarget,
        rpc: Rpc,
        call: impl Future<Output = StatusRecord> + Send + 'static,
    ) {
        let progress = PendingProgress::nothing_yet(listening, before);
        let sent = listening.send(rpc, Some(&target.id));
        let call = async move {
            let answer = call.await;
            drop(sent);
            answer
        };
        let task = self.tasks.spawn(observe_progress(Arc::<PendingProgress>::clone(&progress), call));
        self.pending.insert(task.id(), PendingStatusCall { target, rpc, progress, task });
    }

    /// Returns the number of calls that have been silent for less than `age`, and the number of the others.
    pub(super) fn count_by_age(&self, now: Mono, age: Duration) -> (usize, usize) {
        let young = self.pending.values().filter(|call| call.progress.waited(now) < age).count();
        (young, self.pending.len() - young)
    }

    /// Returns the time until the next call has been silent for `age`.
    pub(super) fn next_to_reach(&self, now: Mono, age: Duration) -> Option<Duration> {
        let left = self.pending.values().map(|call| age.saturating_sub(call.progress.waited(now)));
        left.filter(|left| !left.is_zero()).min()
    }

    /// Whether a status call for this target is pending.
    pub(super) fn is_pending(&self, target: &StatusTarget) -> bool {
        self.pending.values().any(|call| call.target == *target)
    }

    /// Returns the next answer, if it arrives within `limit`.
    pub(super) async fn next(&mut self, listening: &ListeningClock, limit: Duration) -> Option<StatusRecord> {
        let ended = tokio::time::timeout(limit, self.tasks.join_next_with_id()).await.ok()??;
        Some(self.finished_record(ended, listening))
    }

    /// Returns an answer that has arrived already.
    fn next_answered(&mut self, listening: &ListeningClock) -> Option<StatusRecord> {
        let ended = self.tasks.try_join_next_with_id()?;
        Some(self.finished_record(ended, listening))
    }

    /// Removes a finished call, and returns its record.
    fn finished_record(
        &mut self,
        ended: Result<(task::Id, StatusRecord), task::JoinError>,
        listening: &ListeningClock,
    ) -> StatusRecord {
        match ended {
            Ok((id, mut record)) => {
                if let Some(call) = self.pending.remove(&id) {
                    let took = call.progress.took(listening.now());
                    record.duration = listening.runtime_share(record.duration, took);
                }
                record
            }
            Err(why) => {
                let lost = self.pending.remove(&why.id());
                let (target, rpc) = lost.map_or_else(
                    || (StatusTarget::placeholder(), Rpc::ContainerStatus),
                    |lost| (lost.target, lost.rpc),
                );
                let why = Error::Internal { rpc, detail: why.to_string() };
                StatusRecord::ended(target, failed(rpc, Duration::ZERO, why))
            }
        }
    }

    /// Lets the run's own calls continue after the run, and drops those that would follow a call of the caller.
    fn leave(&mut self) {
        let of_caller = self.pending.values().filter(|call| !call.progress.before.is_zero());
        of_caller.for_each(|call| call.task.abort());
        self.tasks.detach_all();
    }

    /// Returns a record for each pending call: it is silent.
    fn so_far(&self, now: Mono) -> impl Iterator<Item = StatusRecord> {
        self.pending
            .values()
            .map(move |call| StatusRecord::silent(call.target.clone(), call.rpc, call.progress.waited(now)))
    }
}

/// All pending calls of a run.
#[derive(Default)]
pub(in crate::diagnosis) struct PendingCalls {
    pub(super) version: Option<PendingCall<Version>>,
    pub(super) control: Option<PendingCall<Version>>,
    pub(super) status: Option<PendingCall<RuntimeStatus>>,
    pub(super) sandboxes: Option<PendingCall<Vec<Sandbox>>>,
    pub(super) containers: Option<PendingCall<Vec<Container>>>,
    pub(super) status_calls: PendingStatusCalls,
    pub(super) shims: PendingStatusCalls,
}

/// Stores the answer of a call, or how long the call has been silent.
async fn store_outcome<T: Send + 'static>(
    call: &mut Option<PendingCall<T>>,
    place: &mut Option<Call<T>>,
    silence: SilenceLimits,
) {
    if let Some(ended) = end_of(call, Duration::ZERO).await {
        *place = Some(ended);
    } else if let Some(under_way) = call {
        *place = Some(under_way.so_far(silence));
    }
}

/// Stores the outcome of all status calls, answered or silent so far.
fn store_status_outcomes(
    status_calls: &mut PendingStatusCalls,
    records: &mut Vec<StatusRecord>,
    listening: &ListeningClock,
) {
    records.retain(|record| !record.pending);
    while let Some(record) = status_calls.next_answered(listening) {
        records.push(record);
    }
    records.extend(status_calls.so_far(listening.now()));
}

impl PendingCalls {
    /// Stores the present outcome of each call in the evidence.
    pub(in crate::diagnosis) async fn store_outcomes(
        &mut self,
        budget: &RunBudget,
        evidence: &mut RuntimeEvidence,
    ) {
        let silence = evidence.silence;
        store_outcome(&mut self.version, &mut evidence.version, silence).await;
        store_outcome(&mut self.control, &mut evidence.control, silence).await;
        store_outcome(&mut self.status, &mut evidence.status, silence).await;
        store_outcome(&mut self.sandboxes, &mut evidence.sandboxes.first, silence).await;
        store_outcome(&mut self.containers, &mut evidence.containers.first, silence).await;
        store_status_outcomes(&mut self.status_calls, &mut evidence.status_calls, &budget.listening);
        store_status_outcomes(&mut self.shims, &mut evidence.shims, &budget.listening);
    }

    /// Lets the calls that this run made continue until they are answered or their own deadline ends them.
    pub(in crate::diagnosis) fn leave(mut self) {
        fn leave<T: Send + 'static>(call: &mut Option<PendingCall<T>>) {
            if let Some(call) = call {
                call.continues = !call.is_callers();
            }
        }
        leave(&mut self.version);
        leave(&mut self.control);
        leave(&mut self.status);
        leave(&mut self.sandboxes);
        leave(&mut self.containers);
        self.status_calls.leave();
        self.shims.leave();
    }

    /// Returns whether more waiting may change the outcome of a call.
    pub(in crate::diagnosis) fn undecided(&self, patience: Duration, evidence: &Evidence) -> bool {
        let runtime = &evidence.runtime;
        let max_silence = patience.min(runtime.silence.certain);
        let calls = [
            self.version.as_ref().map(PendingCall::waited),
            self.control.as_ref().map(PendingCall::waited),
            self.status.as_ref().map(PendingCall::waited),
            self.sandboxes.as_ref().map(PendingCall::waited),
            self.containers.as_ref().map(PendingCall::waited),
        ];
        let silent = runtime.status_calls.iter().chain(&runtime.shims).filter(|record| record.pending);
        let is_undecided = |record: &StatusRecord| {
            record.duration < max_silence
                && evidence.hang_confidence(&record.target.id, record.duration) != Confidence::Certain
        };
        calls.into_iter().flatten().any(|waited| waited < max_silence) || silent.into_iter().any(is_undecided)
    }
}

/// The silence after which a status call no longer prevents another call from being made.
pub(super) const SLOT_TIMEOUT: Duration = limits::ID_SEARCH_AFTER;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_call_whose_task_is_aborted_is_an_internal_error() {
        let mut status_calls = PendingStatusCalls::default();
        status_calls.tasks.spawn(std::future::pending::<StatusRecord>());
        status_calls.tasks.abort_all();
        let listening = ListeningClock::start(Arc::new(SystemClock::start()), || None);
        let lost = status_calls.next(&listening, Duration::from_secs(60)).await.unwrap();
        assert!(matches!(lost.result, Err(Error::Internal { .. })), "{:?}", lost.result);
    }
}
