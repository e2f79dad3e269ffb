//! [`Ui`]: the terminal, the keys and the signals of `top`, and the tasks that run next to the relists. It waits for the
//! next [`Happening`] and draws the screen; what a happening does is in `engine_run`.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

use super::TopArgs;
use super::engine_run::EngineRun;
use super::model::{KubeletFigures, LimitAhead, Model};
use super::screen::{self, Moment, empty};
use super::terminal::{Terminal, leave_in_time};
use super::view::{Key, View};
use crate::capture::Speed;
use crate::capture::on_node::forecasts_on_node;
use crate::cmd::session::Session;
use crate::cmd::term::stop_signals::{StopSignals, Suspension};
use crate::cmd::term::streams;
use crate::cri::Endpoint;
use crate::diagnosis::OWN_NAME;
use crate::host;
use crate::host::proc::{ProcessStat, StatTable};
use crate::optional_future::SingleTask;
use crate::threads::blocking;

/// How often the screen is drawn while nothing happens.
pub const TICK: Duration = Duration::from_secs(1);

/// How often the screen is drawn while a capture is played.
const REPLAY_TICK: Duration = Duration::from_millis(200);

/// How often a seek checks whether the replay has reached the wanted moment.
const SEEK_TICK: Duration = Duration::from_millis(1);

/// The pause between two requests for the kubelet's metrics.
const KUBELET_PERIOD: Duration = Duration::from_secs(10);

/// The pause between two readings of the recorder's forecasts.
pub const RECORDER_PERIOD: Duration = Duration::from_secs(30);

/// The speeds of a replay.
const SPEEDS: [u32; 6] = [1, 2, 5, 10, 30, 100];

/// Something that happens while the engine works or waits.
pub enum Happening {
    /// A signal, or the end of `--for`.
    End,
    /// The user suspends the process (Ctrl-Z).
    Suspend,
    /// The terminal has a new size.
    Resize,
    /// The screen is due to be drawn again.
    Tick,
    /// The user pressed keys; `None` if the terminal is gone.
    Keys(Option<Vec<Key>>),
    /// The attempt to write a bundle has ended, with this message for the user.
    Bundle(String),
    /// The kubelet's metrics were requested; `None` without a usable answer.
    Kubelet(Option<KubeletFigures>),
    /// The forecasts of the recorder on this node were read.
    Limits(Vec<LimitAhead>),
}

/// The screen, the keys and the signals. It outlives the sessions of a replay.
pub struct Ui {
    terminal: Terminal,
    pub view: View,
    stop_signals: StopSignals,
    /// The end of the session, which ends `top` as Ctrl-C does, so that the terminal is restored.
    hangup: Signal,
    suspension: Suspension,
    resized: Signal,
    /// The task that writes a bundle.
    pub bundle: SingleTask<'static, String>,
    /// The file of `--bundle`.
    pub bundle_file: Option<PathBuf>,
    /// The task that requests the kubelet's metrics.
    kubelet: SingleTask<'static, Option<KubeletFigures>>,
    /// The task that reads the forecasts of the recorder on this node.
    recorder: SingleTask<'static, Vec<LimitAhead>>,
    /// The model and the moment that the screen shows while a live `top` is paused. The relists continue.
    pub frozen: Option<Box<(Model, Moment)>>,
    /// The index in [`SPEEDS`] of the speed that the user has chosen.
    speed: usize,
}

impl Ui {
    /// Opens the screen, and listens for signals from now on.
    pub fn open(arguments: &TopArgs, session: &Session) -> std::io::Result<Self> {
        Ok(Self {
            stop_signals: StopSignals::listen(arguments.lasting)?,
            hangup: signal(SignalKind::hangup())?,
            suspension: Suspension::listen()?,
            resized: signal(SignalKind::window_change())?,
            view: View::new(session.node.global.style().color, arguments.bundle.is_some()),
            bundle: SingleTask::default(),
            bundle_file: arguments.bundle.clone(),
            kubelet: SingleTask::default(),
            recorder: SingleTask::default(),
            frozen: None,
            speed: 0,
            terminal: Terminal::open()?,
        })
    }

    /// Waits for the next happening.
    pub async fn next(&mut self, ticks: &mut Ticks, run: &EngineRun<'_>) -> Happening {
        let period = match (run.seek_to.get(), run.session.playback()) {
            (Some(_), _) => SEEK_TICK,
            (None, Some(_)) => REPLAY_TICK,
            (None, None) => TICK,
        };
        tokio::select! {
            biased;
            () = self.stop_signals.next() => Happening::End,
            _ = self.hangup.recv() => Happening::End,
            () = self.suspension.requested() => Happening::Suspend,
            keys = self.terminal.keys() => Happening::Keys(keys),
            _ = self.resized.recv() => Happening::Resize,
            message = self.bundle.result() => Happening::Bundle(message),
            figures = self.kubelet.result() => Happening::Kubelet(figures),
            limits = self.recorder.result() => Happening::Limits(limits),
            () = ticks.next(period) => Happening::Tick,
        }
    }

    /// Returns the speed that the user has chosen, and shows it on the screen.
    pub fn chosen_speed(&mut self) -> Speed {
        let times = SPEEDS.get(self.speed).copied().unwrap_or(1);
        if let Some(replay) = &mut self.view.replay {
            replay.speed = format!("{times}×");
        }
        Speed::Times(times)
    }

    /// Draws the screen.
    pub fn draw(&mut self, run: &EngineRun<'_>) {
        let size = size();
        if size.0 == 0 {
            return;
        }
        let mut buffer = empty(size);
        if let Some(frozen) = &self.frozen {
            screen::draw(&mut buffer, &frozen.0, &self.view, frozen.1);
        } else {
            let model = run.updated_model();
            screen::draw(&mut buffer, &model, &self.view, run.moment());
        }
        self.terminal.show(buffer);
    }

    /// Starts a task that waits for a pause and then requests the kubelet's metrics. It uses only the kubelet's read-only
    /// port, which needs no credential; without that port there is no task.
    pub fn watch_kubelet(&mut self, session: &Session) {
        let node = Rc::clone(&session.node);
        if node.read_only_port().is_none() {
            return;
        }
        self.kubelet.start(async move {
            tokio::time::sleep(KUBELET_PERIOD).await;
            Some(KubeletFigures::from_metrics(&node.request_metrics().await?, node.clock.wall()))
        });
    }

    /// Starts a task that waits for `pause` and then reads the forecasts of the recorder on this node.
    pub fn watch_recorder(&mut self, session: &Session, pause: Duration) {
        let Endpoint::Unix { .. } = session.endpoint else { return };
        let (clock, endpoint) = (session.clock(), session.endpoint.to_string());
        self.recorder.start(async move {
            tokio::time::sleep(pause).await;
            let now = clock.wall();
            let read = move || {
                let proc = host::proc();
                let named = |(pid, stat): (u32, ProcessStat)| (stat.comm == OWN_NAME).then_some(pid);
                let candidates: Vec<u32> =
                    StatTable::read(&proc).stats.into_iter().filter_map(named).collect();
                forecasts_on_node(&proc, &candidates, &endpoint, now)
            };
            // What cannot be read is named by `health`.
            LimitAhead::of(&blocking(read).await.and_then(|read| read).unwrap_or_default(), now)
        });
    }

    /// Chooses the next speed.
    pub fn change_speed(&mut self, faster: bool) {
        let last = SPEEDS.len() - 1;
        self.speed = if faster { (self.speed + 1).min(last) } else { self.speed.saturating_sub(1) };
    }

    /// Draws every cell of the screen at the next opportunity, because something else may have changed it.
    pub fn redraw(&mut self) {
        self.terminal.redraw();
    }

    /// Gives the terminal back to the shell, suspends the process, and takes the terminal again when it continues.
    pub async fn suspend(&mut self) -> std::io::Result<()> {
        leave_in_time();
        Suspension::stop_here().await?;
        self.terminal.take()
    }
}

/// The ticks at which the screen is drawn. Their period depends on whether a capture is played.
pub struct Ticks {
    interval: Interval,
    period: Duration,
}

impl Ticks {
    pub fn new() -> Self {
        Self { interval: interval(TICK), period: TICK }
    }

    async fn next(&mut self, period: Duration) {
        if self.period != period {
            *self = Self { interval: interval(period), period };
        }
        self.interval.tick().await;
    }
}

fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The largest screen that is drawn, in columns and lines. A larger terminal stays empty at its right and at its end, because
/// each of its cells would take memory.
const LARGEST: (u16, u16) = (1000, 300);

/// Returns the columns and lines of the terminal that `top` uses.
pub fn size() -> (u16, u16) {
    limited(streams::terminal_size().unwrap_or_default())
}

/// Returns the columns and lines that are drawn on a terminal of this many lines and columns.
fn limited((lines, columns): (usize, usize)) -> (u16, u16) {
    let at_most = |length, most| u16::try_from(length).unwrap_or(most).min(most);
    (at_most(columns, LARGEST.0), at_most(lines, LARGEST.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_terminal_takes_no_more_memory_than_the_largest_screen() {
        assert_eq!(limited((24, 80)), (80, 24));
        assert_eq!(limited((10_000, usize::MAX)), LARGEST);
    }
}
