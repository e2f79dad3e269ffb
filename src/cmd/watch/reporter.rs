//! Prints the records of a watch to stdout and to the log file, and collects them for the summary and the comparison.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use super::{WatchArgs, WatchMode, WatchOutput};
use crate::clock::{Clock, Mono, Wall};
use crate::cmd::Error;
use crate::cmd::render::health::{ScreenStyle, screen};
use crate::cmd::render::page::{Line, Page};
use crate::cmd::render::watch::{self as text, Columns};
use crate::cmd::render::{Style, json};
use crate::cmd::session::Session;
use crate::cmd::term::queued_output::{Color, QueuedOutput};
use crate::cmd::term::streams;
use crate::cri::{Outcome, ReceivedEvent, Version};
use crate::diagnosis::{CallEnd, CallersAbandonedCall, HealthReport};
use crate::optional_future::or_pending;
use crate::pleg::guarded_stream::StreamObserver;
use crate::pleg::readers::no_removal_events;
use crate::pleg::silence::SILENT_AFTER;
use crate::pleg::stream::{
    CompareSummary, Event, EventSource, Health, Relist, Silence, Stream, StreamState, WatchRecord,
    WatchStarted,
};
use crate::pleg::{CallRecord, Comparison, OpenCall, Sink, WatchTotals, document};
use crate::report::save;
use crate::threads::locked;

/// The lines of a terminal that do not count as event lines: the header, the status line and some of its neighbours.
const HEADER_MARGIN: usize = 4;

/// Writes the records to stdout and the log.
pub struct Reporter {
    stdout: QueuedOutput,
    output: WatchOutput,
    log: Option<QueuedOutput>,
    show_initial: bool,
    style: Style,
    /// Whether the watch reads the event stream.
    streams: bool,
    /// Whether stdout has a status line.
    live: bool,
    clock: Arc<dyn Clock>,
    /// The number of events since the last header.
    rows: Mutex<usize>,
    backlog: Mutex<Backlog>,
    totals: Mutex<WatchTotals>,
    /// Sends the outcome of the pending call to a running diagnosis.
    pending_call_end: Mutex<Option<watch::Sender<Option<CallEnd>>>>,
    /// The calls of this relist that were given up.
    given_up: Mutex<Vec<CallersAbandonedCall>>,
    comparison: Option<Mutex<Comparison>>,
}

/// The stream events that the runtime had buffered before the stream was opened.
#[derive(Default)]
struct Backlog {
    /// When the stream was opened.
    opened: Option<Wall>,
    /// Whether the event that was received last belongs to the backlog.
    is_older: bool,
    /// The number of events that no line has counted yet.
    events: u64,
    /// The value of `events` at the last check.
    checked: u64,
}

impl Reporter {
    /// Opens stdout, and the log if there is one.
    pub fn open(arguments: &WatchArgs, version: &Version, session: &Session) -> Result<Self, Error> {
        let output = arguments.output;
        let log = arguments.log.as_deref().map(|path| save::append(path).map(QueuedOutput::plain));
        let is_terminal = output == WatchOutput::Table && streams::stdout_is_seen();
        let live = is_terminal && streams::can_rewrite();
        let style = session.node.global.style();
        Ok(Self {
            stdout: match (live, is_terminal) {
                (true, _) => QueuedOutput::terminal(),
                (false, true) => QueuedOutput::dumb_terminal(),
                (false, false) => QueuedOutput::plain(streams::stdout()),
            },
            output,
            log: log.transpose()?,
            show_initial: arguments.initial,
            live,
            style: Style { color: style.color && (live || !is_terminal), ..style },
            streams: arguments.mode != WatchMode::Generic,
            clock: Arc::clone(&session.node.clock),
            rows: Mutex::default(),
            backlog: Mutex::default(),
            totals: Mutex::default(),
            pending_call_end: Mutex::default(),
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
    pub fn totals(&self) -> MutexGuard<'_, WatchTotals> {
        locked(&self.totals)
    }

    /// Lets `update` change the comparison, if the watch compares, and reports the resulting divergences.
    fn compare(&self, update: impl FnOnce(&mut Comparison)) {
        let Some(comparison) = &self.comparison else { return };
        let decided = {
            let mut comparison = locked(comparison);
            update(&mut comparison);
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
        let streamed = self.totals().stream_totals();
        Some(comparison.summary(&streamed))
    }

    /// Whether there is a status line.
    pub const fn is_live(&self) -> bool {
        self.live
    }

    /// Replaces the status line, if there is one.
    pub fn status(&self, line: String, color: Color) {
        self.stdout.status(line, self.color(color));
    }

    /// Returns the colour, or none if the user wants no colour.
    const fn color(&self, color: Color) -> Color {
        if self.style.color { color } else { "" }
    }

    /// Prints a sentence in a colour.
    fn colored(&self, line: String, color: Color) {
        if self.output == WatchOutput::Table {
            self.stdout.colored_line(line, self.color(color));
        }
    }

    /// Reports the start of the watch.
    pub fn started(&self, started: WatchStarted) {
        if self.style.headers {
            self.lines([text::started(&started)]);
        }
        if self.comparison.is_some() {
            self.lines([text::undecided(started.time)]);
        }
        self.json(&WatchRecord::WatchStarted(started));
    }

    /// Reports a finished relist.
    pub fn relist(&self, relist: Relist) {
        let slow = self.totals().is_slow(&relist);
        self.totals().relist(&relist);
        if self.output == WatchOutput::Table {
            if let Some(line) = text::failed_relist(&relist) {
                self.colored(line, text::RED);
            } else if relist.interval_seconds.is_none() && !self.show_initial {
                self.stdout.line(text::first_relist(&relist));
            }
            if let Some(line) = text::slow(&relist).filter(|_| slow) {
                self.colored(line, text::YELLOW);
            }
        }
        self.compare(|comparison| comparison.relist(&relist));
        self.json(&WatchRecord::Relist(relist));
    }

    /// Reports a change of PLEG's health.
    pub fn health(&self, health: Health) {
        self.colored(text::health(&health), if health.healthy { text::GREEN } else { text::RED });
        self.json(&WatchRecord::Health(health));
    }

    /// Reports a silent call.
    pub fn silence(&self, silence: Silence) {
        self.colored(text::silent(&silence), text::YELLOW);
        self.json(&WatchRecord::Silence(silence));
    }

    /// Prints lines of text. With JSON output, the records contain the same facts.
    pub fn lines(&self, lines: impl IntoIterator<Item = String>) {
        if self.output == WatchOutput::Table {
            lines.into_iter().for_each(|line| self.stdout.line(line));
        }
    }

    /// Prints one event, below a header if the last one has scrolled away.
    fn row(&self, event: &Event) {
        let terminal = streams::terminal_size();
        let columns = Columns::with_limit(terminal.map(|(_, columns)| columns), self.streams);
        let mut rows = locked(&self.rows);
        let screen = terminal.map_or(usize::MAX, |(lines, _)| lines.saturating_sub(HEADER_MARGIN).max(1));
        if self.style.headers && rows.is_multiple_of(screen) {
            self.stdout.row(columns.header(), self.color(text::BOLD));
        }
        *rows += 1;
        self.stdout.row(columns.event(event), self.color(text::color_of(event)));
    }

    /// Prints one line with the number of events in the stream's backlog, after no more of them has arrived since the last
    /// call of this function, or `at_once`.
    pub fn fold_backlog(&self, at_once: bool) {
        let mut backlog = locked(&self.backlog);
        let events = backlog.events;
        if events > 0 && (at_once || backlog.checked == events) {
            backlog.events = 0;
            self.lines([text::backlog(self.clock.wall(), events)]);
        }
        backlog.checked = backlog.events;
    }

    /// Returns the pending call, and how long it has been pending.
    pub fn open_call(&self, now: Mono) -> (Option<OpenCall>, Duration) {
        let totals = self.totals();
        (totals.open.clone(), totals.waiting(now).unwrap_or_default())
    }

    /// Returns a receiver for the outcome of the pending call.
    pub fn pending_call_outcome(&self) -> watch::Receiver<Option<CallEnd>> {
        let (sender, ended) = watch::channel(None);
        *locked(&self.pending_call_end) = Some(sender);
        ended
    }

    /// Forgets the calls of the last relist that were given up, because a new relist makes every call again.
    pub fn relist_begins(&self) {
        locked(&self.given_up).clear();
    }

    /// Returns the calls of this relist that were given up.
    pub fn given_up(&self) -> Vec<CallersAbandonedCall> {
        locked(&self.given_up).clone()
    }

    /// Prints a diagnosis in one line, while the call still hangs.
    pub fn short_diagnosis(&self, report: &HealthReport) {
        self.colored(text::diagnosis(self.clock.wall(), report), text::YELLOW);
        self.write_json(report);
    }

    /// Prints a whole diagnosis.
    pub fn diagnosis(&self, report: &HealthReport, color: bool) -> io::Result<()> {
        // The diagnosis scrolls with the other lines, so only the width of the terminal matters.
        let terminal = streams::terminal_size().map(|(_, columns)| (usize::MAX, columns));
        let style = ScreenStyle { terminal, ..ScreenStyle::default() };
        let lines = Page::lines_of(self.style, |page| screen(report, page, style))?;
        if self.output == WatchOutput::Table {
            let shown = |line: Line| if color && self.live { line } else { line.text().into() };
            for line in lines {
                self.stdout.fitted_line(shown(line));
            }
        }
        self.write_json(report);
        Ok(())
    }

    /// Writes one record as JSON to stdout and to the log, if they contain JSON.
    pub fn json(&self, record: &WatchRecord) {
        self.write_json(&document(record));
    }

    /// Writes a document to stdout and to the log, if they contain JSON.
    fn write_json(&self, document: &impl Serialize) {
        let shown = self.output == WatchOutput::Jsonl;
        if !shown && self.log.is_none() {
            return;
        }
        // These documents have string keys only, so writing them cannot fail.
        let Some(line) = json::text(document) else { return };
        if shown {
            self.stdout.line(line.clone());
        }
        if let Some(log) = &self.log {
            log.line(line);
        }
    }

    /// Waits until the writers have room in their queues.
    pub async fn wait_for_room(&self) {
        self.stdout.wait_for_room().await;
        if let Some(log) = &self.log {
            log.wait_for_room().await;
        }
    }

    /// Resolves when a destination accepts no more lines.
    pub async fn broken(&self) {
        tokio::select! {
            () = self.stdout.broken() => {}
            () = or_pending(self.log.as_ref().map(QueuedOutput::broken)) => {}
        }
    }

    /// Writes the queued lines and closes stdout and the log.
    pub fn close(self, log_path: Option<&Path>) -> Result<(), Error> {
        let closed = match self.stdout.close() {
            // A terminal that stays blocked is no error: the lines are lost, but not the log.
            Err(why) if why.kind() == io::ErrorKind::TimedOut => Ok(()),
            closed => closed,
        };
        if let (Some(log), Some(path)) = (self.log, log_path) {
            log.close().map_err(|source| Error::Write(save::Error { path: path.to_path_buf(), source }))?;
        }
        closed.map_err(Error::Output)
    }
}

impl StreamObserver for Reporter {
    fn stream(&self, stream: Stream) {
        self.totals().stream(&stream);
        if stream.state == StreamState::Connected {
            locked(&self.backlog).opened = Some(stream.time);
        }
        let is_good = stream.state == StreamState::Connected;
        self.colored(text::stream(&stream), if is_good { "" } else { text::YELLOW });
        self.compare(|comparison| comparison.stream(&stream));
        self.json(&WatchRecord::Stream(stream));
    }

    fn dropped(&self, events: u64, notice: Stream) {
        self.totals().dropped(events);
        self.stream(notice);
    }

    fn event_received(&self, event: &ReceivedEvent) {
        self.totals().stream_event(event);
        {
            let mut backlog = locked(&self.backlog);
            backlog.is_older = backlog.opened.is_some_and(|opened| event.event.created_at < opened.nanos());
        }
        self.compare(|comparison| comparison.stream_event(event));
    }

    fn stream_failed(&self) {
        self.totals().stream_failed();
    }

    fn cache_too_large(&self) {
        self.totals().cache_too_large();
    }

    fn sink(&self) -> Box<dyn Sink + '_> {
        Box::new(self)
    }
}

impl Sink for &Reporter {
    fn event(&mut self, event: Event) {
        self.totals().event(&event);
        if self.output == WatchOutput::Table && (self.show_initial || !event.initial) {
            let mut backlog = locked(&self.backlog);
            if backlog.is_older && event.source == EventSource::Evented && !self.show_initial {
                backlog.events += 1;
            } else {
                self.row(&event);
            }
        }
        let compared = self.comparison.is_some().then(|| event.clone());
        self.json(&WatchRecord::Event(event));
        self.compare(|comparison| compared.iter().for_each(|event| comparison.event(event)));
    }

    fn call_started(&mut self, call: &OpenCall) {
        self.totals().open = Some(call.clone());
    }

    fn call_finished(&mut self, call: &CallRecord) {
        let open = self.totals().open.clone();
        self.totals().call(call);
        let took = call.duration_seconds.duration();
        let given_up = call.outcome == Outcome::Silent;
        if let Some(sender) = locked(&self.pending_call_end).take() {
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
            self.colored(text::answered_late(self.clock.wall(), call), text::YELLOW);
        }
    }
}
