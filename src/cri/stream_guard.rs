//! The guard: a small second process that closes the event stream if plegctl stops reading it.
//!
//! On containerd 2.x, a client that keeps its connection open without reading it blocks the creation of every pod. A process
//! that is stopped (SIGSTOP, a debugger) cannot close its connection, so the guard process has the same connection open.
//!
//! As soon as the connection has unread data, the guard sends a ping (one byte) to the reading thread, which sends it back.
//! Without an answer, the guard shuts the connection down. While no data arrives, the guard sends a ping every 10 s. The
//! reading thread closes the connection as soon as the guard has ended, so that no stream is open without a guard.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The hidden command with which plegctl starts itself as a guard.
pub const COMMAND: &str = "guard-stream";

/// The timing of a guard.
struct GuardTiming {
    /// The time limit for the answer to a ping, long enough for a busy machine.
    answer_limit: Duration,
    /// The pause after an answer, so that a busy stream does not cause a ping for each event.
    pause: Duration,
    /// The interval of pings while no data arrives.
    idle_interval: Duration,
}

const TIMING: GuardTiming = GuardTiming {
    answer_limit: Duration::from_millis(1500),
    pause: Duration::from_millis(250),
    idle_interval: Duration::from_secs(10),
};

/// The path of this program, valid even if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A running guard process. The process ends when this value is dropped, and when plegctl ends.
#[derive(Debug)]
pub struct StreamGuard {
    process: Child,
    /// The socket on which the guard reports that it closed the connection.
    alarm_socket: UnixStream,
    /// Whether the reading thread has noticed that the guard has ended.
    is_gone: Arc<AtomicBool>,
    alarm: Option<GuardAlarm>,
}

/// The reading thread's end of the connection to its guard.
#[derive(Debug)]
pub struct GuardPings {
    socket: UnixStream,
    is_gone: Arc<AtomicBool>,
}

impl GuardPings {
    /// Sends back everything that arrives, until the guard has ended.
    pub async fn answer(self) {
        let Self { socket, is_gone } = self;
        if let Ok(mut socket) =
            socket.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(socket))
        {
            let (mut received, mut sent) = socket.split();
            let _ = tokio::io::copy(&mut received, &mut sent).await;
        }
        is_gone.store(true, Ordering::SeqCst);
    }
}

/// The reason why the stream was closed although the runtime did not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardAlarm {
    /// The reader did not answer, so the guard closed the connection.
    ReaderStopped,
    /// The guard process is gone.
    GuardGone,
}

impl StreamGuard {
    /// Starts a guard for `connection`. Also returns the end of the guard's pings for the reading thread.
    pub fn start(connection: OwnedFd) -> io::Result<(Self, GuardPings)> {
        let (alarm_socket, guard_alarm_socket) = UnixStream::pair()?;
        let (pings, guard_pings) = UnixStream::pair()?;
        alarm_socket.set_nonblocking(true)?;
        #[expect(clippy::disallowed_methods, reason = "the program starts only itself")]
        let mut command = Command::new(OWN_PROGRAM);
        let process = command
            .arg(COMMAND)
            .current_dir("/")
            .stdin(Stdio::from(connection))
            .stdout(Stdio::from(OwnedFd::from(guard_alarm_socket)))
            // The guard prints nothing, so its stderr is free for the pings.
            .stderr(Stdio::from(OwnedFd::from(guard_pings)))
            // The guard has its own process group, so that Ctrl-C and Ctrl-Z do not reach it.
            .process_group(0)
            .spawn()?;
        let is_gone = Arc::<AtomicBool>::default();
        let pings = GuardPings { socket: pings, is_gone: Arc::clone(&is_gone) };
        Ok((Self { process, alarm_socket, is_gone, alarm: None }, pings))
    }

    /// Returns the alarm if the guard has closed the connection, or if the guard process is gone.
    pub fn alarm(&mut self) -> Option<GuardAlarm> {
        if self.alarm.is_none() {
            self.alarm = match self.alarm_socket.read(&mut [0; 1]) {
                Ok(length) if length > 0 => Some(GuardAlarm::ReaderStopped),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    // The kernel may close the sockets of an ended guard one after the other.
                    self.is_gone.load(Ordering::SeqCst).then_some(GuardAlarm::GuardGone)
                }
                _ => Some(GuardAlarm::GuardGone),
            };
        }
        self.alarm
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        // The guard may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the guard, in its own process. Its stdin is the connection, its stdout the socket for the alarm, its stderr the
/// socket to the reading thread.
#[expect(clippy::disallowed_methods, reason = "stdout and stderr are sockets here")]
pub fn run() -> io::Result<()> {
    let connection = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let alarm_socket = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let reader = UnixStream::from(io::stderr().as_fd().try_clone_to_owned()?);
    guard_connection(&alarm_socket, &reader, &connection, &TIMING)
}

/// Guards the connection until the reader stops answering or ends, then closes the connection.
fn guard_connection(
    mut alarm_socket: &UnixStream,
    reader: &UnixStream,
    connection: &UnixStream,
    timing: &GuardTiming,
) -> io::Result<()> {
    let answered = watch_reader(reader, connection, timing)?;
    if !answered {
        // The alarm is sent first, so that plegctl knows the reason when its stream ends. If plegctl is dead, nobody needs the
        // alarm.
        let _ = alarm_socket.write(&[0]);
    }
    // The runtime may have closed the connection already.
    let _ = connection.shutdown(Shutdown::Both);
    if answered {
        // The guard waits until plegctl closes the socket. If the guard ended earlier, plegctl would report a killed guard.
        let _ = io::copy(&mut alarm_socket, &mut io::sink());
    }
    Ok(())
}

/// Sends pings until one is not answered (returns false), or until the reader has closed its side, on purpose or because its
/// process ended (returns true).
fn watch_reader(mut reader: &UnixStream, connection: &UnixStream, timing: &GuardTiming) -> io::Result<bool> {
    reader.set_read_timeout(Some(timing.answer_limit))?;
    loop {
        wait_readable([connection, reader], timing.idle_interval)?;
        if reader.write(&[0]).is_err() {
            return Ok(true);
        }
        match read(reader) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(why) => return Ok(why.kind() != ErrorKind::WouldBlock),
        }
        wait_readable([reader], timing.pause)?;
    }
}

/// Reads the answer to a ping.
fn read(mut reader: &UnixStream) -> io::Result<usize> {
    loop {
        match reader.read(&mut [0; 1]) {
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// Waits until one of the streams has data or has ended, or for `limit`.
fn wait_readable<const N: usize>(streams: [&UnixStream; N], limit: Duration) -> io::Result<()> {
    let mut watched = streams.map(|stream| PollFd::new(stream, PollFlags::IN));
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut watched, Some(&limit)) {
        // An early return causes only an early ping.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(1);

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    fn is_over(mut end: &UnixStream) -> bool {
        end.read(&mut [0; 1]).unwrap() == 0
    }

    fn is_open(mut end: &UnixStream) -> bool {
        end.set_nonblocking(true).unwrap();
        let open = end.read(&mut [0; 1]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock);
        end.set_nonblocking(false).unwrap();
        open
    }

    #[test]
    fn unread_data_closes_the_connection_after_an_alarm() {
        let (ours, mut runtime) = pair();
        let (mut alarm_socket, guard_alarm_socket) = pair();
        let (_silent_reader, guard_pings) = pair();
        runtime.write_all(b"an event").unwrap();
        guard_connection(
            &guard_alarm_socket,
            &guard_pings,
            &ours,
            &GuardTiming { answer_limit: SHORT, pause: LONG, idle_interval: LONG },
        )
        .unwrap();
        assert_eq!(alarm_socket.read(&mut [0; 1]).unwrap(), 1);
        assert!(is_over(&runtime));
    }

    #[test]
    fn guard_sends_pings_while_no_data_arrives() {
        let (ours, runtime) = pair();
        let (mut alarm_socket, guard_alarm_socket) = pair();
        let (_silent_reader, guard_pings) = pair();
        guard_connection(
            &guard_alarm_socket,
            &guard_pings,
            &ours,
            &GuardTiming { answer_limit: SHORT, pause: LONG, idle_interval: SHORT },
        )
        .unwrap();
        assert_eq!(alarm_socket.read(&mut [0; 1]).unwrap(), 1);
        assert!(is_over(&runtime));
    }

    #[test]
    fn connection_of_a_reader_that_answers_stays_open_until_the_reader_ends() {
        let (ours, mut runtime) = pair();
        let (alarm_socket, guard_alarm_socket) = pair();
        let (mut reader, guard_pings) = pair();
        // The event stays unread, so the guard sees data each time.
        runtime.write_all(b"an event").unwrap();
        let guard = thread::spawn(move || {
            guard_connection(
                &guard_alarm_socket,
                &guard_pings,
                &ours,
                &GuardTiming { answer_limit: LONG, pause: SHORT, idle_interval: LONG },
            )
        });
        for _ in 0..5 {
            assert_eq!(reader.read(&mut [0; 64]).unwrap(), 1, "one ping at a time");
            assert!(is_open(&runtime));
            reader.write_all(&[0]).unwrap();
        }
        drop(reader);
        assert!(is_over(&runtime));
        assert!(
            is_open(&alarm_socket),
            "a reader that closes its side raises no alarm, and the guard still runs"
        );
        drop(alarm_socket);
        guard.join().unwrap().unwrap();
    }

    #[test]
    fn end_of_plegctl_closes_the_connection() {
        let (ours, runtime) = pair();
        let (alarm_socket, guard_alarm_socket) = pair();
        let (reader, guard_pings) = pair();
        drop((alarm_socket, reader));
        guard_connection(
            &guard_alarm_socket,
            &guard_pings,
            &ours,
            &GuardTiming { answer_limit: LONG, pause: LONG, idle_interval: LONG },
        )
        .unwrap();
        assert!(is_over(&runtime));
    }

    #[test]
    fn end_of_the_reader_is_noticed_while_no_data_arrives() {
        let (ours, runtime) = pair();
        let (alarm_socket, guard_alarm_socket) = pair();
        let (reader, guard_pings) = pair();
        let guard = thread::spawn(move || {
            guard_connection(
                &guard_alarm_socket,
                &guard_pings,
                &ours,
                &GuardTiming { answer_limit: LONG, pause: LONG, idle_interval: LONG },
            )
        });
        drop(reader);
        assert!(is_over(&runtime));
        drop(alarm_socket);
        guard.join().unwrap().unwrap();
    }
}
