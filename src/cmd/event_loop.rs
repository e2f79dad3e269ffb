//! Runs a command's work on an event loop in this thread.

use std::io;
use std::os::unix::net::{UnixDatagram, UnixStream};

use tokio::runtime::{Builder, Runtime};

use super::Error;
use crate::cmd::term::stop_signals;

/// Runs `work` on an event loop in this thread. What needs the event loop, such as a timer, must be created by `work`
/// itself, not in the argument, which is evaluated before the event loop exists.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let event_loop = new_event_loop()?;
    let answer = event_loop.block_on(work);
    // A pending call must not delay the exit.
    event_loop.shutdown_background();
    Ok(answer)
}

/// Like [`block_on`], for the last work of a process. Pending calls are not dropped, because freeing a list of
/// many entries may take longer than the process may still run.
pub fn block_on_to_the_end<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let event_loop = new_event_loop()?;
    let answer = event_loop.block_on(work);
    std::mem::forget(event_loop);
    Ok(answer)
}

/// Creates the event loop of this thread.
fn new_event_loop() -> Result<Runtime, Error> {
    // tokio panics if it cannot open all five descriptors of an event loop, so these are opened and closed here first, and
    // three more for the files that other threads read meanwhile.
    let descriptors = || -> io::Result<_> {
        let pairs = (UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?);
        Ok((pairs, UnixDatagram::unbound()?, UnixDatagram::unbound()?))
    };
    drop(descriptors().map_err(Error::Start)?);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    let entered = runtime.enter();
    stop_signals::ignore_harmless().map_err(Error::Start)?;
    drop(entered);
    Ok(runtime)
}
