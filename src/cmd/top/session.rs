//! Runs `top`: relists as `watch` does, handles keys and signals at any time, and draws the screen. A capture is played;
//! to move back in it, the relists of the last minutes before the wanted moment are played again.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

use super::model::{KubeletFigures, Model, WINDOW};
use super::screen::{self, Moment, empty};
use super::terminal::Terminal;
use super::view::{Action, Movement, ReplayPosition, Rows, View};
use super::{TopArgs, explanation};
use crate::capture::{Playback, PlaybackStep, Speed, split_path_and_time};
use crate::clock::{Clock, Wall};
use crate::cmd::context::{CAPTURE, Context, ONE_SHOT_TIMEOUT, runtime_ref};
use crate::cmd::health::save_bundle;
use crate::cmd::stop_signals::{StopSignals, Suspension};
use crate::cmd::{Error, Exit};
use crate::cri::{Client, Endpoint, Runtime};
use crate::diagnosis::CallersPendingCall;
use crate::kubelet::{KubeletVersion, Metrics, http, timing};
use crate::optional_future::SingleTask;
use crate::pleg::silence::SilenceTracker;
use crate::pleg::stream::Event;
use crate::pleg::{
    CallRecord, GenericPleg, OpenCall, PlegSettings, PlegTiming, RelistTimer, SharedState, Sink, TimerAction,
};
use crate::threads::locked;

/// How often the screen is drawn while nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// How often the screen is drawn while a capture is played.
const REPLAY_TICK: Duration = Duration::from_millis(200);

/// How often the replay is checked while it runs to a wanted moment.
const SEEK_TICK: Duration = Duration::from_millis(1);

/// The pause between two looks at the kubelet's metrics.
const KUBELET_PERIOD: Duration = Duration::from_secs(10);

/// The time limit of one look at the kubelet's metrics.
const KUBELET_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The speeds of a replay.
const SPEEDS: [u32; 6] = [1, 2, 5, 10, 30, 100];

/// A step in a capture.
const STEP: Duration = Duration::from_secs(10);

/// A far step in a capture.
const FAR_STEP: Duration = Duration::from_secs(100);

/// Passes what the engine does to the model.
struct ModelSink<'a> {
    model: &'a Mutex<Model>,
    clock: &'a dyn Clock,
}

impl Sink for ModelSink<'_> {
    fn event(&mut self, event: Event) {
        locked(self.model).event(event);
    }

    fn call_started(&mut self, call: &OpenCall) {
        locked(self.model).call_started(call);
    }

    fn call_finished(&mut self, call: &CallRecord) {
        locked(self.model).call_finished(call, self.clock.mono(), self.clock.wall());
    }
}

/// Something that happens while the engine works or waits.
enum Happening {
    /// A signal, or the end of `--for`.
    End,
    Suspend,
    Resize,
    Tick,
    /// Keys; `None` if the terminal is gone.
    Keys(Option<Vec<super::view::Key>>),
    /// The bundle was written, or not; with the message for the user.
    Bundle(String),
    Kubelet(Option<KubeletFigures>),
}

/// What the engine does after a happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continue,
    Quit,
    /// Play the capture again, up to this moment.
    PlayTo(Wall),
}

/// The screen, the keys and the signals.
struct Ui {
    terminal: Terminal,
    view: View,
    stop_signals: StopSignals,
    suspension: Suspension,
    resized: Signal,
    bundle: SingleTask<'static, String>,
    bundle_file: Option<PathBuf>,
    kubelet: SingleTask<'static, Option<KubeletFigures>>,
    /// The model and the moment that a paused screen shows.
    frozen: Option<Box<(Model, Moment)>>,
    /// The index of the speed of a replay.
    speed: usize,
}

/// One run of the engine: a live one, or one through a part of a capture.
struct Session<'a> {
    context: &'a Context,
    endpoint: &'a Endpoint,
    model: Mutex<Model>,
    shared_state: Arc<SharedState>,
    silence: RefCell<SilenceTracker>,
    /// The moment to which the replay runs at full speed.
    target: Cell<Option<Wall>>,
    /// The time of the kubelet's metrics that the model has.
    kubelet_read: Cell<Option<Wall>>,
}

/// Runs the command.
pub async fn run(arguments: &TopArgs, context: &Context, endpoint: &Endpoint) -> Result<Exit, Error> {
    let mut client = context.client(endpoint, timing::REQUEST_TIMEOUT)?;
    let deadline = context.timeout.unwrap_or(ONE_SHOT_TIMEOUT).min(ONE_SHOT_TIMEOUT);
    let version = client.clone().with_deadline(deadline).version().await.result?;
    let kubelet = match arguments.kubelet_version {
        Some(version) => version,
        None => context.kubelet_release().await.unwrap_or(KubeletVersion::CONFIRMED),
    };
    let runtime = runtime_ref(endpoint, version);
    let runtime = [runtime.name, runtime.version, Some(runtime.endpoint)];
    let runtime: Vec<String> = runtime.into_iter().flatten().collect();
    let node = context.node_name();
    let settings = PlegSettings { era: kubelet.era(), evented_gate: false, inspect: !arguments.no_inspect };
    let mut ui = Ui::open(arguments, context).map_err(Error::Start)?;
    if let Some(playback) = context.playback() {
        ui.view.replay = position(playback);
    }
    let mut moved: Option<Context> = None;
    let mut target = None;
    loop {
        let context = moved.as_ref().unwrap_or(context);
        let clock = &*context.clock;
        if let Some(playback) = context.playback() {
            playback.play(Speed::Max);
        }
        let timeout = context.timeout.unwrap_or(timing::REQUEST_TIMEOUT);
        let mut model = Model::new(clock.mono(), arguments.threshold, timeout);
        model.node.clone_from(&node);
        model.runtime = runtime.join(" ");
        let session = Session {
            context,
            endpoint,
            model: Mutex::new(model),
            shared_state: Arc::new(SharedState::new(false)),
            silence: RefCell::default(),
            target: Cell::new(target.or(Some(clock.wall())).filter(|_| context.playback().is_some())),
            kubelet_read: Cell::default(),
        };
        let mut generic = GenericPleg::new(Arc::clone(&session.shared_state), settings);
        let flow = Box::pin(session.play(arguments, &client, &mut generic, &mut ui)).await?;
        let Flow::PlayTo(wanted) = flow else { break };
        let Some(playback) = context.playback() else { break };
        let start = playback.capture().relist_before(wanted.minus(WINDOW));
        let Some(start) = start else { break };
        let next = context.at_moment(endpoint, start)?;
        client = next.client(endpoint, timing::REQUEST_TIMEOUT)?;
        target = Some(wanted);
        ui.frozen = None;
        if let Some(replay) = &mut ui.view.replay {
            replay.ended = false;
        }
        moved = Some(next);
    }
    Ok(Exit::Good)
}

/// Returns the times of a capture that the screen shows.
fn position(playback: &Playback) -> Option<ReplayPosition> {
    let capture = playback.capture();
    let (from, to) = capture.span()?;
    let incidents = capture.incidents.values().map(|incident| Wall::from_nanos(incident.peak)).collect();
    Some(ReplayPosition { from, to, incidents, speed: String::new(), ended: false })
}

impl Session<'_> {
    fn model(&self) -> MutexGuard<'_, Model> {
        locked(&self.model)
    }

    fn moment(&self) -> Moment {
        Moment { mono: self.context.clock.mono(), wall: self.context.clock.wall() }
    }

    /// Relists until something ends the run.
    async fn play(
        &self,
        arguments: &TopArgs,
        client: &Client,
        generic: &mut GenericPleg,
        ui: &mut Ui,
    ) -> Result<Flow, Error> {
        let clock = &*self.context.clock;
        let timing = PlegTiming { period: arguments.period, threshold: arguments.threshold };
        let mut timer = RelistTimer::start(timing, clock.mono());
        let mut ticks = Ticks::new();
        let mut waited = false;
        ui.watch_kubelet(self.context);
        ui.draw(self);
        loop {
            let action = match self.context.playback() {
                None => timer.next(clock.mono()),
                Some(playback) => match self.replay_action(playback, ui, &mut waited) {
                    Some(action) => action,
                    // Paused, or at the end: only a key continues.
                    None => TimerAction::Wait(clock.mono().plus(TICK)),
                },
            };
            let flow = match action {
                TimerAction::Relist => {
                    let flow = self.relist(client, generic, ui, &mut ticks).await?;
                    timer.relisted(clock.mono());
                    let is_last = arguments.count.is_some_and(|count| generic.relists() >= count.get());
                    if flow == Flow::Continue && is_last { Flow::Quit } else { flow }
                }
                TimerAction::Wait(until) => {
                    let wait = until.since(clock.mono());
                    let mut pause = pin!(tokio::time::sleep(wait));
                    let is_running = !ui.view.paused;
                    loop {
                        let happening = tokio::select! {
                            biased;
                            () = &mut pause => break Flow::Continue,
                            happening = ui.next(&mut ticks, self) => happening,
                        };
                        let flow = self.handle(happening, ui).await?;
                        // A key that moves or continues the replay ends the wait.
                        let changed = self.target.get().is_some() || ui.view.paused == is_running;
                        if flow != Flow::Continue || (changed && self.context.playback().is_some()) {
                            waited = false;
                            break flow;
                        }
                    }
                }
            };
            if flow != Flow::Continue {
                return Ok(flow);
            }
        }
    }

    /// Returns what the replay does next; `None` while it is paused and after its end.
    fn replay_action(&self, playback: &Playback, ui: &mut Ui, waited: &mut bool) -> Option<TimerAction> {
        let clock = &*self.context.clock;
        if let Some(target) = self.target.get() {
            let next = playback.next_relist_at();
            if next.is_none_or(|next| next > target) || clock.wall() >= target {
                playback.show(target);
                self.arrive(playback, ui);
            }
        } else if ui.view.paused {
            return None;
        }
        if self.target.get().is_none() && ui.view.paused {
            return None;
        }
        let step = playback.next(std::mem::take(waited));
        if let Some(replay) = &mut ui.view.replay {
            replay.ended = step == PlaybackStep::End;
        }
        match step {
            PlaybackStep::Relist => Some(TimerAction::Relist),
            PlaybackStep::End => None,
            PlaybackStep::Listen => Some(TimerAction::Wait(clock.mono())),
            PlaybackStep::Wait(length) => {
                *waited = true;
                Some(TimerAction::Wait(clock.mono().plus(length)))
            }
        }
    }

    /// The replay has reached the wanted moment: it continues at the chosen speed.
    fn arrive(&self, playback: &Playback, ui: &mut Ui) {
        self.target.set(None);
        playback.set_speed(ui.chosen_speed());
        playback.pause(ui.view.paused);
        ui.draw(self);
    }

    /// Makes one relist.
    async fn relist(
        &self,
        client: &Client,
        generic: &mut GenericPleg,
        ui: &mut Ui,
        ticks: &mut Ticks,
    ) -> Result<Flow, Error> {
        let clock = &*self.context.clock;
        self.model().relist_begins(clock.mono());
        let mut sink = ModelSink { model: &self.model, clock };
        let report = {
            let mut relist = pin!(generic.relist(client, clock, &mut sink));
            loop {
                let happening = tokio::select! {
                    biased;
                    report = &mut relist => break report,
                    happening = ui.next(ticks, self) => happening,
                };
                let flow = self.handle(happening, ui).await?;
                if flow != Flow::Continue {
                    return Ok(flow);
                }
            }
        };
        {
            let unreachable = self.shared_state.lock().unreachable.is_some();
            let mut model = self.model();
            model.relist_ended(&report, self.shared_state.last_list(), unreachable, clock.mono());
            model.forget_old(clock.mono());
        }
        if self.target.get().is_none() {
            ui.draw(self);
        }
        Ok(Flow::Continue)
    }

    async fn handle(&self, happening: Happening, ui: &mut Ui) -> Result<Flow, Error> {
        match happening {
            Happening::End | Happening::Keys(None) => return Ok(Flow::Quit),
            Happening::Suspend => {
                Terminal::release();
                Suspension::stop_here().await.map_err(Error::Start)?;
                ui.terminal.take().map_err(Error::Start)?;
            }
            Happening::Resize => ui.terminal.redraw(),
            Happening::Tick => {
                self.note_silence();
                self.read_recorded_kubelet();
                if let (Some(target), Some(playback)) = (self.target.get(), self.context.playback()) {
                    // A call of the replayed relist may be pending at the wanted moment.
                    if self.context.clock.wall() >= target {
                        self.arrive(playback, ui);
                    }
                    return Ok(Flow::Continue);
                }
            }
            Happening::Bundle(message) => ui.view.message = Some(message),
            Happening::Kubelet(figures) => {
                self.model().kubelet = figures;
                ui.watch_kubelet(self.context);
            }
            Happening::Keys(Some(keys)) => {
                for key in keys {
                    let flow = self.key(key, ui);
                    if flow != Flow::Continue {
                        return Ok(flow);
                    }
                }
            }
        }
        ui.draw(self);
        Ok(Flow::Continue)
    }

    fn key(&self, key: super::view::Key, ui: &mut Ui) -> Flow {
        let now = self.moment();
        let action = {
            let model = self.model();
            let (model, moment) = match &ui.frozen {
                Some(frozen) => (&frozen.0, frozen.1),
                None => (&*model, now),
            };
            let rows = Rows::of(model, &ui.view.filter, moment.mono).ids();
            let (_, height) = size();
            let height = screen::page_height(height, model, ui.view.replay.is_some());
            let explain = |row: Option<&super::view::RowId>| explanation::lines(model, row, moment.mono);
            ui.view.key(key, &rows, height, explain)
        };
        match action {
            None => {}
            Some(Action::Quit) => return Flow::Quit,
            Some(Action::Redraw) => ui.terminal.redraw(),
            Some(Action::Pause) => {
                ui.view.paused = !ui.view.paused;
                match self.context.playback() {
                    Some(playback) => {
                        playback.set_speed(ui.chosen_speed());
                        playback.pause(ui.view.paused);
                    }
                    None if ui.view.paused => ui.frozen = Some(Box::new((self.model().clone(), now))),
                    None => ui.frozen = None,
                }
            }
            Some(Action::Bundle(path)) => {
                let path = path.map(|path| PathBuf::from(path.trim())).or_else(|| ui.bundle_file.clone());
                if let Some(path) = path {
                    self.save_bundle(path, ui);
                }
            }
            Some(Action::Speed { faster }) => {
                let last = SPEEDS.len() - 1;
                ui.speed = if faster { (ui.speed + 1).min(last) } else { ui.speed.saturating_sub(1) };
                if let Some(playback) = self.context.playback().filter(|_| self.target.get().is_none()) {
                    playback.set_speed(ui.chosen_speed());
                }
            }
            Some(Action::Move(movement)) => return self.movement(movement, ui),
        }
        Flow::Continue
    }

    /// Moves in the capture: forwards by playing faster, backwards by playing a part of the capture again.
    fn movement(&self, movement: Movement, ui: &mut Ui) -> Flow {
        let (Some(playback), Some(replay)) = (self.context.playback(), &ui.view.replay) else {
            return Flow::Continue;
        };
        let now = self.target.get().unwrap_or_else(|| self.context.clock.wall());
        let wanted = match movement {
            Movement::Step { back, far } => {
                let step = if far { FAR_STEP } else { STEP };
                Some(if back { now.minus(step) } else { now.plus(step) })
            }
            Movement::Start => Some(replay.from),
            Movement::End => Some(replay.to),
            Movement::Incident { back: true } => {
                // A little before the incident counts as before it, so that the key leaves the present incident.
                replay.incidents.iter().copied().filter(|time| time.plus(Duration::from_secs(1)) < now).max()
            }
            Movement::Incident { back: false } => {
                replay.incidents.iter().copied().filter(|time| *time > now.plus(Duration::from_secs(1))).min()
            }
        };
        let Some(wanted) = wanted else {
            ui.view.message = Some("no further incident in this direction".to_owned());
            return Flow::Continue;
        };
        let wanted = wanted.clamp(replay.from, replay.to);
        if wanted < now {
            return Flow::PlayTo(wanted);
        }
        // A jump over more than the window needs only the window before its end.
        if wanted.duration_since(now) > WINDOW * 2 {
            return Flow::PlayTo(wanted);
        }
        self.target.set(Some(wanted));
        playback.pause(false);
        playback.set_speed(Speed::Max);
        Flow::Continue
    }

    /// Starts to diagnose the node and to write a bundle.
    fn save_bundle(&self, path: PathBuf, ui: &mut Ui) {
        if ui.bundle.is_running() {
            ui.view.message = Some("a bundle is being written already".to_owned());
            return;
        }
        ui.view.message = Some(format!("collecting a bundle for {}: this takes up to 30s", path.display()));
        let now = self.moment();
        let context = self.context.without_remarks();
        let (context, endpoint) = match self.endpoint {
            Endpoint::Own { scheme, name } => {
                let what = format!("{}@{}", split_path_and_time(name).0, now.wall);
                (context.at_endpoint(&format!("{CAPTURE}{what}")), Endpoint::Own { scheme, name: what })
            }
            endpoint => (context, endpoint.clone()),
        };
        let known = self.model().open().map(|open| CallersPendingCall {
            rpc: open.rpc,
            id: open.id.clone(),
            waited: now.mono.since(open.started),
            ended: None,
        });
        let known: Vec<CallersPendingCall> =
            known.into_iter().filter(|_| !matches!(endpoint, Endpoint::Own { .. })).collect();
        ui.bundle.start(async move {
            match Box::pin(save_bundle(&context, &endpoint, known, &path)).await {
                Ok(report) => {
                    format!("bundle ({}) in {}", report.verdict.as_str(), path.display())
                }
                Err(why) => format!("no bundle: {why}"),
            }
        });
    }

    /// Adds a line to the transitions if the pending call has been silent for long.
    fn note_silence(&self) {
        let now = self.moment();
        let mut model = self.model();
        model.last_list = self.shared_state.last_list();
        if let Some(waited) = self.silence.borrow_mut().due(model.open(), now.mono) {
            model.silence(now.wall, waited);
        }
    }

    /// Takes the kubelet's figures from the capture.
    fn read_recorded_kubelet(&self) {
        let Some(playback) = self.context.playback() else { return };
        let Some((sample, read)) = playback.kubelet_metrics() else { return };
        if self.kubelet_read.replace(Some(read)) != Some(read) {
            let metrics = sample.text.as_deref().and_then(|text| Metrics::parse(text).ok());
            self.model().kubelet = metrics.map(|metrics| KubeletFigures::of(&metrics, read));
        }
    }
}

/// The ticks of the screen, whose period depends on what runs.
struct Ticks {
    interval: Interval,
    period: Duration,
}

impl Ticks {
    fn new() -> Self {
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

/// Returns the columns and lines of the terminal.
fn size() -> (u16, u16) {
    let (lines, columns) = Context::terminal_size().unwrap_or_default();
    (u16::try_from(columns).unwrap_or(u16::MAX), u16::try_from(lines).unwrap_or(u16::MAX))
}

impl Ui {
    fn open(arguments: &TopArgs, context: &Context) -> std::io::Result<Self> {
        Ok(Self {
            stop_signals: StopSignals::listen(arguments.lasting)?,
            suspension: Suspension::listen()?,
            resized: signal(SignalKind::window_change())?,
            view: View::new(context.style().color, arguments.bundle.is_some()),
            bundle: SingleTask::default(),
            bundle_file: arguments.bundle.clone(),
            kubelet: SingleTask::default(),
            frozen: None,
            speed: 0,
            terminal: Terminal::open()?,
        })
    }

    /// Waits for the next happening.
    async fn next(&mut self, ticks: &mut Ticks, session: &Session<'_>) -> Happening {
        let period = match (session.target.get(), session.context.playback()) {
            (Some(_), _) => SEEK_TICK,
            (None, Some(_)) => REPLAY_TICK,
            (None, None) => TICK,
        };
        tokio::select! {
            biased;
            () = self.stop_signals.next() => Happening::End,
            () = self.suspension.requested() => Happening::Suspend,
            keys = self.terminal.keys() => Happening::Keys(keys),
            _ = self.resized.recv() => Happening::Resize,
            message = self.bundle.result() => Happening::Bundle(message),
            figures = self.kubelet.result() => Happening::Kubelet(figures),
            () = ticks.next(period) => Happening::Tick,
        }
    }

    fn chosen_speed(&mut self) -> Speed {
        let times = SPEEDS.get(self.speed).copied().unwrap_or(1);
        if let Some(replay) = &mut self.view.replay {
            replay.speed = format!("{times}×");
        }
        Speed::Times(times)
    }

    fn draw(&mut self, session: &Session<'_>) {
        let size = size();
        if size.0 == 0 {
            return;
        }
        let mut buffer = empty(size);
        if let Some(frozen) = &self.frozen {
            screen::draw(&mut buffer, &frozen.0, &self.view, frozen.1);
        } else {
            let mut model = session.model();
            model.last_list = session.shared_state.last_list();
            screen::draw(&mut buffer, &model, &self.view, session.moment());
        }
        self.terminal.show(buffer);
    }

    /// Reads the kubelet's metrics after a pause, if the port that `watch` reads at its start is open.
    fn watch_kubelet(&mut self, context: &Context) {
        let Some(port) = context.read_only_port() else { return };
        let clock = Arc::clone(&context.clock);
        self.kubelet.start(async move {
            tokio::time::sleep(KUBELET_PERIOD).await;
            let url = format!("http://127.0.0.1:{port}/metrics");
            let answer =
                http::get(&url, KUBELET_TIME_LIMIT).await.ok().filter(|answer| answer.status == 200)?;
            Some(KubeletFigures::of(&Metrics::parse(&answer.text()).ok()?, clock.wall()))
        });
    }
}
