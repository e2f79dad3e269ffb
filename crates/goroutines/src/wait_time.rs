//! Estimates for how long a goroutine has waited, and how long it has waited at least.
//!
//! The age that Go prints is neither. It counts from the garbage collection *before* the one that first found the
//! goroutine waiting: `markroot` (runtime/mgcmark.go) sets `waitsince` to `work.tstart`, which `gcMark`
//! (runtime/mgc.go) sets only at the end of each collection. So the printed age exceeds the wait by up to the time
//! between two collections. It is absent until a collection has found the goroutine.

use std::time::Duration;

/// The time by which a printed age may exceed the wait: without work, Go collects garbage once in this time
/// (`forcegcperiod` in runtime/proc.go).
const AGE_ERROR: Duration = Duration::from_secs(2 * 60);

/// How long a goroutine has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitTime {
    /// The best estimate; `None` if nothing is known.
    pub about: Option<Duration>,
    /// The time that the goroutine has certainly waited.
    pub at_least: Duration,
}

impl WaitTime {
    /// Combines the whole minutes that Go prints, the measured time for which the goroutine was seen waiting, and the
    /// age of the child process for which it waits. The wait is not older than the child, and usually not much younger.
    pub fn of(minutes: Option<u32>, measured: Option<Duration>, child: Option<Duration>) -> Self {
        let printed = minutes.map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
        let at_least = printed.unwrap_or_default().saturating_sub(AGE_ERROR);
        Self { about: printed.max(measured), at_least: at_least.max(measured.unwrap_or_default()) }
            .for_child(child)
    }

    /// Corrects the time by the age of the child process. If the child is younger than the time that seems certain, the
    /// goroutine has waited for other children before, so nothing is certain.
    #[must_use]
    pub fn for_child(self, age: Option<Duration>) -> Self {
        let Some(age) = age else { return self };
        Self { about: Some(age), at_least: if age < self.at_least { Duration::ZERO } else { self.at_least } }
    }

    /// Returns whether the estimate is no more than what is certain.
    pub fn is_lower_bound(self) -> bool {
        self.about.is_some_and(|about| about <= self.at_least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_printed_age_proves_two_minutes_less() {
        for (minutes, at_least) in [(1, 0), (2, 0), (3, 60), (22, 20 * 60)] {
            let time = WaitTime::of(Some(minutes), None, None);
            assert_eq!(time.about, Some(seconds(60 * u64::from(minutes))));
            assert_eq!((time.at_least, time.is_lower_bound()), (seconds(at_least), false));
        }
        assert_eq!(WaitTime::of(None, None, None), WaitTime::default());
        assert!(!WaitTime::default().is_lower_bound());
    }

    #[test]
    fn a_wait_is_not_older_than_the_child_for_which_it_waits() {
        let young = Duration::from_millis(2900);
        let time = WaitTime::of(Some(1), None, Some(young));
        assert_eq!((time.about, time.at_least), (Some(young), Duration::ZERO));
        // A child of two minutes is no proof that the goroutine has waited for it all the time.
        assert_eq!(WaitTime::of(None, None, Some(seconds(120))).at_least, Duration::ZERO);
        assert_eq!(WaitTime::of(Some(9), None, Some(seconds(120))).at_least, Duration::ZERO);
        assert_eq!(WaitTime::of(Some(3), None, Some(seconds(120))).at_least, seconds(60));
    }

    #[test]
    fn the_time_between_two_dumps_is_a_lower_bound() {
        let time = WaitTime::of(None, Some(seconds(10)), None);
        assert_eq!((time.about, time.is_lower_bound()), (Some(seconds(10)), true));
        let longer = WaitTime::of(Some(3), Some(seconds(70)), None);
        assert_eq!((longer.about, longer.at_least), (Some(seconds(180)), seconds(70)));
    }
}
