//! A small process that hangs up when plegctl stands still.
//!
//! On containerd 2.x a reader that holds its connection open and does not read blocks the creation of every pod. A process
//! that was stopped hard (SIGSTOP, a debugger) can close nothing, so another one holds the same connection, hears from the
//! reading thread a few times a second, and shuts the connection down when it hears nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cmd::{Error, Exit};
use crate::cri::PULSE;

/// The word that makes a plegctl a guard.
pub const COMMAND: &str = "guard-stream";

/// How long the reader may be silent: several beats, so that a busy machine is no reason.
const PATIENCE: Duration = PULSE.saturating_mul(6);

/// This program, even if its file was replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// A running guard. It ends when this is dropped, or when this process ends in whatever way.
#[derive(Debug)]
pub struct Guard {
    process: Child,
    line: UnixStream,
    alarm: Option<Alarm>,
}

/// Why there is no stream any more although the runtime did not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The guard heard nothing and hung up.
    StoodStill,
    /// The guard itself is gone.
    Unguarded,
}

impl Guard {
    /// Starts a guard over `connection`, and gives what is to be called while it is being read.
    pub fn start(connection: OwnedFd) -> io::Result<(Self, impl FnMut() + Send + 'static)> {
        let (line, far_end) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        #[expect(clippy::disallowed_methods, reason = "it is this very program")]
        let mut command = Command::new(OURSELVES);
        let process = command
            .arg(COMMAND)
            .current_dir("/")
            .stdin(Stdio::from(connection))
            .stdout(Stdio::from(OwnedFd::from(far_end)))
            .stderr(Stdio::null())
            // Ctrl-C and Ctrl-Z are for us, not for it.
            .process_group(0)
            .spawn()?;
        let beats = line.try_clone()?;
        let beat = move || {
            // A guard that does not listen is noticed by `alarm`.
            let _ = (&beats).write(&[0]);
        };
        Ok((Self { process, line, alarm: None }, beat))
    }

    /// Whether the guard has hung up, or is gone.
    pub fn alarm(&mut self) -> Option<Alarm> {
        if self.alarm.is_none() {
            self.alarm = match self.line.read(&mut [0; 1]) {
                Ok(length) if length > 0 => Some(Alarm::StoodStill),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
                _ => Some(Alarm::Unguarded),
            };
        }
        self.alarm
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the guard does: the connection is its stdin, the line to plegctl its stdout.
pub fn run() -> Result<Exit, Error> {
    let connection = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(Error::Start)?);
    let line = UnixStream::from(io::stdout().as_fd().try_clone_to_owned().map_err(Error::Start)?);
    line.set_read_timeout(Some(PATIENCE)).map_err(Error::Start)?;
    watch(&line, &connection);
    Ok(Exit::Good)
}

fn watch(mut line: &UnixStream, connection: &UnixStream) {
    let mut beats = [0; 64];
    loop {
        match line.read(&mut beats) {
            // plegctl is done, or dead.
            Ok(0) => break,
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                // Told first, so that plegctl knows when it meets the end of its stream. If it is dead, nobody has to know.
                let _ = line.write(&[0]);
                break;
            }
        }
    }
    // The runtime may have closed it already.
    let _ = connection.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    fn is_over(mut end: &UnixStream) -> bool {
        end.read(&mut [0; 1]).unwrap() == 0
    }

    #[test]
    fn silence_ends_the_connection_and_is_told_before() {
        let (ours, runtime) = connection();
        let (mut line, far_end) = connection();
        far_end.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        watch(&far_end, &ours);
        assert_eq!(line.read(&mut [0; 1]).unwrap(), 1);
        assert!(is_over(&runtime));
    }

    #[test]
    fn the_end_of_plegctl_ends_the_connection() {
        let (ours, runtime) = connection();
        let (mut line, far_end) = connection();
        line.write_all(&[0, 0]).unwrap();
        drop(line);
        watch(&far_end, &ours);
        assert!(is_over(&runtime));
    }
}
