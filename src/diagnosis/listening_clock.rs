//! A clock that measures silence. It runs only while this program could have read an answer, and not while the program
//! decodes a list, waits for a processor or is stopped.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::open_calls::{OpenCallGuard, OpenCalls};
use crate::clock::{Clock, Mono};
use crate::cri::Rpc;
use crate::threads::locked;

/// The interval of the clock's ticks.
const TICK: Duration = Duration::from_millis(100);
/// The longest time that one tick adds. A tick that comes later than this means that the program did not run.
const MAX_TICK: Duration = Duration::from_secs(1);
/// The largest error of the ticks for a single call.
const TICK_TOLERANCE: Duration = Duration::from_millis(200);

/// A function that returns the CPU time that this program has used so far, including its waits for a processor; `None` if
/// the kernel does not report the time.
pub type CpuTimeSource = fn() -> Option<Duration>;

/// A function that returns how many times slower this program runs because of CPU contention; `None` if the kernel does
/// not report CPU pressure.
pub type SlowdownSource = fn() -> Option<f64>;

/// A clock that runs only while this program could read an answer.
pub(super) struct ListeningClock {
    clock: Arc<dyn Clock>,
    cpu_time: CpuTimeSource,
    ticks: Mutex<LastTick>,
    /// The bytes of all answers so far.
    received_bytes: AtomicU64,
    /// Whether the answers come from a capture, with their recorded durations.
    pub(super) recorded: bool,
    /// The calls whose answers the program waits for.
    pub(super) calls: Arc<OpenCalls>,
}

/// The state of the clock at its last tick.
struct LastTick {
    /// The time that the clock has counted.
    counted: Duration,
    /// The real time of the tick.
    last: Mono,
    /// The CPU time that this program had used.
    cpu_time: Option<Duration>,
}

impl ListeningClock {
    pub(super) fn start(clock: Arc<dyn Clock>, cpu_time: CpuTimeSource) -> Self {
        let ticks = LastTick { counted: Duration::ZERO, last: clock.mono(), cpu_time: cpu_time() };
        Self {
            clock,
            cpu_time,
            ticks: Mutex::new(ticks),
            received_bytes: AtomicU64::new(0),
            recorded: false,
            calls: Arc::default(),
        }
    }

    /// Counts a call as sent, until the returned guard is dropped.
    pub(super) fn send(&self, rpc: Rpc, id: Option<&str>) -> OpenCallGuard {
        self.calls.send(self.clock.mono(), rpc, id)
    }

    /// Names the pods of the silent calls.
    pub(super) fn name_silent(&self, name_of: &dyn Fn(&str) -> Option<String>) {
        self.calls.name_silent(self.clock.mono(), name_of);
    }

    /// Returns the part of a call's duration `took` during which this program could have read the answer; `waited` is the
    /// time on this clock. A recorded duration is returned unchanged.
    pub(super) fn runtime_share(&self, took: Duration, waited: Duration) -> Duration {
        if self.recorded { took } else { took.min(waited + TICK_TOLERANCE) }
    }

    /// Counts the bytes of an answer.
    pub(super) fn add_received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of all answers so far.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Returns the counted time, as a moment of this clock.
    pub(super) fn now(&self) -> Mono {
        let ticks = locked(&self.ticks);
        let since = self.clock.mono().since(ticks.last).min(MAX_TICK);
        Mono::at(ticks.counted + since)
    }

    /// Keeps the clock running; never returns.
    pub(super) async fn keep_ticking(&self) -> Infallible {
        loop {
            tokio::time::sleep(TICK).await;
            self.tick();
        }
    }

    /// Adds the time since the last tick, without the CPU time that this program used.
    fn tick(&self) {
        let (now, cpu_time) = (self.clock.mono(), (self.cpu_time)());
        let mut ticks = locked(&self.ticks);
        let passed = now.since(ticks.last);
        let busy = match (ticks.cpu_time, cpu_time) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => Duration::ZERO,
        };
        ticks.counted += passed.saturating_sub(busy).min(MAX_TICK);
        ticks.last = now;
        ticks.cpu_time = cpu_time;
    }

    /// Returns the result of `work`, or `None` if it does not end within `limit` on this clock.
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
    fn the_clock_does_not_count_time_in_which_this_program_did_not_run() {
        let clock = Arc::new(ManualClock::default());
        let listening = ListeningClock::start(Arc::<ManualClock>::clone(&clock), || None);
        let started = listening.now();
        clock.advance(TICK);
        listening.tick();
        // The program is stopped or decodes: the next tick is half a minute late.
        clock.advance(seconds(30));
        assert_eq!(listening.now().since(started), TICK + MAX_TICK);
        listening.tick();
        assert_eq!(listening.now().since(started), TICK + MAX_TICK);
        clock.advance(TICK);
        listening.tick();
        assert_eq!(listening.now().since(started), TICK + MAX_TICK + TICK);
    }

    #[test]
    fn the_clock_does_not_count_the_cpu_time_of_this_program() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let clock = Arc::new(ManualClock::default());
        let own = || Some(Duration::from_millis(OWN.load(Ordering::Relaxed)));
        let listening = ListeningClock::start(Arc::<ManualClock>::clone(&clock), own);
        let started = listening.now();
        for _ in 0..100 {
            clock.advance(TICK);
            // The tick is on time, but the whole time was spent by this program: one thread decodes, another
            // waits for a processor.
            OWN.fetch_add(150, Ordering::Relaxed);
            listening.tick();
        }
        assert_eq!(listening.now().since(started), Duration::ZERO);
        for _ in 0..100 {
            clock.advance(TICK);
            listening.tick();
        }
        assert_eq!(listening.now().since(started), seconds(10));
    }

    #[test]
    fn ticks_that_are_half_a_second_late_count_in_full() {
        let clock = Arc::new(ManualClock::default());
        let listening = ListeningClock::start(Arc::<ManualClock>::clone(&clock), || None);
        let started = listening.now();
        for _ in 0..20 {
            clock.advance(Duration::from_millis(500));
            listening.tick();
        }
        assert_eq!(listening.now().since(started), seconds(10));
    }

    #[tokio::test(start_paused = true)]
    async fn within_gives_up_work_after_the_limit_and_returns_results_before() {
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::SystemClock::start());
        let listening = ListeningClock::start(Arc::clone(&clock), || None);
        let started = clock.mono();
        let work = async {
            tokio::select! {
                never = listening.keep_ticking() => match never {},
                silent = listening.within(seconds(3), std::future::pending::<()>()) => silent,
            }
        };
        assert_eq!(work.await, None);
        assert_eq!(clock.mono().since(started), seconds(3));
        assert_eq!(listening.within(seconds(3), async { 7 }).await, Some(7));
    }
}
