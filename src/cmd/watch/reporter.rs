//! Turns the engine's records into output, and counts them.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use super::{WatchArgs, WatchMode, WatchOutput};
use crate::clock::{Clock, Mono};
use crate::cmd::Error;
use crate::cmd::context::Context;
use crate::cmd::queued_output::QueuedOutput;
use crate::cmd::render::health::{Style, screen};
use crate::cmd::render::json;
use crate::cmd::render::watch::{self as text, Columns};
use crate::cri::{Outcome, ReceivedEvent, Version};
use crate::diagnosis::{CallEnd, CallersAbandonedCall, HealthReport};
use crate::optional_future::or_pending;
use crate::pleg::guarded_stream::StreamObserver;
use crate::pleg::readers::no_removal_events;
use crate::pleg::silence::SILENT_AFTER;
use crate::pleg::stream::{
    CompareSummary, Event, Health, Relist, Silence, Stream, WatchRecord, WatchStarted,
};
use crate::pleg::{CallRecord, Comparison, OpenCall, Sink, WatchTotals, document};
use crate::report::save;
use crate::threads::locked;

/// Writes the records to stdout and the log.
pub struct Reporter {
    view: QueuedOutput,
    output: WatchOutput,
    log: Option<QueuedOutput>,
    show_initial: bool,
    live: bool,
    clock: Arc<dyn Clock>,
    columns: Mutex<Columns>,
    tally: Mutex<WatchTotals>,
    /// Reports the end of the pending call to a running diagnosis.
    waited_for: Mutex<Option<watch::Sender<Option<CallEnd>>>>,
    /// The calls of this relist that were given up.
    given_up: Mutex<Vec<CallersAbandonedCall>>,
    comparison: Option<Mutex<Comparison>>,
}

impl Reporter {
    /// Opens stdout, and the log if there is one.
    pub fn open(arguments: &WatchArgs, version: &Version, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let output = arguments.output;
        let log = arguments.log.as_deref().map(|path| save::append(path).map(QueuedOutput::plain));
        let seen = output == WatchOutput::Table && Context::is_seen(&io::stdout());
        let live = seen && Context::can_rewrite();
        Ok(Self {
            view: match (live, seen) {
                (true, _) => QueuedOutput::terminal(),
                (false, true) => QueuedOutput::dumb_terminal(),
                (false, false) => QueuedOutput::plain(io::stdout()),
            },
            output,
            log: log.transpose()?,
            show_initial: arguments.initial,
            live,
            clock,
            columns: Mutex::default(),
            tally: Mutex::default(),
            waited_for: Mutex::default(),
            given_up: Mutex::default(),
            comparison: (arguments.mode == WatchMode::Compare).then(|| {
                let comparison = Comparison::default();
                Mutex::new(match no_removal_events(version) {
                    Some(why) => comparison.without_removals(why),
                    None => comparison,
                })
            }),
        })
    }

    /// Returns the counts and durations so far.
    pub fn tally(&self) -> MutexGuard<'_, WatchTotals> {
        locked(&self.tally)
    }

    /// Passes something to the comparison, if there is one, and reports the divergences that result.
    fn compare(&self, see: impl FnOnce(&mut Comparison)) {
        let Some(comparison) = &self.comparison else { return };
        let decided = {
            let mut comparison = locked(comparison);
            see(&mut comparison);
            comparison.take_divergences()
        };
        for divergence in decided {
            self.lines(text::divergence(&divergence));
            self.json(&WatchRecord::Divergence(divergence));
        }
    }

    /// Returns the summary of the comparison so far.
    pub fn compared(&self) -> Option<CompareSummary> {
        let comparison = locked(self.comparison.as_ref()?);
        let streamed = self.tally().stream_totals();
        Some(comparison.summary(&streamed))
    }

    /// Whether there is a status line.
    pub const fn is_live(&self) -> bool {
        self.live
    }

    /// Replaces the status line.
    pub fn status(&self, line: String) {
        if self.live {
            self.view.status(line);
        }
    }

    /// Reports the start of the watch.
    pub fn started(&self, started: WatchStarted) {
        self.json(&WatchRecord::WatchStarted(started));
    }

    /// Reports a finished relist.
    pub fn relist(&self, relist: Relist) {
        let slow = self.tally().is_slow(&relist);
        self.tally().relist(&relist);
        if self.output == WatchOutput::Table {
            if let Some(line) = text::failed_relist(&relist) {
                self.view.line(line);
            } else if relist.interval_seconds.is_none() && !self.show_initial {
                self.view.line(text::first_relist(&relist));
            }
            self.lines(text::slow(&relist).filter(|_| slow));
        }
        self.compare(|comparison| comparison.relist(&relist));
        self.json(&WatchRecord::Relist(relist));
    }

    /// Reports a change of PLEG's health.
    pub fn health(&self, health: Health) {
        if self.output == WatchOutput::Table {
            self.view.line(text::health(&health));
        }
        self.json(&WatchRecord::Health(health));
    }

    /// Reports a silent call.
    pub fn silence(&self, silence: Silence) {
        self.lines([text::silent(&silence)]);
        self.json(&WatchRecord::Silence(silence));
    }

    /// Prints lines for people; in JSON the records have the same facts.
    pub fn lines(&self, lines: impl IntoIterator<Item = String>) {
        if self.output == WatchOutput::Table {
            lines.into_iter().for_each(|line| self.view.line(line));
        }
    }

    /// Returns the pending call, and how long it has been pending.
    pub fn open_call(&self, now: Mono) -> (Option<OpenCall>, Duration) {
        let tally = self.tally();
        (tally.open.clone(), tally.waiting(now).unwrap_or_default())
    }

    /// Returns a receiver for the outcome of the pending call.
    pub fn when_ended(&self) -> watch::Receiver<Option<CallEnd>> {
        let (sender, ended) = watch::channel(None);
        *locked(&self.waited_for) = Some(sender);
        ended
    }

    /// Notes the start of a relist, which makes every call again.
    pub fn relist_begins(&self) {
        locked(&self.given_up).clear();
    }

    /// Returns the calls of this relist that were given up.
    pub fn given_up(&self) -> Vec<CallersAbandonedCall> {
        locked(&self.given_up).clone()
    }

    /// Prints a diagnosis in one line, during the problem.
    pub fn diagnosed(&self, report: &HealthReport) {
        self.lines([text::diagnosis(self.clock.wall(), report)]);
        self.write_json(report);
    }

    /// Prints a diagnosis.
    pub fn diagnosis(&self, report: &HealthReport, color: bool) -> io::Result<()> {
        let mut text = Vec::new();
        // The diagnosis scrolls with the other lines, so only the width of the terminal matters.
        let terminal = Context::terminal_size().map(|(_, columns)| (usize::MAX, columns));
        screen(report, &mut text, Style { color: color && self.live, terminal, ..Style::default() })?;
        self.lines(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        self.write_json(report);
        Ok(())
    }

    /// Writes one record as JSON, where JSON is wanted.
    pub fn json(&self, record: &WatchRecord) {
        self.write_json(&document(record));
    }

    fn write_json(&self, document: &impl Serialize) {
        if self.output != WatchOutput::Jsonl && self.log.is_none() {
            return;
        }
        // Our own documents have string keys only, so writing them cannot fail.
        let Some(line) = json::text(document) else { return };
        if self.output == WatchOutput::Jsonl {
            self.view.line(line.clone());
        }
        if let Some(log) = &self.log {
            log.line(line);
        }
    }

    /// Waits until the writers have room in their queues.
    pub async fn wait_for_room(&self) {
        self.view.wait_for_room().await;
        if let Some(log) = &self.log {
            log.wait_for_room().await;
        }
    }

    /// Resolves when a destination accepts no more lines.
    pub async fn broken(&self) {
        tokio::select! {
            () = self.view.broken() => {}
            () = or_pending(self.log.as_ref().map(QueuedOutput::broken)) => {}
        }
    }

    /// Writes the queued lines.
    pub fn close(self, log_path: Option<&Path>) -> Result<(), Error> {
        let view = match self.view.close() {
            // A blocked terminal loses no data that anybody needs.
            Err(why) if why.kind() == io::ErrorKind::TimedOut => Ok(()),
            view => view,
        };
        if let (Some(log), Some(path)) = (self.log, log_path) {
            log.close().map_err(|source| Error::Write(save::Error { path: path.to_path_buf(), source }))?;
        }
        view.map_err(Error::Output)
    }
}

impl StreamObserver for Reporter {
    fn stream(&self, stream: Stream) {
        self.tally().stream(&stream);
        self.lines([text::stream(&stream)]);
        self.compare(|comparison| comparison.stream(&stream));
        self.json(&WatchRecord::Stream(stream));
    }

    fn dropped(&self, events: u64, notice: Stream) {
        self.tally().dropped(events);
        self.stream(notice);
    }

    fn event_received(&self, event: &ReceivedEvent) {
        self.tally().stream_event(event);
        self.compare(|comparison| comparison.stream_event(event));
    }

    fn stream_failed(&self) {
        self.tally().stream_failed();
    }

    fn crowded(&self) {
        self.tally().crowded();
    }

    fn sink(&self) -> Box<dyn Sink + '_> {
        Box::new(self)
    }
}

impl Sink for &Reporter {
    fn event(&mut self, event: Event) {
        self.tally().event(&event);
        if self.output == WatchOutput::Table && (self.show_initial || !event.initial) {
            let mut columns = locked(&self.columns);
            self.view.row(text::event(&event, &mut columns));
        }
        let seen = self.comparison.is_some().then(|| event.clone());
        self.json(&WatchRecord::Event(event));
        self.compare(|comparison| seen.iter().for_each(|event| comparison.event(event)));
    }

    fn call_started(&mut self, call: &OpenCall) {
        self.tally().open = Some(call.clone());
    }

    fn call_finished(&mut self, call: &CallRecord) {
        let open = self.tally().open.clone();
        self.tally().call(call);
        let took = call.duration_seconds.duration();
        let given_up = call.outcome == Outcome::Silent;
        if let Some(sender) = locked(&self.waited_for).take() {
            sender.send_replace(Some(if given_up {
                CallEnd::GivenUp(took)
            } else {
                CallEnd::Answered(took)
            }));
        }
        if let Some(open) = open.filter(|_| given_up) {
            let given_up = CallersAbandonedCall { rpc: open.rpc, id: open.id, waited: took };
            locked(&self.given_up).push(given_up);
        }
        if call.duration_seconds.duration() >= SILENT_AFTER {
            self.lines([text::answered_late(self.clock.wall(), call)]);
        }
    }
}
