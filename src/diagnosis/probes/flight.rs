//! Calls that have been made and are not answered yet. Each was asked once and stays pending until it is answered or
//! the run is over: what comes late is slow, and only what does not come is hung.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::{self, JoinHandle, JoinSet};

use super::super::budget::Budget;
use super::super::evidence::{Evidence, RuntimeEvidence, StatusRecord, Target};
use super::super::limits;
use super::super::listening::Listening;
use super::super::report::Confidence;
use super::super::silence::Scale;
use super::super::words::{plural, seconds};
use super::super::{Inputs, Progress};
use crate::clock::Mono;
use crate::cri::{Arriving, Call, Container, Error, Rpc, RuntimeStatus, Sandbox, Version, watched};

/// How often the pending calls are looked after.
const TICK: Duration = Duration::from_millis(100);

/// One call under way.
pub(super) struct InFlight<T> {
    rpc: Rpc,
    started: Mono,
    /// How long somebody else had been waiting by then.
    before: Duration,
    listening: Arc<Listening>,
    arrived: Arc<Arrived>,
    handle: JoinHandle<Call<T>>,
    /// Whether it goes on without us.
    is_left: bool,
}

/// What has come of an answer. Silence begins where that ends: a list that arrives, or is being read, is large or slow.
struct Arrived {
    listening: Arc<Listening>,
    seen: Mutex<Option<(u64, Mono)>>,
}

impl Arrived {
    fn awaited(listening: &Arc<Listening>) -> Arc<Self> {
        Arc::new(Self { listening: Arc::clone(listening), seen: Mutex::default() })
    }

    /// How much has come, and when the last of it was there; nothing if nothing came.
    fn so_far(&self) -> Option<(u64, Mono)> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when nothing has come, if the call began then.
    fn silent_since(&self, started: Mono) -> Mono {
        self.so_far().map_or(started, |(_, last)| last)
    }
}

impl Arriving for Arrived {
    fn came(&self, bytes: u64) {
        self.listening.hear(bytes);
        let now = self.listening.now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.map_or(0, |(bytes, _)| bytes);
        *seen = Some((before.saturating_add(bytes), now));
    }
}

impl<T> Drop for InFlight<T> {
    fn drop(&mut self) {
        if !self.is_left {
            self.handle.abort();
        }
    }
}

impl<T: Send + 'static> InFlight<T> {
    pub(super) fn start(
        listening: &Arc<Listening>,
        rpc: Rpc,
        call: impl Future<Output = Call<T>> + Send + 'static,
    ) -> Self {
        let arrived = Arrived::awaited(listening);
        Self {
            rpc,
            started: listening.now(),
            before: Duration::ZERO,
            listening: Arc::clone(listening),
            handle: tokio::spawn(watched(Arc::<Arrived>::clone(&arrived), call)),
            arrived,
            is_left: false,
        }
    }

    /// Whether somebody else made it.
    pub(super) fn is_known(&self) -> bool {
        !self.before.is_zero()
    }

    /// A call that somebody else made so long ago.
    pub(super) fn begun(mut self, ago: Duration) -> Self {
        self.before = ago;
        self
    }

    /// For how long its answer could have been read, and nothing of it was there.
    pub(super) fn waited(&self) -> Duration {
        let before = if self.arrived.so_far().is_some() { Duration::ZERO } else { self.before };
        before + self.silent_for()
    }

    /// The same since we asked.
    pub(super) fn silent_for(&self) -> Duration {
        self.listening.now().since(self.arrived.silent_since(self.started))
    }

    /// The end of the call, if it comes within `limit` from now.
    pub(super) async fn within(&mut self, limit: Duration) -> Option<Call<T>> {
        let ended = tokio::time::timeout(limit, &mut self.handle).await.ok()?;
        Some(self.unwrapped(ended))
    }

    /// The call as it stands: silent so far, or still on its way.
    pub(super) fn so_far(&self, silence: Scale) -> Call<T> {
        let (rpc, waited) = (self.rpc, self.waited());
        let silent =
            Call { rpc, duration: waited, response_bytes: 0, result: Err(Error::Silent { rpc, waited }) };
        match self.arrived.so_far() {
            Some((received, _)) if !silence.hangs(waited) => {
                let waited = self.before + self.listening.now().since(self.started);
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

    fn unwrapped(&self, ended: Result<Call<T>, task::JoinError>) -> Call<T> {
        let waited = self.before + self.listening.now().since(self.started);
        match ended {
            Ok(call) => Call { duration: self.listening.of_the_runtime(call.duration, waited), ..call },
            Err(why) => Call {
                rpc: self.rpc,
                duration: waited,
                response_bytes: 0,
                result: Err(Error::Own { rpc: self.rpc, detail: why.to_string() }),
            },
        }
    }
}

/// The end of a call that is under way, if it comes within `limit` from now.
pub(super) async fn end_of<T: Send + 'static>(
    call: &mut Option<InFlight<T>>,
    limit: Duration,
) -> Option<Call<T>> {
    let ended = call.as_mut()?.within(limit).await?;
    *call = None;
    Some(ended)
}

struct Pending {
    target: Target,
    rpc: Rpc,
    started: Mono,
    /// How long somebody else had been waiting by then.
    before: Duration,
    arrived: Arc<Arrived>,
    task: task::AbortHandle,
}

impl Pending {
    fn waited(&self, now: Mono) -> Duration {
        match self.arrived.so_far() {
            Some((_, last)) => now.since(last),
            None => self.before + now.since(self.started),
        }
    }

    fn took(&self, now: Mono) -> Duration {
        self.before + now.since(self.started)
    }
}

/// Status calls under way.
#[derive(Default)]
pub(super) struct Asking {
    tasks: JoinSet<StatusRecord>,
    pending: HashMap<task::Id, Pending>,
}

impl Asking {
    pub(super) fn start(
        &mut self,
        listening: &Arc<Listening>,
        target: Target,
        rpc: Rpc,
        call: impl Future<Output = StatusRecord> + Send + 'static,
    ) {
        self.take_over(listening, Duration::ZERO, target, rpc, call);
    }

    /// A call that somebody else made and has been waiting for.
    pub(super) fn take_over(
        &mut self,
        listening: &Arc<Listening>,
        before: Duration,
        target: Target,
        rpc: Rpc,
        call: impl Future<Output = StatusRecord> + Send + 'static,
    ) {
        let (started, arrived) = (listening.now(), Arrived::awaited(listening));
        let handle = self.tasks.spawn(watched(Arc::<Arrived>::clone(&arrived), call));
        let id = handle.id();
        self.pending.insert(id, Pending { target, rpc, started, before, arrived, task: handle });
    }

    /// Calls that have been pending for less than `age`, and the others.
    pub(super) fn younger_and_older(&self, now: Mono, age: Duration) -> (usize, usize) {
        let young = self.pending.values().filter(|call| call.waited(now) < age).count();
        (young, self.pending.len() - young)
    }

    /// When the first of the calls that are younger than `age` gets there at the earliest.
    pub(super) fn next_to_reach(&self, now: Mono, age: Duration) -> Option<Duration> {
        let left = self.pending.values().map(|call| age.saturating_sub(call.waited(now)));
        left.filter(|left| !left.is_zero()).min()
    }

    pub(super) fn is_pending(&self, target: &Target) -> bool {
        self.pending.values().any(|call| call.target == *target)
    }

    /// The next one to be answered, if that is within `limit`.
    pub(super) async fn next(&mut self, listening: &Listening, limit: Duration) -> Option<StatusRecord> {
        let ended = tokio::time::timeout(limit, self.tasks.join_next_with_id()).await.ok()??;
        Some(self.taken(ended, listening))
    }

    /// One that has been answered already.
    fn answered(&mut self, listening: &Listening) -> Option<StatusRecord> {
        let ended = self.tasks.try_join_next_with_id()?;
        Some(self.taken(ended, listening))
    }

    fn taken(
        &mut self,
        ended: Result<(task::Id, StatusRecord), task::JoinError>,
        listening: &Listening,
    ) -> StatusRecord {
        match ended {
            Ok((id, mut record)) => {
                if let Some(call) = self.pending.remove(&id) {
                    record.duration = listening.of_the_runtime(record.duration, call.took(listening.now()));
                }
                record
            }
            Err(why) => {
                let lost = self.pending.remove(&why.id());
                let (target, rpc) = lost
                    .map_or_else(|| (Target::nobody(), Rpc::ContainerStatus), |lost| (lost.target, lost.rpc));
                let result = Err(Error::Own { rpc, detail: why.to_string() });
                StatusRecord {
                    target,
                    rpc,
                    duration: Duration::ZERO,
                    response_bytes: 0,
                    result,
                    serial: false,
                    pending: false,
                }
            }
        }
    }

    /// Lets go of what is under way. Somebody else's call is not asked for again when it ends.
    fn leave(&mut self) {
        self.pending.values().filter(|call| !call.before.is_zero()).for_each(|call| call.task.abort());
        self.tasks.detach_all();
    }

    fn so_far(&self, now: Mono) -> impl Iterator<Item = StatusRecord> {
        self.pending
            .values()
            .map(move |call| StatusRecord::silent(call.target.clone(), call.rpc, call.waited(now)))
    }
}

/// Everything that is under way.
#[derive(Default)]
pub(in crate::diagnosis) struct Flight {
    pub(super) version: Option<InFlight<Version>>,
    pub(super) control: Option<InFlight<Version>>,
    pub(super) status: Option<InFlight<RuntimeStatus>>,
    pub(super) sandboxes: Option<InFlight<Vec<Sandbox>>>,
    pub(super) containers: Option<InFlight<Vec<Container>>>,
    pub(super) asking: Asking,
    pub(super) shims: Asking,
}

/// Takes the answer of a call that has one, or notes how long it has been silent.
async fn take<T: Send + 'static>(
    call: &mut Option<InFlight<T>>,
    place: &mut Option<Call<T>>,
    silence: Scale,
) {
    if let Some(ended) = end_of(call, Duration::ZERO).await {
        *place = Some(ended);
    } else if let Some(under_way) = call {
        *place = Some(under_way.so_far(silence));
    }
}

fn take_records(asking: &mut Asking, records: &mut Vec<StatusRecord>, listening: &Listening) {
    records.retain(|record| !record.pending);
    while let Some(record) = asking.answered(listening) {
        records.push(record);
    }
    records.extend(asking.so_far(listening.now()));
}

impl Flight {
    /// Writes into the evidence how each call stands now.
    pub(in crate::diagnosis) async fn note(&mut self, budget: &Budget, evidence: &mut RuntimeEvidence) {
        let silence = evidence.silence;
        take(&mut self.version, &mut evidence.version, silence).await;
        take(&mut self.control, &mut evidence.control, silence).await;
        take(&mut self.status, &mut evidence.status, silence).await;
        take(&mut self.sandboxes, &mut evidence.sandboxes.first, silence).await;
        take(&mut self.containers, &mut evidence.containers.first, silence).await;
        take_records(&mut self.asking, &mut evidence.asked, &budget.listening);
        take_records(&mut self.shims, &mut evidence.shims, &budget.listening);
    }

    /// Leaves the calls of this run that are under way to themselves: each goes on until it is answered, or its own
    /// deadline ends it.
    pub(in crate::diagnosis) fn leave(mut self) {
        fn leave<T>(call: &mut Option<InFlight<T>>) {
            if let Some(call) = call {
                call.is_left = call.before.is_zero();
            }
        }
        leave(&mut self.version);
        leave(&mut self.control);
        leave(&mut self.status);
        leave(&mut self.sandboxes);
        leave(&mut self.containers);
        self.asking.leave();
        self.shims.leave();
    }

    /// Waits for what is pending until it is answered, until nothing more can be learnt from waiting, or until the
    /// time is over.
    pub(in crate::diagnosis) async fn wait<R>(
        &mut self,
        inputs: &Inputs<R>,
        budget: &Budget,
        progress: Progress<'_>,
        evidence: &mut Evidence,
    ) {
        loop {
            self.note(budget, &mut evidence.runtime).await;
            if inputs.is_recorded() {
                return;
            }
            let Some(waits_for) = self.undecided(inputs.patience, evidence) else {
                return;
            };
            let limit = TICK.min(budget.for_waiting());
            if limit.is_zero() {
                return;
            }
            progress(&waits_for);
            tokio::time::sleep(limit).await;
        }
    }

    /// What is still worth waiting for, in words; `None` if nothing is.
    fn undecided(&self, patience: Duration, evidence: &Evidence) -> Option<String> {
        let runtime = &evidence.runtime;
        let enough = patience.min(runtime.silence.certain);
        let calls = [
            self.version.as_ref().map(InFlight::waiting),
            self.control.as_ref().map(InFlight::waiting),
            self.status.as_ref().map(InFlight::waiting),
            self.sandboxes.as_ref().map(InFlight::waiting),
            self.containers.as_ref().map(InFlight::waiting),
        ];
        let calls = calls.into_iter().flatten().filter(|(_, waited)| *waited < enough);
        let mut open: Vec<(Duration, String)> =
            calls.map(|(rpc, waited)| (waited, rpc.name().to_owned())).collect();
        let silent = runtime.asked.iter().chain(&runtime.shims).filter(|record| record.pending);
        open.extend(
            silent
                .filter(|record| record.duration < enough)
                .filter(|record| evidence.sure_of(&record.target.id, record.duration) != Confidence::Certain)
                .map(|record| {
                    let about = evidence.names.describe(&record.target.id);
                    (record.duration, format!("{} of {about}", record.rpc))
                }),
        );
        let (waited, what) = open.iter().max()?.clone();
        let more = match open.len() {
            1 => String::new(),
            many => format!(" and {}", plural(many - 1, "other call")),
        };
        let degree = if runtime.silence.hangs(waited) { ", likely hung" } else { "" };
        Some(format!("waiting for {what}{more}: {}{degree}", seconds(Duration::from_secs(waited.as_secs()))))
    }
}

impl<T: Send + 'static> InFlight<T> {
    fn waiting(&self) -> (Rpc, Duration) {
        (self.rpc, self.waited())
    }
}

/// How long the status calls in flight may hold a place that another one could use.
pub(super) const PLACE_HELD: Duration = limits::HUNT_AFTER;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_call_whose_task_is_lost_is_a_fault_of_our_own() {
        let mut asking = Asking::default();
        asking.tasks.spawn(std::future::pending::<StatusRecord>());
        asking.tasks.abort_all();
        let listening = Listening::start(Arc::new(SystemClock::start()), || None);
        let lost = asking.next(&listening, Duration::from_secs(60)).await.unwrap();
        assert!(matches!(lost.result, Err(Error::Own { .. })), "{:?}", lost.result);
    }
}
