//! The time that the whole run may take, dealt out to the probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::limits::{CLOSING, JUDGING, LOOKING};
use crate::clock::{Clock, Mono};

/// The run's time.
pub(super) struct Budget {
    clock: Arc<dyn Clock>,
    started: Mono,
    whole: Duration,
    /// How many entries there are to judge.
    entries: AtomicU64,
}

impl Budget {
    pub(super) fn start(clock: Arc<dyn Clock>, whole: Duration) -> Self {
        let started = clock.mono();
        Self { clock, started, whole, entries: AtomicU64::new(0) }
    }

    pub(super) fn used(&self) -> Duration {
        self.clock.mono().since(self.started)
    }

    pub(super) fn left(&self) -> Duration {
        self.whole.saturating_sub(self.used())
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn issue_12_the_more_there_is_to_judge_the_earlier_it_begins() {
        let budget = Budget::start(Arc::new(ManualClock::default()), Duration::from_secs(4));
        assert_eq!(budget.for_waiting(), Duration::from_millis(3900));
        budget.expect(50_000);
        assert_eq!(budget.for_waiting(), Duration::from_millis(3400));
        assert_eq!(budget.for_asking(), Duration::from_millis(2500));
        // However many there are, most of the time is for asking.
        budget.expect(10_000_000);
        assert!(budget.for_waiting() > Duration::from_millis(2500));
    }
}
