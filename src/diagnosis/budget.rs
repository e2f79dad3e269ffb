//! The time that the whole run may take, dealt out to the probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::limits::{CLOSING, JUDGING, LOOKING};
use super::listening::{Listening, OwnTime};
use crate::clock::{Clock, Mono};

/// Tells a run to come to its end with what it knows: true from then on.
pub type Stop = watch::Receiver<bool>;

/// The run's time.
pub(super) struct Budget {
    clock: Arc<dyn Clock>,
    started: Mono,
    whole: Duration,
    /// How many entries there are to judge.
    entries: AtomicU64,
    stop: Option<Stop>,
    /// The part of it in which an answer could be read.
    pub(super) listening: Arc<Listening>,
}

impl Budget {
    pub(super) fn start(
        clock: Arc<dyn Clock>,
        whole: Duration,
        own_time: OwnTime,
        stop: Option<Stop>,
    ) -> Self {
        let started = clock.mono();
        let listening = Listening::start(Arc::clone(&clock), own_time);
        Self { clock, started, whole, entries: AtomicU64::new(0), stop, listening }
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
        let entries = u32::try_from(self.entries.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        JUDGING.saturating_mul(entries).min(self.whole / 3)
    }

    /// What is left for new questions: the looks that follow them need some too.
    pub(super) fn for_asking(&self) -> Duration {
        self.left().saturating_sub(LOOKING.min(self.whole / 4) + self.judging())
    }

    /// What is left for waiting: the report has to be written before somebody ends us.
    pub(super) fn for_waiting(&self) -> Duration {
        self.left().saturating_sub(CLOSING.min(self.whole / 40) + self.judging())
    }

    /// How long a probe with this deadline may take; `None` when too little is left for it to mean anything: a probe
    /// cut short would look like one that hangs.
    pub(super) fn allow(&self, deadline: Duration) -> Option<Duration> {
        let left = self.for_waiting();
        (left >= deadline / 2).then(|| left.min(deadline))
    }

    /// Resolves when nothing may be waited for any longer, or somebody wants the end.
    pub(super) async fn over(&self) {
        let stopped = async {
            match self.stop.clone() {
                // Whoever could have stopped us is gone: nobody will.
                Some(mut stop) => {
                    if stop.wait_for(|stop| *stop).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopped => {}
            () = tokio::time::sleep(self.for_waiting()) => {}
        }
    }

    /// What comes of `work`, if it comes in time; what it has written down elsewhere stays.
    pub(super) async fn until_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.over() => None,
            never = self.listening.keep_on() => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn issue_12_the_more_there_is_to_judge_the_earlier_it_begins() {
        let budget = Budget::start(Arc::new(ManualClock::default()), Duration::from_secs(4), || None, None);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3900));
        budget.expect(50_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3400));
        assert_eq!(budget.for_asking(), Duration::from_millis(2500));
        // However many there are, most of the time is for asking.
        budget.expect(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2500));
    }
}
