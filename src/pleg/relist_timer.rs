//! The kubelet's timer for relists: computes when the next relist is due. The caller waits.

use std::time::Duration;

use crate::clock::Mono;
use crate::kubelet::timing;

/// The pause between relists, and the age beyond which PLEG is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlegTiming {
    /// The pause from the end of a relist to the start of the next one.
    pub period: Duration,
    /// The largest age of PLEG that counts as healthy.
    pub threshold: Duration,
}

impl PlegTiming {
    /// The timing without an event stream, and after the event stream was given up.
    pub const GENERIC: Self = Self { period: timing::PERIOD, threshold: timing::THRESHOLD };
    /// The timing while the event stream is used.
    pub const EVENTED: Self = Self { period: timing::EVENTED_PERIOD, threshold: timing::EVENTED_THRESHOLD };
}

/// The next action of the caller.
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

    /// Returns the timing.
    pub const fn timing(&self) -> PlegTiming {
        self.timing
    }

    /// Restarts with another timing, as the kubelet does when it gives up the event stream. A relist is due at once.
    pub const fn restart(&mut self, timing: PlegTiming, now: Mono) {
        self.timing = timing;
        self.due = now;
    }

    /// Returns the action at `now`.
    pub fn next(&self, now: Mono) -> TimerAction {
        if self.due <= now { TimerAction::Relist } else { TimerAction::Wait(self.due) }
    }

    /// Notes that a relist of all pods ended at `now`, so that the pause starts.
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
        let mut timer = RelistTimer::start(PlegTiming::GENERIC, at(0));
        assert_eq!(timer.next(at(0)), TimerAction::Relist);
        timer.relisted(at(120));
        assert_eq!(timer.next(at(120)), TimerAction::Wait(at(121)));
        assert_eq!(timer.next(at(121)), TimerAction::Relist);
    }
}
