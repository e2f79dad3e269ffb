//! Runs whole processes, and measures their duration and their memory.

use std::fs;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The binary, built with the benches' profile.
pub const PLEGCTL: &str = env!("CARGO_BIN_EXE_plegctl");

/// Returns the duration of a run whose output is dropped; its exit status is 0 or 1.
pub fn wall(program: &str, arguments: &[&str]) -> Duration {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status().unwrap_or_else(|why| panic!("cannot run {program}: {why}"));
    let took = started.elapsed();
    assert_answered(status, program, arguments);
    took
}

/// Returns the peak resident memory of a run in bytes. The bench reads `VmHWM` after each part of the output, so the
/// last reading is from a moment when the run had at most the content of one pipe left to write.
pub fn peak_memory(program: &str, arguments: &[&str]) -> u64 {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|why| panic!("cannot run {program}: {why}"));
    let mut output = child.stdout.take().expect("it is piped");
    let mut chunk = vec![0; 16 * 1024];
    let mut peak = 0;
    while output.read(&mut chunk).expect("the output can be read") > 0 {
        peak = status_field(&child.id().to_string(), "VmHWM:").unwrap_or(0).max(peak);
    }
    let status = child.wait().expect("it can be waited for");
    assert_answered(status, program, arguments);
    peak
}

/// Returns the processor time of all children that have ended, which the kernel shows in hundredths of a second.
pub fn processor_time_of_children() -> Duration {
    const USER_AND_SYSTEM: [usize; 2] = [13, 14];
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc has our own times");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks: u64 = USER_AND_SYSTEM.iter().map(|at| fields[*at].parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn assert_answered(status: ExitStatus, program: &str, arguments: &[&str]) {
    assert!(matches!(status.code(), Some(0 | 1)), "{program} {} ended with {status}", arguments.join(" "));
}

/// Returns the resident memory of this process in bytes.
pub fn resident() -> u64 {
    status_field("self", "VmRSS:").expect("/proc has our own size")
}

/// Returns a size in /proc/PID/status, in bytes; `None` if the process has ended.
fn status_field(pid: &str, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}
