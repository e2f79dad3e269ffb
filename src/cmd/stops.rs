//! What ends a watch from outside.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Sleep;

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
