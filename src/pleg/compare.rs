//! Compares relisting with the event stream on the same node, for `watch --mode compare`: which of the two sides reported a
//! transition first, and which transitions only one side reported.
//!
//! The caller passes in events, stream states and relists in the order in which they happen; [`Comparison`] reads no clock.
//! A transition that only one side has reported stays undecided until the other side has had enough time, so that a slow
//! side does not count as a side that missed the transition.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::latency::LatencyHistogram;
use super::stream::{
    CompareSummary, Divergence, Event, EventSource, EventType, Relist, Stream, StreamState, StreamSummary,
};
use crate::clock::Wall;
use crate::cri::{ContainerEventType, Outcome, ReceivedEvent};
use crate::kubelet::timing::EVENTED_PERIOD;
use crate::report::plural;
use crate::report::{PodRef, Seconds};

/// The time after a relist's report within which the stream must report the same transition.
const STREAM_GRACE: Duration = Duration::from_secs(5);

/// The number of complete relists within which relisting must report a transition that the stream has reported.
const RELIST_GRACE: u8 = 2;

/// The longest time from a change in the runtime's lists to the event of the change.
const EVENT_DELAY: Duration = Duration::from_millis(500);

/// The longest time that a runtime needs to add a new subscriber to its event stream.
const SUBSCRIBE_DELAY: Duration = Duration::from_millis(500);

/// The time for which a finished container or sandbox stays in memory.
const KEPT_AFTER_END: Duration = Duration::from_secs(60);

/// The maximum number of containers and sandboxes that are tracked at once. Further ones are not compared.
pub const MAX_TRACKED: usize = 50_000;

/// The longest id that is tracked. containerd's ids have at most 76 bytes.
const MAX_ID_LEN: usize = 128;

/// The maximum length of the UID, the namespace and the name of a pod together. Kubernetes limits the namespace to 63 bytes
/// and the name to 253 bytes.
const MAX_POD_LEN: usize = 512;

/// The number of rejected ids after which finished histories are removed again, while the maximum number is tracked.
const REJECTED_PER_CLEANUP: u64 = 1024;

/// The number of transitions at which the verdict does not mention that there were too few.
const MIN_TRANSITIONS: u64 = 100;

/// The maximum number of transitions that are decided after one relist. The others are decided after the next relist.
const MAX_DECISIONS: usize = 10_000;

/// Compares relisting with the event stream.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The history of each container and sandbox, by id.
    histories: HashMap<Box<str>, MemberHistory>,
    /// The time since which the stream has been open without a gap.
    open_since: Option<Wall>,
    /// When the open stream was requested. The runtime had buffered the events that were created earlier.
    opened: Option<Wall>,
    /// When the last successful relist started.
    last_relist: Option<Wall>,
    /// When the newest stream event was received.
    received: Option<Wall>,
    /// The start of the first relist and the end of the last.
    span: Option<(Wall, Wall)>,
    /// The divergences that the caller has not fetched yet.
    decided: Vec<Divergence>,
    summary: CompareSummary,
    /// The times by which the stream was earlier than relisting.
    lead: LatencyHistogram,
    /// The times from a change to the stream's report.
    stream_latency: LatencyHistogram,
    /// The times from a change to the relist's report.
    relist_latency: LatencyHistogram,
    /// The reason why this runtime sends no events for removals; `None` if it sends them.
    no_removal_events: Option<&'static str>,
}

/// What both sides have reported about one container or sandbox.
#[derive(Debug, Default)]
struct MemberHistory {
    /// The pod, once an event has named it.
    pod: Option<PodRef>,
    /// At most one transition of each type. A map in each of tens of thousands of histories would need far more memory than
    /// a `Vec`.
    transitions: Vec<ComparedTransition>,
    /// The latest stage of which the runtime has sent an event: 0 created, 1 running, 2 exited, 3 removed.
    stage: u8,
    /// When that event arrived.
    stage_since: Option<Wall>,
    /// When the first relist that could see the container in this stage ended.
    listed_since: Option<Wall>,
    /// For each stage, whether it lasted long enough for a relist to see it.
    listed_stages: [bool; 4],
    /// The latest stage of which the generic PLEG has emitted an event, and the latest of the evented PLEG.
    furthest: [Option<u8>; 2],
    /// Why the kubelet ignores the stream's last event about this container; `None` if it does not.
    ignored_because: Option<&'static str>,
}

/// One transition, and the reports of both sides about it.
#[derive(Debug)]
struct ComparedTransition {
    event_type: EventType,
    generic: Option<SideReport>,
    evented: Option<SideReport>,
    /// The number of relists since the stream's report that did not report the transition.
    relists_since: u8,
    /// When the first relist in `relists_since` ended.
    relisted: Option<Wall>,
    /// Whether the transition is already counted in the summary.
    decided: bool,
}

/// The report of a transition by one side.
#[derive(Clone, Copy, Debug)]
struct SideReport {
    /// When the side reported the transition.
    at: Wall,
    /// In a report of the stream: the time of receipt minus the runtime's time stamp.
    latency: Option<Seconds>,
    /// In a report of a relist: whether the stream has been open since the previous relist.
    covered: bool,
}

impl Comparison {
    /// Notes that this runtime sends no events for removals, with the reason.
    #[must_use]
    pub fn without_removals(mut self, why: &'static str) -> Self {
        self.no_removal_events = Some(why);
        self
    }

    /// Records that the stream was opened or closed.
    pub fn stream(&mut self, stream: &Stream) {
        match stream.state {
            StreamState::Connected => {
                self.opened = Some(stream.time);
                self.open_since = Some(stream.time.plus(SUBSCRIBE_DELAY));
            }
            StreamState::Closed | StreamState::Fallback => self.open_since = None,
            // Dropped events are a gap, as if the stream had been closed and opened again.
            StreamState::Dropped => self.open_since = Some(stream.time.plus(SUBSCRIBE_DELAY)),
            StreamState::Panic => {}
        }
    }

    /// Records an event from the stream. The caller passes the lifecycle events that the engine derives from this event to
    /// [`Self::event`] afterwards.
    pub fn stream_event(&mut self, received: &ReceivedEvent) {
        self.received = Some(received.at);
        let event = &received.event;
        if event.container_id.is_empty() {
            return;
        }
        let Some(history) = self.history(&event.container_id) else { return };
        let stage = match event.kind {
            ContainerEventType::Created | ContainerEventType::Other(_) => 0,
            ContainerEventType::Started => 1,
            ContainerEventType::Stopped => 2,
            ContainerEventType::Deleted => 3,
        };
        if history.stage_since.is_none() || stage > history.stage {
            history.listed_stages = history.listed_stages_until(received.at);
            history.listed_since = None;
            history.stage = stage;
            history.stage_since = Some(received.at);
        }
        let names_pod = event.sandbox.as_ref().is_some_and(|sandbox| sandbox.metadata.is_some());
        if !names_pod {
            history.ignored_because =
                Some("its event had no pod status, and the kubelet ignores such events");
        } else if stage > 0 {
            // This is cleared as soon as the engine emits a lifecycle event for this stream event.
            history.ignored_because =
                Some("its event was older than the kubelet's data, and the kubelet refuses such events");
        }
    }

    /// Records a lifecycle event of one side.
    pub fn event(&mut self, event: &Event) {
        let Some(id) = event.id.clone() else { return };
        let Some(stage) = stage_of(event.event_type).filter(|_| event.delivered) else {
            return;
        };
        let covered = self.is_covered();
        let source = event.source;
        let received = self.received.filter(|_| source == EventSource::Evented);
        let at = received.unwrap_or(event.time);
        if source == EventSource::Evented && self.is_leftover(event, at) {
            self.summary.leftovers += 1;
            let history = self.histories.get_mut(id.as_str());
            if let Some(known) = history.and_then(|history| history.transition(event.event_type)) {
                // The runtime buffered this event before the stream was opened, so its delay is neither a loss nor a latency.
                known.decided = true;
            }
            self.remove_if_finished(&id);
            return;
        }
        let PodRef { uid, namespace, name } = &event.pod;
        if uid.len() + namespace.len() + name.len() > MAX_POD_LEN {
            self.summary.not_compared += 1;
            return;
        }
        let Some(history) = self.history(&id) else { return };
        let known = history
            .transition(event.event_type)
            .is_some_and(|transition| transition.report_of(source).is_some());
        let mut out_of_order = false;
        if let Some(furthest) = history.furthest.get_mut(usize::from(source == EventSource::Evented)) {
            out_of_order = !known && furthest.is_some_and(|furthest| stage < furthest);
            *furthest = (*furthest).max(Some(stage));
        }
        if source == EventSource::Evented {
            history.ignored_because = None;
        }
        history.pod.get_or_insert_with(|| event.pod.clone());
        let report = SideReport { at, latency: event.latency_seconds, covered };
        let both = history.add_report(event, report);
        let pod = history.pod.clone().unwrap_or_default();

        // A report can repeat an earlier one, or follow a report about a later stage.
        let summary = &mut self.summary;
        match source {
            EventSource::Generic => summary.duplicates_generic += u64::from(known),
            EventSource::Evented => summary.duplicates_evented += u64::from(known),
        }
        summary.out_of_order += u64::from(out_of_order);
        if let Some((generic, evented)) = both {
            self.count_both(event, &id, pod, generic, evented);
        }
        self.remove_if_finished(&id);
    }

    /// Whether the runtime buffered this event before the stream was requested.
    fn is_leftover(&self, event: &Event, at: Wall) -> bool {
        let created =
            event.latency_seconds.map(|latency| at.nanos().saturating_sub(nanos(latency.duration())));
        created.zip(self.opened).is_some_and(|(created, opened)| created < opened.nanos())
    }

    /// Counts a transition that both sides have reported.
    fn count_both(&mut self, event: &Event, id: &str, pod: PodRef, generic: SideReport, evented: SideReport) {
        let gained = generic.at.nanos().saturating_sub(evented.at.nanos());
        self.summary.both += 1;
        if gained >= 0 {
            self.summary.evented_first += 1;
            self.lead.add(Seconds::from_nanos(gained).duration());
        } else {
            self.summary.generic_first += 1;
        }
        if let Some(latency) = evented.latency {
            let latency = latency.duration();
            self.stream_latency.add(latency);
            let created = evented.at.nanos().saturating_sub(nanos(latency));
            self.relist_latency
                .add(Seconds::from_nanos(generic.at.nanos().saturating_sub(created)).duration());
        }
        // Normally the stream is first, so only a relist that was first is a divergence.
        if gained < 0 {
            self.decided.push(Divergence {
                time: event.time,
                pod,
                id: id.to_owned(),
                event_type: event.event_type,
                only: None,
                latency_seconds: Some(Seconds::from_nanos(gained)),
                why: None,
            });
        }
    }

    /// Records a finished relist, after its events.
    pub fn relist(&mut self, relist: &Relist) {
        self.summary.relist_calls += u64::try_from(relist.calls.len()).unwrap_or(u64::MAX);
        self.summary.relist_bytes += relist.calls.iter().map(|call| call.response_bytes).sum::<u64>();
        let took = nanos(relist.duration_seconds.duration());
        let began = Wall::from_nanos(relist.time.nanos().saturating_sub(took));
        if relist.outcome == Outcome::Ok {
            let failed: HashSet<&str> = relist
                .calls
                .iter()
                .filter(|call| call.outcome != Outcome::Ok)
                .filter_map(|call| call.pod.as_ref())
                .map(|pod| pod.uid.as_str())
                .collect();
            self.mark_listed(began, relist.time, &failed);
            self.last_relist = Some(began);
        }
        let first = self.span.map_or(began, |(first, _)| first);
        self.span = Some((first, relist.time));
        self.summary.relists += 1;
        self.decide_overdue(relist.time);
    }

    /// Whether the stream has been open since the last successful relist started. Then the stream must have reported every
    /// transition that a relist finds now.
    fn is_covered(&self) -> bool {
        self.open_since.zip(self.last_relist).is_some_and(|(since, last)| since <= last)
    }

    /// Notes which stages and transitions the relist from `began` to `ended` could see. `failed` has the UIDs of the pods
    /// whose status calls failed.
    fn mark_listed(&mut self, began: Wall, ended: Wall, failed: &HashSet<&str>) {
        for history in self.histories.values_mut() {
            if history.pod.as_ref().is_some_and(|pod| failed.contains(pod.uid.as_str())) {
                continue;
            }
            if history.stage_since.is_some_and(|since| since <= began) {
                history.listed_since.get_or_insert(ended);
            }
            for transition in &mut history.transitions {
                let missing = transition.generic.is_none();
                if missing && transition.evented.is_some_and(|evented| evented.at <= began) {
                    transition.relists_since = transition.relists_since.saturating_add(1);
                    transition.relisted.get_or_insert(ended);
                }
            }
        }
    }

    /// Counts the transitions that only one side has reported within the time that the other side had.
    fn decide_overdue(&mut self, now: Wall) {
        // Some containers never have a reported end, because the runtime sends no event or the kubelet ignores the event.
        self.histories.retain(|_, history| !history.is_over(now, KEPT_AFTER_END));
        let mut overdue = Vec::new();
        for (id, history) in &mut self.histories {
            let (ignored_because, no_removals) = (history.ignored_because, self.no_removal_events);
            let listed_stages = history.listed_stages_until(now);
            let pod = history.pod.as_ref();
            for transition in history.transitions.iter_mut().filter(|transition| transition.is_overdue(now)) {
                if overdue.len() < MAX_DECISIONS {
                    transition.decided = true;
                    let verdict = transition.verdict(ignored_because, no_removals, listed_stages);
                    overdue.push((id.to_string(), transition.event_type, pod.cloned(), verdict));
                }
            }
        }
        // The sort gives the divergences of one moment the same order in every run.
        overdue.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        for (id, event_type, pod, (only, why)) in overdue {
            let counted = match (only, &why) {
                (EventSource::Evented, Some(_)) => &mut self.summary.missed_by_relisting,
                (EventSource::Generic, Some(Cause::Gap)) => &mut self.summary.in_a_gap,
                (EventSource::Generic, Some(Cause::Kubelet(_))) => &mut self.summary.withheld,
                (EventSource::Generic, Some(Cause::NoRemovalEvents(_))) => &mut self.summary.untold,
                (EventSource::Generic, _) => &mut self.summary.missed_by_stream,
                (EventSource::Evented, None) => &mut self.summary.unexplained,
            };
            *counted += 1;
            if only == EventSource::Generic && why.is_none() {
                self.summary.unexplained += 1;
            }
            let why = why.map(|why| why.as_str().to_owned());
            self.decided.push(Divergence {
                time: now,
                pod: pod.unwrap_or_default(),
                id: id.clone(),
                event_type,
                only: Some(only),
                latency_seconds: None,
                why,
            });
            self.remove_if_finished(&id);
        }
    }

    /// Returns the divergences found since the last call.
    pub fn take_divergences(&mut self) -> Vec<Divergence> {
        std::mem::take(&mut self.decided)
    }

    /// Returns the history of `id`, or `None` if too many are tracked.
    fn history(&mut self, id: &str) -> Option<&mut MemberHistory> {
        let full = self.histories.len() >= MAX_TRACKED && !self.histories.contains_key(id);
        if full && self.summary.not_compared.is_multiple_of(REJECTED_PER_CLEANUP) {
            // Finished histories are removed early, so that a new container can be tracked.
            let now = self.received.max(self.last_relist).unwrap_or_default();
            self.histories.retain(|_, history| !history.is_over(now, Duration::ZERO));
        }
        if id.len() > MAX_ID_LEN || full && self.histories.len() >= MAX_TRACKED {
            self.summary.not_compared += 1;
            return None;
        }
        Some(self.histories.entry(id.into()).or_default())
    }

    /// Removes the history of `id` if the container was removed and all its transitions are decided.
    fn remove_if_finished(&mut self, id: &str) {
        let over = self.histories.get(id).is_some_and(|history| {
            history.transitions.iter().any(|transition| transition.event_type == EventType::ContainerRemoved)
                && history.is_decided()
        });
        if over {
            self.histories.remove(id);
        }
    }

    /// Returns the summary so far.
    pub fn summary(&self, stream: &StreamSummary) -> CompareSummary {
        let mut summary = self.summary.clone();
        let histories = self.histories.values();
        let open =
            histories.flat_map(|history| &history.transitions).filter(|transition| !transition.decided);
        summary.undecided = u64::try_from(open.count()).unwrap_or(u64::MAX);
        summary.gained_seconds = self.lead.quantiles();
        summary.stream_seconds = self.stream_latency.quantiles();
        summary.relist_seconds = self.relist_latency.quantiles();
        summary.stream_bytes = stream.bytes;
        self.add_savings(&mut summary);
        summary.verdict = verdict(&summary, stream);
        summary
    }

    /// Estimates the calls and bytes that a kubelet saves by reading the stream and relisting every five minutes.
    fn add_savings(&self, summary: &mut CompareSummary) {
        let Some((first, last)) = self.span else { return };
        let needed = 1 + last.duration_since(first).as_secs() / EVENTED_PERIOD.as_secs();
        let spared = summary.relists.saturating_sub(needed);
        let relists = summary.relists.max(1);
        let share = |of: u64| of.saturating_mul(spared) / relists;
        summary.spared_calls = share(summary.relist_calls);
        summary.evented_bytes = summary.stream_bytes + summary.relist_bytes - share(summary.relist_bytes);
    }
}

impl MemberHistory {
    /// Returns the transition with this type of event.
    fn transition(&mut self, event_type: EventType) -> Option<&mut ComparedTransition> {
        self.transitions.iter_mut().find(|transition| transition.event_type == event_type)
    }

    /// Adds the report of one side. Returns the reports of both sides if this report decides the transition.
    fn add_report(&mut self, event: &Event, report: SideReport) -> Option<(SideReport, SideReport)> {
        if self.transition(event.event_type).is_none() {
            self.transitions.reserve_exact(1);
            self.transitions.push(ComparedTransition {
                event_type: event.event_type,
                generic: None,
                evented: None,
                relists_since: 0,
                relisted: None,
                // A state that existed before the watch started counts for neither side.
                decided: event.initial,
            });
        }
        let transition = self.transition(event.event_type)?;
        let slot = match event.source {
            EventSource::Generic => &mut transition.generic,
            EventSource::Evented => &mut transition.evented,
        };
        slot.get_or_insert(report);
        let both = transition.generic.zip(transition.evented).filter(|_| !transition.decided);
        transition.decided |= both.is_some();
        both
    }

    /// Whether all transitions are decided.
    fn is_decided(&self) -> bool {
        self.transitions.iter().all(|transition| transition.decided)
    }

    /// Whether the history can be removed: every transition is decided, no side has reported anything for `quiet`, and
    /// relisting has not listed the container as running. Relisting certainly reports the end of a running container later.
    fn is_over(&self, now: Wall, quiet: Duration) -> bool {
        let [listed, _] = self.furthest;
        let runs = listed == Some(1) && self.stage < 2;
        self.is_decided()
            && !runs
            && self.last_reported().is_none_or(|reported| now.duration_since(reported) > quiet)
    }

    /// Returns when one of the sides last reported something.
    fn last_reported(&self) -> Option<Wall> {
        let reports = self.transitions.iter().flat_map(|transition| [transition.generic, transition.evented]);
        reports.flatten().map(|report| report.at).chain(self.stage_since).max()
    }

    /// Returns the stages that relists could see, if the present stage lasts until `end`.
    fn listed_stages_until(&self, end: Wall) -> [bool; 4] {
        let mut listed_stages = self.listed_stages;
        let lasted = self.listed_since.is_some_and(|since| end.duration_since(since) >= EVENT_DELAY);
        if let Some(listed_stages) = listed_stages.get_mut(usize::from(self.stage)) {
            *listed_stages |= lasted;
        }
        listed_stages
    }
}

impl ComparedTransition {
    const fn report_of(&self, source: EventSource) -> Option<SideReport> {
        match source {
            EventSource::Generic => self.generic,
            EventSource::Evented => self.evented,
        }
    }

    /// Whether only one side has reported the transition within the time that the other side had.
    fn is_overdue(&self, now: Wall) -> bool {
        match (&self.generic, &self.evented) {
            _ if self.decided => false,
            (Some(generic), None) => now.duration_since(generic.at) >= STREAM_GRACE,
            (None, Some(_)) => {
                let reportable = self.relisted.is_some_and(|since| now.duration_since(since) >= EVENT_DELAY);
                self.relists_since >= RELIST_GRACE && reportable
            }
            _ => false,
        }
    }

    fn verdict(
        &self,
        ignored_because: Option<&'static str>,
        no_removals: Option<&'static str>,
        listed_stages: [bool; 4],
    ) -> (EventSource, Option<Cause>) {
        if let Some(generic) = self.generic {
            let no_removals = no_removals
                .filter(|_| self.event_type == EventType::ContainerRemoved)
                .map(Cause::NoRemovalEvents);
            let why = ignored_because
                .map(Cause::Kubelet)
                .or(no_removals)
                .or((!generic.covered).then_some(Cause::Gap));
            return (EventSource::Generic, why);
        }
        // Relisting must report a state that it could list, and the end of each earlier state that it could list.
        let [created, running, exited, _] = listed_stages;
        let visible = match self.event_type {
            EventType::ContainerStarted => running,
            EventType::ContainerDied | EventType::ContainerRemoved => created || running || exited,
            EventType::ContainerChanged | EventType::PodSync => true,
        };
        (EventSource::Evented, (!visible).then_some(Cause::TooShort))
    }
}

/// The reason why only one side reported a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The state was over before a relist could list it.
    TooShort,
    /// The stream was not open all the time.
    Gap,
    /// The stream sent the event, but the kubelet ignores it.
    Kubelet(&'static str),
    /// This runtime sends no events for removals.
    NoRemovalEvents(&'static str),
}

impl Cause {
    const fn as_str(self) -> &'static str {
        match self {
            Self::TooShort => "it was over before a relist could see it",
            Self::Gap => "the stream was not open all the time",
            Self::Kubelet(why) | Self::NoRemovalEvents(why) => why,
        }
    }
}

/// Returns the verdict as one sentence for the user.
fn verdict(summary: &CompareSummary, stream: &StreamSummary) -> String {
    let lost = summary.missed_by_stream + summary.withheld;
    let seen = summary.both + lost;
    if stream.fell_back {
        return format!(
            "EventedPLEG would not work here: the stream ended again and again, and the kubelet would have \
             given it up; relists saw {} until then",
            plural(seen, "transition")
        );
    }
    if stream.panics > 0 {
        return format!(
            "EventedPLEG would not be safe here: the kubelet would have crashed {} within {} that relists saw",
            plural(stream.panics, "time"),
            plural(seen, "transition")
        );
    }
    if lost > 0 {
        let few = if seen < MIN_TRANSITIONS { "; that is too few to say how often it would" } else { "" };
        return format!(
            "EventedPLEG would not be safe here: it lost {lost} of {} that relists saw{few}",
            plural(seen, "transition")
        );
    }
    if stream.dropped > 0 {
        return "plegctl cannot tell whether EventedPLEG would be safe here: it lost events itself".into();
    }
    // A loss without a reason has been counted above, so these are transitions that only the stream reported.
    if summary.unexplained > 0 {
        return format!(
            "plegctl cannot tell whether EventedPLEG would be safe here: relists should have seen {} that only the stream \
             reported; on a busy node, plegctl itself may be late",
            plural(summary.unexplained, "transition")
        );
    }
    if summary.both == 0 {
        return "plegctl cannot tell whether EventedPLEG would be safe here: nothing happened that both could \
                have seen"
            .into();
    }
    let removals = match summary.untold {
        0 => String::new(),
        count => format!(
            ", except for {}: this runtime sends no events for removals, and the kubelet notices them up to {} later",
            plural(count, "removal"),
            humantime::format_duration(EVENTED_PERIOD)
        ),
    };
    let few = if summary.both < MIN_TRANSITIONS {
        format!("; this is too few for a conclusion: watch until there are {MIN_TRANSITIONS}")
    } else {
        String::new()
    };
    format!(
        "EventedPLEG would have been safe here: it reported {} that relists saw{removals}{few}",
        match summary.both {
            1 => "the only transition".to_owned(),
            both => format!("all {both} transitions"),
        }
    )
}

/// Returns the stage (see [`MemberHistory`]) to which an event leads.
const fn stage_of(event_type: EventType) -> Option<u8> {
    match event_type {
        EventType::ContainerStarted => Some(1),
        EventType::ContainerDied => Some(2),
        EventType::ContainerRemoved => Some(3),
        EventType::ContainerChanged | EventType::PodSync => None,
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
