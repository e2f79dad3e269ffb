//! Runs one watch: reports `WatchStarted`, then relists and reads the event stream until a signal, a limit or a
//! condition of `--until-…` ends the watch, and reports `WatchSummary`.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use super::reporter::Reporter;
use super::{TIMEOUT, WatchArgs, WatchMode};
use crate::capture::{self, PlaybackStep, Prediction};
use crate::clock::Mono;
use crate::cmd::diagnose::diagnose;
use crate::cmd::flags::list_calls;
use crate::cmd::render::watch as text;
use crate::cmd::serve::metrics_server::{self, ServedPages};
use crate::cmd::session::{ONE_SHOT_TIMEOUT, Session, runtime_ref};
use crate::cmd::term::stop_signals::{StopSignals, Suspension};
use crate::cmd::term::streams;
use crate::cmd::{Error, Exit, prediction};
use crate::cri::{self, Client, Endpoint, Runtime};
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{CallersPendingCall, HealthReport};
use crate::optional_future::{SingleTask, or_pending};
use crate::pleg::guarded_stream::{GuardedStream, StreamItem, StreamSettings};
use crate::pleg::readers::{StreamReaders, readers_of};
use crate::pleg::report::ListCallsReport;
use crate::pleg::silence::{SILENT_AFTER, SilenceTracker};
use crate::pleg::stream::{self, Health, Relist, WatchRecord, WatchStarted};
use crate::pleg::{GenericPleg, PlegSettings, PlegTiming, RelistTimer, SharedState, TimerAction};

/// How often health and the status line are checked while nothing else happens.
const TICK: Duration = Duration::from_millis(500);

/// A relist that lasts longer than this is diagnosed, even if each of its calls is answered.
const LONG_RELIST: Duration = Duration::from_secs(10);

/// The interval with `--until-slow`, because a slow call must be noticed quickly.
const SHORT_TICK: Duration = Duration::from_millis(50);

/// The interval while a capture is replayed, whose time may run faster than real time.
const REPLAY_TICK: Duration = Duration::from_millis(1);

/// A running watch.
pub struct WatchRun<'a> {
    client: Client,
    generic: GenericPleg,
    timer: RelistTimer,
    guarded_stream: Option<GuardedStream>,
    interruptions: Interruptions,
    started: Mono,
    state: WatchState<'a>,
    /// Whether the pause that the replayed capture requested is over.
    waited: bool,
    /// The last diagnosis of a slow relist.
    diagnosis: Option<HealthReport>,
    /// Whether a diagnosis was made while the relist that ended the watch was running.
    diagnosed: bool,
    /// What a kubelet of this release sees and this watch cannot.
    not_seen: Option<&'static str>,
}

/// The external events that interrupt a wait.
struct Interruptions {
    stop_signals: StopSignals,
    suspension: Option<Suspension>,
    ticks: Interval,
}

/// An interruption of a wait.
enum WatchInterruption {
    /// The watch ends.
    End(WatchEndReason),
    /// The process is suspended.
    Suspend,
    /// Health and the status line are checked.
    Tick,
    /// The event stream has an item.
    Stream(StreamItem),
}

/// Why a watch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchEndReason {
    /// A signal, `--count` or `--for` ended it.
    Requested,
    /// The condition of `--until-…` is true; with a description.
    ConditionMet(String),
    /// The output has no reader any more.
    NoReader,
}

impl<'a> WatchRun<'a> {
    /// Connects to the runtime and reports the start of the watch.
    pub async fn open(arguments: &'a WatchArgs, session: &'a Session) -> Result<Self, Error> {
        let client = session.client(TIMEOUT);
        let version_deadline = session.node.global.timeout.unwrap_or(ONE_SHOT_TIMEOUT).min(ONE_SHOT_TIMEOUT);
        let version = client.clone().with_deadline(version_deadline).version().await.result?;
        let streams = arguments.mode != WatchMode::Generic;
        if streams {
            check_stream_readers(&version, arguments, session)?;
        }
        if let Some(playback) = session.playback() {
            playback.play(arguments.speed);
        }
        let (kubelet, kubelet_source) = session.node.release_or_default(arguments.kubelet_version).await;
        let (client, lists) = list_calls::choose(client, session, Some(kubelet)).await;
        if let Some(note) = kubelet.note() {
            session.node.remark(&note);
        }
        kubelet.inferred().into_iter().for_each(|inferred| session.node.note(1, inferred));
        if arguments.no_inspect {
            session.node.remark("no status calls (--no-inspect): plegctl will not see one that hangs");
        }
        // From 1.37 on, EventedPLEG only relists a pod at once when the stream reports a stopped container.
        let stream_is_hint = arguments.mode == WatchMode::Evented && kubelet.evented_is_a_hint();
        if stream_is_hint {
            session.node.remark(&format!(
                "kubelet {kubelet}: its EventedPLEG relists every second and also lists the pod of a \
                 container that stopped (according to its code; no recording confirms it)"
            ));
        }
        let evented_gate = arguments.mode == WatchMode::Evented && !stream_is_hint;
        let shared_state = Arc::new(SharedState::new(evented_gate));
        serve_metrics(arguments, &shared_state)?;
        let guarded_stream = streams.then(|| {
            let settings = StreamSettings {
                retries: if stream_is_hint { 1 } else { arguments.stream.retries.get() },
                max_age: arguments.stream.max_stream,
                guarded: matches!(session.endpoint, Endpoint::Unix { .. }),
                hint: stream_is_hint,
            };
            // In compare mode, the two PLEGs must not share their state.
            let shared_state =
                if evented_gate { Arc::clone(&shared_state) } else { Arc::new(SharedState::new(true)) };
            GuardedStream::new(
                client.clone(),
                version.clone(),
                Arc::clone(&session.node.clock),
                shared_state,
                settings,
            )
        });
        let settings = PlegSettings { era: kubelet.era(), evented_gate, inspect: !arguments.no_inspect };
        let default_timing = if stream_is_hint { PlegTiming::GENERIC } else { arguments.mode.timing() };
        let timing = PlegTiming {
            period: arguments.period.unwrap_or(default_timing.period),
            threshold: arguments.threshold.unwrap_or(default_timing.threshold),
        };
        let reporter = Reporter::open(arguments, &version, session)?;
        let watch_run = Self {
            client,
            generic: GenericPleg::new(Arc::clone(&shared_state), settings),
            timer: RelistTimer::start(timing, session.node.clock.mono()),
            guarded_stream,
            interruptions: Interruptions::listen(arguments, streams, session.playback().is_some())
                .map_err(Error::Start)?,
            started: session.node.clock.mono(),
            state: WatchState {
                arguments,
                session,
                reporter,
                shared_state,
                healthy: Cell::default(),
                silence: Cell::default(),
                threshold: Cell::new(timing.threshold),
            },
            waited: false,
            diagnosis: None,
            diagnosed: false,
            not_seen: kubelet.era().unseen().filter(|_| arguments.mode != WatchMode::Evented),
        };
        watch_run.state.reporter.started(WatchStarted {
            time: session.node.clock.wall(),
            node: session.node_name(),
            runtime: runtime_ref(&session.endpoint, version),
            mode: arguments.mode.as_str().to_owned(),
            period_seconds: timing.period.into(),
            threshold_seconds: timing.threshold.into(),
            kubelet_version: kubelet.to_string(),
            kubelet_version_source: Some(kubelet_source.to_owned()),
            list_calls: Some(ListCallsReport::of(&lists)),
            not_seen: watch_run.not_seen.map(str::to_owned),
        });
        Ok(watch_run)
    }

    /// Relists, and reads the stream if there is one, until something ends the watch.
    pub async fn run(mut self) -> Result<Exit, Error> {
        let end = loop {
            if self.generic.relists() > 0 {
                self.open_stream_if_due().await?;
            }
            // After some ends of the event stream, it may be opened again only after a full relist.
            let ended = if self.guarded_stream.as_ref().is_some_and(GuardedStream::needs_relist) {
                // There are no relists while nobody reads the output.
                match self.wait(Duration::ZERO, |_| false).await? {
                    None => self.relist(true).await?,
                    ended => ended,
                }
            } else {
                match self.next_action() {
                    Some(TimerAction::Relist) => self.relist(false).await?,
                    Some(TimerAction::Wait(until)) => {
                        let hint = self.guarded_stream.as_mut().and_then(GuardedStream::take_hint);
                        if let Some(uid) = hint {
                            self.relist_pod(&uid).await?
                        } else {
                            let pause = until.since(self.state.session.node.clock.mono());
                            self.wait(pause, GuardedStream::is_due).await?
                        }
                    }
                    None => Some(WatchEndReason::Requested),
                }
            };
            if let Some(end) = ended {
                break end;
            }
        };
        if matches!(end, WatchEndReason::ConditionMet(_)) && !self.diagnosed {
            // No call is pending: the condition became true after a call or in a pause.
            let given_up = self.state.reporter.given_up();
            let diagnosis = diagnose(self.state.session, Vec::new(), given_up, WantedDump::Auto);
            self.diagnosis = tokio::select! {
                report = diagnosis => report.ok(),
                () = self.interruptions.stop_signals.next() => None,
            };
        }
        self.finish(&end)
    }

    /// Returns what to do next; `None` at the end of a capture.
    fn next_action(&mut self) -> Option<TimerAction> {
        let session = self.state.session;
        if let Some(playback) = session.playback() {
            // A capture defines the moments of its relists.
            let waited = std::mem::take(&mut self.waited);
            return match playback.next(waited) {
                PlaybackStep::Relist => Some(TimerAction::Relist),
                PlaybackStep::End => None,
                PlaybackStep::Wait(length) => {
                    self.waited = true;
                    Some(TimerAction::Wait(session.node.clock.mono().plus(length)))
                }
            };
        }
        Some(self.timer.next(session.node.clock.mono()))
    }

    /// Relists one pod, because the event stream reported a stopped container of that pod.
    async fn relist_pod(&mut self, uid: &str) -> Result<Option<WatchEndReason>, Error> {
        let Self { generic, client, interruptions, state, guarded_stream, .. } = self;
        let clock = &*state.session.node.clock;
        let started = clock.mono();
        let mut sink = &state.reporter;
        let mut relist = pin!(generic.relist_pod(uid, client, clock, &mut sink));
        loop {
            let interruption = tokio::select! {
                biased;
                () = &mut relist => return Ok(None),
                interruption = interruptions.next(&state.reporter, guarded_stream.as_mut()) => interruption,
            };
            if let Some(end) = state.handle(interruption, guarded_stream.as_mut(), Some(started)).await? {
                return Ok(Some(end));
            }
        }
    }

    /// Makes one relist; returns `Some` if the watch is over. A relist that the stream requires (`is_extra`) does not
    /// move the next regular relist.
    async fn relist(&mut self, is_extra: bool) -> Result<Option<WatchEndReason>, Error> {
        let Self {
            generic,
            client,
            interruptions,
            state,
            diagnosis: found,
            diagnosed,
            timer,
            guarded_stream,
            ..
        } = self;
        let WatchState { arguments, session, reporter, .. } = &*state;
        let clock = &*session.node.clock;
        let started = clock.mono();
        if let Some(guarded_stream) = guarded_stream {
            // A later problem of the stream requires another relist.
            guarded_stream.relist_begins();
        }
        // If the last relist had to give up a call, the hang goes on.
        let hangs = !reporter.given_up().is_empty();
        let predicted = found.take().filter(|_| hangs).as_ref().and_then(prediction::prediction);
        reporter.relist_begins();
        let mut sink = reporter;
        let report = {
            let task = SingleTask::default();
            let mut diagnosis = RelistDiagnosis { session, reporter, task, predicted, begun: false };
            let mut relist = pin!(generic.relist(client, clock, &mut sink));
            let ended = loop {
                let interruption = tokio::select! {
                    biased;
                    report = &mut relist => break Ok(report),
                    report = diagnosis.finished() => {
                        reporter.short_diagnosis(&report);
                        *found = Some(report);
                        continue;
                    }
                    interruption = interruptions.next(reporter, guarded_stream.as_mut()) => interruption,
                };
                match state.handle(interruption, guarded_stream.as_mut(), Some(started)).await? {
                    Some(WatchEndReason::ConditionMet(what)) => break Err(what),
                    Some(end) => return Ok(Some(end)),
                    None => {}
                }
                let now = clock.mono();
                let is_long = now.since(started) >= LONG_RELIST;
                if arguments.diagnose && (is_long || reporter.open_call(now).1 >= SILENT_AFTER) {
                    diagnosis.begin();
                }
            };
            match ended {
                Ok(report) => report,
                Err(what) => {
                    // The pending call continues during the diagnosis, which does not repeat it.
                    diagnosis.begin();
                    *diagnosed = true;
                    let ended = tokio::select! {
                        ended = diagnosis.finished_during(&mut relist, found) => ended,
                        () = interruptions.stop_signals.next() => None,
                    };
                    let (open, waited) = reporter.open_call(clock.mono());
                    let so_far = clock.mono().since(started);
                    let outcome = text::relist_outcome(ended.as_ref(), open.as_ref(), waited, so_far);
                    if let Some(report) = ended {
                        reporter.relist(report);
                    }
                    return Ok(Some(WatchEndReason::ConditionMet(format!("{what}\n{outcome}"))));
                }
            }
        };
        if !is_extra {
            timer.relisted(clock.mono());
        }
        if let Some(guarded_stream) = guarded_stream {
            let (pods, listed) = generic.pods();
            guarded_stream.remove_unlisted(pods, listed);
        }
        let slow = arguments.until_slow.and_then(|limit| text::slow_relist(&report, limit));
        reporter.relist(report);
        if let Some(end) = state.check_all(None).or(slow.map(WatchEndReason::ConditionMet)) {
            return Ok(Some(end));
        }
        self.open_stream_if_due().await?;
        let is_last = self.state.arguments.count.is_some_and(|count| self.generic.relists() >= count.get());
        Ok(is_last.then_some(WatchEndReason::Requested))
    }

    /// Opens the event stream again if its pause is over. If it has failed too often, continues with relists only.
    async fn open_stream_if_due(&mut self) -> Result<(), Error> {
        let Some(guarded_stream) = &mut self.guarded_stream else { return Ok(()) };
        let reporter = &self.state.reporter;
        let fell_back = match guarded_stream.open_if_due(reporter).await.map_err(Error::Guard) {
            Ok(fell_back) => fell_back,
            // The process may have reached a limit since the last stream, so a later attempt may succeed.
            Err(why) if guarded_stream.was_open() => {
                guarded_stream.postpone(&format!("{why}; next attempt in half a minute"), reporter);
                false
            }
            Err(why) => return Err(why),
        };
        if fell_back && self.state.arguments.mode == WatchMode::Evented && !guarded_stream.is_hint() {
            self.timer.restart(PlegTiming::GENERIC, self.state.session.node.clock.mono());
            self.state.threshold.set(self.timer.timing().threshold);
        }
        Ok(())
    }

    /// Waits for `length` and until the writers have room, or until `is_over` is true of the stream.
    async fn wait(
        &mut self,
        length: Duration,
        is_over: fn(&GuardedStream) -> bool,
    ) -> Result<Option<WatchEndReason>, Error> {
        let Self { interruptions, state, guarded_stream, .. } = self;
        let reporter = &state.reporter;
        let mut wait = pin!(async {
            tokio::time::sleep(length).await;
            reporter.wait_for_room().await;
        });
        while !guarded_stream.as_ref().is_some_and(is_over) {
            let interruption = tokio::select! {
                biased;
                () = &mut wait => break,
                interruption = interruptions.next(reporter, guarded_stream.as_mut()) => interruption,
            };
            if let Some(end) = state.handle(interruption, guarded_stream.as_mut(), None).await? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Prints the diagnosis and the summary, and returns the exit status.
    fn finish(mut self, end: &WatchEndReason) -> Result<Exit, Error> {
        let WatchState { arguments, session, reporter, .. } = self.state;
        if let Some(mut guarded_stream) = self.guarded_stream.take() {
            guarded_stream.release("the watch is over", &reporter);
        }
        let clock = &session.node.clock;
        let compare = reporter.compared();
        let (mut summary, ranges) = {
            let mut totals = reporter.totals();
            let ranges = totals.relists.ranges();
            (totals.summary(clock.wall(), clock.mono()), ranges)
        };
        summary.compare = compare.map(Box::new);
        let lasted = clock.mono().since(self.started);
        if let WatchEndReason::ConditionMet(what) = end {
            reporter.lines(what.lines().map(str::to_owned));
        }
        if let Some(report) =
            self.diagnosis.as_ref().filter(|_| matches!(end, WatchEndReason::ConditionMet(_)))
        {
            reporter.diagnosis(report, session.node.global.style().color)?;
        }
        reporter.fold_backlog(true);
        reporter.lines(text::summary(&summary, lasted, &ranges));
        let missed = summary.compare.as_ref().is_some_and(|compared| compared.missed_by_relisting > 0);
        reporter.lines(self.not_seen.filter(|_| missed).map(text::not_seen));
        reporter.json(&WatchRecord::WatchSummary(summary));
        reporter.close(arguments.log.as_deref())?;
        Ok(match end {
            WatchEndReason::ConditionMet(_) => Exit::Bad,
            WatchEndReason::Requested | WatchEndReason::NoReader => Exit::Good,
        })
    }
}

impl Interruptions {
    fn listen(arguments: &WatchArgs, streams: bool, played: bool) -> std::io::Result<Self> {
        let period = match (played, arguments.until_slow) {
            (true, _) => REPLAY_TICK,
            (false, Some(_)) => SHORT_TICK,
            (false, None) => TICK,
        };
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            stop_signals: StopSignals::listen(arguments.lasting)?,
            // Without a stream, nothing has to be closed before a suspension.
            suspension: streams.then(Suspension::listen).transpose()?,
            ticks,
        })
    }

    /// Waits for the next interruption.
    async fn next(
        &mut self,
        reporter: &Reporter,
        guarded_stream: Option<&mut GuardedStream>,
    ) -> WatchInterruption {
        let Self { stop_signals, suspension, ticks } = self;
        tokio::select! {
            biased;
            () = stop_signals.next() => WatchInterruption::End(WatchEndReason::Requested),
            () = reporter.broken() => WatchInterruption::End(WatchEndReason::NoReader),
            () = or_pending(suspension.as_mut().map(Suspension::requested)) => WatchInterruption::Suspend,
            _ = ticks.tick() => WatchInterruption::Tick,
            item = or_pending(guarded_stream.map(|guarded_stream| guarded_stream.next_item(reporter.wait_for_room()))) => WatchInterruption::Stream(item),
        }
    }
}

/// Refuses to read the event stream if that takes events away from the kubelet. A capture does not contain
/// the stream.
fn check_stream_readers(
    version: &cri::Version,
    arguments: &WatchArgs,
    session: &Session,
) -> Result<(), Error> {
    if session.playback().is_some() {
        let why = "a recorder does not read the event stream".to_owned();
        return Err(capture::not_recorded(cri::Rpc::GetContainerEvents, why).into());
    }
    match readers_of(version) {
        StreamReaders::Several => Ok(()),
        StreamReaders::Compete(why) if arguments.stream.steal_events => {
            session.node.remark(&format!("reading the event stream anyway (--steal-events): {why}"));
            Ok(())
        }
        StreamReaders::Compete(why) => Err(Error::StealsEvents(why)),
        StreamReaders::NoStream(why) => {
            session.node.remark(&format!(
                "{why}; this watch tries, fails and falls back to relists, as the kubelet would"
            ));
            Ok(())
        }
    }
}

/// A diagnosis that runs at most once during a relist, in parallel, and does not repeat the pending call.
struct RelistDiagnosis<'a> {
    session: &'a Session,
    reporter: &'a Reporter,
    task: SingleTask<'a, Result<HealthReport, Error>>,
    /// The time that the diagnosis of the last relist predicted.
    predicted: Option<Prediction>,
    begun: bool,
}

impl RelistDiagnosis<'_> {
    /// Starts the diagnosis, unless it was started before.
    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        let ended = self.reporter.pending_call_outcome();
        let given_up = self.reporter.given_up();
        let (open, waited) = self.reporter.open_call(self.session.node.clock.mono());
        let known =
            open.map(|open| CallersPendingCall { rpc: open.rpc, id: open.id, waited, ended: Some(ended) });
        let known = known.into_iter().collect();
        self.task.start(diagnose(self.session, known, given_up, WantedDump::Auto));
    }

    /// Returns the report when the diagnosis is finished; never returns if no diagnosis runs.
    async fn finished(&mut self) -> HealthReport {
        loop {
            if let Some(report) = self.result().await {
                return report;
            }
        }
    }

    /// Waits for the diagnosis. Its report keeps a time that was predicted earlier for the same hang.
    async fn result(&mut self) -> Option<HealthReport> {
        let mut report = self.task.result().await.ok()?;
        prediction::keep(&mut report, self.predicted.as_ref());
        Some(report)
    }

    /// Waits for the diagnosis while the relist continues. Returns the relist's report, if the relist has ended
    /// before the diagnosis.
    async fn finished_during(
        &mut self,
        relist: &mut Pin<&mut impl Future<Output = Relist>>,
        found: &mut Option<HealthReport>,
    ) -> Option<Relist> {
        if !self.task.is_running() {
            return None;
        }
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                report = &mut *relist, if ended.is_none() => ended = Some(report),
                report = self.result() => {
                    *found = report;
                    return ended;
                }
            }
        }
    }
}

/// The parts of a watch that handle interruptions during a relist or a pause.
struct WatchState<'a> {
    arguments: &'a WatchArgs,
    session: &'a Session,
    reporter: Reporter,
    shared_state: Arc<SharedState>,
    /// PLEG's health as it was reported last; `None` before the first report.
    healthy: Cell<Option<bool>>,
    silence: Cell<SilenceTracker>,
    threshold: Cell<Duration>,
}

impl WatchState<'_> {
    /// Handles an interruption; returns `Some` if the watch is over. `relist` is when the current relist began.
    async fn handle(
        &self,
        interruption: WatchInterruption,
        mut guarded_stream: Option<&mut GuardedStream>,
        relist: Option<Mono>,
    ) -> Result<Option<WatchEndReason>, Error> {
        match interruption {
            WatchInterruption::End(end) => return Ok(Some(end)),
            WatchInterruption::Suspend => {
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.release("closed by plegctl before it was suspended", &self.reporter);
                }
                Suspension::stop_here().await.map_err(Error::Start)?;
            }
            WatchInterruption::Tick => {
                if let Some(guarded_stream) = &mut guarded_stream {
                    guarded_stream.check(&self.reporter);
                }
                return Ok(self.check_all(relist));
            }
            WatchInterruption::Stream(item) => {
                if let Some(guarded_stream) = guarded_stream {
                    guarded_stream.handle(item, &self.reporter);
                }
            }
        }
        Ok(None)
    }

    /// Checks health and slowness, and updates the status line. `relist` is when the current relist began.
    fn check_all(&self, relist: Option<Mono>) -> Option<WatchEndReason> {
        let clock = &*self.session.node.clock;
        let verdict = self.shared_state.check(clock, self.threshold.get());
        let healthy = verdict.is_ok();
        let message = verdict.err().map(|why| why.to_string()).unwrap_or_default();
        // Before the first relist, PLEG counts as unhealthy, as in the kubelet. This is not reported until the first
        // relist has ended or has taken longer than the threshold.
        let undecided = self.healthy.get().is_none()
            && relist.is_some_and(|since| clock.mono().since(since) <= self.threshold.get());
        if !undecided && self.healthy.replace(Some(healthy)) != Some(healthy) {
            self.reporter.health(Health { time: clock.wall(), healthy, message: message.clone() });
        }
        self.reporter.fold_backlog(false);
        if self.reporter.is_live() {
            let color = if healthy || undecided { "" } else { text::RED };
            self.reporter.status(self.status_line(), color);
        }
        let silent = {
            let totals = self.reporter.totals();
            let mut silence = self.silence.get();
            let due = silence.due(totals.open.as_ref(), clock.mono());
            self.silence.set(silence);
            due.zip(totals.open.clone())
        };
        if let Some((waited, open)) = silent {
            self.reporter.silence(stream::Silence {
                time: clock.wall(),
                rpc: open.rpc.name().to_owned(),
                pod: open.pod,
                id: open.id,
                waited_seconds: waited.into(),
            });
        }
        if !healthy && !undecided && self.arguments.until_unhealthy {
            return Some(WatchEndReason::ConditionMet(format!("PLEG is not healthy: {message}")));
        }
        let limit = self.arguments.until_slow?;
        let totals = self.reporter.totals();
        let waited = clock.mono().since(relist?);
        let call = totals.waiting(clock.mono()).unwrap_or_default();
        (waited.max(call) > limit)
            .then(|| WatchEndReason::ConditionMet(text::still_waiting(totals.open.as_ref(), call, waited)))
    }

    fn status_line(&self) -> String {
        let compared = self.reporter.compared();
        let totals = self.reporter.totals();
        let now = self.session.node.clock.mono();
        let waiting = totals.waiting(now).filter(|waited| *waited >= TICK).zip(totals.open.as_ref());
        let waiting = waiting.map(|(waited, open)| text::waiting(open, waited));
        let mut streams: Vec<String> = compared.as_ref().map(text::compare_status).into_iter().collect();
        if self.arguments.mode != WatchMode::Generic {
            streams.push(text::stream_status(&totals.stream_totals()));
        }
        let quantiles = totals.relists.quantiles();
        let status = text::LiveStatus {
            relists: totals.finished,
            age: self.shared_state.last_list().map(|last| now.since(last)),
            threshold: self.threshold.get(),
            recent: &totals.recent,
            quantiles: quantiles.as_ref(),
            pods: totals.pods,
            waiting: waiting.as_deref(),
            streams: &streams,
        };
        text::status(&status, streams::stdout_columns())
    }
}

/// Serves the metrics of a run, if the user wants them.
fn serve_metrics(arguments: &WatchArgs, shared_state: &Arc<SharedState>) -> Result<(), Error> {
    let Some(address) = arguments.metrics_listen else { return Ok(()) };
    let pages = ServedPages {
        shared_state: Arc::clone(shared_state),
        names: arguments.metric_names.into(),
        metrics: Arc::new(String::new),
        more: Arc::new(|_| None),
    };
    metrics_server::serve(address, pages).map(drop).map_err(|source| Error::Listen { address, source })
}
