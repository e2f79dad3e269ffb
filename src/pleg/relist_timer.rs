//! The kubelet's timer for relists. The timer says when a relist is due; its caller does the waiting.

use std::time::Duration;

use crate::clock::Mono;
use crate::kubelet::timing;

/// The pause between relists, and the age from which on PLEG is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlegTiming {
    /// From the end of a relist to the start of the next.
    pub period: Duration,
    /// The largest healthy age of the last successful list calls.
    pub threshold: Duration,
}

impl PlegTiming {
    /// Relisting alone, also after the event stream was given up.
    pub const GENERIC: Self = Self { period: timing::PERIOD, threshold: timing::THRESHOLD };
    /// Relisting in addition to the event stream.
    pub const EVENTED: Self = Self { period: timing::EVENTED_PERIOD, threshold: timing::EVENTED_THRESHOLD };
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// Relist all pods, then call [`RelistTimer::relisted`].
    Relist,
    /// Wait until this time.
    Wait(Mono),
}

/// The kubelet's timer for relists.
#[derive(Debug)]
pub struct RelistTimer {
    timing: PlegTiming,
    due: Mono,
}

impl RelistTimer {
    /// Creates a timer whose first relist is due at once.
    pub const fn start(timing: PlegTiming, now: Mono) -> Self {
        Self { timing, due: now }
    }

    /// The timing.
    pub const fn timing(&self) -> PlegTiming {
        self.timing
    }

    /// Restarts with another timing, as the kubelet does when it gives up the event stream: a relist is due at
    /// once.
    pub const fn restart(&mut self, timing: PlegTiming, now: Mono) {
        self.timing = timing;
        self.due = now;
    }

    /// Returns what to do at `now`.
    pub fn next(&self, now: Mono) -> TimerAction {
        if self.due <= now { TimerAction::Relist } else { TimerAction::Wait(self.due) }
    }

    /// Records that a relist of all pods has ended at `now`; the pause starts.
    pub fn relisted(&mut self, now: Mono) {
        self.due = now.plus(self.timing.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::at(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_relist_is_due_at_once_and_the_pause_counts_from_its_end() {
        let mut worker = RelistTimer::start(PlegTiming::GENERIC, at(0));
        assert_eq!(worker.next(at(0)), TimerAction::Relist);
        worker.relisted(at(120));
        assert_eq!(worker.next(at(120)), TimerAction::Wait(at(121)));
        assert_eq!(worker.next(at(121)), TimerAction::Relist);
    }
}
