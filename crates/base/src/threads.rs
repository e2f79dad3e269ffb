//! Runs blocking work in threads, with time limits. If no thread can be started, the functions return an error,
//! because plegctl must also work on a node whose threads are exhausted.
//!
//! tokio's own functions are not used for this: tokio panics if it cannot start a thread for blocking work, and if an
//! event loop is dropped inside another event loop.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Runs blocking work in its own thread. Work that panics is an error.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, result) = oneshot::channel();
    spawn("blocking", move || {
        // The receiver may be gone.
        let _ = sender.send(work());
    })?;
    result.await.map_err(|_| io::Error::other("plegctl itself failed"))
}

/// Runs blocking work in its own thread and waits at most `limit`. After that, the thread is abandoned and the error
/// is [`io::ErrorKind::TimedOut`].
pub fn with_time_limit<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    start("within", work)?.wait(limit)
}

/// Starts blocking work in its own thread.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<StartedWork<T>> {
    let (sender, result) = mpsc::sync_channel(1);
    spawn(name, move || {
        // The receiver may be gone.
        let _ = sender.send(work());
    })?;
    Ok(StartedWork { result })
}

/// Blocking work that a thread does.
pub struct StartedWork<T> {
    /// Gets the result when the work ends, and is closed if the work panics.
    result: mpsc::Receiver<T>,
}

impl<T> StartedWork<T> {
    /// Waits at most `limit` for the result. After that, the thread is abandoned and the error is
    /// [`io::ErrorKind::TimedOut`].
    pub fn wait(self, limit: Duration) -> io::Result<T> {
        self.result.recv_timeout(limit).map_err(|why| match why {
            RecvTimeoutError::Timeout => {
                let why = format!("it did not answer within {}", humantime::format_duration(limit));
                io::Error::new(io::ErrorKind::TimedOut, why)
            }
            RecvTimeoutError::Disconnected => io::Error::other("plegctl itself failed"),
        })
    }
}

/// Does the same as [`with_time_limit`]. If no thread can be started, runs the work in this thread without a time
/// limit, so that reading a small file does not fail for lack of a thread.
pub fn with_time_limit_if_possible<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Clone + Send + 'static,
) -> io::Result<T> {
    match with_time_limit(limit, work.clone()) {
        Err(why) if why.kind() != io::ErrorKind::TimedOut => Ok(work()),
        ended => ended,
    }
}

/// Locks `mutex`, even if another thread panicked while it held the lock, so that one panic does not cause another.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread and does not wait for it.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let refused = |why: io::Error| io::Error::new(why.kind(), format!("no thread can be started: {why}"));
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(refused)
}

/// Threads of [`spawn_or_reuse`] whose work has ended.
static IDLE: Mutex<Vec<mpsc::Sender<Work>>> = Mutex::new(Vec::new());

/// The largest number of threads that wait for more work.
const MAX_IDLE: usize = 4;

/// Work for a thread.
type Work = Box<dyn FnOnce() + Send>;

/// Does the same as [`spawn`], in a thread whose earlier work has ended if there is one: starting a thread takes longer than
/// reading a few small files.
pub fn spawn_or_reuse(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut work: Work = Box::new(work);
    while let Some(idle) = { locked(&IDLE).pop() } {
        match idle.send(work) {
            Ok(()) => return Ok(()),
            Err(mpsc::SendError(back)) => work = back,
        }
    }
    spawn(name, move || {
        let mut next = Some(work);
        while let Some(work) = next.take() {
            work();
            next = wait_for_work();
        }
    })
}

/// Waits until [`spawn_or_reuse`] has more work; `None` if enough threads wait already.
fn wait_for_work() -> Option<Work> {
    let (sender, work) = mpsc::channel();
    {
        let mut idle = locked(&IDLE);
        if idle.len() >= MAX_IDLE {
            return None;
        }
        idle.push(sender);
    }
    work.recv().ok()
}

/// Runs `work` on its own thread with its own event loop.
pub fn run_event_loop(name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let event_loop = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let slot = Arc::new(Mutex::new(Some(event_loop)));
    let threads_slot = Arc::clone(&slot);
    let started = spawn(name, move || {
        let event_loop = locked(&threads_slot).take();
        if let Some(event_loop) = event_loop {
            event_loop.block_on(work);
        }
    });
    if started.is_err()
        && let Some(event_loop) = locked(&slot).take()
    {
        // This waits for nothing, so it is allowed inside another event loop.
        event_loop.shutdown_background();
    }
    started
}

/// Resolves `HOST:PORT`. A host name is looked up in a thread, because that may block; an IP address needs no thread.
pub async fn resolve_address(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(parsed) = address.parse() {
        return Ok(vec![parsed]);
    }
    let name = address.to_owned();
    blocking(move || name.to_socket_addrs().map(Iterator::collect)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_exceeds_the_time_limit_is_abandoned() {
        let (release, blocked) = mpsc::channel::<()>();
        let late = with_time_limit(Duration::from_millis(1), move || blocked.recv());
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(release);
        assert_eq!(with_time_limit(Duration::from_secs(60), || 7).unwrap(), 7);
    }

    #[test]
    fn a_thread_whose_work_has_ended_does_the_next_work_and_one_that_hangs_does_not() {
        let started = |work: Box<dyn FnOnce() + Send>| {
            let (sender, thread) = mpsc::channel();
            let work = move || {
                sender.send(thread::current().id()).unwrap();
                work();
            };
            spawn_or_reuse("test", work).unwrap();
            thread.recv().unwrap()
        };
        let first = started(Box::new(|| ()));
        while locked(&IDLE).is_empty() {
            thread::yield_now();
        }
        let (release, blocked) = mpsc::channel::<()>();
        let second = started(Box::new(move || _ = blocked.recv()));
        assert_eq!(second, first);
        assert_ne!(started(Box::new(|| ())), first, "it still works");
        drop(release);
    }

    #[tokio::test]
    async fn blocking_work_returns_its_result_and_a_panic_is_an_error() {
        assert_eq!(blocking(|| 7).await.unwrap(), 7);
        assert!(blocking(|| panic!("no")).await.map(|(): ()| ()).is_err());
        let (sender, answer) = oneshot::channel();
        run_event_loop("test", async { sender.send(8).unwrap() }).unwrap();
        assert_eq!(answer.await.unwrap(), 8);
    }

    #[tokio::test]
    async fn an_ip_address_is_parsed_and_a_name_is_looked_up() {
        let one: Vec<SocketAddr> = vec!["[::1]:2".parse().unwrap()];
        assert_eq!(resolve_address("[::1]:2").await.unwrap(), one);
        assert!(
            resolve_address("localhost:3").await.unwrap().iter().all(|address| address.ip().is_loopback())
        );
        assert!(resolve_address("no port").await.is_err());
    }
}
