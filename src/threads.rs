//! Starts threads and returns an error if that fails. A node that has no threads left is exactly the kind of node
//! that plegctl diagnoses.
//!
//! Tokio panics if it cannot start a thread for blocking work, and if an event loop is dropped inside another event
//! loop. These functions avoid both.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Runs blocking work in its own thread.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, answer) = oneshot::channel();
    // The receiver may be gone.
    spawn("blocking", move || drop(sender.send(work())))?;
    answer.await.map_err(|_| io::Error::other("plegctl itself failed"))
}

/// Runs blocking work in its own thread and waits at most `limit`. After that, the thread is abandoned and the error
/// is [`io::ErrorKind::TimedOut`].
pub fn with_time_limit<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, answer) = mpsc::sync_channel(1);
    // The receiver may be gone.
    spawn("within", move || drop(sender.send(work())))?;
    answer.recv_timeout(limit).map_err(|why| match why {
        RecvTimeoutError::Timeout => {
            let why = format!("it did not answer within {}", humantime::format_duration(limit));
            io::Error::new(io::ErrorKind::TimedOut, why)
        }
        RecvTimeoutError::Disconnected => io::Error::other("plegctl itself failed"),
    })
}

/// Does the same as [`with_time_limit`], but runs the work in this thread, without a limit, if no other thread can be
/// started: what reads one small file must not fail for that.
pub fn with_time_limit_if_possible<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Clone + Send + 'static,
) -> io::Result<T> {
    match with_time_limit(limit, work.clone()) {
        Err(why) if why.kind() != io::ErrorKind::TimedOut => Ok(work()),
        ended => ended,
    }
}

/// Locks `mutex`, even if another thread panicked while it held the lock: one panic must not cause others.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread and does not wait for it.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let refused = |why: io::Error| io::Error::new(why.kind(), format!("no thread can be started: {why}"));
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(refused)
}

/// Runs `work` on its own thread with its own event loop.
pub fn run_event_loop(name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let event_loop = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ours = Arc::new(Mutex::new(Some(event_loop)));
    let theirs = Arc::clone(&ours);
    let take = |place: &Mutex<Option<_>>| place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let started = spawn(name, move || {
        let event_loop: Option<tokio::runtime::Runtime> = take(&theirs);
        if let Some(event_loop) = event_loop {
            event_loop.block_on(work);
        }
    });
    if started.is_err()
        && let Some(event_loop) = take(&ours)
    {
        // This waits for nothing, so it is allowed inside another event loop.
        event_loop.shutdown_background();
    }
    started
}

/// Resolves `HOST:PORT`. An IP address needs no thread; a name is looked up in one.
pub async fn resolve_address(place: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = place.parse() {
        return Ok(vec![address]);
    }
    let name = place.to_owned();
    blocking(move || name.to_socket_addrs().map(Iterator::collect)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_blocks_is_left_behind() {
        let (release, blocked) = mpsc::channel::<()>();
        let late = with_time_limit(Duration::from_millis(1), move || blocked.recv());
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(release);
        assert_eq!(with_time_limit(Duration::from_secs(60), || 7).unwrap(), 7);
    }

    #[tokio::test]
    async fn what_blocks_comes_back_and_what_panics_is_an_error() {
        assert_eq!(blocking(|| 7).await.unwrap(), 7);
        assert!(blocking(|| panic!("no")).await.map(|(): ()| ()).is_err());
        let (sender, answer) = oneshot::channel();
        run_event_loop("test", async { sender.send(8).unwrap() }).unwrap();
        assert_eq!(answer.await.unwrap(), 8);
    }

    #[tokio::test]
    async fn an_address_is_itself_and_a_name_is_looked_up() {
        let one: Vec<SocketAddr> = vec!["[::1]:2".parse().unwrap()];
        assert_eq!(resolve_address("[::1]:2").await.unwrap(), one);
        assert!(
            resolve_address("localhost:3").await.unwrap().iter().all(|address| address.ip().is_loopback())
        );
        assert!(resolve_address("no port").await.is_err());
    }
}
