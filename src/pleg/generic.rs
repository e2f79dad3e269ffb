//! The generic PLEG: [`GenericPleg::relist`] lists all pods, compares them with its records, makes status calls for the pods
//! that changed, and emits the changes as events.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::caller::{AnswerLimit, Caller, Lists, Sink};
use super::calls::{CallFailure, CallLog};
use super::fetch::StatusFetch;
use super::pods::{KubeletState, ListedPod, listed_pods};
use super::records::{Members, PodRecord, Transition, transitions};
use super::shared_state::{ClockReading, SharedState};
use super::status::PodStatus;
use super::stream::{Event, EventSource, EventSubject, EventType, Relist};
use crate::clock::{Clock, Wall};
use crate::cri::Runtime;
use crate::kubelet::Era;
use crate::report::PodRef;

/// The settings of a [`GenericPleg`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlegSettings {
    /// The kubelet releases whose way of relisting is used.
    pub era: Era,
    /// Whether the kubelet's `EventedPLEG` gate is on.
    pub evented_gate: bool,
    /// Whether the status of changed pods is fetched, as the kubelet does.
    pub inspect: bool,
}

impl Default for PlegSettings {
    fn default() -> Self {
        Self { era: Era::OnDemand, evented_gate: false, inspect: true }
    }
}

/// The generic PLEG, with its records of all pods.
#[derive(Debug)]
pub struct GenericPleg {
    shared_state: Arc<SharedState>,
    settings: PlegSettings,
    /// The record of each pod, by UID.
    records: HashMap<String, PodRecord>,
    /// The pods whose status fetch failed in the previous relist. Only the eras that retry in a second round use this.
    failed: Vec<PodRef>,
    /// The calls of the current or the last relist.
    calls: CallLog,
    /// The number of relists that have started.
    relists: u64,
    /// Whether both list calls of an earlier relist succeeded.
    listed_before: bool,
    /// The last lists, as far as the next ones can take over their items.
    lists: Lists,
}

/// The data that all events of one relist share.
#[derive(Clone, Copy)]
struct RelistContext {
    /// The number of the relist.
    relist: u64,
    /// Whether this is the first relist whose list calls succeeded.
    initial: bool,
    /// When the list calls were made.
    listed_at: Wall,
}

/// The result of reconciling one pod.
enum Reconciled {
    /// Nothing had changed.
    Unchanged,
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
            lists: Lists::default(),
        }
    }

    /// Returns the calls of the current relist. If the future of a relist was dropped, the log still has the call that was
    /// open then.
    pub const fn calls(&self) -> &CallLog {
        &self.calls
    }

    /// Returns the number of relists that have started.
    pub const fn relists(&self) -> u64 {
        self.relists
    }

    /// Returns the number of recorded pods, and a function that returns whether a pod with a UID is recorded.
    pub fn pods(&self) -> (usize, impl Fn(&str) -> bool) {
        (self.records.len(), |uid| self.records.contains_key(uid))
    }

    /// Relists all pods. Events and calls go to `sink` at once; the result has the totals. The future may be dropped at any
    /// time; see [`Self::calls`].
    pub async fn relist<R: Runtime>(&mut self, rt: &R, clock: &dyn Clock, sink: &mut dyn Sink) -> Relist {
        let mut io = RelistIo { rt, clock, sink };
        self.relists += 1;
        self.calls.clear();
        let started = ClockReading::now(clock);
        let interval = self.shared_state.last_list().map(|last| started.mono.since(last));
        if let Some(interval) = interval {
            let seconds = interval.as_secs_f64();
            self.shared_state.lock().metrics.relist_interval.observe(seconds);
        }
        // The kubelet reads the clock a second time for the time stamps of the pods (pkg/kubelet/pleg/generic.go, Relist).
        let listed_at = clock.wall();
        let mut report = Relist::new(started.wall, self.relists);
        report.interval_seconds = interval.map(Into::into);
        let last = std::mem::take(&mut self.lists);
        match io.caller(&self.shared_state, &mut self.calls).relists(last).await {
            Ok((sandboxes, containers)) => {
                self.shared_state.listed(started);
                let pods = listed_pods(sandboxes.items(), containers.items(), self.settings.era.into());
                self.count_members(&pods, &mut report);
                let context = RelistContext { relist: self.relists, initial: !self.listed_before, listed_at };
                self.listed_before = true;
                report.events = self.reconcile_all(&pods, context, &mut io).await;
                self.lists = (sandboxes.kept(), containers.kept());
            }
            Err(failure) => {
                self.shared_state.lock().list_error = failure.error().cloned();
                report.outcome = failure.outcome();
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

    /// Relists a single pod, as a kubelet from 1.37 on does when the event stream reports that a container of the pod has
    /// stopped. If the pod is not listed, the next relist of all pods handles the change.
    pub async fn relist_pod<R: Runtime>(
        &mut self,
        uid: &str,
        rt: &R,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) {
        let mut io = RelistIo { rt, clock, sink };
        self.calls.clear();
        let listed_at = clock.wall();
        let lists = io.caller(&self.shared_state, &mut self.calls).lists(Some(uid)).await;
        let Ok((sandboxes, containers)) = lists else { return };
        let pods = listed_pods(&sandboxes, &containers, self.settings.era.into());
        if let Some(pod) = pods.iter().find(|pod| pod.uid == uid) {
            self.ensure_record(pod);
            let context = RelistContext { relist: self.relists, initial: false, listed_at };
            self.reconcile(uid, Some(pod), context, &mut io).await;
        }
    }

    /// Counts the listed pods and members, for the report and for the kubelet's metrics.
    fn count_members(&self, pods: &[ListedPod<'_>], report: &mut Relist) {
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

    /// Reconciles the pods that differ from their records, and the pods that are marked for reinspection. Returns the number
    /// of events for the sync loop.
    async fn reconcile_all<R: Runtime>(
        &mut self,
        pods: &[ListedPod<'_>],
        context: RelistContext,
        io: &mut RelistIo<'_, R>,
    ) -> u64 {
        let mut events = 0;
        let mut to_retry = std::mem::take(&mut self.failed);
        let mut failed = Vec::new();
        let marked = self.shared_state.lock().reinspect.clone();
        let changed: Vec<&ListedPod<'_>> =
            pods.iter().filter(|pod| marked.contains(pod.uid) || !self.is_recorded(pod)).collect();
        for pod in &changed {
            self.ensure_record(pod);
        }
        // A vanished pod needs no call. It comes first, so that its events do not wait for calls that may hang.
        let listed: HashSet<&str> = pods.iter().map(|pod| pod.uid).collect();
        let mut vanished: Vec<String> =
            self.records.keys().filter(|uid| !listed.contains(uid.as_str())).cloned().collect();
        vanished.sort();
        let work = vanished
            .iter()
            .map(|uid| (uid.as_str(), None))
            .chain(changed.iter().map(|pod| (pod.uid, Some(*pod))));
        for (uid, pod) in work {
            match self.reconcile(uid, pod, context, io).await {
                Reconciled::Unchanged => {}
                Reconciled::Done(sent) => {
                    events += sent;
                    to_retry.retain(|waiting| waiting.uid != uid);
                }
                Reconciled::Failed => failed.extend(pod.map(PodRef::from)),
            }
        }
        if self.settings.era.reinspects_in_a_second_round() {
            for pod in to_retry {
                let status =
                    fetch(&self.shared_state, self.settings, &mut self.calls, &pod, None, context, io).await;
                if status.is_err() && failed.iter().all(|known| known.uid != pod.uid) {
                    failed.push(pod);
                }
            }
            self.failed = failed;
        }
        events
    }

    /// Whether the record of a pod has the listed members in the same order and with the same states.
    fn is_recorded(&self, pod: &ListedPod<'_>) -> bool {
        let old = self.records.get(pod.uid).and_then(|record| record.members.as_ref());
        old.is_some_and(|old| old.has_members_of(pod))
    }

    /// Creates the record of a pod if there is none.
    fn ensure_record(&mut self, pod: &ListedPod<'_>) {
        if !self.records.contains_key(pod.uid) {
            let record = PodRecord { pod: PodRef::from(pod), members: None };
            self.records.insert(pod.uid.to_owned(), record);
        }
    }

    /// Updates the record of one pod; `pod` is `None` when the pod is no longer listed.
    async fn reconcile<R: Runtime>(
        &mut self,
        uid: &str,
        pod: Option<&ListedPod<'_>>,
        context: RelistContext,
        io: &mut RelistIo<'_, R>,
    ) -> Reconciled {
        let Self { shared_state, settings, records, calls, .. } = self;
        let era = settings.era;
        let Some(record) = records.get(uid) else {
            return Reconciled::Unchanged;
        };
        let new = pod.map(Members::of);
        let changes = transitions(record.members.as_ref(), new.as_ref());
        let is_marked = shared_state.lock().reinspect.remove(uid);
        if changes.is_empty() && !is_marked {
            return Reconciled::Unchanged;
        }
        let identity = pod.map_or_else(|| record.pod.clone(), PodRef::from);
        let status = match pod {
            None => {
                shared_state.lock().cache.delete(uid);
                None
            }
            Some(_) if !settings.inspect => None,
            Some(_) => match fetch(shared_state, *settings, calls, &identity, pod, context, io).await {
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
            vec![context.pod_sync(&identity)]
        } else {
            let event = |change| context.event(&identity, change, status.as_deref());
            changes.iter().map(event).collect()
        };
        // The record is updated before the events are sent, as in the kubelet. So an event that is lost to a full channel is
        // never sent again.
        match new {
            None => drop(records.remove(uid)),
            members => drop(records.insert(uid.to_owned(), PodRecord { pod: identity, members })),
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
    context: RelistContext,
    io: &mut RelistIo<'_, R>,
) -> Result<Option<Arc<PodStatus>>, CallFailure> {
    let fetch = StatusFetch {
        pod: identity,
        era: settings.era,
        evented_gate: settings.evented_gate,
        listed_at: context.listed_at,
    };
    let mut as_of =
        if settings.era.stamps_status_with_list_time() { context.listed_at } else { io.clock.wall() };
    let (mut status, result) = fetch.run(&mut io.caller(shared_state, calls), listed).await;
    let mut shared = shared_state.lock();
    match result {
        Ok(()) => {
            shared.preserve_ips(&mut status);
            if settings.evented_gate && shared.evented_in_use {
                as_of = status.timestamp;
            }
            let status = Arc::new(status);
            let stored = shared.cache.set(&identity.uid, Some(Arc::clone(&status)), None, as_of);
            Ok(stored.then_some(status))
        }
        Err(failure) => {
            shared.cache.set(&identity.uid, None, Some(failure.to_string()), as_of);
            Err(failure)
        }
    }
}

/// Sends events to the sink. Returns the number of events that the sync loop receives.
fn send<R>(events: Vec<Event>, io: &mut RelistIo<'_, R>) -> u64 {
    let mut delivered = 0;
    for mut event in events {
        delivered += u64::from(event.event_type.is_delivered());
        event.time = io.clock.wall();
        io.sink.event(event);
    }
    delivered
}

impl RelistContext {
    /// Creates the event with which some releases announce that a pod was inspected again.
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

    /// Creates the event of a transition. The death of a container has its exit code and reason.
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

/// The runtime, the clock and the sink of one relist.
struct RelistIo<'a, R> {
    rt: &'a R,
    clock: &'a dyn Clock,
    sink: &'a mut dyn Sink,
}

impl<R> RelistIo<'_, R> {
    fn caller<'b>(&'b mut self, shared_state: &'b SharedState, log: &'b mut CallLog) -> Caller<'b, R> {
        let limit = AnswerLimit::Kubelets;
        Caller { rt: self.rt, clock: self.clock, shared_state, log, sink: self.sink, limit }
    }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;
    use crate::cri::server::{Answer, CallRequest, InProcess, Service, ServiceError, message};
    use crate::cri::{Container, ContainerMetadata, ContainerState, Labels, Rpc};

    /// A runtime with one container and no sandbox.
    struct OneContainer;

    impl Service for OneContainer {
        async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, ServiceError> {
            let container = Container {
                id: "c".repeat(64),
                sandbox_id: String::new(),
                metadata: Some(ContainerMetadata::default()),
                image: None,
                image_ref: String::new(),
                state: ContainerState::Running,
                created_at: 7,
                labels: Labels::default(),
                annotations: Labels::default(),
            };
            let has_containers = request.rpc.unary() == Rpc::ListContainers;
            Ok(Answer::one(message::containers(has_containers.then_some(container))))
        }
    }

    #[tokio::test]
    async fn the_next_lists_take_over_what_has_not_changed() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let runtime = InProcess::start("test:one-container", Arc::new(OneContainer)).unwrap();
        let client = runtime.client(Duration::from_secs(10), Arc::clone(&clock));
        let settings = PlegSettings { inspect: false, ..PlegSettings::default() };
        for client in [client.clone(), client.with_streamed_lists()] {
            let mut pleg = GenericPleg::new(Arc::new(SharedState::new(false)), settings);
            let mut address = None;
            for _ in 0..3 {
                let relist = pleg.relist(&client, &*clock, &mut Vec::new()).await;
                assert_eq!((relist.error, relist.pods), (None, 1));
                // While an item is kept, another one that is decoded has another address.
                let now = pleg.lists.1.items().first().map(|item| item.id.as_ptr());
                assert!(now.is_some() && now == *address.get_or_insert(now));
            }
        }
    }
}
