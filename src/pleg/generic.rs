//! The relisting PLEG.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::calls::{CallLog, Caller, Failure, Sink};
use super::document::PodRef;
use super::era::Era;
use super::hub::{Hub, Moment};
use super::pods::{KubeletState, Pod, Pods};
use super::records::{Members, Record, Transition, transitions};
use super::status::{Fetch, PodStatus};
use super::stream::{Event, EventType, Relist, Source, Subject};
use crate::clock::{Clock, Wall};
use crate::cri::{Container, Filter, Outcome, Rpc, Runtime, Sandbox};

/// Pause between relists (`genericPlegRelistPeriod`).
pub const PERIOD: Duration = Duration::from_secs(1);
/// The same while the event stream is in use (`eventedPlegRelistPeriod`).
pub const EVENTED_PERIOD: Duration = Duration::from_secs(300);

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
    /// Pods that failed in the previous relist, for the era that has a second round.
    failed: Vec<PodRef>,
    calls: CallLog,
    relists: u64,
    pass: u64,
    listed_before: bool,
}

/// What one pass over the lists belongs to.
#[derive(Clone, Copy)]
struct Pass {
    /// Number of the relist; `None` for a single pod.
    relist: Option<u64>,
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

type Lists = (Vec<Sandbox>, Vec<Container>);

impl Generic {
    /// A PLEG that has seen nothing yet.
    pub fn new(hub: Arc<Hub>, settings: Settings) -> Self {
        Self {
            hub,
            settings,
            records: HashMap::new(),
            failed: Vec::new(),
            calls: CallLog::default(),
            relists: 0,
            pass: 0,
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
        let mut report = Relist {
            time: started.wall,
            relist: self.relists,
            duration_seconds: Duration::ZERO.into(),
            interval_seconds: interval.map(Into::into),
            outcome: Outcome::Ok,
            error: None,
            calls: Vec::new(),
            pods: 0,
            sandboxes: 0,
            containers: 0,
            events: 0,
            reinspect: 0,
        };
        match self.list(&mut io, None).await {
            Ok((sandboxes, containers)) => {
                self.hub.lock().last_list = Some(started);
                let pods = Pods::group(&sandboxes, &containers, self.settings.era.member_order());
                self.count(&pods, &mut report);
                let pass = Pass { relist: Some(self.relists), initial: !self.listed_before, listed_at };
                self.listed_before = true;
                report.events = self.reconcile_all(&pods, pass, &mut io).await;
                self.hub.lock().cache.update_time(started.wall);
            }
            Err(failure) => {
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

    /// One relist of a single pod, as the kubelet makes it after it has done something to the pod. True if the pod was
    /// found: a pod that has gone is left to the next relist of everything.
    pub async fn relist_pod<R: Runtime>(
        &mut self,
        uid: &str,
        rt: &R,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) -> bool {
        let mut io = Io { rt, clock, sink };
        self.calls.clear();
        let started = clock.mono();
        let listed_at = clock.wall();
        let found = match self.list(&mut io, Some(uid)).await {
            Ok((sandboxes, containers)) => {
                let pods = Pods::group(&sandboxes, &containers, self.settings.era.member_order());
                let pod = pods.iter().find(|pod| pod.uid == uid);
                if let Some(pod) = &pod {
                    let pass = Pass { relist: None, initial: false, listed_at };
                    self.remember(pod);
                    self.reconcile(uid, Some(pod), pass, &mut io).await;
                    self.hub.lock().cache.set_observed_time(uid, listed_at);
                }
                pod.is_some()
            }
            Err(_) => false,
        };
        let seconds = clock.mono().since(started).as_secs_f64();
        self.hub.lock().metrics.pod_relist_duration.observe(seconds);
        found
    }

    async fn list<R: Runtime>(&mut self, io: &mut Io<'_, R>, uid: Option<&str>) -> Result<Lists, Failure> {
        let mut caller = io.caller(&self.hub, &mut self.calls);
        let rt = caller.rt;
        let pod = uid.map(|uid| PodRef { uid: uid.to_owned(), ..PodRef::default() });
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let sandboxes =
            caller.make(Rpc::ListPodSandbox, None, pod.as_ref(), rt.list_sandboxes(&filter), Ok).await?;
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let containers =
            caller.make(Rpc::ListContainers, None, pod.as_ref(), rt.list_containers(&filter), Ok).await?;
        Ok((sandboxes, containers))
    }

    fn count(&self, pods: &Pods<'_>, report: &mut Relist) {
        let mut states: [i64; KubeletState::ALL.len()] = [0; KubeletState::ALL.len()];
        let mut running = 0;
        for pod in pods.iter() {
            report.sandboxes += count(pod.sandboxes.len());
            report.containers += count(pod.containers.len());
            let runs = pod
                .sandboxes
                .iter()
                .any(|sandbox| KubeletState::from(sandbox.state) == KubeletState::Running);
            running += i64::from(runs);
            for container in pod.containers {
                let state = KubeletState::from(container.state);
                for (slot, known) in states.iter_mut().zip(KubeletState::ALL) {
                    *slot += i64::from(known == state);
                }
            }
        }
        report.pods = count(pods.len());
        let present: BTreeMap<KubeletState, i64> =
            KubeletState::ALL.into_iter().zip(states).filter(|(_, containers)| *containers > 0).collect();
        self.hub.lock().metrics.set_running(running, &present);
    }

    async fn reconcile_all<R: Runtime>(&mut self, pods: &Pods<'_>, pass: Pass, io: &mut Io<'_, R>) -> u64 {
        self.pass += 1;
        let mut events = 0;
        let mut again = std::mem::take(&mut self.failed);
        let mut failed = Vec::new();
        let touched = self.touched(pods);
        // What has gone costs no call, so it need not wait behind what may hang.
        let vanished = self.vanished(pods.len());
        let work = vanished
            .iter()
            .map(|uid| (uid.as_str(), None))
            .chain(touched.iter().map(|pod| (pod.uid, Some(pod))));
        for (uid, pod) in work {
            match self.reconcile(uid, pod, pass, io).await {
                Reconciled::Quiet => {}
                Reconciled::Done(sent) => {
                    events += sent;
                    again.retain(|waiting| waiting.uid != uid);
                }
                Reconciled::Failed => failed.extend(pod.map(pod_ref)),
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

    /// The pods that differ from what is remembered or are to be inspected again, in the kubelet's order of pods.
    fn touched<'g, 'a>(&mut self, pods: &'g Pods<'a>) -> Vec<Pod<'g, 'a>> {
        let flagged = self.hub.lock().reinspect.clone();
        let mut touched = Vec::new();
        for pod in pods.iter() {
            let unchanged = match self.records.get_mut(pod.uid) {
                Some(record) => {
                    record.seen = self.pass;
                    record.old.as_ref().is_some_and(|old| old.same_as(&pod))
                }
                None => {
                    self.remember(&pod);
                    false
                }
            };
            if !unchanged || (!flagged.is_empty() && flagged.contains(pod.uid)) {
                touched.push(pod);
            }
        }
        touched.sort_unstable_by(Pod::newest_first);
        touched
    }

    /// The remembered pods that the current pass, with so many pods, did not list.
    fn vanished(&self, listed: usize) -> Vec<String> {
        if self.records.len() == listed {
            return Vec::new();
        }
        let gone = self.records.iter().filter(|(_, record)| record.seen != self.pass);
        let mut uids: Vec<String> = gone.map(|(uid, _)| uid.clone()).collect();
        uids.sort_unstable();
        uids
    }

    fn remember(&mut self, pod: &Pod<'_, '_>) {
        let pass = self.pass;
        let record = self.records.entry(pod.uid.to_owned()).or_insert_with(|| Record {
            pod: pod_ref(pod),
            old: None,
            seen: pass,
        });
        record.seen = pass;
    }

    /// Brings the record of one pod up to date; `pod` is `None` when it is no longer listed.
    async fn reconcile<R: Runtime>(
        &mut self,
        uid: &str,
        pod: Option<&Pod<'_, '_>>,
        pass: Pass,
        io: &mut Io<'_, R>,
    ) -> Reconciled {
        let Self { hub, settings, records, calls, .. } = self;
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
        let identity = pod.map_or_else(|| record.pod.clone(), pod_ref);
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
        match new {
            // Before sending: what is lost to a full channel is lost for good.
            Some(new) => {
                if let Some(record) = records.get_mut(uid) {
                    record.old = Some(new);
                    record.pod = identity;
                }
            }
            None => drop(records.remove(uid)),
        }
        Reconciled::Done(send(hub, events, io))
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
    let result = fetch.run(&mut io.caller(hub, calls), listed).await;
    let mut shared = hub.lock();
    match result {
        Ok(mut status) => {
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

/// Sends events to the sync loop and the sink; returns how many were meant for the sync loop.
fn send<R>(hub: &Hub, events: Vec<Event>, io: &mut Io<'_, R>) -> u64 {
    let mut meant = 0;
    for mut event in events {
        hub.send(&mut event);
        meant += u64::from(event.event_type.is_delivered());
        event.time = io.clock.wall();
        io.sink.event(event);
    }
    meant
}

impl Pass {
    fn pod_sync(self, pod: &PodRef) -> Event {
        Event {
            time: self.listed_at,
            relist: self.relist,
            initial: self.initial,
            source: Source::Generic,
            event_type: EventType::PodSync,
            delivered: true,
            discarded: false,
            pod: pod.clone(),
            subject: Subject::Pod,
            id: None,
            name: None,
            from: None,
            to: None,
            exit_code: None,
            reason: None,
            latency_seconds: None,
        }
    }

    fn event(self, pod: &PodRef, change: &Transition<'_>, status: Option<&PodStatus>) -> Event {
        let died = change.event_type == EventType::ContainerDied && change.subject == Subject::Container;
        let detail = status.filter(|_| died).and_then(|status| status.container(&change.member.id));
        Event {
            event_type: change.event_type,
            subject: change.subject,
            id: Some(change.member.id.to_string()),
            name: Some(change.member.name.to_string()).filter(|name| !name.is_empty()),
            from: Some(change.from),
            to: Some(change.to),
            exit_code: detail.and_then(|detail| detail.exit_code),
            reason: detail.map(|detail| detail.reason.clone()).filter(|reason| !reason.is_empty()),
            ..self.pod_sync(pod)
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

fn pod_ref(pod: &Pod<'_, '_>) -> PodRef {
    PodRef { uid: pod.uid.to_owned(), namespace: pod.namespace.to_owned(), name: pod.name.to_owned() }
}
