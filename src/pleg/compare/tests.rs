//! Tests of the comparison, with events and relists at fixed seconds.

use super::*;
use crate::cri::{ContainerEvent, SandboxMetadata, SandboxState, SandboxStatus};
use crate::pleg::Seconds;
use crate::pleg::stream::EventSubject;

const SECOND: i64 = 1_000_000_000;

/// A comparison whose stream is open, and the current time. Each method passes in something that happens now.
struct Script {
    comparison: Comparison,
    now: i64,
}

impl Script {
    fn start() -> Self {
        let mut script = Self { comparison: Comparison::default(), now: 1000 * SECOND };
        script.stream(StreamState::Connected);
        script.wait(1).relist().wait(1);
        script
    }

    fn wait(&mut self, seconds: i64) -> &mut Self {
        self.now += seconds * SECOND;
        self
    }

    fn stream(&mut self, state: StreamState) -> &mut Self {
        self.comparison.stream(&Stream { time: Wall::from_nanos(self.now), state, attempt: 1, error: None });
        self
    }

    fn relist(&mut self) -> &mut Self {
        self.comparison.relist(&Relist::new(Wall::from_nanos(self.now), 1));
        self
    }

    fn lifecycle_event(&mut self, source: EventSource, event_type: EventType, id: &str) -> &mut Self {
        let time = Wall::from_nanos(self.now);
        let mut event = Event::new(time, source, event_type, PodRef::default(), EventSubject::Container);
        event.id = Some(id.to_owned());
        event.latency_seconds = (source == EventSource::Evented).then(Seconds::default);
        self.comparison.event(&event);
        self
    }

    fn received(&mut self, kind: ContainerEventType, id: &str, with_pod: bool) -> &mut Self {
        let sandbox = with_pod.then(|| SandboxStatus {
            id: "sandbox".into(),
            metadata: Some(SandboxMetadata::default()),
            state: SandboxState::Ready,
            created_at: 0,
            network: None,
            host_network: None,
            labels: crate::cri::Labels::default(),
            annotations: crate::cri::Labels::default(),
        });
        self.comparison.stream_event(&ReceivedEvent {
            event: ContainerEvent {
                container_id: id.to_owned(),
                kind,
                created_at: self.now,
                sandbox,
                containers: Vec::new(),
            },
            at: Wall::from_nanos(self.now),
            bytes: 1,
            memory: 1,
        });
        self
    }

    fn via_stream(&mut self, id: &str, kind: ContainerEventType) -> &mut Self {
        self.received(kind, id, true);
        let types: &[EventType] = match kind {
            ContainerEventType::Started => &[EventType::ContainerStarted],
            ContainerEventType::Stopped => &[EventType::ContainerDied],
            ContainerEventType::Deleted => &[EventType::ContainerDied, EventType::ContainerRemoved],
            _ => &[],
        };
        for event_type in types {
            self.lifecycle_event(EventSource::Evented, *event_type, id);
        }
        self
    }

    fn summary(&self) -> CompareSummary {
        self.comparison.summary(&StreamSummary::default())
    }
}

#[test]
fn the_lead_of_the_stream_is_counted_for_a_transition_that_both_report() {
    let mut script = Script::start();
    script.via_stream("c", ContainerEventType::Started).wait(1);
    script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, "c").relist();
    assert!(script.comparison.take_divergences().is_empty(), "a relist that reports second is no divergence");
    let summary = script.summary();
    assert_eq!((summary.both, summary.evented_first, summary.unexplained), (1, 1, 0));
    assert_eq!(summary.gained_seconds.unwrap().max, Seconds::from_nanos(SECOND));
    assert!(summary.verdict.contains("would have been safe"), "{}", summary.verdict);
    assert!(summary.verdict.contains("too few for a conclusion"), "{}", summary.verdict);
}

#[test]
fn a_relist_that_reports_first_is_a_divergence() {
    let mut script = Script::start();
    script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, "c").relist().wait(1);
    script.via_stream("c", ContainerEventType::Started);
    let decided = script.comparison.take_divergences();
    assert_eq!(decided[0].latency_seconds, Some(Seconds::from_nanos(-SECOND)));
}

#[test]
fn a_hundred_transitions_give_a_verdict_without_reservation() {
    let mut script = Script::start();
    for number in 0..100 {
        let id = number.to_string();
        script.via_stream(&id, ContainerEventType::Started);
        script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, &id);
    }
    assert_eq!(
        script.summary().verdict,
        "EventedPLEG would have been safe here: it reported all 100 transitions that relists saw"
    );
}

#[test]
fn removals_without_events_are_explained_and_in_the_verdict() {
    let mut script = Script::start();
    script.comparison =
        std::mem::take(&mut script.comparison).without_removals("this runtime sends no removal events");
    script.lifecycle_event(EventSource::Generic, EventType::ContainerRemoved, "c").relist().wait(6).relist();
    let summary = script.summary();
    assert_eq!((summary.untold, summary.unexplained, summary.missed_by_stream), (1, 0, 0));
    assert_eq!(
        script.comparison.take_divergences()[0].why.as_deref(),
        Some("this runtime sends no removal events")
    );
    script.lifecycle_event(EventSource::Generic, EventType::ContainerDied, "d").relist().wait(6).relist();
    assert_eq!(
        script.summary().missed_by_stream,
        1,
        "a missing event of an exit is a loss with this runtime too"
    );
}

#[test]
fn an_event_buffered_before_the_stream_was_opened_is_neither_latency_nor_loss() {
    let mut script = Script::start();
    script
        .stream(StreamState::Closed)
        .lifecycle_event(EventSource::Generic, EventType::ContainerDied, "c")
        .relist()
        .wait(1);
    script.stream(StreamState::Connected).wait(1);
    // The event was created before the stream was opened, and the runtime buffered it.
    script.now -= 2 * SECOND;
    script.via_stream("c", ContainerEventType::Stopped);
    script.now += 10 * SECOND;
    script.relist();
    let summary = script.summary();
    assert_eq!((summary.leftovers, summary.both, summary.in_a_gap, summary.undecided), (1, 0, 0, 0));
    assert_eq!(summary.stream_seconds, None);
}

#[test]
fn histories_without_a_reported_end_are_removed() {
    let mut script = Script::start();
    script.via_stream("created", ContainerEventType::Created);
    script.via_stream("short", ContainerEventType::Started);
    script.via_stream("short", ContainerEventType::Stopped);
    script.via_stream("runs", ContainerEventType::Started);
    script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, "runs");
    script.wait(1).relist().wait(1).relist().wait(61).relist();
    let known: Vec<&str> = script.comparison.histories.keys().map(|id| &**id).collect();
    assert_eq!(known, ["runs"]);
}

#[test]
fn a_container_that_ended_between_two_relists_is_missed_by_relisting_only() {
    let mut script = Script::start();
    for kind in [
        ContainerEventType::Created,
        ContainerEventType::Started,
        ContainerEventType::Stopped,
        ContainerEventType::Deleted,
    ] {
        script.via_stream("short", kind);
    }
    script.wait(1).relist().wait(1).relist();
    let summary = script.summary();
    assert_eq!((summary.missed_by_relisting, summary.unexplained), (3, 0));
    assert_eq!(
        summary.duplicates_evented, 1,
        "the kubelet emits ContainerDied again when an exited container is removed"
    );
    assert!(script.comparison.histories.is_empty(), "finished and decided histories are removed");
}

#[test]
fn a_transition_that_two_relists_could_see_but_did_not_report_is_unexplained() {
    let mut script = Script::start();
    script.via_stream("seen", ContainerEventType::Started);
    script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, "seen");
    assert!(script.summary().verdict.contains("would have been safe"));
    script.via_stream("c", ContainerEventType::Started).wait(1).relist().wait(1).relist();
    let summary = script.summary();
    assert_eq!((summary.both, summary.unexplained), (1, 1));
    let verdict = "plegctl cannot tell whether EventedPLEG would be safe here: relists should have seen 1 transition that only";
    assert!(summary.verdict.starts_with(verdict), "{}", summary.verdict);
}

#[test]
fn a_container_removed_from_the_lists_before_its_event_is_missed_by_relisting_only() {
    let mut script = Script::start();
    script.via_stream("short", ContainerEventType::Created);
    script.now += SECOND / 100;
    script.relist();
    script.now += SECOND / 100;
    script.via_stream("short", ContainerEventType::Deleted).wait(1).relist().wait(1).relist();
    let summary = script.summary();
    assert_eq!((summary.missed_by_relisting, summary.unexplained, summary.undecided), (2, 0, 0));
}

#[test]
fn a_container_listed_for_long_without_an_event_is_unexplained() {
    let mut script = Script::start();
    script.via_stream("long", ContainerEventType::Created).wait(1).relist().wait(1);
    script.via_stream("long", ContainerEventType::Deleted).wait(1).relist().wait(1).relist();
    assert_eq!(script.summary().unexplained, 2);
}

#[test]
fn a_transition_without_an_event_is_a_loss_after_the_grace_period() {
    let mut script = Script::start();
    script.lifecycle_event(EventSource::Generic, EventType::ContainerDied, "c").relist().wait(4).relist();
    assert_eq!((script.summary().undecided, script.summary().missed_by_stream), (1, 0));
    script.wait(1).relist();
    let summary = script.summary();
    assert_eq!((summary.missed_by_stream, summary.unexplained), (1, 1));
    assert!(summary.verdict.contains("not be safe"), "{}", summary.verdict);
    assert!(summary.verdict.contains("lost 1 of 1 transition that"), "{}", summary.verdict);
    assert!(summary.verdict.contains("too few"), "{}", summary.verdict);
}

#[test]
fn a_transition_while_the_stream_was_closed_is_no_loss() {
    let mut script = Script::start();
    script.stream(StreamState::Closed).wait(1);
    script.lifecycle_event(EventSource::Generic, EventType::ContainerDied, "c").relist();
    script.stream(StreamState::Connected).wait(6).relist();
    let summary = script.summary();
    assert_eq!((summary.in_a_gap, summary.missed_by_stream, summary.unexplained), (1, 0, 0));
}

#[test]
fn an_event_without_its_pod_is_an_explained_loss() {
    let mut script = Script::start();
    script.received(ContainerEventType::Deleted, "sandbox", false);
    script
        .lifecycle_event(EventSource::Generic, EventType::ContainerRemoved, "sandbox")
        .relist()
        .wait(6)
        .relist();
    let summary = script.summary();
    assert_eq!((summary.withheld, summary.unexplained), (1, 0));
    assert!(
        script.comparison.take_divergences()[0]
            .why
            .as_deref()
            .unwrap()
            .contains("its event had no pod status")
    );
}

#[test]
fn events_buffered_before_the_stream_was_opened_are_not_compared() {
    let mut script = Script::start();
    script.wait(10);
    script.stream(StreamState::Connected);
    script.now -= 5 * SECOND;
    script.via_stream("old", ContainerEventType::Started);
    script.now += 5 * SECOND;
    script.wait(1).relist().wait(1).relist();
    let summary = script.summary();
    assert_eq!((summary.leftovers, summary.unexplained, summary.missed_by_relisting), (1, 0, 0));
}

#[test]
fn the_number_of_tracked_containers_is_limited() {
    let mut script = Script::start();
    for number in 0..MAX_TRACKED + 10 {
        script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, &number.to_string());
    }
    assert_eq!(script.comparison.histories.len(), MAX_TRACKED);
    assert_eq!(script.summary().not_compared, 10);
}

#[test]
fn a_container_with_a_too_long_id_is_not_tracked() {
    let mut script = Script::start();
    script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, &"x".repeat(MAX_ID_LEN + 1));
    assert!(script.comparison.histories.is_empty());
    assert_eq!(script.summary().not_compared, 1);
}

#[test]
fn a_pod_with_too_long_names_is_not_tracked() {
    let mut script = Script::start();
    let pod = PodRef { name: "x".repeat(MAX_POD_LEN + 1), ..PodRef::default() };
    let time = Wall::from_nanos(script.now);
    let mut event =
        Event::new(time, EventSource::Generic, EventType::ContainerStarted, pod, EventSubject::Container);
    event.id = Some("c".to_owned());
    script.comparison.event(&event);
    assert!(script.comparison.histories.is_empty());
    assert_eq!(script.summary().not_compared, 1);
}

#[test]
fn finished_containers_make_space_for_new_ones_at_the_limit() {
    let mut script = Script::start();
    for number in 0..MAX_TRACKED {
        script.via_stream(&number.to_string(), ContainerEventType::Created);
    }
    script.wait(1).via_stream("new", ContainerEventType::Started);
    assert!(script.comparison.histories.contains_key("new"));
    assert_eq!(script.summary().not_compared, 0);
}

#[test]
fn a_relist_that_reports_second_is_no_divergence_however_late() {
    let mut script = Script::start();
    script.via_stream("at once", ContainerEventType::Started);
    script.lifecycle_event(EventSource::Generic, EventType::ContainerStarted, "at once");
    script.via_stream("late", ContainerEventType::Started).wait(200);
    script
        .lifecycle_event(EventSource::Generic, EventType::ContainerStarted, "late")
        .relist()
        .wait(60)
        .relist();
    assert_eq!(script.comparison.take_divergences(), []);
    let summary = script.summary();
    assert_eq!((summary.both, summary.evented_first, summary.generic_first), (2, 2, 0));
}

#[test]
fn a_container_that_only_the_stream_reported_running_is_removed_when_relists_do_not_list_it() {
    let mut script = Script::start();
    // plegctl dropped the event of the container's end.
    script.via_stream("lost", ContainerEventType::Started).wait(1).relist().wait(1).relist();
    assert_eq!(script.comparison.histories.len(), 1);
    script.wait(61).relist();
    assert!(script.comparison.histories.is_empty());
}

#[test]
fn transitions_beyond_the_limit_are_decided_after_the_next_relist() {
    let mut script = Script::start();
    for number in 0..=MAX_DECISIONS {
        script.lifecycle_event(EventSource::Generic, EventType::ContainerDied, &number.to_string());
    }
    script.relist().wait(6).relist();
    assert_eq!((script.comparison.take_divergences().len(), script.summary().undecided), (MAX_DECISIONS, 1));
    script.wait(1).relist();
    assert_eq!((script.comparison.take_divergences().len(), script.summary().undecided), (1, 0));
}

/// Returns the memory of a comparison in bytes, without the allocator's overhead.
fn memory_of(comparison: &Comparison) -> usize {
    let names = |pod: &PodRef| pod.uid.capacity() + pod.namespace.capacity() + pod.name.capacity();
    let of_history = |history: &MemberHistory| {
        history.pod.as_ref().map_or(0, names)
            + history.transitions.capacity() * size_of::<ComparedTransition>()
    };
    let table = comparison.histories.capacity() * (size_of::<(Box<str>, MemberHistory)>() + 1);
    let ids = comparison.histories.keys().map(|id| id.len());
    table + ids.chain(comparison.histories.values().map(of_history)).sum::<usize>()
}

/// The test uses the longest names and four times as many containers as can be tracked. Half of them end, and the event of
/// the end is lost for the other half.
#[test]
fn long_a_flood_stays_within_the_memory_limit_and_is_compared_completely() {
    let mut script = Script::start();
    let mut pod = PodRef { uid: "u".repeat(MAX_POD_LEN), ..PodRef::default() };
    let (mut most, mut decided) = (0, 0);
    for number in 0..4 * MAX_TRACKED {
        let time = Wall::from_nanos(script.now);
        for event_type in [EventType::ContainerStarted, EventType::ContainerDied].iter().take(1 + number % 2)
        {
            let mut event = Event::new(time, EventSource::Evented, *event_type, pod, EventSubject::Container);
            event.id = Some(format!("{number:0MAX_ID_LEN$}"));
            script.comparison.event(&event);
            pod = event.pod;
        }
        if number % 5000 == 0 {
            most = memory_of(&script.comparison).max(most);
            script.wait(1).relist();
            decided += script.comparison.take_divergences().len();
        }
    }
    assert!(most < 64 * 1024 * 1024, "{most} bytes");
    assert!(decided > 4 * MAX_TRACKED, "{decided} decided");
    assert_eq!(script.summary().not_compared, 0);
}
