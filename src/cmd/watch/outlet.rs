//! Where a watch writes: a thread for each destination, so that a blocked terminal, pipe or disk blocks nothing else.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Notify;

use crate::cmd::render::words::{cut, wrapped};

/// How many lines may wait before the watch waits for the writer. Memory is bounded by this and by one relist's events.
const MOST_WAITING: usize = 4096;

/// How long a writer may take for what is left when the watch ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// What stands before the rest of a sentence that does not fit into one line.
const CONTINUED: &str = "    ";

/// A destination and the thread that writes to it.
pub struct Outlet {
    way: Way,
    progress: Arc<Progress>,
}

/// How lines get there.
enum Way {
    /// By a thread that waits for the destination in our place.
    Thread { lines: mpsc::Sender<Line>, done: Mutex<mpsc::Receiver<io::Result<()>>> },
    /// Where no thread can be had: at once, and a slow destination holds up the watch.
    Here(Arc<Mutex<Put>>),
}

/// Puts a line where it belongs.
type Put = Box<dyn FnMut(Step) -> io::Result<()> + Send>;

enum Line {
    Text(String),
    Row(String),
    /// There is a newer status line.
    Status,
}

#[derive(Default)]
struct Progress {
    /// The newest status line, until it is shown: there is never more than one, however long a terminal is blocked.
    status: Mutex<Option<String>>,
    waiting: AtomicUsize,
    broken: AtomicBool,
    moved: Notify,
}

impl Progress {
    /// What a line asks for; nothing, if its status line was shown already.
    fn step(&self, line: Line) -> Option<Step> {
        match line {
            Line::Text(text) => Some(Step::Text(text)),
            Line::Row(text) => Some(Step::Row(text)),
            Line::Status => {
                self.status.lock().unwrap_or_else(PoisonError::into_inner).take().map(Step::Status)
            }
        }
    }
}

impl Outlet {
    /// Lines to a terminal, with a status line that stays below them.
    pub fn terminal() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self::spawn(move |step| {
            match step {
                Step::Text(text) => fitting(text, columns()).into_iter().for_each(|line| bar.println(line)),
                Step::Row(text) => bar.println(fitting_row(text, columns())),
                Step::Status(text) => bar.set_message(fitting_row(text, columns())),
                Step::End => bar.finish_and_clear(),
            }
            Ok(())
        })
    }

    /// Lines to a terminal that can only be written to the right and downwards.
    pub fn dumb_terminal() -> Self {
        let mut out = io::stdout();
        Self::spawn(move |step| {
            let lines = match step {
                Step::Text(text) => fitting(text, columns()),
                Step::Row(text) => vec![fitting_row(text, columns())],
                Step::Status(_) | Step::End => Vec::new(),
            };
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            out.flush()
        })
    }

    /// Lines to anything else, each flushed.
    pub fn plain(mut destination: impl Write + Send + 'static) -> Self {
        Self::spawn(move |step| match step {
            Step::Text(mut text) | Step::Row(mut text) => {
                text.push('\n');
                destination.write_all(text.as_bytes())?;
                destination.flush()
            }
            Step::Status(_) | Step::End => Ok(()),
        })
    }

    fn spawn(put: impl FnMut(Step) -> io::Result<()> + Send + 'static) -> Self {
        let (lines, queue) = mpsc::channel();
        let (end, done) = mpsc::channel();
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        // Shared with the thread, which may not come to be.
        let put: Arc<Mutex<Put>> = Arc::new(Mutex::new(Box::new(put)));
        let puts = Arc::clone(&put);
        let write = move || {
            let mut put = puts.lock().unwrap_or_else(PoisonError::into_inner);
            let written = write_all(&queue, &mut put, &shared);
            shared.broken.store(written.is_err(), Ordering::SeqCst);
            shared.moved.notify_waiters();
            // Nobody waits for us if the watch ended without patience.
            let _ = end.send(written);
        };
        let way = match thread::Builder::new().name("writer".into()).spawn(write) {
            Ok(_) => Way::Thread { lines, done: Mutex::new(done) },
            Err(_) => Way::Here(put),
        };
        Self { way, progress }
    }

    /// Hands over a line, which a terminal breaks between its words; never waits.
    pub fn line(&self, text: String) {
        self.send(Line::Text(text));
    }

    /// Hands over a row of columns, which a terminal cuts; never waits.
    pub fn row(&self, text: String) {
        self.send(Line::Row(text));
    }

    /// Replaces the status line, where there is one; never waits.
    pub fn status(&self, text: String) {
        let unseen = {
            let mut status = self.progress.status.lock().unwrap_or_else(PoisonError::into_inner);
            status.replace(text)
        };
        if unseen.is_none() {
            self.send(Line::Status);
        }
    }

    fn send(&self, line: Line) {
        match &self.way {
            Way::Thread { lines, .. } => {
                self.progress.waiting.fetch_add(1, Ordering::SeqCst);
                if lines.send(line).is_err() {
                    self.progress.waiting.fetch_sub(1, Ordering::SeqCst);
                }
            }
            Way::Here(put) => {
                let broken = &self.progress.broken;
                let mut put = put.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Waits until the writer is not too far behind.
    pub async fn settle(&self) {
        self.until(|progress| progress.waiting.load(Ordering::SeqCst) < MOST_WAITING).await;
    }

    /// Resolves when the destination takes no more.
    pub async fn broken(&self) {
        self.until(|_| false).await;
    }

    /// Waits for `enough`, or for the end of the writer.
    async fn until(&self, enough: impl Fn(&Progress) -> bool) {
        loop {
            let moved = self.progress.moved.notified();
            if enough(&self.progress) || self.progress.broken.load(Ordering::SeqCst) {
                return;
            }
            moved.await;
        }
    }

    /// Writes what is left, for as long as patience lasts; [`io::ErrorKind::TimedOut`] if that was not long enough.
    pub fn close(self) -> io::Result<()> {
        self.close_within(PATIENCE)
    }

    fn close_within(self, patience: Duration) -> io::Result<()> {
        match self.way {
            Way::Thread { lines, done } => {
                drop(lines);
                let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
                done.recv_timeout(patience).unwrap_or_else(|_| {
                    let what = format!(
                        "it did not take what was left within {}",
                        humantime::format_duration(patience)
                    );
                    Err(io::Error::new(io::ErrorKind::TimedOut, what))
                })
            }
            Way::Here(_) if self.progress.broken.load(Ordering::SeqCst) => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            Way::Here(put) => put.lock().unwrap_or_else(PoisonError::into_inner)(Step::End),
        }
    }
}

/// What a writer is to do next.
enum Step {
    /// A sentence.
    Text(String),
    /// A row of columns.
    Row(String),
    /// Another status line.
    Status(String),
    /// There is no more.
    End,
}

/// How many columns the terminal has, where it says.
fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The lines that a sentence takes; a coloured one is left alone, it was made for the width.
fn fitting(text: String, columns: Option<usize>) -> Vec<String> {
    match columns.filter(|_| !text.contains('\u{1b}')) {
        Some(columns) => wrapped(&text, columns, CONTINUED),
        None => vec![text],
    }
}

/// As much of a row as fits.
fn fitting_row(text: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => cut(&text, columns),
        None => text,
    }
}

fn write_all(queue: &mpsc::Receiver<Line>, put: &mut Put, progress: &Progress) -> io::Result<()> {
    for line in queue {
        progress.step(line).map_or(Ok(()), &mut *put)?;
        progress.waiting.fetch_sub(1, Ordering::SeqCst);
        progress.moved.notify_waiters();
    }
    put(Step::End)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Takes nothing until the test lets it.
    struct Blocked(mpsc::Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_out_in_order_and_status_lines_do_not() {
        let written = Shared::default();
        let outlet = Outlet::plain(written.clone());
        outlet.line("a".into());
        outlet.status("never seen".into());
        outlet.line("b".into());
        outlet.close().unwrap();
        assert_eq!(*written.0.lock().unwrap(), b"a\nb\n");
    }

    #[test]
    fn status_lines_do_not_pile_up_behind_what_is_blocked() {
        let (_open, gate) = mpsc::channel();
        let outlet = Outlet::plain(Blocked(gate));
        outlet.line("a".into());
        (0..1000).for_each(|number| outlet.status(number.to_string()));
        // The line that is being written, and one status line.
        assert!(outlet.progress.waiting.load(Ordering::SeqCst) <= 2);
    }

    #[test]
    fn what_could_not_be_written_in_time_is_an_error() {
        let (_open, gate) = mpsc::channel();
        let outlet = Outlet::plain(Blocked(gate));
        outlet.line("a".into());
        assert_eq!(
            outlet.close_within(Duration::from_millis(1)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }

    #[test]
    fn where_the_terminal_ends_a_row_is_cut_and_a_sentence_goes_on() {
        assert_eq!(fitting_row("running → exited".into(), Some(10)), "running →…");
        assert_eq!(fitting_row("running → exited".into(), None), "running → exited");
        assert_eq!(fitting("it did not answer".into(), Some(12)), ["it did not", "    answer"]);
        assert_eq!(fitting("it did not answer".into(), None), ["it did not answer"]);
        assert_eq!(fitting("\u{1b}[31mred\u{1b}[0m".into(), Some(3)), ["\u{1b}[31mred\u{1b}[0m"]);
    }

    #[tokio::test]
    async fn a_closed_pipe_is_noticed_and_waits_for_nobody() {
        let outlet = Outlet::plain(Closed);
        outlet.line("a".into());
        outlet.broken().await;
        outlet.settle().await;
        assert_eq!(outlet.close().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
