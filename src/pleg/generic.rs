//! The relisting PLEG.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::caller::{Caller, Sink};
use super::calls::{CallLog, Failure};
use super::fetch::Fetch;
use super::hub::{Hub, Moment};
use super::known::{Known, Scan};
use super::pods::{KubeletState, Pod, Pods};
use super::records::{Members, Record, Transition, transitions};
use super::status::PodStatus;
use super::stream::{Event, EventType, Relist, Source, Subject};
use crate::clock::{Clock, Wall};
use crate::cri::{Container, Outcome, Runtime, Sandbox};
use crate::kubelet::Era;
use crate::report::PodRef;

/// How a [`Generic`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whose algorithm is followed.
    pub era: Era,
    /// Whether the kubelet's `EventedPLEG` gate is on.
    pub evented_gate: bool,
    /// Whether changed pods are asked for their status, as the kubelet does.
    pub inspect: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { era: Era::C, evented_gate: false, inspect: true }
    }
}

/// The records of all pods, and what it takes to bring them up to date.
#[derive(Debug)]
pub struct Generic {
    hub: Arc<Hub>,
    settings: Settings,
    records: HashMap<String, Record>,
    known: Known,
    /// Pods that failed in the previous relist, for the era that has a second round.
    failed: Vec<PodRef>,
    calls: CallLog,
    relists: u64,
    listed_before: bool,
}

/// What one pass over the lists belongs to.
#[derive(Clone, Copy)]
struct Pass {
    /// Number of the relist.
    relist: u64,
    initial: bool,
    listed_at: Wall,
}

/// What came of one pod.
enum Reconciled {
    /// There was nothing to do.
    Quiet,
    /// The pod was inspected, with so many events for the sync loop.
    Done(u64),
    /// The status fetch failed.
    Failed,
}

impl Generic {
    /// A PLEG that has seen nothing yet.
    pub fn new(hub: Arc<Hub>, settings: Settings) -> Self {
        Self {
            hub,
            settings,
            records: HashMap::new(),
            known: Known::default(),
            failed: Vec::new(),
            calls: CallLog::default(),
            relists: 0,
            listed_before: false,
        }
    }

    /// The shared state.
    pub const fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// How it works.
    pub const fn settings(&self) -> Settings {
        self.settings
    }

    /// Calls of the current relist, or of the last one if it was dropped half-way: then the open one is still there.
    pub const fn calls(&self) -> &CallLog {
        &self.calls
    }

    /// How many relists were begun.
    pub const fn relists(&self) -> u64 {
        self.relists
    }

    /// How many pods it has a record of, and whether one of them has this UID.
    pub fn pods(&self) -> (usize, impl Fn(&str) -> bool) {
        (self.records.len(), |uid| self.records.contains_key(uid))
    }

    /// One relist of everything. It may be dropped at any time; see [`Self::calls`].
    pub async fn relist<R: Runtime>(&mut self, rt: &R, clock: &dyn Clock, sink: &mut dyn Sink) -> Relist {
        let mut io = Io { rt, clock, sink };
        self.relists += 1;
        self.calls.clear();
        let started = Moment::now(clock);
        let interval = self.hub.last_list().map(|last| started.mono.since(last));
        if let Some(interval) = interval {
            let seconds = interval.as_secs_f64();
            self.hub.lock().metrics.relist_interval.observe(seconds);
        }
        // The pods carry a reading of their own, taken after that of the relist.
        let listed_at = clock.wall();
        let mut report = Relist::new(started.wall, self.relists);
        report.interval_seconds = interval.map(Into::into);
        match io.caller(&self.hub, &mut self.calls).lists(None).await {
            Ok((sandboxes, containers)) => {
                self.hub.listed(started);
                let scan = self.known.scan(&sandboxes, &containers);
                self.count(&scan, &mut report);
                let uids = self.uids_to_look_at(scan);
                let pods = self.group(&sandboxes, &containers, &uids);
                let pass = Pass { relist: self.relists, initial: !self.listed_before, listed_at };
                self.listed_before = true;
                report.events = self.reconcile_all(&pods, &uids, pass, &mut io).await;
            }
            Err(failure) => {
                self.hub.lock().unreachable = match &failure {
                    Failure::Call(error) if error.is_unreachable() => Some(error.to_string()),
                    Failure::Call(_) | Failure::Refused(_) => None,
                };
                report.outcome = match &failure {
                    Failure::Call(error) => error.outcome(),
                    Failure::Refused(_) => Outcome::Error,
                };
                report.error = Some(failure.to_string());
            }
        }
        let duration = clock.mono().since(started.mono);
        let mut shared = self.hub.lock();
        shared.metrics.relist_duration.observe(duration.as_secs_f64());
        report.reinspect = count(self.failed.len() + shared.reinspect.len());
        drop(shared);
        report.time = clock.wall();
        report.duration_seconds = duration.into();
        report.calls = self.calls.take_finished();
        report
    }

    /// One relist of a single pod, as a kubelet from 1.37 on makes it when the event stream says that something of the pod has
    /// stopped. A pod that is not found is left to the next relist of everything.
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
        let lists = io.caller(&self.hub, &mut self.calls).lists(Some(uid)).await;
        let Ok((sandboxes, containers)) = lists else { return };
        let pods = Pods::group(&sandboxes, &containers, self.settings.era.into());
        if let Some(pod) = pods.iter().find(|pod| pod.uid == uid) {
            self.remember(&pod);
            let pass = Pass { relist: self.relists, initial: false, listed_at };
            self.reconcile(uid, Some(&pod), pass, &mut io).await;
        }
    }

    fn count(&self, scan: &Scan<'_>, report: &mut Relist) {
        report.pods = count(scan.pods.all);
        report.sandboxes = count(scan.sandboxes);
        report.containers = count(scan.containers.iter().sum());
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let present = KubeletState::ALL
            .into_iter()
            .zip(scan.containers.map(gauge))
            .filter(|(_, containers)| *containers > 0)
            .collect();
        self.hub.lock().metrics.set_running(gauge(scan.pods.running), &present);
    }

    /// The pods with these UIDs.
    fn group<'a>(
        &self,
        sandboxes: &'a [Sandbox],
        containers: &'a [Container],
        uids: &HashSet<String>,
    ) -> Pods<'a> {
        if uids.is_empty() {
            return Pods::default();
        }
        let wanted = |uid: Option<&str>| uid.is_some_and(|uid| uids.contains(uid));
        Pods::of_lists(sandboxes, containers, self.settings.era.into(), wanted)
    }

    /// UIDs of the pods that are not just as they are remembered, or are to be inspected again.
    fn uids_to_look_at(&self, scan: Scan<'_>) -> HashSet<String> {
        let mut uids = self.hub.lock().reinspect.clone();
        uids.extend(scan.changed.into_iter().map(str::to_owned));
        if scan.misses_some {
            uids.extend(self.records.keys().filter(|uid| self.known.misses(uid)).cloned());
        }
        uids
    }

    /// Reconciles the pods with these UIDs, of which `pods` has those that are listed.
    async fn reconcile_all<R: Runtime>(
        &mut self,
        pods: &Pods<'_>,
        uids: &HashSet<String>,
        pass: Pass,
        io: &mut Io<'_, R>,
    ) -> u64 {
        let mut events = 0;
        let mut again = std::mem::take(&mut self.failed);
        let mut failed = Vec::new();
        let listed = pods.newest_first();
        let here: HashSet<&str> = listed.iter().map(|pod| pod.uid).collect();
        for pod in &listed {
            self.remember(pod);
        }
        // What has gone costs no call, so it need not wait behind what may hang.
        let mut vanished: Vec<&str> =
            uids.iter().map(String::as_str).filter(|uid| !here.contains(uid)).collect();
        vanished.sort_unstable();
        let work =
            vanished.iter().map(|uid| (*uid, None)).chain(listed.iter().map(|pod| (pod.uid, Some(pod))));
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
                let status = fetch(&self.hub, self.settings, &mut self.calls, &pod, None, pass, io).await;
                if status.is_err() && failed.iter().all(|known| known.uid != pod.uid) {
                    failed.push(pod);
                }
            }
            self.failed = failed;
        }
        events
    }

    fn remember(&mut self, pod: &Pod<'_, '_>) {
        if !self.records.contains_key(pod.uid) {
            let record = Record { pod: PodRef::from(pod), old: None };
            self.records.insert(pod.uid.to_owned(), record);
        }
    }

    /// Brings the record of one pod up to date; `pod` is `None` when it is no longer listed.
    async fn reconcile<R: Runtime>(
        &mut self,
        uid: &str,
        pod: Option<&Pod<'_, '_>>,
        pass: Pass,
        io: &mut Io<'_, R>,
    ) -> Reconciled {
        let Self { hub, settings, records, known, calls, .. } = self;
        let era = settings.era;
        let Some(record) = records.get(uid) else {
            return Reconciled::Quiet;
        };
        let new = pod.map(Members::of);
        let changes = transitions(record.old.as_ref(), new.as_ref());
        let flagged = hub.lock().reinspect.remove(uid);
        if changes.is_empty() && !flagged {
            return Reconciled::Quiet;
        }
        let identity = pod.map_or_else(|| record.pod.clone(), PodRef::from);
        let status = match pod {
            None => {
                hub.lock().cache.delete(uid);
                None
            }
            Some(_) if !settings.inspect => None,
            Some(_) => match fetch(hub, *settings, calls, &identity, pod, pass, io).await {
                Ok(Some(status)) => Some(status),
                // The cache has something newer: the kubelet drops the events and leaves the record as it was.
                Ok(None) => return Reconciled::Done(0),
                Err(_) => {
                    if !era.reinspects_in_a_second_round() {
                        hub.lock().reinspect.insert(uid.to_owned());
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
        known.replace(uid, new.as_ref());
        // The record goes on before the events go out: what is lost to a full channel is lost for good.
        match new {
            None => drop(records.remove(uid)),
            old => drop(records.insert(uid.to_owned(), Record { pod: identity, old })),
        }
        Reconciled::Done(send(events, io))
    }
}

/// Asks for the status of a pod and puts it, or the failure, into the cache. `None` if the cache has something newer.
async fn fetch<R: Runtime>(
    hub: &Hub,
    settings: Settings,
    calls: &mut CallLog,
    identity: &PodRef,
    listed: Option<&Pod<'_, '_>>,
    pass: Pass,
    io: &mut Io<'_, R>,
) -> Result<Option<Arc<PodStatus>>, Failure> {
    let fetch = Fetch {
        pod: identity,
        era: settings.era,
        evented_gate: settings.evented_gate,
        listed_at: pass.listed_at,
    };
    let mut as_of =
        if settings.era.stamps_status_with_list_time() { pass.listed_at } else { io.clock.wall() };
    let (mut status, result) = fetch.run(&mut io.caller(hub, calls), listed).await;
    let mut shared = hub.lock();
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

/// Sends events to the sink; returns how many the sync loop gets.
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
            ..Event::new(self.listed_at, Source::Generic, EventType::PodSync, pod.clone(), Subject::Pod)
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

/// What a relist works with.
struct Io<'a, R> {
    rt: &'a R,
    clock: &'a dyn Clock,
    sink: &'a mut dyn Sink,
}

impl<R> Io<'_, R> {
    fn caller<'b>(&'b mut self, hub: &'b Hub, log: &'b mut CallLog) -> Caller<'b, R> {
        Caller { rt: self.rt, clock: self.clock, hub, log, sink: self.sink }
    }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
