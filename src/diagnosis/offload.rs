//! Runs work that may block for ever, such as reading a file whose disk does not answer, in a separate thread with a
//! time limit. When the limit is over, the run continues, and the thread stays behind until its work ends.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::threads::locked;

/// The time limit for reading a few files.
pub(super) const FILES_TIME_LIMIT: Duration = Duration::from_millis(500);

/// Whether the operating system refused to start a thread. This shows that a limit of processes is reached.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether the operating system refused to start a thread.
pub(super) fn refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Explains why a thread returned no result.
pub(super) fn why_nothing() -> String {
    if refused() { "no thread could be started to read it" } else { "it was not read in time" }.to_owned()
}

/// Runs `work` in a separate thread and collects the values that it sends, until it ends or `limit` is over. Returns the
/// values, and whether the work ended.
pub(super) async fn collect<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&dyn Fn(T)) + Send + 'static,
) -> (Vec<T>, bool) {
    let parts = Arc::new(Mutex::new(Vec::new()));
    let threads_parts = Arc::clone(&parts);
    let (sender, ended) = oneshot::channel::<()>();
    let job = move || {
        work(&|part| locked(&threads_parts).push(part));
        drop(sender);
    };
    let ended = if launch(job) {
        tokio::time::timeout(limit, ended).await.is_ok()
    } else {
        REFUSED.store(true, Ordering::Relaxed);
        false
    };
    let parts = mem::take(&mut *locked(&parts));
    (parts, ended)
}

/// Runs `work` in a separate thread and returns its result, or `None` if the result does not come in time.
pub(super) async fn value<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (mut parts, _) = collect(limit, move |send: &dyn Fn(T)| send(work())).await;
    parts.pop()
}

/// Starts a thread that runs the job; returns false if there is no thread for it.
#[cfg(not(test))]
fn launch(job: impl FnOnce() + Send + 'static) -> bool {
    crate::threads::spawn_or_reuse("look", job).is_ok()
}

/// Starts the job in a test. Uses a thread of tokio, because tokio's paused clock waits only for its own threads.
#[cfg(test)]
fn launch(job: impl FnOnce() + Send + 'static) -> bool {
    drop(tokio::task::spawn_blocking(job));
    true
}
