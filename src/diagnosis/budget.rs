//! Divides the time budget of a run among its probes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Inputs;
use super::limits::{
    MAX_SLOWDOWN, RESERVE_FOR_FOLLOW_UP, RESERVE_FOR_REPORT, RESERVE_PER_ENTRY, RESERVE_PER_MEBIBYTE,
};
use super::listening_clock::{ListeningClock, SlowdownSource};
use crate::clock::{Clock, Mono};

/// How often the remaining time is computed again while a run waits.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Ends a run early, with what is known so far, as soon as the value is true.
pub type StopSignal = watch::Receiver<bool>;

/// The time budget of one run.
pub(super) struct RunBudget {
    clock: Arc<dyn Clock>,
    started: Mono,
    total: Duration,
    /// The number of list entries that the rules have to judge.
    entries: AtomicU64,
    slowdown: SlowdownSource,
    /// The last measured slowdown, and when it was measured.
    current_slowdown: Mutex<Option<(Mono, f64)>>,
    stop: Option<StopSignal>,
    /// Counts only the time in which this program could have read an answer.
    pub(super) listening: Arc<ListeningClock>,
}

impl RunBudget {
    pub(super) fn start<R>(inputs: &Inputs<R>) -> Self {
        let clock = Arc::clone(&inputs.clock);
        let listen =
            if inputs.is_recorded() { ListeningClock::start_for_capture } else { ListeningClock::start };
        let listening = listen(Arc::clone(&clock), inputs.cpu_time);
        Self {
            clock,
            started: inputs.began,
            total: inputs.budget,
            entries: AtomicU64::new(0),
            slowdown: inputs.slowdown,
            current_slowdown: Mutex::default(),
            stop: inputs.stop.clone(),
            listening,
        }
    }

    pub(super) fn used(&self) -> Duration {
        self.clock.mono().since(self.started)
    }

    pub(super) fn left(&self) -> Duration {
        if self.is_stopped() { Duration::ZERO } else { self.total.saturating_sub(self.used()) }
    }

    /// Whether the caller wants the run to end now.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow())
    }

    /// Reserves time to judge this many more list entries after the last call.
    pub(super) fn reserve_for_entries(&self, entries: usize) {
        self.entries.fetch_add(u64::try_from(entries).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn reserve_for_judging(&self) -> Duration {
        let many = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let of_entries = RESERVE_PER_ENTRY.saturating_mul(many(self.entries.load(Ordering::Relaxed)));
        // A list that is still arriving has entries too, and its memory has to be freed.
        let of_bytes = RESERVE_PER_MEBIBYTE.saturating_mul(many(self.listening.received_bytes() >> 20));
        let third = self.total / 3;
        of_entries.max(of_bytes).min(third).mul_f64(self.current_slowdown()).min(third)
    }

    /// The time that is reserved for writing the report.
    fn reserve_for_report(&self) -> Duration {
        RESERVE_FOR_REPORT.min(self.total / 40).mul_f64(self.current_slowdown())
    }

    /// How many times slower this program's own work is than on an idle machine.
    fn current_slowdown(&self) -> f64 {
        let now = self.clock.mono();
        let mut seen = self.current_slowdown.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((at, current_slowdown)) if now.since(at) < RECHECK_INTERVAL => current_slowdown,
            _ => {
                let current_slowdown = (self.slowdown)().unwrap_or(1.0).clamp(1.0, MAX_SLOWDOWN);
                *seen = Some((now, current_slowdown));
                current_slowdown
            }
        }
    }

    /// Returns the time that is left for new calls; some of the rest is reserved for the follow-up samples.
    pub(super) fn for_asking(&self) -> Duration {
        self.left().saturating_sub(RESERVE_FOR_FOLLOW_UP.min(self.total / 4) + self.reserve_for_judging())
    }

    /// Returns the time that is left for waiting; the rest is reserved for the report.
    pub(super) fn for_waiting(&self) -> Duration {
        self.left().saturating_sub(self.reserve_for_report() + self.reserve_for_judging())
    }

    /// Returns how long a probe with this deadline may take, or `None` if less than half of the deadline is
    /// left: a probe that is cut short would look like one that hangs.
    pub(super) fn allow(&self, deadline: Duration) -> Option<Duration> {
        let left = self.for_waiting();
        (left >= deadline / 2).then(|| left.min(deadline))
    }

    /// Resolves when the caller wants the run to end.
    async fn stopped(&self) {
        // If the sender is gone, nobody can stop the run any more.
        if let Some(mut stop) = self.stop.clone()
            && stop.wait_for(|stop| *stop).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Resolves when no time for waiting is left.
    async fn spent(&self) {
        loop {
            // Every byte that arrives reduces the time that is left.
            let left = self.for_waiting();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(RECHECK_INTERVAL)).await;
        }
    }

    /// Returns the result of `work` if it ends within the budget. What `work` has written elsewhere by then
    /// stays.
    pub(super) async fn until_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // This comes before the work: without time left, the work would skip every probe and end
            // normally.
            () = self.stopped() => None,
            done = work => Some(done),
            () = self.spent() => None,
            never = self.listening.keep_ticking() => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    /// A budget of four seconds, all of it unused.
    fn budget() -> RunBudget {
        let runtime = Arc::new(());
        let clock = Arc::new(ManualClock::default());
        let mut inputs = Inputs::new(Arc::clone(&runtime), runtime, clock);
        inputs.budget = Duration::from_secs(4);
        inputs.cpu_time = || None;
        inputs.slowdown = || None;
        RunBudget::start(&inputs)
    }

    #[test]
    fn under_cpu_contention_more_time_is_reserved() {
        let mut budget = budget();
        budget.slowdown = || Some(3.0);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3700));
        budget.reserve_for_entries(20_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3100));
        budget.reserve_for_entries(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2300));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_arrive_shorten_the_wait() {
        let mut budget = budget();
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::SystemClock::start());
        budget.clock = Arc::clone(&clock);
        let received_bytes = Arc::clone(&budget.listening);
        let arriving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            received_bytes.add_received(100 << 20);
            std::future::pending::<()>().await;
        };
        assert_eq!(budget.until_over(arriving).await, None);
        let used = clock.mono().since(Mono::default());
        assert!((2800..3100).contains(&used.as_millis()), "a second is kept for 100 MiB: {used:?}");
    }

    #[test]
    fn more_entries_reserve_more_time_for_judging() {
        let budget = budget();
        assert_eq!(budget.for_waiting(), Duration::from_millis(3900));
        budget.reserve_for_entries(50_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3400));
        assert_eq!(budget.for_asking(), Duration::from_millis(2500));
        // Most of the time stays available for calls, whatever the number of entries.
        budget.reserve_for_entries(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2500));
    }
}
