//! What a watch adds up while it runs, in memory that does not grow with time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::calls::{CallRecord, OpenCall};
use super::latency::Latencies;
use super::stream::{Event, EventType, Relist, SlowCall, Stream, StreamState, StreamSummary, WatchSummary};
use crate::clock::{Mono, Wall};
use crate::cri::ReceivedEvent;

/// How many of the slowest calls are remembered.
const SLOWEST: usize = 5;

/// A relist that takes so long is slow, whatever the others took.
const SLOW: Duration = Duration::from_secs(1);

/// And so is one that takes so many times the median.
const TIMES_MEDIAN: u32 = 10;

/// Unless it is over before anybody could have noticed.
const NOTICED: Duration = Duration::from_millis(100);

/// How many relists make a median.
const ENOUGH: u64 = 10;

/// Counts and durations.
#[derive(Debug, Default)]
pub struct Tally {
    /// How long relists took.
    pub relists: Latencies,
    /// How far apart they started.
    pub intervals: Latencies,
    /// How many pods the newest successful relist listed.
    pub pods: u64,
    /// The call that has no answer yet.
    pub open: Option<OpenCall>,
    /// The number of the newest finished relist.
    pub finished: u64,
    streamed: Option<Streamed>,
    failed: u64,
    events: BTreeMap<EventType, u64>,
    slowest: Vec<SlowCall>,
}

/// What there is to say about the event stream.
#[derive(Debug, Default)]
struct Streamed {
    attempts: u64,
    failures: u64,
    panics: u64,
    fell_back: bool,
    events: u64,
    ignored: u64,
    dropped: u64,
    bytes: u64,
    crowded: u64,
    opened: Option<Wall>,
    latency: Latencies,
}

impl Streamed {
    fn summary(&self) -> StreamSummary {
        StreamSummary {
            attempts: self.attempts,
            failures: self.failures,
            fell_back: self.fell_back,
            panics: self.panics,
            events: self.events,
            ignored: self.ignored,
            dropped: self.dropped,
            bytes: self.bytes,
            crowded: self.crowded,
            latency_seconds: self.latency.quantiles(),
        }
    }
}

impl Tally {
    /// Counts an event that the kubelet hands on.
    pub fn event(&mut self, event: &Event) {
        if event.delivered {
            *self.events.entry(event.event_type).or_default() += 1;
        }
    }

    /// Counts what happens to the event stream.
    pub fn stream(&mut self, stream: &Stream) {
        let streamed = self.streamed.get_or_insert_default();
        match stream.state {
            StreamState::Connected => {
                streamed.attempts += 1;
                streamed.opened = Some(stream.time);
            }
            StreamState::Fallback => streamed.fell_back = true,
            StreamState::Panic => streamed.panics += 1,
            StreamState::Closed | StreamState::Dropped => {}
        }
    }

    /// Counts a stream that the runtime ended, or that could not be opened.
    pub fn stream_failed(&mut self) {
        self.streamed.get_or_insert_default().failures += 1;
    }

    /// The event stream so far.
    pub fn streamed(&self) -> StreamSummary {
        self.streamed.as_ref().map(Streamed::summary).unwrap_or_default()
    }

    /// Counts a relist that is made to forget pods that are gone.
    pub fn crowded(&mut self) {
        self.streamed.get_or_insert_default().crowded += 1;
    }

    /// Counts lost events.
    pub fn dropped(&mut self, events: u64) {
        self.streamed.get_or_insert_default().dropped += events;
    }

    /// Counts an event of the stream.
    pub fn heard(&mut self, received: &ReceivedEvent) {
        let streamed = self.streamed.get_or_insert_default();
        streamed.events += 1;
        streamed.bytes += received.bytes;
        let sandbox = received.event.sandbox.as_ref();
        if sandbox.is_none_or(|sandbox| sandbox.metadata.is_none()) {
            streamed.ignored += 1;
        }
        let created = Wall::from_nanos(received.event.created_at);
        // What the runtime had kept for whoever asks first was not late, it was old.
        if streamed.opened.is_none_or(|opened| created >= opened) {
            streamed.latency.add(received.at.duration_since(created));
        }
    }

    /// Remembers a finished call, if it is one of the slowest.
    pub fn call(&mut self, call: &CallRecord) {
        self.open = None;
        let least = self.slowest.last().map(|call| call.duration_seconds);
        if self.slowest.len() == SLOWEST && least.is_some_and(|least| call.duration_seconds <= least) {
            return;
        }
        self.remember(SlowCall {
            rpc: call.rpc.clone(),
            pod: call.pod.clone(),
            id: call.id.clone(),
            duration_seconds: call.duration_seconds,
            silent_so_far: false,
        });
    }

    fn remember(&mut self, call: SlowCall) {
        let place = self.slowest.partition_point(|known| known.duration_seconds >= call.duration_seconds);
        self.slowest.insert(place, call);
        self.slowest.truncate(SLOWEST);
    }

    /// Whether a relist that is to be counted next is slow, in itself or beside the others.
    pub fn is_slow(&self, relist: &Relist) -> bool {
        let took = relist.duration_seconds.duration();
        let median = self.relists.quantiles().filter(|_| self.finished >= ENOUGH);
        let usual = median.map(|quantiles| quantiles.p50.duration().saturating_mul(TIMES_MEDIAN));
        took > SLOW || usual.is_some_and(|usual| took > usual.max(NOTICED))
    }

    /// Counts a finished relist.
    pub fn relist(&mut self, relist: &Relist) {
        self.finished = relist.relist;
        self.relists.add(relist.duration_seconds.duration());
        if let Some(interval) = relist.interval_seconds {
            self.intervals.add(interval.duration());
        }
        if relist.error.is_some() {
            self.failed += 1;
        } else {
            self.pods = relist.pods;
        }
    }

    /// How long the open call has been waited for.
    pub fn waiting(&self, now: Mono) -> Option<Duration> {
        self.open.as_ref().map(|open| now.since(open.started))
    }

    /// Everything so far; a call that is still open is *silent so far*.
    pub fn summary(&mut self, time: Wall, now: Mono) -> WatchSummary {
        if let Some(open) = self.open.take() {
            // It has a place among the others however short it has been: nobody knows how long it would have become.
            self.slowest.truncate(SLOWEST - 1);
            let silent = SlowCall {
                rpc: open.rpc.name().to_owned(),
                pod: open.pod,
                id: open.id,
                duration_seconds: now.since(open.started).into(),
                silent_so_far: true,
            };
            self.remember(silent);
        }
        WatchSummary {
            time,
            relists: self.finished,
            failed: self.failed,
            events: self.events.clone(),
            relist_seconds: self.relists.quantiles(),
            interval_seconds: self.intervals.quantiles(),
            slowest: std::mem::take(&mut self.slowest),
            stream: self.streamed.as_ref().map(Streamed::summary),
            compare: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Outcome;

    fn relist(number: u64, millis: u64) -> Relist {
        let duration_seconds = Duration::from_millis(millis).into();
        Relist {
            duration_seconds,
            pods: 1,
            sandboxes: 1,
            containers: 1,
            ..Relist::new(Wall::default(), number)
        }
    }

    #[test]
    fn slow_is_a_second_or_ten_times_what_is_usual() {
        let mut tally = Tally::default();
        assert!(tally.is_slow(&relist(1, 1001)) && !tally.is_slow(&relist(1, 900)));
        (1..=10).for_each(|number| tally.relist(&relist(number, 30)));
        assert!(!tally.is_slow(&relist(11, 290)) && tally.is_slow(&relist(11, 320)));
    }

    fn ended(millis: u64) -> CallRecord {
        CallRecord {
            rpc: "ContainerStatus".to_owned(),
            id: None,
            pod: None,
            duration_seconds: Duration::from_millis(millis).into(),
            response_bytes: 0,
            outcome: Outcome::Ok,
            code: None,
            message: None,
        }
    }

    #[test]
    fn a_silent_call_stands_where_its_time_puts_it_and_is_never_left_out() {
        let slowest = |waited: u64, others: &[u64]| -> Vec<(u64, bool)> {
            let mut tally = Tally::default();
            for millis in others {
                tally.call(&ended(*millis));
            }
            let open = OpenCall {
                rpc: crate::cri::Rpc::ListContainers,
                pod: None,
                id: None,
                started: Mono::at(Duration::ZERO),
            };
            tally.open = Some(open);
            let summary = tally.summary(Wall::default(), Mono::at(Duration::from_millis(waited)));
            let millis = |call: &SlowCall| call.duration_seconds.duration().subsec_millis().into();
            summary.slowest.iter().map(|call| (millis(call), call.silent_so_far)).collect()
        };
        assert_eq!(slowest(40, &[30, 50]), [(50, false), (40, true), (30, false)]);
        assert_eq!(
            slowest(1, &[10, 20, 30, 40, 50, 60]),
            [(60, false), (50, false), (40, false), (30, false), (1, true)]
        );
    }

    #[test]
    fn ten_times_next_to_nothing_is_not_slow() {
        let mut tally = Tally::default();
        (1..=10).for_each(|number| tally.relist(&relist(number, 2)));
        assert!(!tally.is_slow(&relist(11, 60)) && tally.is_slow(&relist(11, 110)));
    }
}
