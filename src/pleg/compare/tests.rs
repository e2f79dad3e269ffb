//! A comparison that is told what happened, a second at a time.

use super::*;
use crate::cri::{ContainerEvent, SandboxMetadata, SandboxState, SandboxStatus};
use crate::pleg::Seconds;
use crate::pleg::stream::Subject;

const SECOND: i64 = 1_000_000_000;

/// A comparison whose stream has been open for long, and the time of its next step.
struct Play {
    comparison: Comparison,
    now: i64,
}

impl Play {
    fn start() -> Self {
        let mut play = Self { comparison: Comparison::default(), now: 1000 * SECOND };
        play.stream(StreamState::Connected);
        play.wait(1).relist().wait(1);
        play
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

    fn said(&mut self, source: Source, event_type: EventType, id: &str) -> &mut Self {
        let time = Wall::from_nanos(self.now);
        let mut event = Event::new(time, source, event_type, PodRef::default(), Subject::Container);
        event.id = Some(id.to_owned());
        event.latency_seconds = (source == Source::Evented).then(Seconds::default);
        self.comparison.event(&event);
        self
    }

    fn heard(&mut self, kind: ContainerEventType, id: &str, with_pod: bool) -> &mut Self {
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
        self.comparison.heard(&ReceivedEvent {
            event: ContainerEvent {
                container_id: id.to_owned(),
                kind,
                created_at: self.now,
                sandbox,
                containers: Vec::new(),
            },
            at: Wall::from_nanos(self.now),
            bytes: 1,
            weight: 1,
        });
        self
    }

    fn through_stream(&mut self, id: &str, kind: ContainerEventType) -> &mut Self {
        self.heard(kind, id, true);
        let types: &[EventType] = match kind {
            ContainerEventType::Started => &[EventType::ContainerStarted],
            ContainerEventType::Stopped => &[EventType::ContainerDied],
            ContainerEventType::Deleted => &[EventType::ContainerDied, EventType::ContainerRemoved],
            _ => &[],
        };
        for event_type in types {
            self.said(Source::Evented, *event_type, id);
        }
        self
    }

    fn summary(&self) -> CompareSummary {
        self.comparison.summary(&StreamSummary::default())
    }
}

#[test]
fn what_both_saw_is_a_gain_of_the_stream() {
    let mut play = Play::start();
    play.through_stream("c", ContainerEventType::Started).wait(1);
    play.said(Source::Generic, EventType::ContainerStarted, "c").relist();
    assert!(play.comparison.take().is_empty(), "that a relist comes second is no divergence");
    let summary = play.summary();
    assert_eq!((summary.both, summary.evented_first, summary.unexplained), (1, 1, 0));
    assert_eq!(summary.gained_seconds.unwrap().max, Seconds::from_nanos(SECOND));
    assert!(summary.verdict.contains("would have been safe"), "{}", summary.verdict);
    assert!(summary.verdict.contains("too few to tell"), "{}", summary.verdict);
}

#[test]
fn a_relist_that_comes_first_is_a_divergence() {
    let mut play = Play::start();
    play.said(Source::Generic, EventType::ContainerStarted, "c").relist().wait(1);
    play.through_stream("c", ContainerEventType::Started);
    let decided = play.comparison.take();
    assert_eq!(decided[0].latency_seconds, Some(Seconds::from_nanos(-SECOND)));
}

#[test]
fn a_hundred_transitions_are_enough_for_a_sentence_without_reservation() {
    let mut play = Play::start();
    for number in 0..100 {
        let id = number.to_string();
        play.through_stream(&id, ContainerEventType::Started);
        play.said(Source::Generic, EventType::ContainerStarted, &id);
    }
    assert_eq!(
        play.summary().verdict,
        "EventedPLEG would have been safe here: it had all 100 transitions that relisting saw"
    );
}

#[test]
fn removals_that_a_runtime_never_tells_are_explained_and_in_the_sentence() {
    let mut play = Play::start();
    play.comparison = std::mem::take(&mut play.comparison).without_removals("it never tells");
    play.said(Source::Generic, EventType::ContainerRemoved, "c").relist().wait(6).relist();
    let summary = play.summary();
    assert_eq!((summary.untold, summary.unexplained, summary.missed_by_stream), (1, 0, 0));
    assert_eq!(play.comparison.take()[0].why.as_deref(), Some("it never tells"));
    play.said(Source::Generic, EventType::ContainerDied, "d").relist().wait(6).relist();
    assert_eq!(play.summary().missed_by_stream, 1, "an end that is not a removal is a loss here too");
}

#[test]
fn what_a_new_stream_tells_late_of_what_a_relist_had_is_neither_latency_nor_loss() {
    let mut play = Play::start();
    play.stream(StreamState::Closed).said(Source::Generic, EventType::ContainerDied, "c").relist().wait(1);
    play.stream(StreamState::Connected).wait(1);
    // It happened before the stream was opened, and was kept.
    play.now -= 2 * SECOND;
    play.through_stream("c", ContainerEventType::Stopped);
    play.now += 10 * SECOND;
    play.relist();
    let summary = play.summary();
    assert_eq!((summary.leftovers, summary.both, summary.in_a_gap, summary.undecided), (1, 0, 0, 0));
    assert_eq!(summary.stream_seconds, None);
}

#[test]
fn lives_whose_end_is_never_told_are_forgotten() {
    let mut play = Play::start();
    play.through_stream("created", ContainerEventType::Created);
    play.through_stream("short", ContainerEventType::Started);
    play.through_stream("short", ContainerEventType::Stopped);
    play.through_stream("runs", ContainerEventType::Started);
    play.said(Source::Generic, EventType::ContainerStarted, "runs");
    play.wait(1).relist().wait(1).relist().wait(61).relist();
    let known: Vec<&str> = play.comparison.lives.keys().map(|id| &**id).collect();
    assert_eq!(known, ["runs"]);
}

#[test]
fn a_container_between_two_relists_was_missed_by_relisting_alone() {
    let mut play = Play::start();
    for kind in [
        ContainerEventType::Created,
        ContainerEventType::Started,
        ContainerEventType::Stopped,
        ContainerEventType::Deleted,
    ] {
        play.through_stream("short", kind);
    }
    play.wait(1).relist().wait(1).relist();
    let summary = play.summary();
    assert_eq!((summary.missed_by_relisting, summary.unexplained), (3, 0));
    assert_eq!(summary.duplicates_evented, 1, "the kubelet says Died again when a dead container goes");
    assert!(play.comparison.lives.is_empty(), "what is over and decided is forgotten");
}

#[test]
fn what_two_relists_had_before_their_eyes_and_did_not_say_is_unexplained() {
    let mut play = Play::start();
    play.through_stream("c", ContainerEventType::Started).wait(1).relist().wait(1).relist();
    assert_eq!(play.summary().unexplained, 1);
}

#[test]
fn a_container_that_left_the_lists_before_the_stream_said_so_was_missed_by_relisting_alone() {
    let mut play = Play::start();
    play.through_stream("short", ContainerEventType::Created);
    play.now += SECOND / 100;
    play.relist();
    play.now += SECOND / 100;
    play.through_stream("short", ContainerEventType::Deleted).wait(1).relist().wait(1).relist();
    let summary = play.summary();
    assert_eq!((summary.missed_by_relisting, summary.unexplained, summary.undecided), (2, 0, 0));
}

#[test]
fn a_container_that_stood_in_the_lists_for_long_and_was_never_told_is_unexplained() {
    let mut play = Play::start();
    play.through_stream("long", ContainerEventType::Created).wait(1).relist().wait(1);
    play.through_stream("long", ContainerEventType::Deleted).wait(1).relist().wait(1).relist();
    assert_eq!(play.summary().unexplained, 2);
}

#[test]
fn what_the_stream_never_said_is_a_loss_after_its_grace() {
    let mut play = Play::start();
    play.said(Source::Generic, EventType::ContainerDied, "c").relist().wait(4).relist();
    assert_eq!((play.summary().undecided, play.summary().missed_by_stream), (1, 0));
    play.wait(1).relist();
    let summary = play.summary();
    assert_eq!((summary.missed_by_stream, summary.unexplained), (1, 1));
    assert!(summary.verdict.contains("not be safe"), "{}", summary.verdict);
    assert!(summary.verdict.contains("lost 1 of 1 transitions"), "{}", summary.verdict);
    assert!(summary.verdict.contains("too few"), "{}", summary.verdict);
}

#[test]
fn what_happened_while_nobody_listened_is_no_loss() {
    let mut play = Play::start();
    play.stream(StreamState::Closed).wait(1);
    play.said(Source::Generic, EventType::ContainerDied, "c").relist();
    play.stream(StreamState::Connected).wait(6).relist();
    let summary = play.summary();
    assert_eq!((summary.in_a_gap, summary.missed_by_stream, summary.unexplained), (1, 0, 0));
}

#[test]
fn an_event_without_its_pod_is_a_loss_that_is_explained() {
    let mut play = Play::start();
    play.heard(ContainerEventType::Deleted, "sandbox", false);
    play.said(Source::Generic, EventType::ContainerRemoved, "sandbox").relist().wait(6).relist();
    let summary = play.summary();
    assert_eq!((summary.withheld, summary.unexplained), (1, 0));
    assert!(play.comparison.take()[0].why.as_deref().unwrap().contains("without the status of its pod"));
}

#[test]
fn what_the_runtime_had_kept_from_before_is_left_out() {
    let mut play = Play::start();
    play.wait(10);
    play.stream(StreamState::Connected);
    play.now -= 5 * SECOND;
    play.through_stream("old", ContainerEventType::Started);
    play.now += 5 * SECOND;
    play.wait(1).relist().wait(1).relist();
    let summary = play.summary();
    assert_eq!((summary.leftovers, summary.unexplained, summary.missed_by_relisting), (1, 0, 0));
}

#[test]
fn memory_has_a_bound() {
    let mut play = Play::start();
    for number in 0..MOST_LIVES + 10 {
        play.said(Source::Generic, EventType::ContainerStarted, &number.to_string());
    }
    assert_eq!(play.comparison.lives.len(), MOST_LIVES);
    assert_eq!(play.summary().not_compared, 10);
}

#[test]
fn an_id_that_is_none_is_not_kept_in_mind() {
    let mut play = Play::start();
    play.said(Source::Generic, EventType::ContainerStarted, &"x".repeat(LONGEST_ID + 1));
    assert!(play.comparison.lives.is_empty());
    assert_eq!(play.summary().not_compared, 1);
}

#[test]
fn a_pod_whose_names_are_none_is_not_kept_in_mind() {
    let mut play = Play::start();
    let pod = PodRef { name: "x".repeat(LONGEST_POD + 1), ..PodRef::default() };
    let time = Wall::from_nanos(play.now);
    let mut event = Event::new(time, Source::Generic, EventType::ContainerStarted, pod, Subject::Container);
    event.id = Some("c".to_owned());
    play.comparison.event(&event);
    assert!(play.comparison.lives.is_empty());
    assert_eq!(play.summary().not_compared, 1);
}

#[test]
fn at_the_bound_what_is_over_makes_room_for_what_is_new() {
    let mut play = Play::start();
    for number in 0..MOST_LIVES {
        play.through_stream(&number.to_string(), ContainerEventType::Created);
    }
    play.wait(1).through_stream("new", ContainerEventType::Started);
    assert!(play.comparison.lives.contains_key("new"));
    assert_eq!(play.summary().not_compared, 0);
}

#[test]
fn a_relist_that_comes_second_is_no_divergence_however_late_it_comes() {
    let mut play = Play::start();
    play.through_stream("at once", ContainerEventType::Started);
    play.said(Source::Generic, EventType::ContainerStarted, "at once");
    play.through_stream("late", ContainerEventType::Started).wait(200);
    play.said(Source::Generic, EventType::ContainerStarted, "late").relist().wait(60).relist();
    assert_eq!(play.comparison.take(), []);
    let summary = play.summary();
    assert_eq!((summary.both, summary.evented_first, summary.generic_first), (2, 2, 0));
}

#[test]
fn what_the_stream_alone_called_running_is_forgotten_once_relists_do_not_find_it() {
    let mut play = Play::start();
    // How it ended was dropped on its way.
    play.through_stream("lost", ContainerEventType::Started).wait(1).relist().wait(1).relist();
    assert_eq!(play.comparison.lives.len(), 1);
    play.wait(61).relist();
    assert!(play.comparison.lives.is_empty());
}

#[test]
fn what_one_relist_does_not_decide_the_next_one_does() {
    let mut play = Play::start();
    for number in 0..=MOST_AT_ONCE {
        play.said(Source::Generic, EventType::ContainerDied, &number.to_string());
    }
    play.relist().wait(6).relist();
    assert_eq!((play.comparison.take().len(), play.summary().undecided), (MOST_AT_ONCE, 1));
    play.wait(1).relist();
    assert_eq!((play.comparison.take().len(), play.summary().undecided), (1, 0));
}

/// What a comparison keeps, in bytes, but for what the allocator adds.
fn kept(comparison: &Comparison) -> usize {
    let names = |pod: &PodRef| pod.uid.capacity() + pod.namespace.capacity() + pod.name.capacity();
    let of_life = |life: &Life| {
        life.pod.as_ref().map_or(0, names) + life.transitions.capacity() * size_of::<Transition>()
    };
    let table = comparison.lives.capacity() * (size_of::<(Box<str>, Life)>() + 1);
    let ids = comparison.lives.keys().map(|id| id.len());
    table + ids.chain(comparison.lives.values().map(of_life)).sum::<usize>()
}

/// Names as long as they may be, four times as many lives as are kept, half of which end and half of whose ends are lost.
#[test]
fn a_flood_costs_what_the_bound_costs_and_everything_in_it_is_compared() {
    let mut play = Play::start();
    let mut pod = PodRef { uid: "u".repeat(LONGEST_POD), ..PodRef::default() };
    let (mut most, mut told) = (0, 0);
    for number in 0..4 * MOST_LIVES {
        let time = Wall::from_nanos(play.now);
        for event_type in [EventType::ContainerStarted, EventType::ContainerDied].iter().take(1 + number % 2)
        {
            let mut event = Event::new(time, Source::Evented, *event_type, pod, Subject::Container);
            event.id = Some(format!("{number:0LONGEST_ID$}"));
            play.comparison.event(&event);
            pod = event.pod;
        }
        if number % 5000 == 0 {
            most = kept(&play.comparison).max(most);
            play.wait(1).relist();
            told += play.comparison.take().len();
        }
    }
    assert!(most < 64 * 1024 * 1024, "{most} bytes");
    assert!(told > 4 * MOST_LIVES, "{told} told");
    assert_eq!(play.summary().not_compared, 0);
}
