//! The time that the whole run may take, dealt out to the probes.

use std::sync::Arc;
use std::time::Duration;

use super::limits::{CLOSING, LOOKING};
use crate::clock::{Clock, Mono};

/// The run's time.
pub(super) struct Budget {
    clock: Arc<dyn Clock>,
    started: Mono,
    whole: Duration,
}

impl Budget {
    pub(super) fn start(clock: Arc<dyn Clock>, whole: Duration) -> Self {
        let started = clock.mono();
        Self { clock, started, whole }
    }

    pub(super) fn used(&self) -> Duration {
        self.clock.mono().since(self.started)
    }

    pub(super) fn left(&self) -> Duration {
        self.whole.saturating_sub(self.used())
    }

    /// What is left for new questions: the looks that follow them need some too.
    pub(super) fn for_asking(&self) -> Duration {
        self.left().saturating_sub(LOOKING.min(self.whole / 4))
    }

    /// What is left for waiting: the report has to be written before somebody ends us.
    pub(super) fn for_waiting(&self) -> Duration {
        self.left().saturating_sub(CLOSING.min(self.whole / 40))
    }

    /// How long a probe with this deadline may take; `None` when too little is left for it to mean anything: a probe
    /// cut short would look like one that hangs.
    pub(super) fn allow(&self, deadline: Duration) -> Option<Duration> {
        let left = self.for_waiting();
        (left >= deadline / 2).then(|| left.min(deadline))
    }
}
