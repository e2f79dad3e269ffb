//! Runs `top`: relists as `watch` does, reacts to keys and signals at any time, and updates the model. `seek` moves in a
//! capture, `actions` does what the keys ask for, and `ui` draws the screen.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::TopArgs;
use super::model::{KubeletFigures, LimitAhead, Model, WINDOW};
use super::screen::Moment;
use super::ui::{Happening, RECORDER_PERIOD, TICK, Ticks, Ui};
use super::view::ReplayPosition;
use crate::capture::Speed;
use crate::clock::{Clock, Mono, Wall};
use crate::cmd::flags::list_calls;
use crate::cmd::session::{ONE_SHOT_TIMEOUT, Session, runtime_ref};
use crate::cmd::{Error, Exit};
use crate::cri::{self, Client, Endpoint, Runtime};
use crate::diagnosis::calls::RelistSettings;
use crate::diagnosis::limits;
use crate::host;
use crate::host::proc::ProcessStat;
use crate::kubelet::{KubeletVersion, Metrics, timing};
use crate::pleg::silence::SilenceTracker;
use crate::pleg::stream::Event;
use crate::pleg::{
    CallRecord, GenericPleg, OpenCall, PlegSettings, PlegTiming, RelistTimer, SharedState, Sink, TimerAction,
};
use crate::stacks::sources::listening_pid;
use crate::threads::locked;

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

/// How the run goes on after a happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The run continues.
    Continue,
    /// The command ends.
    Quit,
    /// A new run plays the capture again from some time before this moment: see `seek`.
    Restart {
        /// The moment that the user wants to see.
        seek_to: Wall,
    },
}

/// One run of the engine: on a live node, or through a part of a capture.
pub struct EngineRun<'a> {
    pub session: &'a Session,
    model: Mutex<Model>,
    shared_state: Arc<SharedState>,
    silence: RefCell<SilenceTracker>,
    /// The moment of the capture that the user wants to see. Until the replay reaches it, the replay plays at full speed
    /// and the screen is not drawn. `None` on a live node, and while the replay plays at the chosen speed.
    pub seek_to: Cell<Option<Wall>>,
    /// The time of the kubelet's metrics that the model has from the capture.
    kubelet_read: Cell<Option<Wall>>,
    /// The moment for which the model has the limits from the capture.
    limits_read: Cell<Option<Wall>>,
    /// The process that listens on the socket of a live runtime.
    daemon: Cell<Option<u32>>,
    /// Whether the runtime has said its name and version.
    is_named: Cell<bool>,
}

/// Runs the command.
pub async fn run(arguments: &TopArgs, session: &Session) -> Result<Exit, Error> {
    let mut client = session.client(timing::REQUEST_TIMEOUT);
    let deadline = session.node.global.timeout.unwrap_or(ONE_SHOT_TIMEOUT).min(ONE_SHOT_TIMEOUT);
    let version = match client.clone().with_deadline(deadline).version().await.result {
        // The runtime may start while the screen is open; until then, each relist fails and says so.
        Err(cri::Error::NoSuchSocket { .. } | cri::Error::Refused { .. } | cri::Error::Silent { .. })
            if session.playback().is_none() =>
        {
            None
        }
        version => Some(version?),
    };
    let kubelet = match arguments.kubelet_version {
        Some(version) => version,
        None => session.node.kubelet_release().await.unwrap_or(KubeletVersion::CONFIRMED),
    };
    (client, _) = list_calls::choose(client, session, Some(kubelet)).await;
    let list_limit = session.kubelet_lists(Some(kubelet)).await.limit();
    let node = session.node_name();
    let settings = PlegSettings { era: kubelet.era(), evented_gate: false, inspect: !arguments.no_inspect };
    let mut ui = Ui::open(arguments, session).map_err(Error::Start)?;
    if let Some(playback) = session.playback() {
        ui.view.replay = ReplayPosition::of(playback);
    }
    // After a seek backwards: the session that replays the capture from an earlier moment.
    let mut restarted: Option<Session> = None;
    let mut wanted = None;
    loop {
        let session = restarted.as_ref().unwrap_or(session);
        let clock = &*session.node.clock;
        if let Some(playback) = session.playback() {
            playback.play(Speed::Max);
        }
        let timeout = session.node.global.timeout.unwrap_or(timing::REQUEST_TIMEOUT);
        let relists =
            RelistSettings { era: settings.era, timeout, threshold: arguments.threshold, list_limit };
        let mut model = Model::new(clock.mono(), relists);
        model.node.clone_from(&node);
        model.runtime = runtime_name(&session.endpoint, version.clone());
        let run = EngineRun {
            session,
            model: Mutex::new(model),
            shared_state: Arc::new(SharedState::new(false)),
            silence: RefCell::default(),
            // The first run of a replay seeks its own beginning, so that every replay begins in the same way.
            seek_to: Cell::new(session.playback().map(|_| wanted.unwrap_or_else(|| clock.wall()))),
            kubelet_read: Cell::default(),
            limits_read: Cell::default(),
            daemon: Cell::new(listener(&session.endpoint).await),
            is_named: Cell::new(version.is_some()),
        };
        let mut generic = GenericPleg::new(Arc::clone(&run.shared_state), settings);
        let flow = Box::pin(run.run(arguments, &client, &mut generic, &mut ui)).await?;
        let Flow::Restart { seek_to } = flow else { break };
        let Some(playback) = session.playback() else { break };
        let Some(start) = playback.capture().relist_before(seek_to.minus(WINDOW)) else { break };
        let next = session.at_moment(playback, start)?;
        client = next.client(timing::REQUEST_TIMEOUT);
        (client, _) = list_calls::choose(client, &next, Some(kubelet)).await;
        wanted = Some(seek_to);
        ui.frozen = None;
        if let Some(replay) = &mut ui.view.replay {
            replay.ended = false;
        }
        restarted = Some(next);
    }
    Ok(Exit::Good)
}

impl EngineRun<'_> {
    /// Locks the model.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        locked(&self.model)
    }

    /// Locks the model, after it has received the time of the last list. The engine changes this time at any moment of a
    /// relist.
    pub fn updated_model(&self) -> MutexGuard<'_, Model> {
        let mut model = self.model();
        model.last_list = self.shared_state.last_list();
        model
    }

    /// Returns the present moment; in a replay, the recorded one.
    pub fn moment(&self) -> Moment {
        Moment { mono: self.session.node.clock.mono(), wall: self.session.node.clock.wall() }
    }

    /// Relists until something ends the run.
    async fn run(
        &self,
        arguments: &TopArgs,
        client: &Client,
        generic: &mut GenericPleg,
        ui: &mut Ui,
    ) -> Result<Flow, Error> {
        let clock = &*self.session.node.clock;
        let timing = PlegTiming { period: arguments.period, threshold: arguments.threshold };
        let mut timer = RelistTimer::start(timing, clock.mono());
        let mut ticks = Ticks::new();
        // Whether the run has waited as long as the last step of the replay demanded.
        let mut waited = false;
        ui.watch_kubelet(self.session);
        ui.watch_recorder(self.session, Duration::ZERO);
        ui.draw(self);
        loop {
            let action = match self.session.playback() {
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
                    let (flow, is_over) = self.wait(until, ui, &mut ticks).await?;
                    waited &= is_over;
                    flow
                }
            };
            if flow != Flow::Continue {
                return Ok(flow);
            }
        }
    }

    /// Waits until `until`, and handles what happens meanwhile. Returns whether the time is over; a key that continues,
    /// pauses or moves a replay ends the wait earlier.
    async fn wait(&self, until: Mono, ui: &mut Ui, ticks: &mut Ticks) -> Result<(Flow, bool), Error> {
        let mut pause = pin!(tokio::time::sleep(until.since(self.session.node.clock.mono())));
        let was_paused = ui.view.paused;
        loop {
            let happening = tokio::select! {
                biased;
                () = &mut pause => return Ok((Flow::Continue, true)),
                happening = ui.next(ticks, self) => happening,
            };
            let flow = self.handle(happening, ui).await?;
            let has_changed = self.seek_to.get().is_some() || ui.view.paused != was_paused;
            if flow != Flow::Continue || (has_changed && self.session.playback().is_some()) {
                return Ok((flow, false));
            }
        }
    }

    /// Makes one relist.
    async fn relist(
        &self,
        client: &Client,
        generic: &mut GenericPleg,
        ui: &mut Ui,
        ticks: &mut Ticks,
    ) -> Result<Flow, Error> {
        let clock = &*self.session.node.clock;
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
            let error = self.shared_state.lock().list_error.clone();
            let mut model = self.model();
            model.relist_ended(&report, self.shared_state.last_list(), error, clock.mono());
            model.forget_old(clock.mono());
        }
        if !self.is_named.get() && report.error.is_none() {
            let version = client.clone().with_deadline(ONE_SHOT_TIMEOUT).version().await.result.ok();
            self.is_named.set(version.is_some());
            self.daemon.set(listener(&self.session.endpoint).await);
            self.model().runtime = runtime_name(&self.session.endpoint, version);
        }
        if self.seek_to.get().is_none() {
            ui.draw(self);
        }
        Ok(Flow::Continue)
    }

    /// Handles a happening, and draws the screen.
    async fn handle(&self, happening: Happening, ui: &mut Ui) -> Result<Flow, Error> {
        match happening {
            Happening::End | Happening::Keys(None) => return Ok(Flow::Quit),
            Happening::Suspend => {
                ui.suspend().await.map_err(Error::Start)?;
            }
            Happening::Resize => ui.redraw(),
            Happening::Tick => {
                self.note_silence();
                self.read_recorded_kubelet();
                if let (Some(wanted), Some(playback)) = (self.seek_to.get(), self.session.playback()) {
                    // A relist that runs at the wanted moment may have a pending call, so the seek cannot wait for its end.
                    if self.session.node.clock.wall() >= wanted {
                        self.finish_seek(playback, ui);
                    }
                    return Ok(Flow::Continue);
                }
                self.read_recorded_limits();
            }
            Happening::Bundle(message) => ui.view.message = Some(message),
            Happening::Kubelet(figures) => {
                let mut model = self.model();
                model.kubelet_age = figures.and_then(|figures| figures.pleg_age());
                model.kubelet = figures;
                drop(model);
                ui.watch_kubelet(self.session);
            }
            Happening::Limits(limits) => {
                self.model().limits = limits;
                ui.watch_recorder(self.session, RECORDER_PERIOD);
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

    /// Adds a line to the transitions if the pending call has been silent for long.
    fn note_silence(&self) {
        let now = self.moment();
        let mut model = self.updated_model();
        model.stopped_daemon = self.daemon.get().filter(|_| model.open().is_some()).and_then(stopped);
        if let Some(waited) = self.silence.borrow_mut().due(model.open(), now.mono) {
            model.silence(now.wall, waited);
        }
    }

    /// Takes the kubelet's figures from the capture.
    fn read_recorded_kubelet(&self) {
        let Some(playback) = self.session.playback() else { return };
        let Some((sample, read)) = playback.kubelet_metrics() else { return };
        let is_recent = self.session.node.clock.wall().duration_since(read) <= limits::RECORDED_READING;
        if self.kubelet_read.replace(Some(read)) != Some(read) {
            let metrics = sample.text.as_deref().and_then(|text| Metrics::parse(text).ok());
            self.model().kubelet = metrics.map(|metrics| KubeletFigures::from_metrics(&metrics, read));
        }
        // The kubelet may have relisted since an older reading.
        let mut model = self.model();
        model.kubelet_age = model.kubelet.filter(|_| is_recent).and_then(|figures| figures.pleg_age());
    }

    /// Takes the limits that will be reached from the samples in the capture.
    fn read_recorded_limits(&self) {
        let Some(playback) = self.session.playback() else { return };
        let now = self.session.node.clock.wall();
        if self.limits_read.get().is_none_or(|read| now.duration_since(read) >= RECORDER_PERIOD) {
            self.limits_read.set(Some(now));
            self.model().limits = LimitAhead::of(&playback.forecasts(), now);
        }
    }
}

/// Returns the runtime's name, version and endpoint, as far as they are known.
fn runtime_name(endpoint: &Endpoint, version: Option<cri::Version>) -> String {
    let runtime = version.map(|version| runtime_ref(endpoint, version));
    let (name, version) = runtime.map_or((None, None), |runtime| (runtime.name, runtime.version));
    [name, version, Some(endpoint.to_string())].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the process that listens on the socket of a live runtime.
async fn listener(endpoint: &Endpoint) -> Option<u32> {
    match endpoint {
        Endpoint::Unix { path, .. } => listening_pid(path).await,
        Endpoint::Sim { .. } | Endpoint::Custom { .. } => None,
    }
}

/// Returns the process with its state, if it is stopped.
fn stopped(pid: u32) -> Option<String> {
    let stat = ProcessStat::read(&host::proc().join(pid.to_string()))?;
    stat.is_stopped().then(|| format!("{}[{pid}] is stopped (state {})", stat.comm, stat.state))
}
