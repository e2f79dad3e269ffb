//! The time that the whole run may take, dealt out to the probes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Inputs;
use super::limits::{CLOSING, HANDLING, JUDGING, LOOKING, MOST_SLOWED};
use super::listening::{Listening, Slowed};
use crate::clock::{Clock, Mono};

/// How often what is left is reckoned anew.
const STEP: Duration = Duration::from_millis(100);

/// Tells a run to come to its end with what it knows: true from then on.
pub type Stop = watch::Receiver<bool>;

/// The run's time.
pub(super) struct Budget {
    clock: Arc<dyn Clock>,
    started: Mono,
    whole: Duration,
    /// How many entries there are to judge.
    entries: AtomicU64,
    slowed: Slowed,
    /// How slow we were when that was last looked at.
    pace: Mutex<Option<(Mono, f64)>>,
    stop: Option<Stop>,
    /// The part of it in which an answer could be read.
    pub(super) listening: Arc<Listening>,
}

impl Budget {
    pub(super) fn start<R>(inputs: &Inputs<R>) -> Self {
        let clock = Arc::clone(&inputs.clock);
        let listen = if inputs.is_recorded() { Listening::to_a_capture } else { Listening::start };
        let listening = listen(Arc::clone(&clock), inputs.own_time);
        Self {
            clock,
            started: inputs.began,
            whole: inputs.budget,
            entries: AtomicU64::new(0),
            slowed: inputs.slowed,
            pace: Mutex::default(),
            stop: inputs.stop.clone(),
            listening,
        }
    }

    pub(super) fn used(&self) -> Duration {
        self.clock.mono().since(self.started)
    }

    pub(super) fn left(&self) -> Duration {
        if self.is_stopped() { Duration::ZERO } else { self.whole.saturating_sub(self.used()) }
    }

    /// Somebody wants the end of it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow())
    }

    /// So many more entries will have to be judged when nothing is asked any more, which takes time too.
    pub(super) fn expect(&self, entries: usize) {
        self.entries.fetch_add(u64::try_from(entries).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn judging(&self) -> Duration {
        let many = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let of_entries = JUDGING.saturating_mul(many(self.entries.load(Ordering::Relaxed)));
        // A list of which the end is not there yet has entries too, and all of it has to be let go of.
        let of_bytes = HANDLING.saturating_mul(many(self.listening.heard() >> 20));
        let third = self.whole / 3;
        of_entries.max(of_bytes).min(third).mul_f64(self.pace()).min(third)
    }

    /// What it takes to write the report.
    fn closing(&self) -> Duration {
        CLOSING.min(self.whole / 40).mul_f64(self.pace())
    }

    /// How many times longer than alone our work takes now.
    fn pace(&self) -> f64 {
        let now = self.clock.mono();
        let mut seen = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((at, pace)) if now.since(at) < STEP => pace,
            _ => {
                let pace = (self.slowed)().unwrap_or(1.0).clamp(1.0, MOST_SLOWED);
                *seen = Some((now, pace));
                pace
            }
        }
    }

    /// What is left for new questions: the looks that follow them need some too.
    pub(super) fn for_asking(&self) -> Duration {
        self.left().saturating_sub(LOOKING.min(self.whole / 4) + self.judging())
    }

    /// What is left for waiting: the report has to be written before somebody ends us.
    pub(super) fn for_waiting(&self) -> Duration {
        self.left().saturating_sub(self.closing() + self.judging())
    }

    /// How long a probe with this deadline may take; `None` when too little is left for it to mean anything: a probe
    /// cut short would look like one that hangs.
    pub(super) fn allow(&self, deadline: Duration) -> Option<Duration> {
        let left = self.for_waiting();
        (left >= deadline / 2).then(|| left.min(deadline))
    }

    /// Resolves when somebody wants the end.
    async fn stopped(&self) {
        // Whoever could have wanted it may be gone: then nobody will.
        if let Some(mut stop) = self.stop.clone()
            && stop.wait_for(|stop| *stop).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Resolves when nothing may be waited for any longer.
    async fn spent(&self) {
        loop {
            // The more has come meanwhile, the less is left.
            let left = self.for_waiting();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(STEP)).await;
        }
    }

    /// What comes of `work`, if it comes in time; what it has written down elsewhere stays.
    pub(super) async fn until_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // Before the work: with no time left it would leave out all that it has not asked, and come to an end.
            () = self.stopped() => None,
            done = work => Some(done),
            () = self.spent() => None,
            never = self.listening.keep_on() => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    /// Four seconds of which none has passed.
    fn budget() -> Budget {
        let runtime = Arc::new(());
        let clock = Arc::new(ManualClock::default());
        let mut inputs = Inputs::new(Arc::clone(&runtime), runtime, clock);
        inputs.budget = Duration::from_secs(4);
        inputs.own_time = || None;
        inputs.slowed = || None;
        Budget::start(&inputs)
    }

    #[test]
    fn beside_others_the_end_begins_earlier() {
        let mut budget = budget();
        budget.slowed = || Some(3.0);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3700));
        budget.expect(20_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3100));
        budget.expect(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2300));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_we_wait_ends_the_waiting_earlier() {
        let mut budget = budget();
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::SystemClock::start());
        budget.clock = Arc::clone(&clock);
        let heard = Arc::clone(&budget.listening);
        let arriving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            heard.hear(100 << 20);
            std::future::pending::<()>().await;
        };
        assert_eq!(budget.until_over(arriving).await, None);
        let used = clock.mono().since(Mono::default());
        assert!((2800..3100).contains(&used.as_millis()), "a second is kept for 100 MiB: {used:?}");
    }

    #[test]
    fn the_more_there_is_to_judge_the_earlier_it_begins() {
        let budget = budget();
        assert_eq!(budget.for_waiting(), Duration::from_millis(3900));
        budget.expect(50_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3400));
        assert_eq!(budget.for_asking(), Duration::from_millis(2500));
        // However many there are, most of the time is for asking.
        budget.expect(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2500));
    }
}
