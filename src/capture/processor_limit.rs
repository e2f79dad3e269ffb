//! Limits how much of a processor a thread uses, so that an export of a running recorder does not delay its relists.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Mono};
use crate::threads::locked;

/// The time for which the thread works between two pauses.
const WORK: Duration = Duration::from_millis(5);

/// A pause is this many times as long as the work before it.
const PAUSE_FACTOR: u32 = 9;

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Pauses a thread again and again, so that it uses about a tenth of a processor. The default never pauses.
#[derive(Default)]
pub struct ProcessorLimit {
    clock: Option<Arc<dyn Clock>>,
    /// The end of the last pause.
    rested: Mutex<Mono>,
}

impl fmt::Debug for ProcessorLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessorLimit").field("pauses", &self.clock.is_some()).finish_non_exhaustive()
    }
}

impl ProcessorLimit {
    /// Limits the thread to about a tenth of a processor.
    pub fn a_tenth(clock: Arc<dyn Clock>) -> Self {
        let rested = Mutex::new(clock.mono());
        Self { clock: Some(clock), rested }
    }

    /// Pauses if the thread has worked long enough.
    pub fn pause_if_due(&self) {
        let Some(clock) = &self.clock else { return };
        let mut rested = locked(&self.rested);
        let worked = clock.mono().since(*rested);
        if worked >= WORK {
            thread::park_timeout((worked * PAUSE_FACTOR).min(LONGEST_PAUSE));
            *rested = clock.mono();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_limit_pauses_after_work_only() {
        let clock = Arc::new(ManualClock::default());
        let limit = ProcessorLimit::a_tenth(Arc::<ManualClock>::clone(&clock));
        clock.advance(Duration::from_millis(4));
        limit.pause_if_due();
        assert_eq!(*locked(&limit.rested), Mono::default(), "4 ms of work need no pause");
        clock.advance(Duration::from_millis(2));
        limit.pause_if_due();
        assert_eq!(*locked(&limit.rested), clock.mono());
        ProcessorLimit::default().pause_if_due();
    }
}
