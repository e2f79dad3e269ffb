//! How long we have listened. A silence is the runtime's only for as long as its answer could have been read: while this
//! program decodes a list, waits for a processor or is stopped itself, nobody is silent but us.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Mono};

/// How often we look whether we still listen.
const BEAT: Duration = Duration::from_millis(100);
/// At the end of each beat it was seen that there is no answer, however late the beat came. One that took longer than
/// this was one in which this program did not run: it counts as this at most.
const LONGEST_BEAT: Duration = Duration::from_secs(1);
/// How long a beat may be wrong about a single call.
const GRAIN: Duration = Duration::from_millis(200);

/// Tells how much time this program has taken for itself so far; `None` where the kernel does not say.
pub type OwnTime = fn() -> Option<Duration>;

/// Tells how many times longer this program's work takes for want of a processor; `None` where the kernel does not say.
pub type Slowed = fn() -> Option<f64>;

/// A clock that goes only while an answer could be read.
pub(super) struct Listening {
    clock: Arc<dyn Clock>,
    own_time: OwnTime,
    beats: Mutex<Beats>,
    /// Bytes of answers that have come.
    heard: AtomicU64,
    /// Whether answers come from a capture, and took longer then than they do now.
    recorded: bool,
}

struct Beats {
    listened: Duration,
    last: Mono,
    own: Option<Duration>,
}

impl Listening {
    pub(super) fn start(clock: Arc<dyn Clock>, own_time: OwnTime) -> Arc<Self> {
        let beats = Beats { listened: Duration::ZERO, last: clock.mono(), own: own_time() };
        Arc::new(Self {
            clock,
            own_time,
            beats: Mutex::new(beats),
            heard: AtomicU64::new(0),
            recorded: false,
        })
    }

    /// The same for the answers of a capture.
    pub(super) fn to_a_capture(clock: Arc<dyn Clock>, own_time: OwnTime) -> Arc<Self> {
        let mut listening = Self::start(clock, own_time);
        if let Some(listening) = Arc::get_mut(&mut listening) {
            listening.recorded = true;
        }
        listening
    }

    /// Of the time that a call took, the part in which we did not keep ourselves waiting.
    pub(super) fn of_the_runtime(&self, took: Duration, waited: Duration) -> Duration {
        if self.recorded { took } else { took.min(waited + GRAIN) }
    }

    /// So many more bytes have come.
    pub(super) fn hear(&self, bytes: u64) {
        self.heard.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that have come so far.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The time listened so far, as a moment of its own scale.
    pub(super) fn now(&self) -> Mono {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let since = self.clock.mono().since(beats.last).min(LONGEST_BEAT);
        Mono::at(beats.listened + since)
    }

    /// Keeps this clock going; never ends.
    pub(super) async fn keep_on(&self) -> Infallible {
        loop {
            tokio::time::sleep(BEAT).await;
            self.beat();
        }
    }

    fn beat(&self) {
        let (now, own) = (self.clock.mono(), (self.own_time)());
        let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.since(beats.last);
        let busy = match (beats.own, own) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => Duration::ZERO,
        };
        beats.listened += passed.saturating_sub(busy).min(LONGEST_BEAT);
        beats.last = now;
        beats.own = own;
    }

    /// What comes of `work`, if it comes while we listen for no longer than `limit`.
    pub(super) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let started = self.now();
        let over = async {
            loop {
                let left = limit.saturating_sub(self.now().since(started));
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_time_in_which_this_program_did_not_run_is_no_silence() {
        let clock = Arc::new(ManualClock::default());
        let listening = Listening::start(Arc::<ManualClock>::clone(&clock), || None);
        let started = listening.now();
        clock.advance(BEAT);
        listening.beat();
        // Stopped, or decoding: the next beat comes half a minute late.
        clock.advance(seconds(30));
        assert_eq!(listening.now().since(started), BEAT + LONGEST_BEAT);
        listening.beat();
        assert_eq!(listening.now().since(started), BEAT + LONGEST_BEAT);
        clock.advance(BEAT);
        listening.beat();
        assert_eq!(listening.now().since(started), BEAT + LONGEST_BEAT + BEAT);
    }

    #[test]
    fn a_time_in_which_this_program_works_or_waits_for_a_processor_is_no_silence() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let clock = Arc::new(ManualClock::default());
        let own = || Some(Duration::from_millis(OWN.load(Ordering::Relaxed)));
        let listening = Listening::start(Arc::<ManualClock>::clone(&clock), own);
        let started = listening.now();
        for _ in 0..100 {
            clock.advance(BEAT);
            // On time, and all of it taken: two threads, one decoding and one waiting for its turn.
            OWN.fetch_add(150, Ordering::Relaxed);
            listening.beat();
        }
        assert_eq!(listening.now().since(started), Duration::ZERO);
        for _ in 0..100 {
            clock.advance(BEAT);
            listening.beat();
        }
        assert_eq!(listening.now().since(started), seconds(10));
    }

    #[test]
    fn a_beat_that_is_late_by_a_crowd_still_hears() {
        let clock = Arc::new(ManualClock::default());
        let listening = Listening::start(Arc::<ManualClock>::clone(&clock), || None);
        let started = listening.now();
        for _ in 0..20 {
            clock.advance(Duration::from_millis(500));
            listening.beat();
        }
        assert_eq!(listening.now().since(started), seconds(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_counts_what_was_listened() {
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::SystemClock::start());
        let listening = Listening::start(Arc::clone(&clock), || None);
        let started = clock.mono();
        let work = async {
            tokio::select! {
                never = listening.keep_on() => match never {},
                silent = listening.within(seconds(3), std::future::pending::<()>()) => silent,
            }
        };
        assert_eq!(work.await, None);
        assert_eq!(clock.mono().since(started), seconds(3));
        assert_eq!(listening.within(seconds(3), async { 7 }).await, Some(7));
    }
}
