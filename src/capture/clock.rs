//! The clock of a replay, which shows recorded time. Either it starts at a recorded moment and then runs by itself, or the
//! replay sets it step by step.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::{Clock, Mono, SystemClock, Wall};
use crate::threads::locked;

/// The clock of a replay. It shows the machine's time until the replay sets it to recorded time.
#[derive(Debug)]
pub struct ReplayClock {
    real: SystemClock,
    shown: Mutex<ReplayTime>,
}

/// The time that a [`ReplayClock`] shows.
#[derive(Clone, Copy, Debug)]
enum ReplayTime {
    /// The time of the machine.
    Machine,
    /// Recorded time that runs by itself: this wall time at this reading of the machine's clock.
    Running(Wall, Mono),
    /// Recorded time that the replay sets: the time since the start of the replay, and the wall time.
    Set(Duration, Wall),
}

impl ReplayClock {
    /// Creates a clock that shows the machine's time for now.
    pub fn new() -> Self {
        Self { real: SystemClock::start(), shown: Mutex::new(ReplayTime::Machine) }
    }

    fn shown(&self) -> MutexGuard<'_, ReplayTime> {
        locked(&self.shown)
    }

    /// Returns the machine's time, whatever this clock shows.
    pub fn machine_time(&self) -> Mono {
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
