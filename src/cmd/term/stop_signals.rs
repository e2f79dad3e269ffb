//! The signals and the time limit that end or suspend a command.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use rustix::process::{Signal as Kind, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Sleep;

use crate::host::proc::usage::SignalSets;
use crate::optional_future::or_pending;

/// Signals that kill a program by default, but that must not kill plegctl. XFSZ means that a file exceeds `ulimit
/// -f`; writing that file fails with an error anyway.
const IGNORED: [Kind; 4] = [Kind::USR1, Kind::USR2, Kind::ALARM, Kind::XFSZ];

/// Makes this process ignore the signals in [`IGNORED`], for as long as it runs, because tokio never removes a
/// handler. Must be called inside an event loop.
pub fn ignore_harmless() -> io::Result<()> {
    IGNORED.into_iter().try_for_each(ignore)
}

/// Makes this process ignore SIGHUP: the end of its terminal, or a request to reopen files that arrives too early.
pub fn ignore_hangup() -> io::Result<()> {
    ignore(Kind::HUP)
}

fn ignore(kind: Kind) -> io::Result<()> {
    signal(SignalKind::from_raw(kind.as_raw())).map(drop)
}

/// What ends a command: Ctrl-C, SIGTERM and the time limit of `--for`.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl StopSignals {
    /// Starts to listen; the deadline starts now too.
    pub fn listen(lasting: Option<Duration>) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: None,
            deadline: lasting.map(|lasting| Box::pin(tokio::time::sleep(lasting))),
        })
    }

    /// Listens also to SIGHUP, the end of the terminal, unless `nohup` makes this process ignore it.
    pub fn or_hangup(self) -> io::Result<Self> {
        let sets = SignalSets::read(Path::new("/proc"), std::process::id());
        let is_ignored = sets.is_some_and(|sets| sets.ignores_hangup());
        let hangup = (!is_ignored).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { hangup, ..self })
    }

    /// Resolves at the first signal, or at the deadline.
    pub async fn next(&mut self) {
        let Self { interrupt, terminate, hangup, deadline } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = or_pending(hangup.as_mut().map(Signal::recv)) => {}
            () = or_pending(deadline.as_mut()) => {}
        }
    }
}

/// Ctrl-Z, for a command that has to close the event stream before it is suspended.
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
