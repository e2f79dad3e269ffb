//! A clock that shows recorded time: of a moment that goes on from there, or of a history that is played.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Mono, SystemClock, Wall};

/// The machine's own clock until somebody sets it to recorded time.
#[derive(Debug)]
pub struct ReplayClock {
    real: SystemClock,
    shown: Mutex<Shown>,
}

#[derive(Clone, Copy, Debug)]
enum Shown {
    /// The machine's own time.
    Own,
    /// Recorded time that goes on by itself: so much wall time at this reading.
    Going(Wall, Mono),
    /// Recorded time that goes on when it is told to.
    Told(Duration, Wall),
}

impl ReplayClock {
    /// A clock that shows the machine's own time for now.
    pub fn new() -> Self {
        Self { real: SystemClock::start(), shown: Mutex::new(Shown::Own) }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the machine's own clock shows, whatever this one does.
    pub fn own(&self) -> Mono {
        self.real.mono()
    }

    /// It is `wall` now, and time goes on.
    pub fn go_on_from(&self, wall: Wall) {
        *self.shown() = Shown::Going(wall, self.real.mono());
    }

    /// It is `wall` now, `since` the beginning of what is played, and stays so.
    pub fn stand_at(&self, since: Duration, wall: Wall) {
        *self.shown() = Shown::Told(since, wall);
    }

    /// So much later; nothing if time goes on by itself.
    pub fn advance(&self, by: Duration) {
        let mut shown = self.shown();
        if let Shown::Told(since, wall) = *shown {
            *shown = Shown::Told(since.saturating_add(by), wall.plus(by));
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
            Shown::Own | Shown::Going(..) => self.real.mono(),
            Shown::Told(since, _) => Mono::at(since),
        }
    }

    fn wall(&self) -> Wall {
        match *self.shown() {
            Shown::Own => self.real.wall(),
            Shown::Going(wall, from) => wall.plus(self.real.mono().since(from)),
            Shown::Told(_, wall) => wall,
        }
    }
}
