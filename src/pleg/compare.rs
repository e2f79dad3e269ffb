//! Relisting and the event stream side by side: who saw what, and who saw it first.
//!
//! The two run on hubs of their own, so that neither's cache holds back the other's events.

use std::collections::HashMap;
use std::time::Duration;

use super::document::Seconds;
use super::stream::{Divergence, Event, EventType, Source};
use crate::clock::Wall;

/// What makes an event of one the same as an event of the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    id: String,
    event_type: EventType,
}

/// Events that one of the two had and the other has not had yet.
#[derive(Debug)]
pub struct Comparison {
    patience: Duration,
    waiting: HashMap<Key, Vec<Event>>,
}

impl Comparison {
    /// After `patience` an event that the other does not have counts as missed: a few relist periods.
    pub fn new(patience: Duration) -> Self {
        Self { patience, waiting: HashMap::new() }
    }

    /// Takes an event of either; a divergence comes back if it completes a pair, with how much earlier the stream had
    /// it. Events of the first relist tell what was before the stream was opened, and `PodSync` is relisting's alone.
    pub fn on_event(&mut self, event: &Event) -> Option<Divergence> {
        let id = event.id.clone()?;
        if event.initial || !event.event_type.is_delivered() {
            return None;
        }
        let key = Key { uid: event.pod.uid.clone(), id, event_type: event.event_type };
        let waiting = self.waiting.entry(key.clone()).or_default();
        let Some(first) = waiting.iter().position(|other| other.source != event.source) else {
            waiting.push(event.clone());
            return None;
        };
        let other = waiting.remove(first);
        if waiting.is_empty() {
            self.waiting.remove(&key);
        }
        let (relisted, streamed) = match event.source {
            Source::Generic => (event.time, other.time),
            Source::Evented => (other.time, event.time),
        };
        let gained = relisted.nanos().saturating_sub(streamed.nanos());
        Some(Divergence {
            only: None,
            latency_seconds: Some(Seconds::from_nanos(gained)),
            ..divergence(event, key.id)
        })
    }

    /// The events that the other has missed by now, oldest first.
    pub fn overdue(&mut self, now: Wall) -> Vec<Divergence> {
        let mut missed = Vec::new();
        self.waiting.retain(|key, events| {
            events.retain(|event| {
                let overdue = now.duration_since(event.time) > self.patience;
                if overdue {
                    missed.push((event.time, divergence(event, key.id.clone())));
                }
                !overdue
            });
            !events.is_empty()
        });
        missed.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.id.cmp(&b.id)));
        let late = missed.into_iter().map(|(_, divergence)| Divergence { time: now, ..divergence });
        late.collect()
    }
}

fn divergence(event: &Event, id: String) -> Divergence {
    Divergence {
        time: event.time,
        pod: event.pod.clone(),
        id,
        event_type: event.event_type,
        only: Some(event.source),
        latency_seconds: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::PodRef;
    use super::super::stream::Subject;
    use super::*;

    fn event(source: Source, event_type: EventType, millis: i64) -> Event {
        let time = Wall::from_nanos(millis * 1_000_000);
        Event {
            id: Some("c".into()),
            ..Event::new(time, source, event_type, PodRef::default(), Subject::Container)
        }
    }

    fn comparison() -> Comparison {
        Comparison::new(Duration::from_secs(3))
    }

    #[test]
    fn a_pair_says_how_much_earlier_the_stream_had_it() {
        let started = EventType::ContainerStarted;
        let mut pairs = comparison();
        assert_eq!(pairs.on_event(&event(Source::Evented, started, 100)), None);
        let pair = pairs.on_event(&event(Source::Generic, started, 850)).unwrap();
        assert_eq!((pair.only, pair.latency_seconds), (None, Some(Seconds::from_nanos(750_000_000))));
        assert_eq!(pairs.on_event(&event(Source::Generic, started, 1_000)), None);
        let pair = pairs.on_event(&event(Source::Evented, started, 1_500)).unwrap();
        assert_eq!(pair.latency_seconds.unwrap(), Seconds::from_nanos(-500_000_000));
        assert_eq!(pairs.overdue(Wall::from_nanos(i64::MAX)), []);
    }

    #[test]
    fn what_the_other_does_not_have_in_time_was_missed() {
        let mut pairs = comparison();
        pairs.on_event(&event(Source::Evented, EventType::ContainerDied, 0));
        pairs.on_event(&event(Source::Generic, EventType::ContainerRemoved, 1));
        assert_eq!(pairs.overdue(Wall::from_nanos(3_000_000_000)), []);
        let missed = pairs.overdue(Wall::from_nanos(4_000_000_000));
        let only: Vec<_> = missed.iter().map(|divergence| divergence.only.unwrap()).collect();
        assert_eq!(only, [Source::Evented, Source::Generic]);
        assert_eq!(pairs.overdue(Wall::from_nanos(5_000_000_000)), []);
    }

    #[test]
    fn what_was_before_the_stream_or_is_never_streamed_is_not_compared() {
        let mut pairs = comparison();
        let mut initial = event(Source::Generic, EventType::ContainerStarted, 0);
        initial.initial = true;
        let changed = event(Source::Generic, EventType::ContainerChanged, 0);
        let mut sync = event(Source::Generic, EventType::PodSync, 0);
        sync.id = None;
        for event in [initial, changed, sync] {
            assert_eq!(pairs.on_event(&event), None);
        }
        assert_eq!(pairs.overdue(Wall::from_nanos(i64::MAX)), []);
    }
}
