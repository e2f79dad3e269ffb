//! The guard of a process group: a second process of plegctl that leads the group, and ends the group when the plegctl that
//! started it has ended.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, getpgrp, kill_process_group};

/// The internal command with which plegctl runs as a guard.
pub const COMMAND: &str = "guard-group";

/// The running program, even if its file was replaced in the meantime.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Starts plegctl as the guard and leader of a new process group.
pub(super) fn start() -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "it is this very program")]
    let mut guard = Command::new(OWN_PROGRAM);
    guard
        .arg(COMMAND)
        .current_dir("/")
        // The guard's stdin ends when plegctl ends.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Runs the guard: waits until the plegctl that started it has ended, and then ends its own process group.
pub fn run() -> io::Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(kill_process_group(getpgrp(), Signal::KILL)?)
}
