//! Work that may block for ever, in threads that can be left behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

/// Whether this process was refused a thread: a limit that no other evidence may show.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether a thread was wanted and could not be had.
pub(super) fn refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Why there is nothing from such a thread.
pub(super) fn why_nothing() -> String {
    if refused() { "no thread could be started to read it" } else { "it was not read in time" }.to_owned()
}

/// Runs `work` in a thread of its own and collects what it sends, until it ends or `limit` is over. The second value
/// says whether it ended; if not, the thread is left behind and what it had sent is all there is.
pub(super) async fn collect<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&dyn Fn(T)) + Send + 'static,
) -> (Vec<T>, bool) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let job = move || {
        work(&|part| {
            // Nobody listens any more: the rest is not wanted.
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

/// One value from such a thread; `None` if it did not come in time.
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

/// tokio's paused clock stands still only for threads that it knows.
#[cfg(test)]
fn launch(job: impl FnOnce() + Send + 'static) -> bool {
    drop(tokio::task::spawn_blocking(job));
    true
}
