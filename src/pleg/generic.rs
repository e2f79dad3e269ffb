//! The relisting PLEG: lists all pods, and emits the differences from the previous relist as events.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::caller::{Caller, Sink};
use super::calls::{CallFailure, CallLog};
use super::fetch::StatusFetch;
use super::pods::{KubeletState, ListedPod, listed_pods};
use super::records::{Members, PodRecord, Transition, transitions};
use super::shared_state::{ClockReading, SharedState};
use super::status::PodStatus;
use super::stream::{Event, EventSource, EventSubject, EventType, Relist};
use crate::clock::{Clock, Wall};
use crate::cri::{Outcome, Runtime};
use crate::kubelet::Era;
use crate::report::PodRef;

/// How a [`GenericPleg`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlegSettings {
    /// The kubelet releases whose algorithm is used.
    pub era: Era,
    /// Whether the kubelet's `EventedPLEG` gate is on.
    pub evented_gate: bool,
    /// Whether the status of changed pods is fetched, as the kubelet does.
    pub inspect: bool,
}

impl Default for PlegSettings {
    fn default() -> Self {
        Self { era: Era::C, evented_gate: false, inspect: true }
    }
}

/// The relisting PLEG with its records of all pods.
#[derive(Debug)]
pub struct GenericPleg {
    shared_state: Arc<SharedState>,
    settings: PlegSettings,
    records: HashMap<String, PodRecord>,
    /// Pods whose status fetch failed in the previous relist. Only the releases that retry in a second round use
    /// this.
    failed: Vec<PodRef>,
    calls: CallLog,
    relists: u64,
    listed_before: bool,
}

/// What the events of one relist have in common.
#[derive(Clone, Copy)]
struct Pass {
    /// The number of the relist.
    relist: u64,
    initial: bool,
    listed_at: Wall,
}

/// The result of reconciling one pod.
enum Reconciled {
    /// Nothing had changed.
    Quiet,
    /// The pod was reconciled, with this number of events for the sync loop.
    Done(u64),
    /// The status fetch failed.
    Failed,
}

impl GenericPleg {
    /// Creates a PLEG without any records.
    pub fn new(shared_state: Arc<SharedState>, settings: PlegSettings) -> Self {
        Self {
            shared_state,
            settings,
            records: HashMap::new(),
            failed: Vec::new(),
            calls: CallLog::default(),
            relists: 0,
            listed_before: false,
        }
    }

    /// The state shared with the evented PLEG, the health check and the metrics.
    pub const fn shared_state(&self) -> &Arc<SharedState> {
        &self.shared_state
    }

    /// The settings.
    pub const fn settings(&self) -> PlegSettings {
        self.settings
    }

    /// The calls of the current relist, or of the last one if its future was dropped: then the open call is still
    /// there.
    pub const fn calls(&self) -> &CallLog {
        &self.calls
    }

    /// How many relists have started.
    pub const fn relists(&self) -> u64 {
        self.relists
    }

    /// The number of recorded pods, and a test whether a UID is one of them.
    pub fn pods(&self) -> (usize, impl Fn(&str) -> bool) {
        (self.records.len(), |uid| self.records.contains_key(uid))
    }

    /// Relists all pods. The future may be dropped at any time; see [`Self::calls`].
    pub async fn relist<R: Runtime>(&mut self, rt: &R, clock: &dyn Clock, sink: &mut dyn Sink) -> Relist {
        let mut io = Io { rt, clock, sink };
        self.relists += 1;
        self.calls.clear();
        let started = ClockReading::now(clock);
        let interval = self.shared_state.last_list().map(|last| started.mono.since(last));
        if let Some(interval) = interval {
            let seconds = interval.as_secs_f64();
            self.shared_state.lock().metrics.relist_interval.observe(seconds);
        }
        // The kubelet reads the clock for the pods a second time, after the start of the relist.
        let listed_at = clock.wall();
        let mut report = Relist::new(started.wall, self.relists);
        report.interval_seconds = interval.map(Into::into);
        match io.caller(&self.shared_state, &mut self.calls).lists(None).await {
            Ok((sandboxes, containers)) => {
                self.shared_state.listed(started);
                let pods = listed_pods(&sandboxes, &containers, self.settings.era.into());
                self.count(&pods, &mut report);
                let pass = Pass { relist: self.relists, initial: !self.listed_before, listed_at };
                self.listed_before = true;
                report.events = self.reconcile_all(&pods, pass, &mut io).await;
            }
            Err(failure) => {
                self.shared_state.lock().unreachable = match &failure {
                    CallFailure::Call(error) if error.is_unreachable() => Some(error.to_string()),
                    CallFailure::Call(_) | CallFailure::Refused(_) => None,
                };
                report.outcome = match &failure {
                    CallFailure::Call(error) => error.outcome(),
                    CallFailure::Refused(_) => Outcome::Error,
                };
                report.error = Some(failure.to_string());
            }
        }
        let duration = clock.mono().since(started.mono);
        let mut shared = self.shared_state.lock();
        shared.metrics.relist_duration.observe(duration.as_secs_f64());
        report.reinspect = count(self.failed.len() + shared.reinspect.len());
        drop(shared);
        report.time = clock.wall();
        report.duration_seconds = duration.into();
        report.calls = self.calls.take_finished();
        report
    }

    /// Relists a single pod. A kubelet from 1.37 on does this when the event stream reports that something of the
    /// pod has stopped. A pod that is not found is left to the next relist of all pods.
    pub async fn relist_pod<R: Runtime>(
        &mut self,
        uid: &str,
        rt: &R,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) {
        let mut io = Io { rt, clock, sink };
        self.calls.clear();
        let listed_at = clock.wall();
        let lists = io.caller(&self.shared_state, &mut self.calls).lists(Some(uid)).await;
        let Ok((sandboxes, containers)) = lists else { return };
        let pods = listed_pods(&sandboxes, &containers, self.settings.era.into());
        if let Some(pod) = pods.iter().find(|pod| pod.uid == uid) {
            self.remember(pod);
            let pass = Pass { relist: self.relists, initial: false, listed_at };
            self.reconcile(uid, Some(pod), pass, &mut io).await;
        }
    }

    fn count(&self, pods: &[ListedPod<'_>], report: &mut Relist) {
        let (mut running, mut containers) = (0, BTreeMap::new());
        for pod in pods {
            report.sandboxes += count(pod.sandboxes.len());
            report.containers += count(pod.containers.len());
            let mut states = pod.sandboxes.iter().map(|sandbox| KubeletState::from(sandbox.state));
            running += i64::from(states.any(|state| state == KubeletState::Running));
            for container in &pod.containers {
                *containers.entry(container.state.into()).or_default() += 1;
            }
        }
        report.pods = count(pods.len());
        self.shared_state.lock().metrics.set_running(running, &containers);
    }

    /// Reconciles the pods that differ from their records, and those marked for reinspection.
    async fn reconcile_all<R: Runtime>(
        &mut self,
        pods: &[ListedPod<'_>],
        pass: Pass,
        io: &mut Io<'_, R>,
    ) -> u64 {
        let mut events = 0;
        let mut again = std::mem::take(&mut self.failed);
        let mut failed = Vec::new();
        let marked = self.shared_state.lock().reinspect.clone();
        let changed: Vec<&ListedPod<'_>> =
            pods.iter().filter(|pod| marked.contains(pod.uid) || !self.is_recorded(pod)).collect();
        for pod in &changed {
            self.remember(pod);
        }
        // A vanished pod needs no call, so it goes first and does not wait for calls that may hang.
        let here: HashSet<&str> = pods.iter().map(|pod| pod.uid).collect();
        let mut vanished: Vec<String> =
            self.records.keys().filter(|uid| !here.contains(uid.as_str())).cloned().collect();
        vanished.sort_unstable();
        let work = vanished
            .iter()
            .map(|uid| (uid.as_str(), None))
            .chain(changed.iter().map(|pod| (pod.uid, Some(*pod))));
        for (uid, pod) in work {
            match self.reconcile(uid, pod, pass, io).await {
                Reconciled::Quiet => {}
                Reconciled::Done(sent) => {
                    events += sent;
                    again.retain(|waiting| waiting.uid != uid);
                }
                Reconciled::Failed => failed.extend(pod.map(PodRef::from)),
            }
        }
        if self.settings.era.reinspects_in_a_second_round() {
            for pod in again {
                let status =
                    fetch(&self.shared_state, self.settings, &mut self.calls, &pod, None, pass, io).await;
                if status.is_err() && failed.iter().all(|known| known.uid != pod.uid) {
                    failed.push(pod);
                }
            }
            self.failed = failed;
        }
        events
    }

    /// Whether the record of a pod has the pod's members in the same order and states.
    fn is_recorded(&self, pod: &ListedPod<'_>) -> bool {
        let old = self.records.get(pod.uid).and_then(|record| record.old.as_ref());
        old.is_some_and(|old| old.has_members_of(pod))
    }

    fn remember(&mut self, pod: &ListedPod<'_>) {
        if !self.records.contains_key(pod.uid) {
            let record = PodRecord { pod: PodRef::from(pod), old: None };
            self.records.insert(pod.uid.to_owned(), record);
        }
    }

    /// Updates the record of one pod; `pod` is `None` when the pod is no longer listed.
    async fn reconcile<R: Runtime>(
        &mut self,
        uid: &str,
        pod: Option<&ListedPod<'_>>,
        pass: Pass,
        io: &mut Io<'_, R>,
    ) -> Reconciled {
        let Self { shared_state, settings, records, calls, .. } = self;
        let era = settings.era;
        let Some(record) = records.get(uid) else {
            return Reconciled::Quiet;
        };
        let new = pod.map(Members::of);
        let changes = transitions(record.old.as_ref(), new.as_ref());
        let flagged = shared_state.lock().reinspect.remove(uid);
        if changes.is_empty() && !flagged {
            return Reconciled::Quiet;
        }
        let identity = pod.map_or_else(|| record.pod.clone(), PodRef::from);
        let status = match pod {
            None => {
                shared_state.lock().cache.delete(uid);
                None
            }
            Some(_) if !settings.inspect => None,
            Some(_) => match fetch(shared_state, *settings, calls, &identity, pod, pass, io).await {
                Ok(Some(status)) => Some(status),
                // The cache has a newer status: the kubelet drops the events and keeps the old record.
                Ok(None) => return Reconciled::Done(0),
                Err(_) => {
                    if !era.reinspects_in_a_second_round() {
                        shared_state.lock().reinspect.insert(uid.to_owned());
                    }
                    return Reconciled::Failed;
                }
            },
        };
        let events = if changes.is_empty() && era.announces_reinspection() {
            vec![pass.pod_sync(&identity)]
        } else {
            let event = |change| pass.event(&identity, change, status.as_deref());
            changes.iter().map(event).collect()
        };
        // The record is updated before the events are sent: an event lost to a full channel is lost for good, as in
        // the kubelet.
        match new {
            None => drop(records.remove(uid)),
            old => drop(records.insert(uid.to_owned(), PodRecord { pod: identity, old })),
        }
        Reconciled::Done(send(events, io))
    }
}

/// Fetches the status of a pod and stores the status or the failure in the cache. Returns `None` if the cache has a
/// newer status.
async fn fetch<R: Runtime>(
    shared_state: &SharedState,
    settings: PlegSettings,
    calls: &mut CallLog,
    identity: &PodRef,
    listed: Option<&ListedPod<'_>>,
    pass: Pass,
    io: &mut Io<'_, R>,
) -> Result<Option<Arc<PodStatus>>, CallFailure> {
    let fetch = StatusFetch {
        pod: identity,
        era: settings.era,
        evented_gate: settings.evented_gate,
        listed_at: pass.listed_at,
    };
    let mut as_of =
        if settings.era.stamps_status_with_list_time() { pass.listed_at } else { io.clock.wall() };
    let (mut status, result) = fetch.run(&mut io.caller(shared_state, calls), listed).await;
    let mut shared = shared_state.lock();
    match result {
        Ok(()) => {
            shared.preserve_ips(&mut status);
            if settings.evented_gate && shared.evented_in_use {
                as_of = status.timestamp;
            }
            let status = Arc::new(status);
            let kept = shared.cache.set(&identity.uid, Some(Arc::clone(&status)), None, as_of);
            Ok(kept.then_some(status))
        }
        Err(failure) => {
            shared.cache.set(&identity.uid, None, Some(failure.to_string()), as_of);
            Err(failure)
        }
    }
}

/// Sends events to the sink. Returns how many of them the sync loop receives.
fn send<R>(events: Vec<Event>, io: &mut Io<'_, R>) -> u64 {
    let mut meant = 0;
    for mut event in events {
        meant += u64::from(event.event_type.is_delivered());
        event.time = io.clock.wall();
        io.sink.event(event);
    }
    meant
}

impl Pass {
    fn pod_sync(self, pod: &PodRef) -> Event {
        Event {
            relist: Some(self.relist),
            initial: self.initial,
            ..Event::new(
                self.listed_at,
                EventSource::Generic,
                EventType::PodSync,
                pod.clone(),
                EventSubject::Pod,
            )
        }
    }

    fn event(self, pod: &PodRef, change: &Transition<'_>, status: Option<&PodStatus>) -> Event {
        let detail = status
            .filter(|_| change.is_death_of_a_container())
            .and_then(|status| status.container(&change.member.id));
        Event {
            relist: Some(self.relist),
            initial: self.initial,
            exit_code: detail.and_then(|detail| detail.exit_code),
            reason: detail.map(|detail| detail.reason.clone()).filter(|reason| !reason.is_empty()),
            ..change.event(self.listed_at, pod)
        }
    }
}

/// The runtime, clock and sink of one relist.
struct Io<'a, R> {
    rt: &'a R,
    clock: &'a dyn Clock,
    sink: &'a mut dyn Sink,
}

impl<R> Io<'_, R> {
    fn caller<'b>(&'b mut self, shared_state: &'b SharedState, log: &'b mut CallLog) -> Caller<'b, R> {
        Caller { rt: self.rt, clock: self.clock, shared_state, log, sink: self.sink }
    }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
