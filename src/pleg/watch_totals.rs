//! Adds up the totals of a watch for its summary, in memory that does not grow with time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::calls::{CallRecord, OpenCall};
use super::latency::LatencyHistogram;
use super::stream::{Event, EventType, Relist, SlowCall, Stream, StreamState, StreamSummary, WatchSummary};
use crate::clock::{Mono, Wall};
use crate::cri::ReceivedEvent;

/// The number of the slowest calls that are remembered.
const MAX_SLOWEST: usize = 5;

/// The number of the last relists whose durations are remembered.
const MAX_RECENT: usize = 20;

/// The duration beyond which a relist is slow, however long the other relists are.
const ALWAYS_SLOW: Duration = Duration::from_secs(1);

/// The multiple of the median duration beyond which a relist is slow.
const TIMES_MEDIAN: u32 = 10;

/// The duration below which a relist is never slow.
const MIN_SLOW: Duration = Duration::from_millis(100);

/// The number of relists that are needed for a median.
const MIN_RELISTS: u64 = 10;

/// The totals of a watch.
#[derive(Debug, Default)]
pub struct WatchTotals {
    /// The durations of relists.
    pub relists: LatencyHistogram,
    /// The durations of the last relists, the newest last.
    pub recent: VecDeque<Duration>,
    /// The times between the starts of relists.
    pub intervals: LatencyHistogram,
    /// The number of pods that the last successful relist listed.
    pub pods: u64,
    /// The call that has no answer yet.
    pub open: Option<OpenCall>,
    /// The number of the last finished relist.
    pub finished: u64,
    stream_totals: Option<StreamTotals>,
    failed: u64,
    events: BTreeMap<EventType, u64>,
    slowest: Vec<SlowCall>,
}

/// The totals of the event stream.
#[derive(Debug, Default)]
struct StreamTotals {
    /// The counts so far, without the latency.
    counts: StreamSummary,
    opened: Option<Wall>,
    latency: LatencyHistogram,
}

impl StreamTotals {
    fn summary(&self) -> StreamSummary {
        StreamSummary { latency_seconds: self.latency.quantiles(), ..self.counts.clone() }
    }
}

impl WatchTotals {
    /// Counts an event that the kubelet delivers.
    pub fn event(&mut self, event: &Event) {
        if event.delivered {
            *self.events.entry(event.event_type).or_default() += 1;
        }
    }

    /// Counts a change of the event stream's state.
    pub fn stream(&mut self, stream: &Stream) {
        let stream_totals = self.stream_totals.get_or_insert_default();
        match stream.state {
            StreamState::Connected => {
                stream_totals.counts.attempts += 1;
                stream_totals.opened = Some(stream.time);
            }
            StreamState::Fallback => stream_totals.counts.fell_back = true,
            StreamState::Panic => stream_totals.counts.panics += 1,
            StreamState::Closed | StreamState::Dropped => {}
        }
    }

    /// Counts a stream that the runtime ended or that could not be opened.
    pub fn stream_failed(&mut self) {
        self.stream_totals.get_or_insert_default().counts.failures += 1;
    }

    /// Returns the totals of the event stream so far.
    pub fn stream_totals(&self) -> StreamSummary {
        self.stream_totals.as_ref().map(StreamTotals::summary).unwrap_or_default()
    }

    /// Counts an early relist, which removes pods from the cache that no longer exist.
    pub fn cache_too_large(&mut self) {
        self.stream_totals.get_or_insert_default().counts.crowded += 1;
    }

    /// Counts dropped events.
    pub fn dropped(&mut self, events: u64) {
        self.stream_totals.get_or_insert_default().counts.dropped += events;
    }

    /// Counts an event received from the stream.
    pub fn stream_event(&mut self, received: &ReceivedEvent) {
        let stream_totals = self.stream_totals.get_or_insert_default();
        stream_totals.counts.events += 1;
        stream_totals.counts.bytes += received.bytes;
        let sandbox = received.event.sandbox.as_ref();
        if sandbox.is_none_or(|sandbox| sandbox.metadata.is_none()) {
            stream_totals.counts.ignored += 1;
        }
        let created = Wall::from_nanos(received.event.created_at);
        // The age of an event that the runtime had buffered before the stream was opened is no latency.
        if stream_totals.opened.is_none_or(|opened| created >= opened) {
            stream_totals.latency.add(received.at.duration_since(created));
        }
    }

    /// Adds a finished call to the slowest calls, if it is one of them.
    pub fn call(&mut self, call: &CallRecord) {
        self.open = None;
        let shortest = self.slowest.last().map(|call| call.duration_seconds);
        if self.slowest.len() == MAX_SLOWEST
            && shortest.is_some_and(|shortest| call.duration_seconds <= shortest)
        {
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

    /// Inserts a call into the slowest calls.
    fn remember(&mut self, call: SlowCall) {
        let position = self.slowest.partition_point(|known| known.duration_seconds >= call.duration_seconds);
        self.slowest.insert(position, call);
        self.slowest.truncate(MAX_SLOWEST);
    }

    /// Whether a relist that is not counted yet is slow, by itself or compared with the others.
    pub fn is_slow(&self, relist: &Relist) -> bool {
        let took = relist.duration_seconds.duration();
        let median = self.relists.quantiles().filter(|_| self.finished >= MIN_RELISTS);
        let limit = median.map(|quantiles| quantiles.p50.duration().saturating_mul(TIMES_MEDIAN));
        took > ALWAYS_SLOW || limit.is_some_and(|limit| took > limit.max(MIN_SLOW))
    }

    /// Counts a finished relist.
    pub fn relist(&mut self, relist: &Relist) {
        self.finished = relist.relist;
        self.relists.add(relist.duration_seconds.duration());
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(relist.duration_seconds.duration());
        if let Some(interval) = relist.interval_seconds {
            self.intervals.add(interval.duration());
        }
        if relist.error.is_some() {
            self.failed += 1;
        } else {
            self.pods = relist.pods;
        }
    }

    /// Returns the time since the open call was sent.
    pub fn waiting(&self, now: Mono) -> Option<Duration> {
        self.open.as_ref().map(|open| now.since(open.started))
    }

    /// Returns the summary so far. A call that is still open is marked *silent so far*.
    pub fn summary(&mut self, time: Wall, now: Mono) -> WatchSummary {
        if let Some(open) = self.open.take() {
            // An open call is always listed, however short it is, because nobody knows how long it will take.
            self.slowest.truncate(MAX_SLOWEST - 1);
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
            stream: self.stream_totals.as_ref().map(StreamTotals::summary),
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
    fn a_relist_is_slow_above_a_second_or_ten_medians() {
        let mut totals = WatchTotals::default();
        assert!(totals.is_slow(&relist(1, 1001)) && !totals.is_slow(&relist(1, 900)));
        (1..=10).for_each(|number| totals.relist(&relist(number, 30)));
        assert!(!totals.is_slow(&relist(11, 290)) && totals.is_slow(&relist(11, 320)));
    }

    fn ended(millis: u64) -> CallRecord {
        CallRecord {
            rpc: "ContainerStatus".to_owned(),
            id: None,
            pod: None,
            duration_seconds: Duration::from_millis(millis).into(),
            response_bytes: 0,
            stream: None,
            outcome: Outcome::Ok,
            code: None,
            message: None,
        }
    }

    #[test]
    fn an_open_call_is_sorted_by_duration_and_always_listed() {
        let slowest = |waited: u64, others: &[u64]| -> Vec<(u64, bool)> {
            let mut totals = WatchTotals::default();
            for millis in others {
                totals.call(&ended(*millis));
            }
            let open = OpenCall {
                rpc: crate::cri::Rpc::ListContainers,
                pod: None,
                id: None,
                started: Mono::at(Duration::ZERO),
            };
            totals.open = Some(open);
            let summary = totals.summary(Wall::default(), Mono::at(Duration::from_millis(waited)));
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
    fn ten_times_a_tiny_median_is_not_slow() {
        let mut totals = WatchTotals::default();
        (1..=10).for_each(|number| totals.relist(&relist(number, 2)));
        assert!(!totals.is_slow(&relist(11, 60)) && totals.is_slow(&relist(11, 110)));
    }
}
