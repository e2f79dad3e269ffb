//! Runs one watch, from `WatchStarted` to `WatchSummary`.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use super::reporter::Reporter;
use super::{TIMEOUT, WatchArgs, WatchMode};
use crate::capture::{self, PlaybackStep};
use crate::clock::Mono;
use crate::cmd::context::{Context, ONE_SHOT_TIMEOUT, runtime_ref};
use crate::cmd::health::diagnose;
use crate::cmd::metrics_server;
use crate::cmd::render::watch as text;
use crate::cmd::stop_signals::{StopSignals, Suspension};
use crate::cmd::{Error, Exit};
use crate::cri::{self, Client, Endpoint, Runtime};
use crate::diagnosis::stacks::Wanted;
use crate::diagnosis::{CallersPendingCall, HealthReport};
use crate::optional_future::{SingleTask, or_pending};
use crate::pleg::guarded_stream::{GuardedStream, RecordedStream, StreamItem, StreamSettings};
use crate::pleg::readers::{StreamReaders, readers_of};
use crate::pleg::silence::{SILENT_AFTER, SilenceTracker};
use crate::pleg::stream::{self, Health, Relist, WatchRecord, WatchStarted};
use crate::pleg::{
    GenericPleg, KubeletVersion, PlegSettings, PlegTiming, RelistTimer, SharedState, TimerAction,
};

/// How often health and the status line are checked while nothing else happens.
const TICK: Duration = Duration::from_millis(500);

/// A relist that lasts longer than this is diagnosed, even if each of its calls is answered.
const LONG_RELIST: Duration = Duration::from_secs(10);

/// The tick with `--until-slow`, which has to notice a slow call quickly.
const SHORT_TICK: Duration = Duration::from_millis(50);

/// The tick while a capture is played, whose time may pass quickly.
const PLAYED_TICK: Duration = Duration::from_millis(1);

/// A running watch.
pub struct WatchRun<'a> {
    endpoint: Endpoint,
    client: Client,
    generic: GenericPleg,
    timer: RelistTimer,
    guarded_stream: Option<GuardedStream>,
    interruptions: Interruptions,
    started: Mono,
    state: WatchState<'a>,
    /// Whether the pause that the capture requested is over.
    waited: bool,
    /// The diagnosis of the slow relist that ended the watch.
    found: Option<HealthReport>,
    /// Whether that diagnosis was made while the slow relist was running.
    diagnosed: bool,
    /// What the kubelet sees and this watch cannot.
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
    pub async fn open(
        arguments: &'a WatchArgs,
        context: &'a Context,
        endpoint: &Endpoint,
    ) -> Result<Self, Error> {
        let client = context.client(endpoint, TIMEOUT)?;
        let greeting = context.timeout.unwrap_or(ONE_SHOT_TIMEOUT).min(ONE_SHOT_TIMEOUT);
        let version = client.clone().with_deadline(greeting).version().await.result?;
        let streams = arguments.mode != WatchMode::Generic;
        if streams {
            may_read(&version, arguments, context)?;
        }
        if let Some(playback) = context.playback() {
            playback.play(arguments.speed);
        }
        let (kubelet, kubelet_source) = kubelet_version(arguments, context).await;
        if let Some(note) = kubelet.note() {
            context.remark(&note);
        }
        if let Some(inferred) = kubelet.inferred() {
            context.note(1, inferred);
        }
        if arguments.no_inspect {
            context.remark("no status calls (--no-inspect): plegctl will not see one that hangs");
        }
        let hint = arguments.mode == WatchMode::Evented && kubelet.evented_is_a_hint();
        if hint {
            context.remark(&format!(
                "kubelet {kubelet}: its EventedPLEG relists every second and also lists the pod of a \
                 container that stopped (according to its code; no recording confirms it)"
            ));
        }
        let evented_gate = arguments.mode == WatchMode::Evented && !hint;
        let hub = Arc::new(SharedState::new(evented_gate));
        if let Some(address) = arguments.metrics_listen {
            let bound = metrics_server::serve(address, Arc::clone(&hub), Arc::new(String::new));
            bound.map_err(|source| Error::Listen { address, source })?;
        }
        let guarded_stream = streams.then(|| {
            let settings = StreamSettings {
                retries: if hint { 1 } else { arguments.stream.retries.get() },
                longest: arguments.stream.max_stream,
                guarded: matches!(endpoint, Endpoint::Unix { .. }),
                hint,
            };
            // In compare mode, the two PLEGs must not share their state.
            let hub = if evented_gate { Arc::clone(&hub) } else { Arc::new(SharedState::new(true)) };
            GuardedStream::new(client.clone(), version.clone(), Arc::clone(&context.clock), hub, settings)
                .replaying(context.playback().cloned().map(|playback| playback as Arc<dyn RecordedStream>))
        });
        let settings = PlegSettings { era: kubelet.era(), evented_gate, inspect: !arguments.no_inspect };
        let usual = if hint { PlegTiming::GENERIC } else { arguments.mode.timing() };
        let timing = PlegTiming {
            period: arguments.period.unwrap_or(usual.period),
            threshold: arguments.threshold.unwrap_or(usual.threshold),
        };
        let reporter = Reporter::open(arguments, &version, Arc::clone(&context.clock))?;
        let session = Self {
            endpoint: endpoint.clone(),
            client,
            generic: GenericPleg::new(Arc::clone(&hub), settings),
            timer: RelistTimer::start(timing, context.clock.mono()),
            guarded_stream,
            interruptions: Interruptions::listen(arguments, streams, context.playback().is_some())
                .map_err(Error::Start)?,
            started: context.clock.mono(),
            state: WatchState {
                arguments,
                context,
                reporter,
                hub,
                healthy: Cell::default(),
                silence: Cell::default(),
                threshold: Cell::new(timing.threshold),
            },
            waited: false,
            found: None,
            diagnosed: false,
            not_seen: kubelet.era().unseen().filter(|_| arguments.mode != WatchMode::Evented),
        };
        session.state.reporter.started(WatchStarted {
            time: context.clock.wall(),
            node: context.node_name(),
            runtime: runtime_ref(endpoint, version),
            mode: arguments.mode.as_str().to_owned(),
            period_seconds: timing.period.into(),
            threshold_seconds: timing.threshold.into(),
            kubelet_version: kubelet.to_string(),
            kubelet_version_source: Some(kubelet_source.to_owned()),
            not_seen: session.not_seen.map(str::to_owned),
        });
        Ok(session)
    }

    /// Relists, and reads the stream if there is one, until something ends the watch.
    pub async fn run(mut self) -> Result<Exit, Error> {
        let end = loop {
            if self.generic.relists() > 0 {
                self.attend().await?;
            }
            let ended = if self.owes_relist() {
                match self.wait_for_room().await? {
                    None => self.relist(true).await?,
                    ended => ended,
                }
            } else {
                match self.turn() {
                    Some(TimerAction::Relist) => self.relist(false).await?,
                    Some(TimerAction::Wait(until)) => {
                        match self.guarded_stream.as_mut().and_then(GuardedStream::take_hint) {
                            Some(uid) => self.relist_pod(&uid).await?,
                            None => self.pause(until).await?,
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
            let diagnosis =
                diagnose(self.state.context, &self.endpoint, Vec::new(), given_up, Wanted::Auto, None);
            self.found = tokio::select! {
                report = diagnosis => report.ok(),
                () = self.interruptions.stop_signals.next() => None,
            };
        }
        self.finish(&end)
    }

    fn owes_relist(&self) -> bool {
        self.guarded_stream.as_ref().is_some_and(GuardedStream::owes_relist)
    }

    /// Returns what to do next; `None` at the end of a capture.
    fn turn(&mut self) -> Option<TimerAction> {
        let context = self.state.context;
        if let Some(playback) = context.playback() {
            // A capture defines the moments of its relists.
            let waited = std::mem::take(&mut self.waited);
            return match playback.next(waited) {
                PlaybackStep::Relist => Some(TimerAction::Relist),
                PlaybackStep::End => None,
                PlaybackStep::Listen => {
                    if let Some(guarded_stream) = &mut self.guarded_stream {
                        guarded_stream.handle_ready(&self.state.reporter);
                    }
                    // The wait gives the reader of the output time.
                    Some(TimerAction::Wait(self.state.context.clock.mono()))
                }
                PlaybackStep::Wait(length) => {
                    self.waited = true;
                    Some(TimerAction::Wait(context.clock.mono().plus(length)))
                }
            };
        }
        Some(self.timer.next(context.clock.mono()))
    }

    /// Relists one pod, as a message of the stream requests.
    async fn relist_pod(&mut self, uid: &str) -> Result<Option<WatchEndReason>, Error> {
        let Self { generic, client, interruptions, state, guarded_stream, .. } = self;
        let clock = &*state.context.clock;
        let started = clock.mono();
        let mut sink = &state.reporter;
        let mut relist = pin!(generic.relist_pod(uid, client, clock, &mut sink));
        loop {
            let interruption = tokio::select! {
                biased;
                () = &mut relist => return Ok(None),
                interruption = interruptions.next(&state.reporter, guarded_stream.as_mut()) => interruption,
            };
            if let Some(end) = state.answer(interruption, guarded_stream.as_mut(), Some(started)).await? {
                return Ok(Some(end));
            }
        }
    }

    /// Makes one relist; returns `Some` if the watch is over. A relist that the stream requires does not
    /// change the period.
    async fn relist(&mut self, owed: bool) -> Result<Option<WatchEndReason>, Error> {
        let Self {
            generic,
            client,
            endpoint,
            interruptions,
            state,
            found,
            diagnosed,
            timer,
            guarded_stream,
            ..
        } = self;
        let WatchState { arguments, context, reporter, .. } = &*state;
        let clock = &*context.clock;
        let started = clock.mono();
        if let Some(guarded_stream) = guarded_stream {
            // A later problem of the stream requires another relist.
            guarded_stream.relisted();
        }
        *found = None;
        reporter.relist_begins();
        let mut sink = reporter;
        let report = {
            let mut diagnosis =
                Diagnosis { context, endpoint, reporter, task: SingleTask::default(), begun: false };
            let mut relist = pin!(generic.relist(client, clock, &mut sink));
            let ended = loop {
                let interruption = tokio::select! {
                    biased;
                    report = &mut relist => break Ok(report),
                    report = diagnosis.finished() => {
                        reporter.diagnosed(&report);
                        *found = Some(report);
                        continue;
                    }
                    interruption = interruptions.next(reporter, guarded_stream.as_mut()) => interruption,
                };
                match state.answer(interruption, guarded_stream.as_mut(), Some(started)).await? {
                    Some(WatchEndReason::ConditionMet(what)) => break Err(what),
                    Some(end) => return Ok(Some(end)),
                    None => {}
                }
                let now = clock.mono();
                let lasts = now.since(started) >= LONG_RELIST;
                if arguments.diagnose && (lasts || reporter.open_call(now).1 >= SILENT_AFTER) {
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
                    let became = text::went_on(ended.as_ref(), open.as_ref(), waited, so_far);
                    if let Some(report) = ended {
                        reporter.relist(report);
                    }
                    return Ok(Some(WatchEndReason::ConditionMet(format!("{what}\n{became}"))));
                }
            }
        };
        if !owed {
            timer.relisted(clock.mono());
        }
        if let Some(guarded_stream) = guarded_stream {
            let (pods, listed) = generic.pods();
            guarded_stream.forget(pods, listed);
        }
        let slow = arguments.until_slow.and_then(|limit| text::slow_relist(&report, limit));
        reporter.relist(report);
        if let Some(end) = state.check_all(None).or(slow.map(WatchEndReason::ConditionMet)) {
            return Ok(Some(end));
        }
        self.attend().await?;
        let enough = self.state.arguments.count.is_some_and(|count| self.generic.relists() >= count.get());
        Ok(enough.then_some(WatchEndReason::Requested))
    }

    /// Opens the stream if it is due.
    async fn attend(&mut self) -> Result<(), Error> {
        let Some(guarded_stream) = &mut self.guarded_stream else { return Ok(()) };
        let fell_back = guarded_stream.open_if_due(&self.state.reporter).await.map_err(Error::Guard)?;
        if fell_back && self.state.arguments.mode == WatchMode::Evented && !guarded_stream.is_hint() {
            self.timer.restart(PlegTiming::GENERIC, self.state.context.clock.mono());
            self.state.threshold.set(self.timer.timing().threshold);
        }
        Ok(())
    }

    /// Waits until the next relist, and until the writers have room. The end of the stream ends the wait.
    async fn pause(&mut self, until: Mono) -> Result<Option<WatchEndReason>, Error> {
        let length = until.since(self.state.context.clock.mono());
        self.rest(length, GuardedStream::is_due).await
    }

    /// Waits until the writers have room: without a reader of the output there are no relists.
    async fn wait_for_room(&mut self) -> Result<Option<WatchEndReason>, Error> {
        self.rest(Duration::ZERO, |_| false).await
    }

    async fn rest(
        &mut self,
        length: Duration,
        enough: fn(&GuardedStream) -> bool,
    ) -> Result<Option<WatchEndReason>, Error> {
        let Self { interruptions, state, guarded_stream, .. } = self;
        let reporter = &state.reporter;
        let mut rest = pin!(async {
            tokio::time::sleep(length).await;
            reporter.wait_for_room().await;
        });
        while !guarded_stream.as_ref().is_some_and(enough) {
            let interruption = tokio::select! {
                biased;
                () = &mut rest => break,
                interruption = interruptions.next(reporter, guarded_stream.as_mut()) => interruption,
            };
            if let Some(end) = state.answer(interruption, guarded_stream.as_mut(), None).await? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn finish(mut self, end: &WatchEndReason) -> Result<Exit, Error> {
        let WatchState { arguments, context, reporter, .. } = self.state;
        if let Some(mut guarded_stream) = self.guarded_stream.take() {
            guarded_stream.release("the watch is over", &reporter);
        }
        let clock = &context.clock;
        let compare = reporter.compared();
        let (mut summary, ranges) = {
            let mut tally = reporter.tally();
            let ranges = tally.relists.ranges();
            (tally.summary(clock.wall(), clock.mono()), ranges)
        };
        summary.compare = compare.map(Box::new);
        let lasted = clock.mono().since(self.started);
        if let WatchEndReason::ConditionMet(what) = end {
            reporter.lines(what.lines().map(str::to_owned));
        }
        if let Some(report) = self.found.as_ref().filter(|_| matches!(end, WatchEndReason::ConditionMet(_))) {
            reporter.diagnosis(report, context.style().color)?;
        }
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
            (true, _) => PLAYED_TICK,
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

/// Returns the kubelet release that the watch follows, and its source.
async fn kubelet_version(arguments: &WatchArgs, context: &Context) -> (KubeletVersion, &'static str) {
    if let Some(version) = arguments.kubelet_version {
        return (version, "--kubelet-version");
    }
    match context.kubelet_release().await {
        Some(version) => (version, "the metrics of this node's kubelet"),
        None => (KubeletVersion::CONFIRMED, "the newest confirmed"),
    }
}

/// Checks whether the event stream of this runtime may be read.
fn may_read(version: &cri::Version, arguments: &WatchArgs, context: &Context) -> Result<(), Error> {
    if let Some(playback) = context.playback() {
        // Reading a capture takes no events away from anybody.
        return playback.stream().is_recorded().then_some(()).ok_or_else(|| {
            let why = "nobody read the event stream then".to_owned();
            capture::not_recorded(cri::Rpc::GetContainerEvents, why).into()
        });
    }
    match readers_of(version) {
        StreamReaders::Several => Ok(()),
        StreamReaders::Compete(why) if arguments.stream.steal_events => {
            context.remark(&format!("reading the event stream anyway (--steal-events): {why}"));
            Ok(())
        }
        StreamReaders::Compete(why) => Err(Error::StealsEvents(why)),
        StreamReaders::NoStream(why) => {
            context.remark(&format!(
                "{why}; this watch tries, fails and falls back to relists, as the kubelet would"
            ));
            Ok(())
        }
    }
}

/// A diagnosis that runs in parallel with a relist: once, and without repeating the pending call.
struct Diagnosis<'a> {
    context: &'a Context,
    endpoint: &'a Endpoint,
    reporter: &'a Reporter,
    task: SingleTask<'a, Result<HealthReport, Error>>,
    begun: bool,
}

impl Diagnosis<'_> {
    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        let ended = self.reporter.when_ended();
        let given_up = self.reporter.given_up();
        let (open, waited) = self.reporter.open_call(self.context.clock.mono());
        let known =
            open.map(|open| CallersPendingCall { rpc: open.rpc, id: open.id, waited, ended: Some(ended) });
        let known = known.into_iter().collect();
        self.task.start(diagnose(self.context, self.endpoint, known, given_up, Wanted::Auto, None));
    }

    /// Returns the report; waits for ever if no diagnosis runs.
    async fn finished(&mut self) -> HealthReport {
        loop {
            if let Ok(report) = self.task.result().await {
                return report;
            }
        }
    }

    /// Finishes the diagnosis while the relist continues. Returns the relist's report, if it has ended by
    /// then.
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
                report = self.task.result() => {
                    *found = report.ok();
                    return ended;
                }
            }
        }
    }
}

/// The parts of a watch that every interruption needs.
struct WatchState<'a> {
    arguments: &'a WatchArgs,
    context: &'a Context,
    reporter: Reporter,
    hub: Arc<SharedState>,
    healthy: Cell<Option<bool>>,
    silence: Cell<SilenceTracker>,
    threshold: Cell<Duration>,
}

impl WatchState<'_> {
    /// Handles an interruption.
    async fn answer(
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
        let clock = &*self.context.clock;
        let verdict = self.hub.check(clock, self.threshold.get());
        let healthy = verdict.is_ok();
        let message = verdict.err().map(|why| why.to_string()).unwrap_or_default();
        // The kubelet reports an unhealthy PLEG from its start; that means nothing until the first relist is
        // over.
        let undecided = self.healthy.get().is_none()
            && relist.is_some_and(|since| clock.mono().since(since) <= self.threshold.get());
        if !undecided && self.healthy.replace(Some(healthy)) != Some(healthy) {
            self.reporter.health(Health { time: clock.wall(), healthy, message: message.clone() });
        }
        if self.reporter.is_live() {
            self.reporter.status(self.status_line());
        }
        let silent = {
            let tally = self.reporter.tally();
            let mut silence = self.silence.get();
            let due = silence.due(tally.open.as_ref(), clock.mono());
            self.silence.set(silence);
            due.zip(tally.open.clone())
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
        let tally = self.reporter.tally();
        let waited = clock.mono().since(relist?);
        let call = tally.waiting(clock.mono()).unwrap_or_default();
        (waited.max(call) > limit)
            .then(|| WatchEndReason::ConditionMet(text::still_waiting(tally.open.as_ref(), call, waited)))
    }

    fn status_line(&self) -> String {
        let tally = self.reporter.tally();
        let waiting = tally
            .waiting(self.context.clock.mono())
            .filter(|waited| *waited >= TICK)
            .zip(tally.open.as_ref());
        let waiting = waiting.map(|(waited, open)| text::waiting(open, waited));
        let now = self.context.clock.mono();
        let mut line = text::status(&text::LiveStatus {
            relists: tally.finished,
            age: self.hub.last_list().map(|last| now.since(last)),
            threshold: self.threshold.get(),
            last: tally.relists.last(),
            quantiles: tally.relists.quantiles().as_ref(),
            pods: tally.pods,
            waiting: waiting.as_deref(),
        });
        if self.arguments.mode != WatchMode::Generic {
            line.push_str(&text::stream_status(&tally.stream_totals()));
        }
        drop(tally);
        if let Some(compared) = self.reporter.compared() {
            line.push_str(&text::compare_status(&compared));
        }
        line
    }
}
