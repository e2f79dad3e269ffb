//! The signals and time limits that end a command.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use rustix::process::{Signal as Kind, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Sleep;

use crate::optional_future::or_pending;

/// Signals that end a program by default, but that nobody sends to end plegctl. XFSZ means that a file
/// exceeds `ulimit -f`, which is an error of that file.
const HARMLESS: [Kind; 4] = [Kind::USR1, Kind::USR2, Kind::ALARM, Kind::XFSZ];

/// Makes this process survive the harmless signals. This cannot be undone: tokio never removes a handler. Call
/// it inside an event loop.
pub fn outlive_harmless() -> io::Result<()> {
    HARMLESS.into_iter().try_for_each(outlive)
}

/// Makes this process ignore the end of its terminal, and a request to reopen files that arrives too early.
pub fn outlive_hangup() -> io::Result<()> {
    outlive(Kind::HUP)
}

fn outlive(kind: Kind) -> io::Result<()> {
    signal(SignalKind::from_raw(kind.as_raw())).map(drop)
}

/// Ctrl-C, SIGTERM and `--for`.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl StopSignals {
    /// Starts to listen; the deadline starts now too.
    pub fn listen(lasting: Option<Duration>) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            deadline: lasting.map(|lasting| Box::pin(tokio::time::sleep(lasting))),
        })
    }

    /// Resolves at the first signal, or at the deadline.
    pub async fn next(&mut self) {
        let Self { interrupt, terminate, deadline } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = or_pending(deadline.as_mut()) => {}
        }
    }
}

/// Ctrl-Z, for a command that has to close something before it is suspended.
pub struct Suspension(Signal);

impl Suspension {
    /// Starts to catch Ctrl-Z; from now on only [`Self::stop_here`] stops the process.
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::from_raw(Kind::TSTP.as_raw())).map(Self)
    }

    /// Resolves when Ctrl-Z is pressed.
    pub async fn requested(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops this process; resolves when the process continues.
    pub async fn stop_here() -> io::Result<()> {
        let mut continued = signal(SignalKind::from_raw(Kind::CONT.as_raw()))?;
        kill_process(getpid(), Kind::STOP)?;
        continued.recv().await;
        Ok(())
    }
}
