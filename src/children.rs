//! Runs child programs, each in its own process group, so that everything it starts can be ended with it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process_group, waitid};

/// The word that makes a plegctl the guard of a process group.
pub const GUARD: &str = "guard-group";

/// This program, even if its file was replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// A child, and the process group that it shares with what it starts.
#[derive(Debug)]
pub struct ProcessGroup {
    /// The id of the group.
    id: Pid,
    /// The id of the child.
    pid: Pid,
    /// `None` once the child is reaped: after that, another process may get its id.
    child: Mutex<Option<Child>>,
    /// The leader of the group, which ends the group when this process has ended; without it the child is the leader.
    guard: Mutex<Option<Child>>,
}

impl ProcessGroup {
    /// Starts `command` as the leader of a new process group.
    pub fn start(command: &mut Command) -> io::Result<(Self, Option<ChildStdout>)> {
        let child = command.process_group(0).spawn()?;
        Ok(Self::of(Pid::from_child(&child), child, None))
    }

    /// Starts `command` in a process group that ends when this process does, whatever ends this process. Ctrl-C does not
    /// reach another process group.
    pub fn start_guarded(command: &mut Command) -> io::Result<(Self, Option<ChildStdout>)> {
        // The guard leads the group and starts first, so that at no moment `command` runs without a guard.
        let Ok(mut guard) = start_guard() else {
            // Where no further process can be had, the answer is still wanted.
            return Self::start(command);
        };
        let group = Pid::from_child(&guard);
        match command.process_group(group.as_raw_nonzero().get()).spawn() {
            Ok(child) => Ok(Self::of(group, child, Some(guard))),
            Err(why) => {
                // The guard ends when its stdin is closed, which waiting for it does.
                let _ = guard.wait();
                Err(why)
            }
        }
    }

    fn of(id: Pid, mut child: Child, guard: Option<Child>) -> (Self, Option<ChildStdout>) {
        let stdout = child.stdout.take();
        let pid = Pid::from_child(&child);
        (Self { id, pid, child: Mutex::new(Some(child)), guard: Mutex::new(guard) }, stdout)
    }

    /// Waits until the child has ended, then ends the rest of its group. Blocks while the child runs.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        // The child is not reaped yet: until then, its id cannot name another process group.
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.pid), how) {
                Err(rustix::io::Errno::INTR) => {}
                ended => break ended.map(drop)?,
            }
        }
        let mut child = self.child();
        let Some(mut ended) = child.take() else { return Err(io::Error::other("it was waited for before")) };
        self.kill();
        if let Some(mut guard) = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It is in the group, and has ended with it.
            let _ = guard.wait();
        }
        ended.wait()
    }

    /// Ends the child and its whole group, unless the child was reaped.
    pub fn end(&self) {
        let child = self.child();
        if child.is_some() {
            self.kill();
        }
    }

    /// Ends the group. The caller holds the lock on the child.
    fn kill(&self) {
        // The group may have ended by itself.
        let _ = kill_process_group(self.id, Signal::KILL);
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts plegctl as the guard and leader of a new process group.
fn start_guard() -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "it is this very program")]
    let mut guard = Command::new(OURSELVES);
    guard
        .arg(GUARD)
        .current_dir("/")
        // Its other end is closed when this process ends.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// What the guard of a group does: waits until the process that started it has ended, and ends its own group then.
pub fn guard() -> io::Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(kill_process_group(getpgrp(), Signal::KILL)?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "this is about other programs")]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    use super::*;

    /// Starts a shell that starts a child, prints the child's id and then runs `then`.
    fn shell(then: &str) -> (ProcessGroup, BufReader<ChildStdout>, String) {
        let script = format!("sleep 600 & echo $!; {then}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let (group, stdout) = ProcessGroup::start(&mut command).unwrap();
        let mut stdout = BufReader::new(stdout.unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        (group, stdout, line.trim().to_owned())
    }

    /// Reads to the end of the pipe, which the grandchild holds open.
    fn to_the_end(mut stdout: BufReader<ChildStdout>) {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
    }

    #[test]
    fn what_a_child_leaves_behind_ends_with_it() {
        let (group, stdout, grandchild) = shell("exit 3");
        assert!(!grandchild.is_empty());
        assert_eq!(group.wait().unwrap().code(), Some(3));
        to_the_end(stdout);
        group.end();
        assert!(group.wait().is_err(), "it is reaped");
    }

    #[test]
    fn child_that_does_not_end_is_ended_with_its_own_children() {
        let (group, stdout, _) = shell("wait");
        group.end();
        to_the_end(stdout);
        assert!(!group.wait().unwrap().success());
    }
}
