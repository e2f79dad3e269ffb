//! When the kubelet's worker relists what. Decides, never waits: whoever drives it does the waiting.

use std::time::Duration;

use crate::clock::Mono;
use crate::kubelet::timing;

/// Pause between relists and the age from which on PLEG is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the end of a relist to the start of the next.
    pub period: Duration,
    /// Largest healthy age of the last successful lists.
    pub threshold: Duration,
}

impl Timing {
    /// Relisting alone, also after the event stream was given up.
    pub const GENERIC: Self = Self { period: timing::PERIOD, threshold: timing::THRESHOLD };
    /// Relisting beside the event stream.
    pub const EVENTED: Self = Self { period: timing::EVENTED_PERIOD, threshold: timing::EVENTED_THRESHOLD };
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Relist everything, then say so with [`Worker::relisted`].
    Relist,
    /// Nothing until then.
    Wait(Mono),
}

/// The kubelet's timer for relists.
#[derive(Debug)]
pub struct Worker {
    timing: Timing,
    due: Mono,
}

impl Worker {
    /// A worker whose first relist is due at once.
    pub const fn start(timing: Timing, now: Mono) -> Self {
        Self { timing, due: now }
    }

    /// Its timing.
    pub const fn timing(&self) -> Timing {
        self.timing
    }

    /// Starts anew with another timing, as the kubelet does when it gives up the event stream: a relist is due at once.
    pub const fn restart(&mut self, timing: Timing, now: Mono) {
        self.timing = timing;
        self.due = now;
    }

    /// What to do at `now`.
    pub fn next(&self, now: Mono) -> Turn {
        if self.due <= now { Turn::Relist } else { Turn::Wait(self.due) }
    }

    /// A relist of everything has ended at `now`; the pause begins.
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
        let mut worker = Worker::start(Timing::GENERIC, at(0));
        assert_eq!(worker.next(at(0)), Turn::Relist);
        worker.relisted(at(120));
        assert_eq!(worker.next(at(120)), Turn::Wait(at(121)));
        assert_eq!(worker.next(at(121)), Turn::Relist);
    }
}
