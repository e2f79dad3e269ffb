//! [`ProcessGroup`]: runs a child program in its own process group, so that plegctl can end it together with all
//! processes that it has started.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

pub mod guard;

/// A child, and the process group to which the child and the processes that it starts belong.
#[derive(Debug)]
pub struct ProcessGroup {
    /// The id of the group.
    id: Pid,
    /// The id of the child.
    pid: Pid,
    /// The child; `None` once it is reaped, because another process may then get its id.
    child: Mutex<Option<Child>>,
    /// The guard: it leads the group, and ends the group when plegctl has ended. Without a guard, the child is the
    /// leader.
    guard: Mutex<Option<Child>>,
}

impl ProcessGroup {
    /// Starts `command` as the leader of a new process group.
    pub fn start(command: &mut Command) -> io::Result<(Self, Option<ChildStdout>)> {
        let child = command.process_group(0).spawn()?;
        Ok(Self::new(Pid::from_child(&child), child, None))
    }

    /// Starts `command` in a process group with a guard, which ends the group when plegctl ends for any reason.
    /// Ctrl-C alone would not end the child, because it does not reach another process group.
    pub fn start_guarded(command: &mut Command) -> io::Result<(Self, Option<ChildStdout>)> {
        // The guard starts first, so that `command` never runs without a guard.
        let Ok(mut guard) = guard::start() else {
            // If no second process can be started, the child's answer is still needed.
            return Self::start(command);
        };
        let group = Pid::from_child(&guard);
        match command.process_group(group.as_raw_nonzero().get()).spawn() {
            Ok(child) => Ok(Self::new(group, child, Some(guard))),
            Err(why) => {
                // `wait` closes the guard's stdin, which ends the guard.
                let _ = guard.wait();
                Err(why)
            }
        }
    }

    fn new(id: Pid, mut child: Child, guard: Option<Child>) -> (Self, Option<ChildStdout>) {
        let stdout = child.stdout.take();
        let pid = Pid::from_child(&child);
        (Self { id, pid, child: Mutex::new(Some(child)), guard: Mutex::new(guard) }, stdout)
    }

    /// Takes the child's stderr, if it is a pipe.
    pub fn take_stderr(&self) -> Option<ChildStderr> {
        self.child().as_mut()?.stderr.take()
    }

    /// Waits until the child has ended, then ends the rest of its group. Blocks while the child runs. A child that the kernel
    /// stops because it uses the terminal, which belongs to plegctl's own group, is ended too, and that is an error.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        // The child is not reaped here: until it is, no other process group can get its id.
        let mut how = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let uses_terminal = loop {
            let stopped_by = match waitid(WaitId::Pid(self.pid), how) {
                Err(rustix::io::Errno::INTR) => continue,
                changed => changed?.and_then(|status| status.stopping_signal()),
            };
            match stopped_by {
                None => break false,
                Some(signal) if [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal) => {
                    break true;
                }
                // Whoever has stopped the child may continue it.
                Some(_) => how.remove(WaitIdOptions::STOPPED),
            }
        };
        let mut child = self.child();
        let Some(mut ended) = child.take() else { return Err(io::Error::other("it was waited for before")) };
        self.kill();
        if let Some(mut guard) = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The guard belongs to the group, which was ended above.
            let _ = guard.wait();
        }
        let status = ended.wait()?;
        if uses_terminal {
            Err(io::Error::other("wants the terminal, which it does not get"))
        } else {
            Ok(status)
        }
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
    fn read_to_end_of_pipe(mut stdout: BufReader<ChildStdout>) {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
    }

    #[test]
    fn processes_that_a_child_started_end_with_the_child() {
        let (group, stdout, grandchild) = shell("exit 3");
        assert!(!grandchild.is_empty());
        assert_eq!(group.wait().unwrap().code(), Some(3));
        read_to_end_of_pipe(stdout);
        group.end();
        assert!(group.wait().is_err(), "it is reaped");
    }

    #[test]
    fn a_running_child_is_ended_with_the_processes_that_it_started() {
        let (group, stdout, _) = shell("wait");
        group.end();
        read_to_end_of_pipe(stdout);
        assert!(!group.wait().unwrap().success());
    }
}
