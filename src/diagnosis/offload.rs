//! Runs work that may block for ever in threads that can be left behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

/// The time limit for reading a few files.
pub(super) const FILES_TIME_LIMIT: Duration = Duration::from_millis(500);

/// Whether the operating system refused this process a thread: a limit that may show nowhere else.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether the operating system refused this process a thread.
pub(super) fn refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Explains why such a thread gave no result.
pub(super) fn why_nothing() -> String {
    if refused() { "no thread could be started to read it" } else { "it was not read in time" }.to_owned()
}

/// Runs `work` in a thread of its own and collects what it sends, until it ends or `limit` is over. The
/// second value says whether it ended; if not, the thread is left behind, with only the values sent so far.
pub(super) async fn collect<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&dyn Fn(T)) + Send + 'static,
) -> (Vec<T>, bool) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let job = move || {
        work(&|part| {
            // The receiver is gone: the rest is not needed.
            let _ = sender.send(part);
        });
    };
    let mut parts = Vec::new();
    if !launch(job) {
        REFUSED.store(true, Ordering::Relaxed);
        return (parts, false);
    }
    let all = async {
        while let Some(part) = receiver.recv().await {
            parts.push(part);
        }
    };
    let ended = tokio::time::timeout(limit, all).await.is_ok();
    (parts, ended)
}

/// Returns one value from such a thread, or `None` if it does not come in time.
pub(super) async fn value<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (mut parts, _) = collect(limit, move |send: &dyn Fn(T)| send(work())).await;
    parts.pop()
}

#[cfg(not(test))]
fn launch(job: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name("look".into()).spawn(job).is_ok()
}

/// The test version uses a thread that tokio knows: tokio's paused clock does not wait for others.
#[cfg(test)]
fn launch(job: impl FnOnce() + Send + 'static) -> bool {
    drop(tokio::task::spawn_blocking(job));
    true
}
