//! Makes a single relist for the command `relist`, with or without the status of every pod, and returns a [`RelistReport`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::caller::{AnswerLimit, Caller, Sink};
use super::calls::{CallFailure, CallLog, CallRecord, OpenCall};
use super::fetch::StatusFetch;
use super::pods::{ListedPod, listed_pods};
use super::report::{Counts, RelistCost, RelistReport, add_status, reported};
use super::shared_state::SharedState;
use super::status::PodStatus;
use super::stream::Event;
use crate::clock::{Clock, Wall};
use crate::cri::Runtime;
use crate::kubelet::Era;
use crate::report::{PodRef, RuntimeRef};

/// The pods whose status a relist fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspect {
    /// No pod: the relist makes only the two list calls.
    Nothing,
    /// All pods. The kubelet inspects one pod at a time.
    Everything {
        /// The number of pods that are inspected at once.
        concurrency: usize,
    },
}

/// The settings of a relist, and the header of its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelistRequest {
    /// The node's name, if it is known.
    pub node: Option<String>,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// The kubelet releases whose way of relisting is used.
    pub era: Era,
    /// The pods whose status is fetched.
    pub inspect: Inspect,
}

/// The error of a relist whose list calls failed, so that there is no report.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub struct ListsFailed {
    /// The failure of a list call.
    #[source]
    pub failure: CallFailure,
    /// The calls that were made.
    pub calls: Vec<CallRecord>,
}

/// Makes one relist and reports it. A failed status call does not fail the relist: the report lists it among its
/// calls.
pub async fn relist<R: Runtime>(
    rt: &R,
    clock: &dyn Clock,
    request: RelistRequest,
) -> Result<RelistReport, ListsFailed> {
    relist_with_progress(rt, clock, request, &NoProgress).await
}

/// Receives the progress of a relist.
pub trait CallProgress: Sync {
    /// The status of this many pods is about to be fetched.
    fn pods_to_inspect(&self, _pods: usize) {}
    /// A call is about to be made. If several pods are inspected at once, several calls may be open.
    fn call_started(&self, _call: &OpenCall) {}
    /// A call has ended.
    fn call_finished(&self, _call: &CallRecord) {}
    /// The status of one pod has been fetched.
    fn pod_inspected(&self) {}
}

/// Makes one relist as [`relist`] does, and reports its progress.
pub async fn relist_with_progress<R: Runtime>(
    rt: &R,
    clock: &dyn Clock,
    request: RelistRequest,
    progress: &dyn CallProgress,
) -> Result<RelistReport, ListsFailed> {
    let shared_state = SharedState::new(false);
    let mut log = CallLog::default();
    let mut progress_sink = ProgressSink(progress);
    let started = clock.mono();
    let taken_at = clock.wall();
    // The report shows how far a list is over the kubelet's limit, so the list must be accepted.
    let limit = AnswerLimit::Own;
    let mut caller =
        Caller { rt, clock, shared_state: &shared_state, log: &mut log, sink: &mut progress_sink, limit };
    let lists = caller.lists(None).await;
    let mut calls = log.take_finished();
    let (sandboxes, containers) = match lists {
        Ok(lists) => lists,
        Err(failure) => return Err(ListsFailed { failure, calls }),
    };
    let pods = listed_pods(&sandboxes, &containers, request.era.into());
    let mut reported = reported(&pods);
    if let Inspect::Everything { concurrency } = request.inspect {
        progress.pods_to_inspect(pods.len());
        let (shared_state, era) = (&shared_state, request.era);
        let inspections = pods.iter().map(|pod| async move {
            let inspected = inspect(rt, clock, shared_state, era, pod, taken_at, progress).await;
            progress.pod_inspected();
            inspected
        });
        let results = run_concurrently(inspections, concurrency).await;
        for (pod, (status, made)) in reported.iter_mut().zip(results) {
            calls.extend(made);
            add_status(pod, &status);
        }
    }
    Ok(RelistReport {
        list_calls: None,
        taken_at,
        node: request.node,
        runtime: request.runtime,
        relist: RelistCost { duration_seconds: clock.mono().since(started).into(), calls },
        counts: Counts::of(&reported),
        pods: reported,
    })
}

/// Fetches the status of one pod. Returns the status and the calls.
async fn inspect<R: Runtime>(
    rt: &R,
    clock: &dyn Clock,
    shared_state: &SharedState,
    era: Era,
    pod: &ListedPod<'_>,
    listed_at: Wall,
    progress: &dyn CallProgress,
) -> (PodStatus, Vec<CallRecord>) {
    let identity = PodRef::from(pod);
    let fetch = StatusFetch { pod: &identity, era, evented_gate: false, listed_at };
    let mut log = CallLog::default();
    let (sink, limit) = (&mut ProgressSink(progress), AnswerLimit::Own);
    let mut caller = Caller { rt, clock, shared_state, log: &mut log, sink, limit };
    // The failure is already in the call log.
    let (status, _) = fetch.run(&mut caller, Some(pod)).await;
    (status, log.take_finished())
}

/// Runs the futures to completion, at most `concurrency` at once. Returns the results in the order of the futures.
async fn run_concurrently<F: Future>(futures: impl Iterator<Item = F>, concurrency: usize) -> Vec<F::Output> {
    let mut waiting = futures.enumerate();
    let mut active: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    let mut done: Vec<(usize, F::Output)> = Vec::new();
    poll_fn(|context| {
        loop {
            let room = concurrency.max(1).saturating_sub(active.len());
            active.extend(waiting.by_ref().take(room).map(|(number, future)| (number, Box::pin(future))));
            if active.is_empty() {
                return Poll::Ready(());
            }
            let before = active.len();
            active.retain_mut(|(number, future)| match future.as_mut().poll(context) {
                Poll::Ready(output) => {
                    done.push((*number, output));
                    false
                }
                Poll::Pending => true,
            });
            // A finished future makes room for the next one, which must be polled before this task waits.
            if active.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, output)| output).collect()
}

/// Ignores the progress.
struct NoProgress;

impl CallProgress for NoProgress {}

/// Passes the calls of a relist to a [`CallProgress`].
struct ProgressSink<'a>(&'a dyn CallProgress);

impl Sink for ProgressSink<'_> {
    fn event(&mut self, _event: Event) {}

    fn call_started(&mut self, call: &OpenCall) {
        self.0.call_started(call);
    }

    fn call_finished(&mut self, call: &CallRecord) {
        self.0.call_finished(call);
    }
}
