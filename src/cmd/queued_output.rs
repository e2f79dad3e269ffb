//! Writes the output of a watch or a recording: one thread for each destination, so that a blocked terminal, pipe or disk
//! blocks nothing else.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Notify;

use super::render::words::{cut, wrapped};
use crate::threads::locked;

/// The number of lines that may be queued before the command waits for the writer. Memory is limited by this
/// and by the events of one relist.
const MAX_QUEUED: usize = 4096;

/// How long a writer may take for the queued lines when the command ends.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The indent of the second and further lines of a sentence.
const CONTINUED: &str = "    ";

/// A destination and the thread that writes to it.
pub struct QueuedOutput {
    transport: Transport,
    progress: Arc<QueueState>,
}

/// How lines reach the destination.
enum Transport {
    /// Through a thread, which alone waits for the destination.
    Thread { lines: mpsc::Sender<Line>, done: Mutex<mpsc::Receiver<io::Result<()>>> },
    /// Directly, if no thread could be started; then a slow destination delays the command.
    Direct(Arc<Mutex<WriteFn>>),
}

/// Writes one step to the destination.
type WriteFn = Box<dyn FnMut(WriteStep) -> io::Result<()> + Send>;

enum Line {
    Text(String),
    Row(String),
    /// The status line has changed.
    Status,
}

#[derive(Default)]
struct QueueState {
    /// The newest status line that is not shown yet; there is never more than one, however long a terminal is
    /// blocked.
    status: Mutex<Option<String>>,
    waiting: AtomicUsize,
    broken: AtomicBool,
    moved: Notify,
}

impl QueueState {
    /// Converts a queued line; `None` if its status line was shown already.
    fn step(&self, line: Line) -> Option<WriteStep> {
        match line {
            Line::Text(text) => Some(WriteStep::Text(text)),
            Line::Row(text) => Some(WriteStep::Row(text)),
            Line::Status => locked(&self.status).take().map(WriteStep::Status),
        }
    }
}

impl QueuedOutput {
    /// Writes to a terminal, with a status line below the other lines.
    pub fn terminal() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self::spawn(move |step| {
            match step {
                WriteStep::Text(text) => {
                    for line in fitting(text, columns()) {
                        bar.println(line);
                    }
                }
                WriteStep::Row(text) => bar.println(fitting_row(text, columns())),
                WriteStep::Status(text) => bar.set_message(fitting_row(text, columns())),
                WriteStep::End => bar.finish_and_clear(),
            }
            Ok(())
        })
    }

    /// Writes to a terminal that cannot rewrite a line.
    pub fn dumb_terminal() -> Self {
        let mut out = io::stdout();
        Self::spawn(move |step| {
            let lines = match step {
                WriteStep::Text(text) => fitting(text, columns()),
                WriteStep::Row(text) => vec![fitting_row(text, columns())],
                WriteStep::Status(_) | WriteStep::End => Vec::new(),
            };
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            out.flush()
        })
    }

    /// Writes to anything else, and flushes each line.
    pub fn plain(mut destination: impl Write + Send + 'static) -> Self {
        Self::spawn(move |step| match step {
            WriteStep::Text(mut text) | WriteStep::Row(mut text) => {
                text.push('\n');
                destination.write_all(text.as_bytes())?;
                destination.flush()
            }
            WriteStep::Status(_) | WriteStep::End => Ok(()),
        })
    }

    fn spawn(put: impl FnMut(WriteStep) -> io::Result<()> + Send + 'static) -> Self {
        let (lines, queue) = mpsc::channel();
        let (end, done) = mpsc::channel();
        let progress = Arc::new(QueueState::default());
        let shared = Arc::clone(&progress);
        // Shared with the thread, because the thread may fail to start.
        let put: Arc<Mutex<WriteFn>> = Arc::new(Mutex::new(Box::new(put)));
        let puts = Arc::clone(&put);
        let write = move || {
            let mut put = locked(&puts);
            let written = write_all(&queue, &mut put, &shared);
            shared.broken.store(written.is_err(), Ordering::SeqCst);
            shared.moved.notify_waiters();
            // Nobody receives the result if the command did not wait for the writer.
            let _ = end.send(written);
        };
        let transport = match thread::Builder::new().name("writer".into()).spawn(write) {
            Ok(_) => Transport::Thread { lines, done: Mutex::new(done) },
            Err(_) => Transport::Direct(put),
        };
        Self { transport, progress }
    }

    /// Queues a sentence, which a terminal wraps between words; never waits.
    pub fn line(&self, text: String) {
        self.send(Line::Text(text));
    }

    /// Queues a row of columns, which a terminal cuts; never waits.
    pub fn row(&self, text: String) {
        self.send(Line::Row(text));
    }

    /// Replaces the status line, if there is one; never waits.
    pub fn status(&self, text: String) {
        let unseen = {
            let mut status = locked(&self.progress.status);
            status.replace(text)
        };
        if unseen.is_none() {
            self.send(Line::Status);
        }
    }

    fn send(&self, line: Line) {
        match &self.transport {
            Transport::Thread { lines, .. } => {
                self.progress.waiting.fetch_add(1, Ordering::SeqCst);
                if lines.send(line).is_err() {
                    self.progress.waiting.fetch_sub(1, Ordering::SeqCst);
                }
            }
            Transport::Direct(put) => {
                let broken = &self.progress.broken;
                let mut put = locked(put);
                let step = self.progress.step(line);
                let written = step
                    .map_or(Ok(()), |step| if broken.load(Ordering::SeqCst) { Ok(()) } else { put(step) });
                if written.is_err() {
                    broken.store(true, Ordering::SeqCst);
                    self.progress.moved.notify_waiters();
                }
            }
        }
    }

    /// Waits until the queue has room.
    pub async fn wait_for_room(&self) {
        self.until(|progress| progress.waiting.load(Ordering::SeqCst) < MAX_QUEUED).await;
    }

    /// Resolves when the destination accepts no more lines.
    pub async fn broken(&self) {
        self.until(|_| false).await;
    }

    /// Waits until `enough` is true, or until the writer has ended.
    async fn until(&self, enough: impl Fn(&QueueState) -> bool) {
        loop {
            let moved = self.progress.moved.notified();
            if enough(&self.progress) || self.progress.broken.load(Ordering::SeqCst) {
                return;
            }
            moved.await;
        }
    }

    /// Waits until the queued lines are written; fails with [`io::ErrorKind::TimedOut`] after the time limit.
    pub fn close(self) -> io::Result<()> {
        self.close_within(TIME_LIMIT)
    }

    fn close_within(self, patience: Duration) -> io::Result<()> {
        match self.transport {
            Transport::Thread { lines, done } => {
                drop(lines);
                let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
                done.recv_timeout(patience).unwrap_or_else(|_| {
                    let what = format!(
                        "it did not accept the remaining output within {}",
                        humantime::format_duration(patience)
                    );
                    Err(io::Error::new(io::ErrorKind::TimedOut, what))
                })
            }
            Transport::Direct(_) if self.progress.broken.load(Ordering::SeqCst) => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            Transport::Direct(put) => locked(&put)(WriteStep::End),
        }
    }
}

/// The next thing to write.
enum WriteStep {
    /// A sentence.
    Text(String),
    /// A row of columns.
    Row(String),
    /// Another status line.
    Status(String),
    /// The end of the output.
    End,
}

/// Returns the number of columns of the terminal.
fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Wraps a sentence; a coloured one has been wrapped before.
fn fitting(text: String, columns: Option<usize>) -> Vec<String> {
    match columns.filter(|_| !text.contains('\u{1b}')) {
        Some(columns) => wrapped(&text, columns, CONTINUED),
        None => vec![text],
    }
}

/// Cuts a row to the width of the terminal.
fn fitting_row(text: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => cut(&text, columns),
        None => text,
    }
}

fn write_all(queue: &mpsc::Receiver<Line>, put: &mut WriteFn, progress: &QueueState) -> io::Result<()> {
    for line in queue {
        progress.step(line).map_or(Ok(()), &mut *put)?;
        progress.waiting.fetch_sub(1, Ordering::SeqCst);
        progress.moved.notify_waiters();
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
    fn lines_come_out_in_order_and_status_lines_do_not() {
        let written = SharedBuffer::default();
        let queued_output = QueuedOutput::plain(written.clone());
        queued_output.line("a".into());
        queued_output.status("never seen".into());
        queued_output.line("b".into());
        queued_output.close().unwrap();
        assert_eq!(*written.0.lock().unwrap(), b"a\nb\n");
    }

    #[test]
    fn blocked_destination_delays_at_most_one_status_line() {
        let (_open, gate) = mpsc::channel();
        let queued_output = QueuedOutput::plain(BlockedWriter(gate));
        queued_output.line("a".into());
        (0..1000).for_each(|number| queued_output.status(number.to_string()));
        // The line that is being written, and one status line.
        assert!(queued_output.progress.waiting.load(Ordering::SeqCst) <= 2);
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
    fn long_row_is_cut_and_long_sentence_is_wrapped() {
        assert_eq!(fitting_row("running → exited".into(), Some(10)), "running →…");
        assert_eq!(fitting_row("running → exited".into(), None), "running → exited");
        assert_eq!(fitting("it did not answer".into(), Some(12)), ["it did not", "    answer"]);
        assert_eq!(fitting("it did not answer".into(), None), ["it did not answer"]);
        assert_eq!(fitting("\u{1b}[31mred\u{1b}[0m".into(), Some(3)), ["\u{1b}[31mred\u{1b}[0m"]);
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
