//! A small process that hangs up when plegctl stands still.
//!
//! On containerd 2.x a reader that holds its connection open and does not read blocks the creation of every pod. A process
//! that was stopped hard (SIGSTOP, a debugger) can close nothing, so another one holds the same connection. As soon as
//! something lies in it, it asks the reading thread whether it is there, and shuts the connection down when it hears
//! nothing. While the runtime says nothing there is nothing to be read: then it sleeps, and asks now and then all the same.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cmd::{Error, Exit};

/// The word that makes a plegctl a guard.
pub const COMMAND: &str = "guard-stream";

/// How a guard goes about it.
struct Pace {
    /// How long the reader may be silent when it is asked: long enough that a busy machine is no reason.
    patience: Duration,
    /// The pause after an answer, so that a stream that never rests does not cost a question for each event.
    pause: Duration,
    /// After how long it asks although nothing came.
    unasked: Duration,
}

const PACE: Pace = Pace {
    patience: Duration::from_millis(1500),
    pause: Duration::from_millis(250),
    unasked: Duration::from_secs(10),
};

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
    /// Starts a guard over `connection`, and gives the line on which it asks whoever reads that connection.
    pub fn start(connection: OwnedFd) -> io::Result<(Self, UnixStream)> {
        let (line, told) = UnixStream::pair()?;
        let (questions, asks) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        #[expect(clippy::disallowed_methods, reason = "it is this very program")]
        let mut command = Command::new(OURSELVES);
        let process = command
            .arg(COMMAND)
            .current_dir("/")
            .stdin(Stdio::from(connection))
            .stdout(Stdio::from(OwnedFd::from(told)))
            // It has no words for anybody, and so a file to spare.
            .stderr(Stdio::from(OwnedFd::from(asks)))
            // Ctrl-C and Ctrl-Z are for us, not for it.
            .process_group(0)
            .spawn()?;
        Ok((Self { process, line, alarm: None }, questions))
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

/// What the guard does: the connection is its stdin, the line to plegctl its stdout, the one to the reader its stderr.
pub fn run() -> Result<Exit, Error> {
    let own = |file: io::Result<OwnedFd>| file.map(UnixStream::from).map_err(Error::Start);
    let connection = own(io::stdin().as_fd().try_clone_to_owned())?;
    let line = own(io::stdout().as_fd().try_clone_to_owned())?;
    let reader = own(io::stderr().as_fd().try_clone_to_owned())?;
    watch(&line, &reader, &connection, &PACE).map_err(Error::Start)?;
    Ok(Exit::Good)
}

fn watch(mut line: &UnixStream, reader: &UnixStream, connection: &UnixStream, pace: &Pace) -> io::Result<()> {
    let answered = attend(reader, connection, pace)?;
    if !answered {
        // Told first, so that plegctl knows when it meets the end of its stream. If it is dead, nobody has to know.
        let _ = line.write(&[0]);
    }
    // The runtime may have closed it already.
    let _ = connection.shutdown(Shutdown::Both);
    if answered {
        // A guard that leaves before plegctl has seen the end of the stream looks like one that was killed.
        let _ = io::copy(&mut line, &mut io::sink());
    }
    Ok(())
}

/// Asks for as long as there is an answer; whether the reader has ended its side, in good order or with its process.
fn attend(mut reader: &UnixStream, connection: &UnixStream, pace: &Pace) -> io::Result<bool> {
    reader.set_read_timeout(Some(pace.patience))?;
    loop {
        something_in([connection, reader], pace.unasked)?;
        if reader.write(&[0]).is_err() {
            return Ok(true);
        }
        match read(reader) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(why) => return Ok(why.kind() != ErrorKind::WouldBlock),
        }
        something_in([reader], pace.pause)?;
    }
}

/// An answer to the one question that is open.
fn read(mut reader: &UnixStream) -> io::Result<usize> {
    loop {
        match reader.read(&mut [0; 1]) {
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// Waits until there is something to be read in one of them, or one of them has ended, or for so long.
fn something_in<const N: usize>(streams: [&UnixStream; N], longest: Duration) -> io::Result<()> {
    let mut watched = streams.map(|stream| PollFd::new(stream, PollFlags::IN));
    let longest = Timespec::try_from(longest).map_err(io::Error::other)?;
    match poll(&mut watched, Some(&longest)) {
        // Earlier than need be is no harm.
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
    fn what_lies_there_unread_ends_the_connection_and_that_is_told_before() {
        let (ours, mut runtime) = pair();
        let (mut line, told) = pair();
        let (_stands_still, asks) = pair();
        runtime.write_all(b"an event").unwrap();
        watch(&told, &asks, &ours, &Pace { patience: SHORT, pause: LONG, unasked: LONG }).unwrap();
        assert_eq!(line.read(&mut [0; 1]).unwrap(), 1);
        assert!(is_over(&runtime));
    }

    #[test]
    fn it_asks_now_and_then_although_nothing_came() {
        let (ours, runtime) = pair();
        let (mut line, told) = pair();
        let (_stands_still, asks) = pair();
        watch(&told, &asks, &ours, &Pace { patience: SHORT, pause: LONG, unasked: SHORT }).unwrap();
        assert_eq!(line.read(&mut [0; 1]).unwrap(), 1);
        assert!(is_over(&runtime));
    }

    #[test]
    fn a_reader_that_answers_keeps_its_connection_until_it_leaves() {
        let (ours, mut runtime) = pair();
        let (line, told) = pair();
        let (mut reader, asks) = pair();
        // However fast it reads, the guard may see something each time.
        runtime.write_all(b"an event").unwrap();
        let guard = thread::spawn(move || {
            watch(&told, &asks, &ours, &Pace { patience: LONG, pause: SHORT, unasked: LONG })
        });
        for _ in 0..5 {
            assert_eq!(reader.read(&mut [0; 64]).unwrap(), 1, "one question at a time");
            assert!(is_open(&runtime));
            reader.write_all(&[0]).unwrap();
        }
        drop(reader);
        assert!(is_over(&runtime));
        assert!(is_open(&line), "an end in good order is no alarm, and the guard is still there");
        drop(line);
        guard.join().unwrap().unwrap();
    }

    #[test]
    fn the_end_of_plegctl_ends_the_connection() {
        let (ours, runtime) = pair();
        let (line, told) = pair();
        let (reader, asks) = pair();
        drop((line, reader));
        watch(&told, &asks, &ours, &Pace { patience: LONG, pause: LONG, unasked: LONG }).unwrap();
        assert!(is_over(&runtime));
    }

    #[test]
    fn a_reader_that_leaves_is_noticed_while_nothing_comes() {
        let (ours, runtime) = pair();
        let (line, told) = pair();
        let (reader, asks) = pair();
        let guard = thread::spawn(move || {
            watch(&told, &asks, &ours, &Pace { patience: LONG, pause: LONG, unasked: LONG })
        });
        drop(reader);
        assert!(is_over(&runtime));
        drop(line);
        guard.join().unwrap().unwrap();
    }
}
