//! What ends a watch from outside.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use rustix::process::{Signal as Kind, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Sleep;

/// Signals that end a program which does not handle them, and that nobody sends to end one: the last is a file that grows
/// beyond `ulimit -f`, which is an error of that file.
const HARMLESS: [Kind; 4] = [Kind::USR1, Kind::USR2, Kind::ALARM, Kind::XFSZ];

/// Keeps this process alive through signals that do not ask for its end, from now on and for good: tokio never gives a
/// handler back. Has to be called inside an event loop.
pub fn outlive_harmless() -> io::Result<()> {
    HARMLESS.into_iter().try_for_each(outlive)
}

/// The same for the end of a terminal, or a request to open files again that comes before anybody listens for it.
pub fn outlive_hangup() -> io::Result<()> {
    outlive(Kind::HUP)
}

fn outlive(kind: Kind) -> io::Result<()> {
    signal(SignalKind::from_raw(kind.as_raw())).map(drop)
}

/// Ctrl-C, SIGTERM and `--for`.
pub struct Stops {
    interrupt: Signal,
    terminate: Signal,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Stops {
    /// Listens from now on; the deadline counts from now too.
    pub fn listen(lasting: Option<Duration>) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            deadline: lasting.map(|lasting| Box::pin(tokio::time::sleep(lasting))),
        })
    }

    /// Resolves when any of them says so.
    pub async fn next(&mut self) {
        let Self { interrupt, terminate, deadline } = self;
        let deadline = async {
            match deadline {
                Some(deadline) => deadline.as_mut().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = deadline => {}
        }
    }
}

/// Ctrl-Z, for whoever has something to put down first.
pub struct Suspension(Signal);

impl Suspension {
    /// From now on Ctrl-Z stops this process only through [`Self::stop_here`].
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::from_raw(Kind::TSTP.as_raw())).map(Self)
    }

    /// Resolves when Ctrl-Z was pressed.
    pub async fn asked(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops this process; resolves when it goes on.
    pub async fn stop_here() -> io::Result<()> {
        let mut continued = signal(SignalKind::from_raw(Kind::CONT.as_raw()))?;
        kill_process(getpid(), Kind::STOP)?;
        continued.recv().await;
        Ok(())
    }
}
