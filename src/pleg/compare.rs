//! What the event stream and relisting say about the same node: who was first, and what only one of them saw.
//!
//! Fed with everything in the order in which it happens, asks no clock. A transition that only one side has reported is
//! undecided until the other has had every chance, so that a slow side is not called a blind one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::latency::Latencies;
use super::stream::{
    CompareSummary, Divergence, Event, EventType, Relist, Source, Stream, StreamState, StreamSummary,
};
use crate::clock::Wall;
use crate::cri::{ContainerEventType, Outcome, ReceivedEvent};
use crate::kubelet::timing::EVENTED_PERIOD;
use crate::report::{PodRef, Seconds};

/// How long the stream may lag behind a relist.
const STREAM_GRACE: Duration = Duration::from_secs(5);

/// How many whole relists the stream may be ahead.
const RELIST_GRACE: u8 = 2;

/// How long a runtime may take to tell the stream what its lists have shown already.
const TELLING: Duration = Duration::from_millis(500);

/// How long after the request a runtime may take to put a new reader on its list.
const SETTLING: Duration = Duration::from_millis(500);

/// How long after its end something is forgotten that nobody had anything to say about.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// How many containers and sandboxes are kept in mind. Those beyond are not compared.
pub const MOST_LIVES: usize = 50_000;

/// No id is longer: containerd's have at most 76 bytes. One that claims to be is not kept in mind.
const LONGEST_ID: usize = 128;

/// The same for the UID, namespace and name of a pod together: 63 and 253 bytes for the latter two.
const LONGEST_POD: usize = 512;

/// How many are turned away before it is looked again whether some are over.
const PATIENCE: u64 = 1024;

/// How many transitions it takes to say that a stream loses none.
const ENOUGH: u64 = 100;

/// How many decisions follow from one relist; others wait for the next.
const MOST_AT_ONCE: usize = 10_000;

/// The comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    lives: HashMap<Box<str>, Life>,
    /// Since when the stream has been open without a gap.
    heard_since: Option<Wall>,
    /// When the open stream was asked for: what came about before was kept for whoever asked.
    opened: Option<Wall>,
    /// When the last successful relist began.
    last_relist: Option<Wall>,
    /// When the newest event was read.
    received: Option<Wall>,
    /// From the start of the first relist to the end of the last.
    span: Option<(Wall, Wall)>,
    decided: Vec<Divergence>,
    summary: CompareSummary,
    gained: Latencies,
    streamed: Latencies,
    listed: Latencies,
    /// Why this runtime tells no stream that something was removed, if it does not.
    silent_about_removal: Option<&'static str>,
}

/// What both sides have said about one container or sandbox.
#[derive(Debug, Default)]
struct Life {
    /// Whose it is, once that was said.
    pod: Option<PodRef>,
    /// One of each type. There are tens of thousands of lives, so that a map for each would cost more than all else.
    transitions: Vec<Transition>,
    /// How far the stream says it has come, and since when.
    stage: u8,
    stage_since: Option<Wall>,
    /// When the first relist ended that found it in this stage, by what the stream had said until then.
    shown_since: Option<Wall>,
    /// The stages that a relist has had before its eyes: those that lasted well beyond one.
    shown: [bool; 4],
    furthest: [Option<u8>; 2],
    /// Why the kubelet made nothing of an event about it.
    withheld: Option<&'static str>,
}

/// One transition.
#[derive(Debug)]
struct Transition {
    event_type: EventType,
    generic: Option<Sighting>,
    evented: Option<Sighting>,
    relists_since: u8,
    /// When the first of those relists ended.
    relisted: Option<Wall>,
    decided: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    at: Wall,
    /// For the stream: receipt minus the runtime's time stamp.
    latency: Option<Seconds>,
    /// For a relist: whether the stream was open ever since the relist before.
    covered: bool,
}

impl Comparison {
    /// A comparison on a runtime that tells no stream that something was removed; why.
    #[must_use]
    pub fn without_removals(mut self, why: &'static str) -> Self {
        self.silent_about_removal = Some(why);
        self
    }

    /// The stream was opened or closed.
    pub fn stream(&mut self, stream: &Stream) {
        match stream.state {
            StreamState::Connected => {
                self.opened = Some(stream.time);
                self.heard_since = Some(stream.time.plus(SETTLING));
            }
            StreamState::Closed | StreamState::Fallback => self.heard_since = None,
            // What was lost here may be missing for as long as anything else that was sent before.
            StreamState::Dropped => self.heard_since = Some(stream.time.plus(SETTLING)),
            StreamState::Panic => {}
        }
    }

    /// An event came through the stream; what the engine makes of it comes after this, or never.
    pub fn heard(&mut self, received: &ReceivedEvent) {
        self.received = Some(received.at);
        let event = &received.event;
        if event.container_id.is_empty() {
            return;
        }
        let Some(life) = self.life(&event.container_id) else { return };
        let stage = match event.kind {
            ContainerEventType::Created | ContainerEventType::Other(_) => 0,
            ContainerEventType::Started => 1,
            ContainerEventType::Stopped => 2,
            ContainerEventType::Deleted => 3,
        };
        if life.stage_since.is_none() || stage > life.stage {
            life.shown = life.shown_until(received.at);
            life.shown_since = None;
            life.stage = stage;
            life.stage_since = Some(received.at);
        }
        let speaks = event.sandbox.as_ref().is_some_and(|sandbox| sandbox.metadata.is_some());
        if !speaks {
            life.withheld =
                Some("its event came without the status of its pod, and the kubelet ignores such");
        } else if stage > 0 {
            // Taken back as soon as the engine hands the event on.
            life.withheld =
                Some("its event was older than what the kubelet had, and the kubelet refuses such");
        }
    }

    /// A lifecycle event of either side.
    pub fn event(&mut self, event: &Event) {
        let Some(id) = event.id.clone() else { return };
        let Some(stage) = stage_of(event.event_type).filter(|_| event.delivered) else {
            return;
        };
        let covered = self.is_covered();
        let source = event.source;
        let received = self.received.filter(|_| source == Source::Evented);
        let at = received.unwrap_or(event.time);
        if source == Source::Evented && self.is_leftover(event, at) {
            self.summary.leftovers += 1;
            let life = self.lives.get_mut(id.as_str());
            if let Some(known) = life.and_then(|life| life.transition(event.event_type)) {
                // Told at last, by a stream that was not there when it happened: neither a loss nor a latency.
                known.decided = true;
            }
            self.bury(&id);
            return;
        }
        let PodRef { uid, namespace, name } = &event.pod;
        if uid.len() + namespace.len() + name.len() > LONGEST_POD {
            self.summary.not_compared += 1;
            return;
        }
        let Some(life) = self.life(&id) else { return };
        let known =
            life.transition(event.event_type).is_some_and(|transition| transition.of(source).is_some());
        let mut out_of_order = false;
        if let Some(furthest) = life.furthest.get_mut(usize::from(source == Source::Evented)) {
            out_of_order = !known && furthest.is_some_and(|furthest| stage < furthest);
            *furthest = (*furthest).max(Some(stage));
        }
        if source == Source::Evented {
            life.withheld = None;
        }
        life.pod.get_or_insert_with(|| event.pod.clone());
        let sighting = Sighting { at, latency: event.latency_seconds, covered };
        let both = life.saw(event, sighting);
        let pod = life.pod.clone().unwrap_or_default();

        self.count(source, known, out_of_order);
        if let Some((generic, evented)) = both {
            self.agreed(event.time, pod, id.clone(), event.event_type, generic, evented);
        }
        self.bury(&id);
    }

    /// Whether the runtime had kept this event from before the stream was asked for.
    fn is_leftover(&self, event: &Event, at: Wall) -> bool {
        let created =
            event.latency_seconds.map(|latency| at.nanos().saturating_sub(nanos(latency.duration())));
        created.zip(self.opened).is_some_and(|(created, opened)| created < opened.nanos())
    }

    fn count(&mut self, source: Source, again: bool, out_of_order: bool) {
        let summary = &mut self.summary;
        match source {
            Source::Generic => summary.duplicates_generic += u64::from(again),
            Source::Evented => summary.duplicates_evented += u64::from(again),
        }
        summary.out_of_order += u64::from(out_of_order);
    }

    fn agreed(
        &mut self,
        time: Wall,
        pod: PodRef,
        id: String,
        event_type: EventType,
        generic: Sighting,
        evented: Sighting,
    ) {
        let gained = generic.at.nanos().saturating_sub(evented.at.nanos());
        self.summary.both += 1;
        if gained >= 0 {
            self.summary.evented_first += 1;
            self.gained.add(Seconds::from_nanos(gained).duration());
        } else {
            self.summary.generic_first += 1;
        }
        if let Some(latency) = evented.latency {
            let latency = latency.duration();
            self.streamed.add(latency);
            let created = evented.at.nanos().saturating_sub(nanos(latency));
            self.listed.add(Seconds::from_nanos(generic.at.nanos().saturating_sub(created)).duration());
        }
        // That a relist comes second is what relisting is; that it comes first is worth a record.
        if gained < 0 {
            self.decided.push(Divergence {
                time,
                pod,
                id,
                event_type,
                only: None,
                latency_seconds: Some(Seconds::from_nanos(gained)),
                why: None,
            });
        }
    }

    /// A relist is over, and its events were told before.
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
            self.shown(began, relist.time, &failed);
            self.last_relist = Some(began);
        }
        let first = self.span.map_or(began, |(first, _)| first);
        self.span = Some((first, relist.time));
        self.summary.relists += 1;
        self.decide_overdue(relist.time);
    }

    /// Whether the stream has been open since the last successful relist began: whatever a relist finds now came after.
    fn is_covered(&self) -> bool {
        self.heard_since.zip(self.last_relist).is_some_and(|(since, last)| since <= last)
    }

    fn shown(&mut self, began: Wall, ended: Wall, failed: &HashSet<&str>) {
        for life in self.lives.values_mut() {
            if life.pod.as_ref().is_some_and(|pod| failed.contains(pod.uid.as_str())) {
                continue;
            }
            if life.stage_since.is_some_and(|since| since <= began) {
                life.shown_since.get_or_insert(ended);
            }
            for transition in &mut life.transitions {
                let waits = transition.generic.is_none();
                if waits && transition.evented.is_some_and(|evented| evented.at <= began) {
                    transition.relists_since = transition.relists_since.saturating_add(1);
                    transition.relisted.get_or_insert(ended);
                }
            }
        }
    }

    fn decide_overdue(&mut self, now: Wall) {
        // Not every life has an end that is told: a runtime may be silent about it, the kubelet may ignore it.
        self.lives.retain(|_, life| !life.is_over(now, FORGOTTEN_AFTER));
        let mut overdue = Vec::new();
        for (id, life) in &mut self.lives {
            let (withheld, untold) = (life.withheld, self.silent_about_removal);
            let shown = life.shown_until(now);
            let pod = life.pod.as_ref();
            for transition in life.transitions.iter_mut().filter(|transition| transition.is_overdue(now)) {
                if overdue.len() < MOST_AT_ONCE {
                    transition.decided = true;
                    let verdict = transition.verdict(withheld, untold, shown);
                    overdue.push((id.to_string(), transition.event_type, pod.cloned(), verdict));
                }
            }
        }
        // What is told at one moment is told in the same order in every run.
        overdue.sort_unstable_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        for (id, event_type, pod, (only, why)) in overdue {
            let counted = match (only, &why) {
                (Source::Evented, Some(_)) => &mut self.summary.missed_by_relisting,
                (Source::Generic, Some(Why::Gap)) => &mut self.summary.in_a_gap,
                (Source::Generic, Some(Why::Kubelet(_))) => &mut self.summary.withheld,
                (Source::Generic, Some(Why::Untold(_))) => &mut self.summary.untold,
                (Source::Generic, _) => &mut self.summary.missed_by_stream,
                (Source::Evented, None) => &mut self.summary.unexplained,
            };
            *counted += 1;
            if only == Source::Generic && why.is_none() {
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
            self.bury(&id);
        }
    }

    /// What was decided since the last time.
    pub fn take(&mut self) -> Vec<Divergence> {
        std::mem::take(&mut self.decided)
    }

    /// The life of `id`, unless there are too many already.
    fn life(&mut self, id: &str) -> Option<&mut Life> {
        let full = self.lives.len() >= MOST_LIVES && !self.lives.contains_key(id);
        if full && self.summary.not_compared.is_multiple_of(PATIENCE) {
            // Rather forget early what is over than not look at what is new.
            let now = self.received.max(self.last_relist).unwrap_or_default();
            self.lives.retain(|_, life| !life.is_over(now, Duration::ZERO));
        }
        if id.len() > LONGEST_ID || full && self.lives.len() >= MOST_LIVES {
            self.summary.not_compared += 1;
            return None;
        }
        Some(self.lives.entry(id.into()).or_default())
    }

    /// Forgets what is removed and decided.
    fn bury(&mut self, id: &str) {
        let over = self.lives.get(id).is_some_and(|life| {
            life.transitions.iter().any(|transition| transition.event_type == EventType::ContainerRemoved)
                && life.is_decided()
        });
        if over {
            self.lives.remove(id);
        }
    }

    /// Everything so far.
    pub fn summary(&self, stream: &StreamSummary) -> CompareSummary {
        let mut summary = self.summary.clone();
        let lives = self.lives.values();
        let open = lives.flat_map(|life| &life.transitions).filter(|transition| !transition.decided);
        summary.undecided = u64::try_from(open.count()).unwrap_or(u64::MAX);
        summary.gained_seconds = self.gained.quantiles();
        summary.stream_seconds = self.streamed.quantiles();
        summary.relist_seconds = self.listed.quantiles();
        summary.stream_bytes = stream.bytes;
        self.spare(&mut summary);
        summary.verdict = verdict(&summary, stream);
        summary
    }

    /// What the kubelet would have asked had it read the stream and relisted at its leisure.
    fn spare(&self, summary: &mut CompareSummary) {
        let Some((first, last)) = self.span else { return };
        let needed = 1 + last.duration_since(first).as_secs() / EVENTED_PERIOD.as_secs();
        let spared = summary.relists.saturating_sub(needed);
        let relists = summary.relists.max(1);
        let share = |of: u64| of.saturating_mul(spared) / relists;
        summary.spared_calls = share(summary.relist_calls);
        summary.evented_bytes = summary.stream_bytes + summary.relist_bytes - share(summary.relist_bytes);
    }
}

impl Life {
    fn transition(&mut self, event_type: EventType) -> Option<&mut Transition> {
        self.transitions.iter_mut().find(|transition| transition.event_type == event_type)
    }

    /// One side has said so; what both have, where that decides it.
    fn saw(&mut self, event: &Event, sighting: Sighting) -> Option<(Sighting, Sighting)> {
        if self.transition(event.event_type).is_none() {
            self.transitions.reserve_exact(1);
            self.transitions.push(Transition {
                event_type: event.event_type,
                generic: None,
                evented: None,
                relists_since: 0,
                relisted: None,
                // What was so before the watch began is nobody's discovery.
                decided: event.initial,
            });
        }
        let transition = self.transition(event.event_type)?;
        let slot = match event.source {
            Source::Generic => &mut transition.generic,
            Source::Evented => &mut transition.evented,
        };
        slot.get_or_insert(sighting);
        let both = transition.generic.zip(transition.evented).filter(|_| !transition.decided);
        transition.decided |= both.is_some();
        both
    }

    fn is_decided(&self) -> bool {
        self.transitions.iter().all(|transition| transition.decided)
    }

    /// Whether it is decided what there was to say, nothing was said for so long, and no more is to come but an end
    /// that both sides can still tell anew: of what is dead, or was never seen to live. Relisting never fails to tell
    /// the end of what it has found; the stream may, and what it alone has told of was not there when it was decided.
    fn is_over(&self, now: Wall, quiet: Duration) -> bool {
        let [listed, _] = self.furthest;
        let lives = listed == Some(1) && self.stage < 2;
        self.is_decided() && !lives && self.last_said().is_none_or(|said| now.duration_since(said) > quiet)
    }

    fn last_said(&self) -> Option<Wall> {
        let sightings =
            self.transitions.iter().flat_map(|transition| [transition.generic, transition.evented]);
        sightings.flatten().map(|sighting| sighting.at).chain(self.stage_since).max()
    }

    /// The stages that relists have been shown, if the present one lasts until `end`.
    fn shown_until(&self, end: Wall) -> [bool; 4] {
        let mut shown = self.shown;
        let lasted = self.shown_since.is_some_and(|since| end.duration_since(since) >= TELLING);
        if let Some(shown) = shown.get_mut(usize::from(self.stage)) {
            *shown |= lasted;
        }
        shown
    }
}

impl Transition {
    const fn of(&self, source: Source) -> Option<Sighting> {
        match source {
            Source::Generic => self.generic,
            Source::Evented => self.evented,
        }
    }

    fn is_overdue(&self, now: Wall) -> bool {
        match (&self.generic, &self.evented) {
            _ if self.decided => false,
            (Some(generic), None) => now.duration_since(generic.at) >= STREAM_GRACE,
            (None, Some(_)) => {
                let told = self.relisted.is_some_and(|since| now.duration_since(since) >= TELLING);
                self.relists_since >= RELIST_GRACE && told
            }
            _ => false,
        }
    }

    fn verdict(
        &self,
        withheld: Option<&'static str>,
        untold: Option<&'static str>,
        shown: [bool; 4],
    ) -> (Source, Option<Why>) {
        if let Some(generic) = self.generic {
            let untold = untold.filter(|_| self.event_type == EventType::ContainerRemoved).map(Why::Untold);
            let why = withheld.map(Why::Kubelet).or(untold).or((!generic.covered).then_some(Why::Gap));
            return (Source::Generic, why);
        }
        // Relisting notices what it has had before its eyes: the state itself, or any earlier one once that is gone.
        let [created, running, exited, _] = shown;
        let visible = match self.event_type {
            EventType::ContainerStarted => running,
            EventType::ContainerDied | EventType::ContainerRemoved => created || running || exited,
            EventType::ContainerChanged | EventType::PodSync => true,
        };
        (Source::Evented, (!visible).then_some(Why::Short))
    }
}

/// Why only one side saw something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It was over before a relist came by.
    Short,
    /// Nobody listened to the stream.
    Gap,
    /// The stream had it and the kubelet makes nothing of it.
    Kubelet(&'static str),
    /// This runtime tells no stream of such things.
    Untold(&'static str),
}

impl Why {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Short => "it was over before a relist could see it",
            Self::Gap => "the stream was not open all the time",
            Self::Kubelet(why) | Self::Untold(why) => why,
        }
    }
}

/// The plain sentence.
fn verdict(summary: &CompareSummary, stream: &StreamSummary) -> String {
    let lost = summary.missed_by_stream + summary.withheld;
    let seen = summary.both + lost;
    if stream.fell_back {
        return format!(
            "EventedPLEG would not work here: the stream kept ending, and the kubelet would have given it up, after {seen} transitions that relisting saw"
        );
    }
    if stream.panics > 0 {
        return format!(
            "EventedPLEG would not be safe here: the kubelet would have crashed {} times within {seen} transitions that relisting saw",
            stream.panics
        );
    }
    if lost > 0 {
        let few = if seen < ENOUGH { "; that is too few to say how often it would" } else { "" };
        return format!(
            "EventedPLEG would not be safe here: it lost {lost} of {seen} transitions that relisting saw{few}"
        );
    }
    if stream.dropped > 0 {
        return "whether EventedPLEG would be safe here cannot be said: plegctl itself lost events".into();
    }
    if summary.both == 0 {
        return "whether EventedPLEG would be safe here cannot be said: nothing happened that both could have seen".into();
    }
    let untold = match summary.untold {
        0 => String::new(),
        untold => format!(
            ", but for {untold} removals, of which this runtime tells no stream and the kubelet learns up to {} later",
            humantime::format_duration(EVENTED_PERIOD)
        ),
    };
    let few = if summary.both < ENOUGH {
        format!("; that is too few to tell, watch until there are {ENOUGH}")
    } else {
        String::new()
    };
    format!(
        "EventedPLEG would have been safe here: it had all {} transitions that relisting saw{untold}{few}",
        summary.both
    )
}

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
