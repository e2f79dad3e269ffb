//! Turns what the engine says into lines, and keeps the tally.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::outlet::Outlet;
use super::{Mode, Output, WatchArgs};
use crate::cmd::Error;
use crate::cmd::render::health::{Style, screen};
use crate::cmd::render::watch as text;
use crate::cri::ReceivedEvent;
use crate::diagnosis::HealthReport;
use crate::pleg::stream::{CompareSummary, Event, Health, Record, Relist, Stream, WatchStarted};
use crate::pleg::{CallRecord, Comparison, OpenCall, Sink, Tally, document};
use crate::report::save;

/// Writes records where they were asked for.
pub struct Reporter {
    view: Outlet,
    output: Output,
    log: Option<Outlet>,
    show_initial: bool,
    live: bool,
    tally: Mutex<Tally>,
    comparison: Option<Mutex<Comparison>>,
}

impl Reporter {
    /// Opens stdout, and the log if there is one.
    pub fn open(arguments: &WatchArgs) -> Result<Self, Error> {
        let output = arguments.output;
        let log = arguments.log.as_deref().map(|path| save::append(path).map(Outlet::plain));
        let live = output == Output::Table && io::stdout().is_terminal();
        Ok(Self {
            view: if live { Outlet::terminal() } else { Outlet::plain(io::stdout()) },
            output,
            log: log.transpose()?,
            show_initial: arguments.initial,
            live,
            tally: Mutex::default(),
            comparison: (arguments.mode == Mode::Compare).then(Mutex::default),
        })
    }

    /// Counts and durations so far.
    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the comparison see something, if there is one, and reports what it decides.
    fn compare(&self, see: impl FnOnce(&mut Comparison)) {
        let Some(comparison) = &self.comparison else { return };
        let decided = {
            let mut comparison = comparison.lock().unwrap_or_else(PoisonError::into_inner);
            see(&mut comparison);
            comparison.take()
        };
        for divergence in decided {
            self.lines(text::divergence(&divergence));
            self.json(&Record::Divergence(divergence));
        }
    }

    /// The comparison so far.
    pub fn compared(&self) -> Option<CompareSummary> {
        let comparison = self.comparison.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let streamed = self.tally().streamed();
        Some(comparison.summary(&streamed))
    }

    /// Whether there is a live line to keep up.
    pub const fn is_live(&self) -> bool {
        self.live
    }

    /// Replaces the live line.
    pub fn status(&self, line: String) {
        if self.live {
            self.view.status(line);
        }
    }

    /// The watch begins.
    pub fn started(&self, started: WatchStarted) {
        self.json(&Record::WatchStarted(started));
    }

    /// A relist is over.
    pub fn relist(&self, relist: Relist) {
        self.tally().relist(&relist);
        if self.output == Output::Table {
            if let Some(line) = text::failed_relist(&relist) {
                self.view.line(line);
            } else if relist.interval_seconds.is_none() && !self.show_initial {
                self.view.line(text::first_relist(&relist));
            }
        }
        self.compare(|comparison| comparison.relist(&relist));
        self.json(&Record::Relist(relist));
    }

    /// The health of PLEG changed.
    pub fn health(&self, health: Health) {
        if self.output == Output::Table {
            self.view.line(text::health(&health));
        }
        self.json(&Record::Health(health));
    }

    /// Something happened to the event stream.
    pub fn stream(&self, stream: Stream) {
        self.tally().stream(&stream);
        self.lines([text::stream(&stream)]);
        self.compare(|comparison| comparison.stream(&stream));
        self.json(&Record::Stream(stream));
    }

    /// So many events of the stream were read and are lost.
    pub fn dropped(&self, events: u64, notice: Stream) {
        self.tally().dropped(events);
        self.stream(notice);
    }

    /// An event came through the stream; what the engine makes of it comes next.
    pub fn heard(&self, event: &ReceivedEvent) {
        self.tally().heard(event);
        self.compare(|comparison| comparison.heard(event));
    }

    /// Lines for people; in JSON they are in the records already.
    pub fn lines(&self, lines: impl IntoIterator<Item = String>) {
        if self.output == Output::Table {
            lines.into_iter().for_each(|line| self.view.line(line));
        }
    }

    /// What holds PLEG up.
    pub fn diagnosis(&self, report: &HealthReport, color: bool) -> io::Result<()> {
        let mut text = Vec::new();
        screen(report, &mut text, Style { color: color && self.live, ..Style::default() })?;
        self.lines(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        self.write_json(report);
        Ok(())
    }

    /// One record, as JSON, wherever JSON goes.
    pub fn json(&self, record: &Record) {
        self.write_json(&document(record));
    }

    fn write_json(&self, document: &impl Serialize) {
        if self.output != Output::Jsonl && self.log.is_none() {
            return;
        }
        // Our own documents have string keys only, so that writing them cannot fail.
        let Ok(line) = serde_json::to_string(document) else { return };
        if self.output == Output::Jsonl {
            self.view.line(line.clone());
        }
        if let Some(log) = &self.log {
            log.line(line);
        }
    }

    /// Waits until the writers are not too far behind.
    pub async fn settle(&self) {
        self.view.settle().await;
        if let Some(log) = &self.log {
            log.settle().await;
        }
    }

    /// Resolves when a destination takes no more.
    pub async fn broken(&self) {
        tokio::select! {
            () = self.view.broken() => {}
            () = async {
                match &self.log {
                    Some(log) => log.broken().await,
                    None => std::future::pending().await,
                }
            } => {}
        }
    }

    /// Writes what is left.
    pub fn close(self, log_path: Option<&Path>) -> Result<(), Error> {
        let view = self.view.close();
        if let (Some(log), Some(path)) = (self.log, log_path) {
            log.close().map_err(|source| Error::Write(save::Error { path: path.to_path_buf(), source }))?;
        }
        view.map_err(Error::Output)
    }
}

impl Sink for &Reporter {
    fn event(&mut self, event: Event) {
        self.tally().event(&event);
        if self.output == Output::Table && (self.show_initial || !event.initial) {
            self.view.line(text::event(&event));
        }
        let seen = self.comparison.is_some().then(|| event.clone());
        self.json(&Record::Event(event));
        self.compare(|comparison| seen.iter().for_each(|event| comparison.event(event)));
    }

    fn call_started(&mut self, call: &OpenCall) {
        self.tally().open = Some(call.clone());
    }

    fn call_finished(&mut self, call: &CallRecord) {
        self.tally().call(call);
    }
}
