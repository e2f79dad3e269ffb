//! The capture's own time: how long recorders have run, by their monotonic clocks, one session after the other.
//!
//! The wall clock decides nothing here. Time in which no recorder ran does not count, so an age is never too large.

use std::time::Duration;

/// Nanoseconds that recorders had run when something was written, since the oldest entry that the capture has.
pub type Position = u64;

/// Finds the position of each entry, as they are read or written in order.
#[derive(Debug, Default)]
pub struct Timeline {
    session: Option<u64>,
    /// Position at which the session begins.
    base: Position,
    /// Monotonic time of the session's first entry.
    origin: Option<u64>,
    last: Position,
    jump: Option<Position>,
}

impl Timeline {
    /// The entries of this session come next; whether it is another one than before.
    pub fn session(&mut self, id: u64) -> bool {
        if self.session == Some(id) {
            return false;
        }
        self.session = Some(id);
        self.base = self.last;
        self.origin = None;
        true
    }

    /// The position of an entry of the session.
    pub fn place(&mut self, mono: u64) -> Position {
        let origin = *self.origin.get_or_insert(mono);
        let position = self.base.saturating_add(mono.saturating_sub(origin));
        self.last = self.last.max(position);
        position
    }

    /// The latest position.
    pub const fn last(&self) -> Position {
        self.last
    }

    /// The wall clock was set at this position.
    pub fn jumped(&mut self, position: Position) {
        self.jump = self.jump.max(Some(position));
    }

    /// Whether what ends at `end` is older than `age`. Nothing is that was written before the wall clock was last set:
    /// only the bound on the size removes it.
    pub fn is_older(&self, end: Position, age: Duration) -> bool {
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.last.saturating_sub(end) > age && self.jump.is_none_or(|jump| end >= jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_nanos(1);

    #[test]
    fn sessions_follow_one_another_without_the_time_between_them() {
        let mut timeline = Timeline::default();
        assert!(timeline.session(7));
        assert_eq!([100, 130, 110].map(|mono| timeline.place(mono)), [0, 30, 10]);
        assert!(!timeline.session(7) && timeline.session(8));
        assert_eq!([5, 9].map(|mono| timeline.place(mono)), [30, 34]);
        assert_eq!(timeline.last(), 34);
    }

    #[test]
    fn nothing_from_before_a_jump_is_old() {
        let mut timeline = Timeline::default();
        timeline.session(1);
        timeline.place(0);
        timeline.place(50);
        assert!(timeline.is_older(10, TICK * 20) && !timeline.is_older(30, TICK * 20));
        timeline.jumped(40);
        timeline.place(100);
        assert!(!timeline.is_older(10, TICK * 20) && timeline.is_older(45, TICK * 20));
    }
}
