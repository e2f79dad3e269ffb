//! Writes the output of `watch` and `record` through a queue and a thread for each destination, so that a blocked
//! terminal, pipe or disk does not block the command.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub use crate::cmd::render::page::Color;
use crate::cmd::render::page::Line;
use crate::cmd::render::words::{cut, width, wrapped};
use crate::cmd::term::streams::{stdout, stdout_columns};
use crate::threads::{self, StartedWork, locked};

/// The number of queued lines at which the command waits for the writer. The events of one relist are queued
/// together, so the queue can become longer by that number.
const MAX_QUEUED: usize = 4096;

/// How long a writer may take for the queued lines when the command ends.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The indent of the second and further lines of a sentence.
const CONTINUATION_INDENT: &str = "    ";

/// A destination and the thread that writes to it.
pub struct QueuedOutput {
    transport: Transport,
    state: Arc<QueueState>,
}

/// How lines reach the destination.
enum Transport {
    /// Through a thread, which alone waits for the destination.
    Thread { lines: mpsc::Sender<QueuedLine>, writer: Mutex<StartedWork<io::Result<()>>> },
    /// Directly, if no thread could be started; then a slow destination delays the command.
    Direct(Arc<Mutex<WriteFn>>),
}

/// Writes one [`WriteStep`] to the destination.
type WriteFn = Box<dyn FnMut(WriteStep) -> io::Result<()> + Send>;

/// A queued line.
enum QueuedLine {
    /// A sentence or a row.
    Text(WriteStep),
    /// The status line has changed; its text is in [`QueueState::status`].
    Status,
}

/// What the command and the writer thread share.
#[derive(Default)]
struct QueueState {
    /// The newest status line that is not shown yet. A newer line replaces it, so that a blocked terminal does not
    /// collect old status lines.
    status: Mutex<Option<(String, Color)>>,
    /// The number of queued lines.
    queued: AtomicUsize,
    /// Whether the destination failed.
    broken: AtomicBool,
    /// Notifies about each change of `queued` and `broken`.
    changed: Notify,
}

impl QueueState {
    /// Converts a queued line to a step; `None` for a status line that was shown already.
    fn step(&self, line: QueuedLine) -> Option<WriteStep> {
        match line {
            QueuedLine::Text(step) => Some(step),
            QueuedLine::Status => {
                locked(&self.status).take().map(|(text, color)| WriteStep::Status(text, color))
            }
        }
    }
}

impl QueuedOutput {
    /// Writes to a terminal, with a status line below the other lines.
    pub fn terminal() -> Self {
        let mut screen = LiveScreen::default();
        Self::spawn(move |step| {
            let text = screen.draw(step, stdout_columns());
            let mut out = stdout();
            out.write_all(text.as_bytes())?;
            out.flush()
        })
    }

    /// Writes to a terminal that cannot rewrite a line.
    pub fn dumb_terminal() -> Self {
        let mut out = stdout();
        Self::spawn(move |step| {
            lines_of(step, stdout_columns()).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            out.flush()
        })
    }

    /// Writes to anything else, and flushes each line.
    pub fn plain(mut destination: impl Write + Send + 'static) -> Self {
        Self::spawn(move |step| match step {
            WriteStep::Status(..) | WriteStep::End => Ok(()),
            step => {
                // One write for each line, so that a line is never mixed with another program's.
                let text: String =
                    lines_of(step, None).into_iter().flat_map(|line| [line, "\n".to_owned()]).collect();
                destination.write_all(text.as_bytes())?;
                destination.flush()
            }
        })
    }

    /// Starts the writer thread, which passes each step to `put`.
    fn spawn(put: impl FnMut(WriteStep) -> io::Result<()> + Send + 'static) -> Self {
        let (lines, queue) = mpsc::channel();
        let state = Arc::new(QueueState::default());
        let shared = Arc::clone(&state);
        // Shared with the thread, because the thread may fail to start.
        let put: Arc<Mutex<WriteFn>> = Arc::new(Mutex::new(Box::new(put)));
        let threads_put = Arc::clone(&put);
        let write = move || {
            let mut put = locked(&threads_put);
            let written = write_all(&queue, &mut put, &shared);
            shared.broken.store(written.is_err(), Ordering::SeqCst);
            shared.changed.notify_waiters();
            written
        };
        let transport = match threads::start("writer", write) {
            Ok(writer) => Transport::Thread { lines, writer: Mutex::new(writer) },
            Err(_) => Transport::Direct(put),
        };
        Self { transport, state }
    }

    /// Queues a sentence, which a terminal wraps between words; never waits.
    pub fn line(&self, text: String) {
        self.colored_line(text, "");
    }

    /// Queues a sentence in a colour; never waits.
    pub fn colored_line(&self, text: String, color: Color) {
        self.send(QueuedLine::Text(WriteStep::Text(text, color)));
    }

    /// Queues a line that fits the terminal; never waits.
    pub fn fitted_line(&self, line: Line) {
        self.send(QueuedLine::Text(WriteStep::Fitted(line)));
    }

    /// Queues a row of columns, which a terminal cuts; never waits.
    pub fn row(&self, text: String, color: Color) {
        self.send(QueuedLine::Text(WriteStep::Row(text, color)));
    }

    /// Replaces the status line, if there is one; never waits.
    pub fn status(&self, text: String, color: Color) {
        let unshown = {
            let mut status = locked(&self.state.status);
            status.replace((text, color))
        };
        if unshown.is_none() {
            self.send(QueuedLine::Status);
        }
    }

    fn send(&self, line: QueuedLine) {
        match &self.transport {
            Transport::Thread { lines, .. } => {
                self.state.queued.fetch_add(1, Ordering::SeqCst);
                if lines.send(line).is_err() {
                    self.state.queued.fetch_sub(1, Ordering::SeqCst);
                }
            }
            Transport::Direct(put) => {
                let broken = &self.state.broken;
                let mut put = locked(put);
                let step = self.state.step(line);
                let written = step
                    .map_or(Ok(()), |step| if broken.load(Ordering::SeqCst) { Ok(()) } else { put(step) });
                if written.is_err() {
                    broken.store(true, Ordering::SeqCst);
                    self.state.changed.notify_waiters();
                }
            }
        }
    }

    /// Waits until the queue has room.
    pub async fn wait_for_room(&self) {
        self.wait_until(|state| state.queued.load(Ordering::SeqCst) < MAX_QUEUED).await;
    }

    /// Resolves when the destination accepts no more lines.
    pub async fn broken(&self) {
        self.wait_until(|_| false).await;
    }

    /// Waits until `condition` is true, or until the destination fails.
    async fn wait_until(&self, condition: impl Fn(&QueueState) -> bool) {
        loop {
            let changed = self.state.changed.notified();
            if condition(&self.state) || self.state.broken.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until the queued lines are written; fails with [`io::ErrorKind::TimedOut`] after the time limit.
    pub fn close(self) -> io::Result<()> {
        self.close_within(TIME_LIMIT)
    }

    fn close_within(self, time_limit: Duration) -> io::Result<()> {
        match self.transport {
            Transport::Thread { lines, writer } => {
                drop(lines);
                let writer = writer.into_inner().unwrap_or_else(PoisonError::into_inner);
                writer.wait(time_limit).unwrap_or_else(|_| {
                    let what = format!(
                        "it did not accept the remaining output within {}",
                        humantime::format_duration(time_limit)
                    );
                    Err(io::Error::new(io::ErrorKind::TimedOut, what))
                })
            }
            Transport::Direct(_) if self.state.broken.load(Ordering::SeqCst) => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            Transport::Direct(put) => locked(&put)(WriteStep::End),
        }
    }
}

/// What a destination writes next.
enum WriteStep {
    /// A sentence.
    Text(String, Color),
    /// A row of columns.
    Row(String, Color),
    /// A line that was fitted to the terminal before.
    Fitted(Line),
    /// A new status line.
    Status(String, Color),
    /// The end of the output.
    End,
}

/// The columns at the end of the status line that stay free for the `^C` that a terminal prints.
const FREE_COLUMNS: usize = 3;

/// The status line on a terminal.
#[derive(Default)]
struct LiveScreen {
    text: String,
    color: Color,
}

impl LiveScreen {
    /// Returns what to write for `step`: removes the status line, prints the lines, and prints the status line
    /// again.
    fn draw(&mut self, step: WriteStep, columns: Option<usize>) -> String {
        let mut text = self.removal(columns);
        match step {
            WriteStep::Status(text, color) => {
                let columns = columns.map(|columns| columns.saturating_sub(FREE_COLUMNS));
                (self.text, self.color) = (fit_row(text, columns), color);
            }
            WriteStep::End => self.text.clear(),
            step => text.extend(lines_of(step, columns).into_iter().flat_map(|line| [line, "\n".to_owned()])),
        }
        text + &Line::colored(self.color, &self.text).painted()
    }

    /// Returns the control sequence that removes the status line. A terminal that became narrower shows that line in
    /// several rows.
    fn removal(&self, columns: Option<usize>) -> String {
        let rows = width(&self.text).saturating_sub(1) / columns.unwrap_or(usize::MAX);
        match (self.text.is_empty(), rows) {
            (true, _) => String::new(),
            (false, 0) => "\r\u{1b}[J".to_owned(),
            (false, rows) => format!("\r\u{1b}[{rows}A\u{1b}[J"),
        }
    }
}

/// Returns the lines for a sentence or a row; none for a status line.
fn lines_of(step: WriteStep, columns: Option<usize>) -> Vec<String> {
    let (lines, color) = match step {
        WriteStep::Text(text, color) => (fit_sentence(text, columns), color),
        WriteStep::Row(text, color) => (vec![fit_row(text, columns)], color),
        WriteStep::Fitted(line) => return vec![line.painted()],
        WriteStep::Status(..) | WriteStep::End => return Vec::new(),
    };
    lines.into_iter().map(|line| Line::colored(color, line).painted()).collect()
}

/// Wraps a sentence at the width of the terminal.
fn fit_sentence(text: String, columns: Option<usize>) -> Vec<String> {
    match columns {
        Some(columns) => wrapped(&text, columns, CONTINUATION_INDENT),
        None => vec![text],
    }
}

/// Cuts a row to the width of the terminal.
fn fit_row(text: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => cut(&text, columns),
        None => text,
    }
}

/// Writes all lines until the queue is closed.
fn write_all(queue: &mpsc::Receiver<QueuedLine>, put: &mut WriteFn, state: &QueueState) -> io::Result<()> {
    for line in queue {
        state.step(line).map_or(Ok(()), &mut *put)?;
        state.queued.fetch_sub(1, Ordering::SeqCst);
        state.changed.notify_waiters();
    }
    put(WriteStep::End)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A destination that blocks until the test ends.
    struct BlockedWriter(mpsc::Receiver<()>);

    impl Write for BlockedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct ClosedWriter;

    impl Write for ClosedWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_without_status_lines() {
        let written = SharedBuffer::default();
        let queued_output = QueuedOutput::plain(written.clone());
        queued_output.line("a".into());
        queued_output.status("never seen".into(), "");
        queued_output.line("b".into());
        queued_output.close().unwrap();
        assert_eq!(*written.0.lock().unwrap(), b"a\nb\n");
    }

    #[test]
    fn blocked_destination_queues_at_most_one_status_line() {
        let (_open, gate) = mpsc::channel();
        let queued_output = QueuedOutput::plain(BlockedWriter(gate));
        queued_output.line("a".into());
        (0..1000).for_each(|number| queued_output.status(number.to_string(), ""));
        // The line that is being written, and one status line.
        assert!(queued_output.state.queued.load(Ordering::SeqCst) <= 2);
    }

    #[test]
    fn lines_that_are_not_written_in_time_are_an_error() {
        let (_open, gate) = mpsc::channel();
        let queued_output = QueuedOutput::plain(BlockedWriter(gate));
        queued_output.line("a".into());
        assert_eq!(
            queued_output.close_within(Duration::from_millis(1)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }

    #[test]
    fn row_is_cut_and_sentence_is_wrapped() {
        assert_eq!(fit_row("running → exited".into(), Some(10)), "running →…");
        assert_eq!(fit_row("running → exited".into(), None), "running → exited");
        assert_eq!(fit_sentence("it did not answer".into(), Some(12)), ["it did not", "    answer"]);
        assert_eq!(fit_sentence("it did not answer".into(), None), ["it did not answer"]);
    }

    #[test]
    fn status_line_stays_below_the_lines_and_is_removed_at_the_end() {
        let mut screen = LiveScreen::default();
        assert_eq!(
            screen.draw(WriteStep::Status("PLEG 0s of 3m".into(), "31"), Some(12)),
            "\u{1b}[31mPLEG 0s …\u{1b}[0m"
        );
        assert_eq!(
            screen.draw(WriteStep::Row("web-0 exited".into(), "32"), Some(10)),
            "\r\u{1b}[J\u{1b}[32mweb-0 exi…\u{1b}[0m\n\u{1b}[31mPLEG 0s …\u{1b}[0m"
        );
        // The terminal became narrower and shows the nine columns in three rows.
        assert_eq!(screen.draw(WriteStep::End, Some(4)), "\r\u{1b}[2A\u{1b}[J");
        assert_eq!(screen.draw(WriteStep::Text("bye".into(), ""), Some(4)), "bye\n");
    }

    #[tokio::test]
    async fn closed_pipe_is_reported_without_waiting() {
        let queued_output = QueuedOutput::plain(ClosedWriter);
        queued_output.line("a".into());
        queued_output.broken().await;
        queued_output.wait_for_room().await;
        assert_eq!(queued_output.close().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
