//! Seeks in a capture: moves the replay of `top` to another moment.
//!
//! The screen of a moment shows the relists of the last five minutes ([`WINDOW`]), so every seek must play these relists,
//! and a playback only plays forwards. Therefore:
//!
//! * A seek forwards sets [`EngineRun::seek_to`]. The run plays at full speed until this moment, without drawing, and
//!   continues at the chosen speed.
//! * A seek backwards ends the run with [`Flow::Restart`]. The next run has an empty model, begins five minutes
//!   before the wanted moment, and seeks forwards from there.
//! * A seek far forwards does the same, because the model would soon forget the relists in between.

use std::time::Duration;

use super::engine_run::{EngineRun, Flow};
use super::model::WINDOW;
use super::ui::Ui;
use super::view::{Movement, ReplayPosition};
use crate::capture::{Playback, PlaybackStep, Speed};
use crate::clock::Wall;
use crate::pleg::TimerAction;

/// The length of a short step.
const STEP: Duration = Duration::from_secs(10);

/// The length of a far step.
const FAR_STEP: Duration = Duration::from_secs(100);

/// A seek to the incident before or after the present moment ignores incidents that are nearer than this. So a second
/// press of the key leaves the incident at which the first one arrived.
const SAME_INCIDENT: Duration = Duration::from_secs(1);

impl ReplayPosition {
    /// Returns the start, the end and the incidents of a capture, for the screen; `None` for an empty capture.
    pub fn of(playback: &Playback) -> Option<Self> {
        let capture = playback.capture();
        let (from, to) = capture.span()?;
        let incidents = capture.incidents.values().map(|incident| Wall::from_nanos(incident.peak)).collect();
        Some(Self { from, to, incidents, speed: String::new(), ended: false })
    }

    /// Returns the moment to which a movement leads from `now`; `None` if there is no incident in this direction.
    fn destination(&self, movement: Movement, now: Wall) -> Option<Wall> {
        let incidents = self.incidents.iter().copied();
        let wanted = match movement {
            Movement::Step { back, far } => {
                let step = if far { FAR_STEP } else { STEP };
                if back { now.minus(step) } else { now.plus(step) }
            }
            Movement::Start => self.from,
            Movement::End => self.to,
            Movement::Incident { back: true } => {
                incidents.filter(|time| time.plus(SAME_INCIDENT) < now).max()?
            }
            Movement::Incident { back: false } => {
                incidents.filter(|time| *time > now.plus(SAME_INCIDENT)).min()?
            }
        };
        Some(wanted.clamp(self.from, self.to))
    }
}

impl EngineRun<'_> {
    /// Begins to move to another moment of the capture.
    pub fn seek(&self, movement: Movement, ui: &mut Ui) -> Flow {
        let (Some(playback), Some(replay)) = (self.session.playback(), &ui.view.replay) else {
            return Flow::Continue;
        };
        // During a seek, a further key moves from the moment that the seek will reach.
        let now = self.seek_to.get().unwrap_or_else(|| self.session.node.clock.wall());
        let Some(wanted) = replay.destination(movement, now) else {
            ui.view.message = Some("no further incident in this direction".to_owned());
            return Flow::Continue;
        };
        if wanted < now || wanted.duration_since(now) > WINDOW * 2 {
            return Flow::Restart { seek_to: wanted };
        }
        self.seek_to.set(Some(wanted));
        playback.pause(false);
        playback.set_speed(Speed::Max);
        Flow::Continue
    }

    /// Ends a seek: restores the speed and the pause, and continues at the chosen speed.
    pub fn finish_seek(&self, playback: &Playback, ui: &mut Ui) {
        self.seek_to.set(None);
        playback.set_speed(ui.chosen_speed());
        playback.pause(ui.view.paused);
        ui.draw(self);
    }

    /// Returns what the replay does next; `None` while it is paused and after its end. `waited` is whether the engine has
    /// waited as long as the last step demanded.
    pub fn replay_action(&self, playback: &Playback, ui: &mut Ui, waited: &mut bool) -> Option<TimerAction> {
        let clock = &*self.session.node.clock;
        if let Some(wanted) = self.seek_to.get() {
            let next = playback.next_relist_at();
            if next.is_none_or(|next| next > wanted) || clock.wall() >= wanted {
                playback.show(wanted);
                self.finish_seek(playback, ui);
            }
        }
        if self.seek_to.get().is_none() && ui.view.paused {
            return None;
        }
        let step = playback.next(std::mem::take(waited));
        if let Some(replay) = &mut ui.view.replay {
            replay.ended = step == PlaybackStep::End;
        }
        match step {
            PlaybackStep::Relist => Some(TimerAction::Relist),
            PlaybackStep::End => None,
            PlaybackStep::Wait(length) => {
                *waited = true;
                Some(TimerAction::Wait(clock.mono().plus(length)))
            }
        }
    }
}
