//! A clock that shows recorded time: either it runs on from a recorded moment, or the replay sets it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::{Clock, Mono, SystemClock, Wall};
use crate::threads::locked;

/// The clock of a replay. It shows the machine's own time until it is set to recorded time.
#[derive(Debug)]
pub struct ReplayClock {
    real: SystemClock,
    shown: Mutex<ReplayTime>,
}

#[derive(Clone, Copy, Debug)]
enum ReplayTime {
    /// The machine's own time.
    Machine,
    /// Recorded time that runs by itself: this wall time at this reading of the machine's clock.
    Running(Wall, Mono),
    /// Recorded time that the replay sets: the time since the start of the replay, and the wall time.
    Set(Duration, Wall),
}

impl ReplayClock {
    /// Creates a clock that shows the machine's own time for now.
    pub fn new() -> Self {
        Self { real: SystemClock::start(), shown: Mutex::new(ReplayTime::Machine) }
    }

    fn shown(&self) -> MutexGuard<'_, ReplayTime> {
        locked(&self.shown)
    }

    /// Returns the time of the machine's own clock.
    pub fn own(&self) -> Mono {
        self.real.mono()
    }

    /// Sets the clock to `wall`, from where it runs by itself.
    pub fn run_from(&self, wall: Wall) {
        *self.shown() = ReplayTime::Running(wall, self.real.mono());
    }

    /// Sets the clock to `wall`, `since` the start of the replay; it does not run by itself.
    pub fn set(&self, since: Duration, wall: Wall) {
        *self.shown() = ReplayTime::Set(since, wall);
    }

    /// Moves the clock forward, unless it runs by itself.
    pub fn advance(&self, by: Duration) {
        let mut shown = self.shown();
        if let ReplayTime::Set(since, wall) = *shown {
            *shown = ReplayTime::Set(since.saturating_add(by), wall.plus(by));
        }
    }
}

impl Default for ReplayClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ReplayClock {
    fn mono(&self) -> Mono {
        match *self.shown() {
            ReplayTime::Machine | ReplayTime::Running(..) => self.real.mono(),
            ReplayTime::Set(since, _) => Mono::at(since),
        }
    }

    fn wall(&self) -> Wall {
        match *self.shown() {
            ReplayTime::Machine => self.real.wall(),
            ReplayTime::Running(wall, from) => wall.plus(self.real.mono().since(from)),
            ReplayTime::Set(_, wall) => wall,
        }
    }
}
