//! One relist on its own, with or without the status of every pod, as a [`RelistReport`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::caller::{Caller, Sink};
use super::calls::{CallLog, CallRecord, Failure, OpenCall};
use super::fetch::Fetch;
use super::hub::Hub;
use super::pods::{Pod, Pods};
use super::report::{Cost, Counts, RelistReport, add_status, reported};
use super::status::PodStatus;
use super::stream::Event;
use crate::clock::{Clock, Wall};
use crate::cri::Runtime;
use crate::kubelet::Era;
use crate::report::{PodRef, RuntimeRef};

/// Which pods are asked for their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspect {
    /// None: the two lists are all.
    Nothing,
    /// All, up to so many pods at once; 1 is the kubelet's way.
    Everything {
        /// How many pods are asked about at once.
        concurrency: usize,
    },
}

/// How a report is to be made, and what it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The node's name, where it is known.
    pub node: Option<String>,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// Whose algorithm is followed.
    pub era: Era,
    /// Which pods are asked for their status.
    pub inspect: Inspect,
}

/// A relist whose lists failed: no report, but what it took to find out.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub struct NoLists {
    /// Why.
    #[source]
    pub failure: Failure,
    /// The calls made.
    pub calls: Vec<CallRecord>,
}

/// Makes one relist and reports it. A status call that fails is on record in the report, and the report is whole.
pub async fn relist<R: Runtime>(rt: &R, clock: &dyn Clock, order: Order) -> Result<RelistReport, NoLists> {
    relist_watched(rt, clock, order, &Unwatched).await
}

/// Whoever wants to know how far a relist has come.
pub trait Progress: Sync {
    /// So many pods are asked for their status from here on.
    fn inspects(&self, pods: usize);
    /// A call is about to be made; with several pods at once there may be several.
    fn call_started(&self, call: &OpenCall);
    /// That call is over.
    fn call_finished(&self, call: &CallRecord);
    /// One of those pods is done.
    fn inspected(&self);
}

/// The same as [`relist`], with somebody who looks on.
pub async fn relist_watched<R: Runtime>(
    rt: &R,
    clock: &dyn Clock,
    order: Order,
    progress: &dyn Progress,
) -> Result<RelistReport, NoLists> {
    let hub = Hub::new(false);
    let mut log = CallLog::default();
    let mut onlooker = Onlooker(progress);
    let started = clock.mono();
    let taken_at = clock.wall();
    let mut caller = Caller { rt, clock, hub: &hub, log: &mut log, sink: &mut onlooker };
    let lists = caller.lists(None).await;
    let mut calls = log.take_finished();
    let (sandboxes, containers) = match lists {
        Ok(lists) => lists,
        Err(failure) => return Err(NoLists { failure, calls }),
    };
    let pods = Pods::of_lists(&sandboxes, &containers, order.era.into(), |uid| uid.is_some());
    let mut reported = reported(&pods);
    if let Inspect::Everything { concurrency } = order.inspect {
        let pods = pods.newest_first();
        progress.inspects(pods.len());
        let (hub, era) = (&hub, order.era);
        let inspections = pods.into_iter().map(|pod| async move {
            let inspected = inspect(rt, clock, hub, era, pod, taken_at, progress).await;
            progress.inspected();
            inspected
        });
        let results = all(inspections, concurrency).await;
        for (pod, (status, made)) in reported.iter_mut().zip(results) {
            calls.extend(made);
            add_status(pod, &status);
        }
    }
    Ok(RelistReport {
        taken_at,
        node: order.node,
        runtime: order.runtime,
        relist: Cost { duration_seconds: clock.mono().since(started).into(), calls },
        counts: Counts::of(&reported),
        pods: reported,
    })
}

async fn inspect<R: Runtime>(
    rt: &R,
    clock: &dyn Clock,
    hub: &Hub,
    era: Era,
    pod: Pod<'_, '_>,
    listed_at: Wall,
    progress: &dyn Progress,
) -> (PodStatus, Vec<CallRecord>) {
    let identity = PodRef::from(&pod);
    let fetch = Fetch { pod: &identity, era, evented_gate: false, listed_at };
    let mut log = CallLog::default();
    let mut caller = Caller { rt, clock, hub, log: &mut log, sink: &mut Onlooker(progress) };
    // A failure is on record as the call that failed.
    let (status, _) = fetch.run(&mut caller, Some(&pod)).await;
    (status, log.take_finished())
}

/// Drives the futures to their ends, up to `concurrency` of them at once; the results are in their order.
async fn all<F: Future>(futures: impl Iterator<Item = F>, concurrency: usize) -> Vec<F::Output> {
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
            // Whoever has ended makes room for the next, who has to be polled before anybody waits.
            if active.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, output)| output).collect()
}

struct Unwatched;

impl Progress for Unwatched {
    fn inspects(&self, _pods: usize) {}
    fn call_started(&self, _call: &OpenCall) {}
    fn call_finished(&self, _call: &CallRecord) {}
    fn inspected(&self) {}
}

struct Onlooker<'a>(&'a dyn Progress);

impl Sink for Onlooker<'_> {
    fn event(&mut self, _event: Event) {}

    fn call_started(&mut self, call: &OpenCall) {
        self.0.call_started(call);
    }

    fn call_finished(&mut self, call: &CallRecord) {
        self.0.call_finished(call);
    }
}
