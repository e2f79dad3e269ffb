//! Divides the time budget of a run (`--budget`) among its probes, and ends the run when the budget is spent or the
//! caller stops the run. It reserves time for the follow-up, for judging and for the report. In the follow-up, a run
//! takes second samples of the lists, the processes and the metrics, and reads the journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::Inputs;
use super::limits::{
    MAX_SLOWDOWN, RESERVE_FOR_FOLLOW_UP, RESERVE_FOR_REPORT, RESERVE_PER_ENTRY, RESERVE_PER_MEBIBYTE,
};
use super::listening_clock::{ListeningClock, SlowdownSource};
use crate::clock::{Clock, Mono};
use crate::threads::locked;

/// How often the remaining time is computed again while a run waits.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Ends a run early, with what is known so far, as soon as the value is true.
pub type StopSignal = watch::Receiver<bool>;

/// The time budget of one run.
pub(super) struct RunBudget {
    clock: Arc<dyn Clock>,
    started: Mono,
    total: Duration,
    /// The number of list entries that the rules will judge.
    entries: AtomicU64,
    /// Measures how many times slower this program runs because of CPU contention.
    slowdown: SlowdownSource,
    /// The time of the last measurement, and its result.
    current_slowdown: Mutex<Option<(Mono, f64)>>,
    stop: Option<StopSignal>,
    /// Measures silence. This clock stands still while the program cannot read an answer: while it decodes a list,
    /// waits for a processor or is stopped.
    pub(super) listening: Arc<ListeningClock>,
}

impl RunBudget {
    /// Creates the budget of a run that began at `inputs.began`.
    pub(super) fn start<R>(inputs: &Inputs<R>) -> Self {
        let clock = Arc::clone(&inputs.clock);
        let mut listening = ListeningClock::start(Arc::clone(&clock), inputs.cpu_time);
        listening.recorded = inputs.is_recorded();
        listening.calls = Arc::clone(&inputs.calls);
        Self {
            clock,
            started: inputs.began,
            total: inputs.budget,
            entries: AtomicU64::new(0),
            slowdown: inputs.slowdown,
            current_slowdown: Mutex::default(),
            stop: inputs.stop.clone(),
            listening: Arc::new(listening),
        }
    }

    /// Returns the time since the run began.
    pub(super) fn used(&self) -> Duration {
        self.clock.mono().since(self.started)
    }

    /// Returns the time until the end of the budget, without any reserve.
    pub(super) fn left(&self) -> Duration {
        if self.is_stopped() { Duration::ZERO } else { self.total.saturating_sub(self.used()) }
    }

    /// Returns whether the caller wants the run to end now.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow())
    }

    /// Reserves time to judge this number of additional list entries.
    pub(super) fn reserve_for_entries(&self, entries: usize) {
        self.entries.fetch_add(u64::try_from(entries).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the time that is reserved for judging: at most a third of the budget.
    fn reserve_for_judging(&self) -> Duration {
        let factor = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let for_entries = RESERVE_PER_ENTRY.saturating_mul(factor(self.entries.load(Ordering::Relaxed)));
        // The entries of a list that is still arriving are not counted yet, but its bytes are.
        let for_bytes = RESERVE_PER_MEBIBYTE.saturating_mul(factor(self.listening.received_bytes() >> 20));
        let third = self.total / 3;
        for_entries.max(for_bytes).min(third).mul_f64(self.current_slowdown()).min(third)
    }

    /// Returns the time that is reserved for writing the report.
    fn reserve_for_report(&self) -> Duration {
        RESERVE_FOR_REPORT.min(self.total / 40).mul_f64(self.current_slowdown())
    }

    /// Returns how many times slower this program runs than on an idle machine. Measures at most once in
    /// [`RECHECK_INTERVAL`].
    fn current_slowdown(&self) -> f64 {
        let now = self.clock.mono();
        let mut measured = locked(&self.current_slowdown);
        match *measured {
            Some((at, current_slowdown)) if now.since(at) < RECHECK_INTERVAL => current_slowdown,
            _ => {
                let current_slowdown = (self.slowdown)().unwrap_or(1.0).clamp(1.0, MAX_SLOWDOWN);
                *measured = Some((now, current_slowdown));
                current_slowdown
            }
        }
    }

    /// Returns the time that is left for new calls, without the reserves for the follow-up and for judging.
    pub(super) fn for_new_calls(&self) -> Duration {
        self.left().saturating_sub(RESERVE_FOR_FOLLOW_UP.min(self.total / 4) + self.reserve_for_judging())
    }

    /// Returns the time that is left for waiting, without the reserves for judging and for the report.
    pub(super) fn for_waiting(&self) -> Duration {
        self.left().saturating_sub(self.reserve_for_report() + self.reserve_for_judging())
    }

    /// Returns the time limit of a probe: `deadline`, or less if the run has less time left for waiting. Returns `None`
    /// if this is less than half of `deadline`: a probe with too little time would look like a probe that hangs.
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

    /// Returns the result of `work`, or `None` if the budget is spent or the caller stops the run before. Then `work` is
    /// dropped, and only what it has stored elsewhere remains.
    pub(super) async fn until_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // This branch comes first: after a stop, no time is left, so the work would skip all its probes and seem
            // complete.
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

    /// Returns a budget of four seconds, all of it unused.
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
    fn cpu_contention_increases_the_reserves() {
        let mut budget = budget();
        budget.slowdown = || Some(3.0);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3700));
        budget.reserve_for_entries(20_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3100));
        budget.reserve_for_entries(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2300));
    }

    #[tokio::test(start_paused = true)]
    async fn received_bytes_increase_the_reserve_for_judging() {
        let mut budget = budget();
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::SystemClock::start());
        budget.clock = Arc::clone(&clock);
        let listening = Arc::clone(&budget.listening);
        let arriving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            listening.add_received(100 << 20);
            std::future::pending::<()>().await;
        };
        assert_eq!(budget.until_over(arriving).await, None);
        let used = clock.mono().since(Mono::default());
        assert!((2800..3100).contains(&used.as_millis()), "a second is reserved for 100 MiB: {used:?}");
    }

    #[test]
    fn list_entries_increase_the_reserve_for_judging_up_to_a_third() {
        let budget = budget();
        assert_eq!(budget.for_waiting(), Duration::from_millis(3900));
        budget.reserve_for_entries(50_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3400));
        assert_eq!(budget.for_new_calls(), Duration::from_millis(2500));
        // Most of the time stays available for calls, whatever the number of entries.
        budget.reserve_for_entries(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2500));
    }
}
