//! Where a watch writes: a thread for each destination, so that a blocked terminal, pipe or disk blocks nothing else.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Notify;

/// How many lines may wait before the watch waits for the writer. Memory is bounded by this and by one relist's events.
const MOST_WAITING: usize = 4096;

/// How long a writer may take for what is left when the watch ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// A destination and the thread that writes to it.
pub struct Outlet {
    lines: mpsc::Sender<Line>,
    progress: Arc<Progress>,
    done: Mutex<mpsc::Receiver<io::Result<()>>>,
}

enum Line {
    Text(String),
    Status(String),
}

#[derive(Default)]
struct Progress {
    waiting: AtomicUsize,
    broken: AtomicBool,
    moved: Notify,
}

impl Outlet {
    /// Lines to a terminal, with a status line that stays below them.
    pub fn terminal() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self::spawn(move |line| {
            match line {
                Some(Line::Text(text)) => bar.println(text),
                Some(Line::Status(text)) => bar.set_message(text),
                None => bar.finish_and_clear(),
            }
            Ok(())
        })
    }

    /// Lines to anything else, each flushed.
    pub fn plain(mut destination: impl Write + Send + 'static) -> Self {
        Self::spawn(move |line| match line {
            Some(Line::Text(mut text)) => {
                text.push('\n');
                destination.write_all(text.as_bytes())?;
                destination.flush()
            }
            Some(Line::Status(_)) | None => Ok(()),
        })
    }

    fn spawn(mut put: impl FnMut(Option<Line>) -> io::Result<()> + Send + 'static) -> Self {
        let (lines, queue) = mpsc::channel();
        let (end, done) = mpsc::channel();
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        thread::spawn(move || {
            let written = write_all(&queue, &mut put, &shared);
            shared.broken.store(written.is_err(), Ordering::SeqCst);
            shared.moved.notify_waiters();
            // Nobody waits for us if the watch ended without patience.
            let _ = end.send(written);
        });
        Self { lines, progress, done: Mutex::new(done) }
    }

    /// Hands over a line; never waits.
    pub fn line(&self, text: String) {
        self.send(Line::Text(text));
    }

    /// Replaces the status line, where there is one; never waits.
    pub fn status(&self, text: String) {
        self.send(Line::Status(text));
    }

    fn send(&self, line: Line) {
        self.progress.waiting.fetch_add(1, Ordering::SeqCst);
        if self.lines.send(line).is_err() {
            self.progress.waiting.fetch_sub(1, Ordering::SeqCst);
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

    /// Writes what is left, for as long as patience lasts.
    pub fn close(self) -> io::Result<()> {
        drop(self.lines);
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.recv_timeout(PATIENCE).unwrap_or(Ok(()))
    }
}

fn write_all(
    queue: &mpsc::Receiver<Line>,
    put: &mut impl FnMut(Option<Line>) -> io::Result<()>,
    progress: &Progress,
) -> io::Result<()> {
    for line in queue {
        put(Some(line))?;
        progress.waiting.fetch_sub(1, Ordering::SeqCst);
        progress.moved.notify_waiters();
    }
    put(None)
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

    #[tokio::test]
    async fn a_closed_pipe_is_noticed_and_waits_for_nobody() {
        let outlet = Outlet::plain(Closed);
        outlet.line("a".into());
        outlet.broken().await;
        outlet.settle().await;
        assert_eq!(outlet.close().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
