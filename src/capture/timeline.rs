//! Computes the age of entries, so that the store can delete segments beyond the age limit.
//!
//! The age counts only the time during which a recorder ran, by its monotonic clock: the wall clock may be set at any time.

use std::time::Duration;

use super::entry::nanos;

/// A position in a capture: the nanoseconds for which recorders have run since its oldest entry.
pub type RunTime = u64;

/// Computes the [`RunTime`] of each entry. The caller passes all entries in their order.
#[derive(Debug, Default)]
pub struct RunTimeline {
    session: Option<u64>,
    /// The run time at which the session begins.
    base: RunTime,
    /// The monotonic time of the session's first entry.
    origin: Option<u64>,
    last: RunTime,
    jump: Option<RunTime>,
}

impl RunTimeline {
    /// Notes that the entries of this session come next. Returns whether the session is a new one.
    pub fn session(&mut self, id: u64) -> bool {
        if self.session == Some(id) {
            return false;
        }
        self.session = Some(id);
        self.base = self.last;
        self.origin = None;
        true
    }

    /// Returns the run time at an entry of the session.
    pub fn at(&mut self, mono: u64) -> RunTime {
        let origin = *self.origin.get_or_insert(mono);
        let position = self.base.saturating_add(mono.saturating_sub(origin));
        self.last = self.last.max(position);
        position
    }

    /// Returns the latest run time.
    pub const fn last(&self) -> RunTime {
        self.last
    }

    /// Notes that the wall clock was set at this run time.
    pub fn jumped(&mut self, position: RunTime) {
        self.jump = self.jump.max(Some(position));
    }

    /// Whether a segment that ends at `end` is older than `age`. Segments from before the last jump of the wall clock never
    /// count as too old; only the size limit deletes them.
    pub fn is_older(&self, end: RunTime, age: Duration) -> bool {
        self.last.saturating_sub(end) > nanos(age) && self.jump.is_none_or(|jump| end >= jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_nanos(1);

    #[test]
    fn sessions_follow_one_another_without_the_time_between_them() {
        let mut timeline = RunTimeline::default();
        assert!(timeline.session(7));
        assert_eq!([100, 130, 110].map(|mono| timeline.at(mono)), [0, 30, 10]);
        assert!(!timeline.session(7) && timeline.session(8));
        assert_eq!([5, 9].map(|mono| timeline.at(mono)), [30, 34]);
        assert_eq!(timeline.last(), 34);
    }

    #[test]
    fn entries_from_before_a_jump_are_never_too_old() {
        let mut timeline = RunTimeline::default();
        timeline.session(1);
        timeline.at(0);
        timeline.at(50);
        assert!(timeline.is_older(10, TICK * 20) && !timeline.is_older(30, TICK * 20));
        timeline.jumped(40);
        timeline.at(100);
        assert!(!timeline.is_older(10, TICK * 20) && timeline.is_older(45, TICK * 20));
    }
}
