//! Parses `/proc/PID/stat`, which has the same form for a thread.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::process::Role;
use crate::host::{KernelDir, kernel_record, kernel_text};

/// The unit of CPU times in `/proc` (`USER_HZ`), which does not depend on the kernel's own tick.
const TICKS_PER_SECOND: u64 = 100;
/// The flag of a kernel thread (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The number of fields after the state that are parsed, up to that of the processor.
const FIELDS: usize = 36;

/// The fields of `/proc/PID/stat` that plegctl uses. A number that the text does not contain is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The kernel's name of the process, which has at most 15 bytes.
    pub comm: String,
    /// The state letter, such as `S`, `D` or `T`.
    pub state: char,
    /// The process id of the parent.
    pub parent: u32,
    /// Whether this is a kernel thread.
    pub is_kernel_thread: bool,
    /// CPU time so far, in ticks.
    pub cpu_ticks: u64,
    /// Number of threads.
    pub threads: u64,
    /// The node's uptime at the start of the process, in ticks.
    pub started_ticks: u64,
    /// Resident memory in pages.
    pub resident_pages: u64,
    /// The processor on which the process or task ran last.
    pub processor: u32,
}

impl ProcessStat {
    /// Reads the file in the directory of a process.
    pub fn read(dir: &Path) -> Option<Self> {
        Self::parse(&kernel_record(&dir.join("stat")).ok()?)
    }

    /// Parses the text of the file.
    pub fn parse(text: &str) -> Option<Self> {
        let (comm, state, rest) = split(text)?;
        let mut numbers = [0_u64; FIELDS];
        for (number, field) in numbers.iter_mut().zip(rest.split_ascii_whitespace()) {
            *number = field.parse().unwrap_or(0);
        }
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        Some(Self {
            comm: comm.to_owned(),
            state,
            parent: u32::try_from(number(0)).unwrap_or(0),
            is_kernel_thread: number(5) & KERNEL_THREAD != 0,
            cpu_ticks: number(10).saturating_add(number(11)),
            threads: number(16),
            started_ticks: number(18),
            resident_pages: number(20),
            processor: u32::try_from(number(35)).unwrap_or(0),
        })
    }

    /// Whether the process is stopped by a signal or a tracer.
    pub const fn is_stopped(&self) -> bool {
        is_stopped(self.state)
    }

    /// Whether the process has ended.
    pub const fn is_zombie(&self) -> bool {
        is_zombie(self.state)
    }
}

/// A [`StatTable`] older than this is read again. Reading the table of a large and busy node takes some hundred milliseconds.
const FRESH: Duration = Duration::from_secs(1);

/// The `stat` of every process, the cheapest file that shows what a process is and whose child it is.
#[derive(Clone, Debug, Default)]
pub struct StatTable {
    /// The node's uptime at the time of reading.
    pub uptime: Duration,
    /// By process id.
    pub stats: BTreeMap<u32, ProcessStat>,
}

impl StatTable {
    /// Reads the process table at `proc`.
    pub fn read(proc: &Path) -> Self {
        Self::of(proc, &KernelDir::open(proc).map(|dir| dir.numbered()).unwrap_or_default())
    }

    /// Reads these processes of the table at `proc`.
    pub(super) fn of(proc: &Path, pids: &[u32]) -> Self {
        let uptime = uptime(proc);
        let Ok(dir) = KernelDir::open(proc) else { return Self { uptime, ..Self::default() } };
        let stat = |pid: &u32| Some((*pid, ProcessStat::parse(&dir.record(&format!("{pid}/stat")).ok()?)?));
        Self { uptime, stats: pids.iter().filter_map(stat).collect() }
    }

    /// Whether the table at `proc` was read a moment ago.
    pub(super) fn is_fresh(&self, proc: &Path) -> bool {
        uptime(proc).saturating_sub(self.uptime) < FRESH
    }

    /// Returns how the cgroup of each process is found without reading the cgroups of all.
    pub(super) fn cgroup_sources(&self) -> impl FnMut(u32) -> CgroupSource {
        let mut known: BTreeMap<u32, bool> = BTreeMap::new();
        move |pid| {
            let mut path = Vec::new();
            let parent = self.stats.get(&pid).map_or(0, |stat| stat.parent);
            let mut at = parent;
            let is_below_shim = loop {
                if let Some(is_below) = known.get(&at) {
                    break *is_below;
                }
                let Some(stat) = self.stats.get(&at) else { break false };
                if Role::of(&stat.comm) == Role::Shim {
                    break true;
                }
                // Until the answer is known, so that a circle of parents, which a table may show that changes, has an end.
                known.insert(at, false);
                path.push(at);
                at = stat.parent;
            };
            known.extend(path.into_iter().map(|ancestor| (ancestor, is_below_shim)));
            let is_plain = |parent: &ProcessStat| Role::of(&parent.comm) == Role::Other;
            match (is_below_shim, self.stats.get(&parent).is_some_and(is_plain)) {
                (false, _) => CgroupSource::NotNeeded,
                (true, true) => CgroupSource::Parent,
                (true, false) => CgroupSource::File,
            }
        }
    }
}

/// How the cgroup of a process is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupSource {
    /// The process does not descend from a shim or a conmon, as every process of a container does until its shim ends.
    NotNeeded,
    /// Its parent is a process of the same container.
    Parent,
    /// Its own file: its parent is a shim, a conmon or an OCI runtime.
    File,
}

/// Returns the node's uptime.
pub(super) fn uptime(proc: &Path) -> Duration {
    let text = kernel_text(&proc.join("uptime")).unwrap_or_default();
    let seconds = text.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// Returns the state letter in the text of a `stat` file.
pub(super) fn state_of(text: &str) -> Option<char> {
    split(text).map(|(_, state, _)| state)
}

/// Whether a process in this state is stopped by a signal or a tracer.
pub(super) const fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't')
}

/// Whether a process in this state has ended and its parent has not reaped it yet.
pub(super) const fn is_zombie(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

/// Converts ticks to a duration.
pub const fn of_ticks(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(1000 / TICKS_PER_SECOND))
}

/// Returns the name, the state and the fields after it. The name is in brackets and may contain blanks and brackets.
fn split(text: &str) -> Option<(&str, char, &str)> {
    let (front, back) = text.rsplit_once(')')?;
    let (_, comm) = front.split_once('(')?;
    let back = back.trim_start();
    let state = back.chars().next()?;
    Some((comm, state, back.get(state.len_utf8()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b (c) D 3 7 7 0 -1 2097152 0 0 0 0 150 50 0 0 20 0 9 0 1000 4096 2 18446744073709551615 1 1 0 0 0 \
                    0 0 0 0 1 0 0 17 6 0 0";
        let read = ProcessStat {
            comm: "a) b (c".to_owned(),
            state: 'D',
            parent: 3,
            is_kernel_thread: true,
            cpu_ticks: 200,
            threads: 9,
            started_ticks: 1000,
            resident_pages: 2,
            processor: 6,
        };
        assert_eq!(ProcessStat::parse(text), Some(read));
        assert_eq!(state_of(text), Some('D'));
    }

    #[test]
    fn an_incomplete_text_has_no_state_or_no_numbers() {
        assert_eq!(ProcessStat::parse("1 (x"), None);
        assert_eq!(ProcessStat::parse("1 (x)"), None);
        let short = ProcessStat::parse("1 (x) S 4").unwrap();
        assert_eq!((short.state, short.parent, short.threads), ('S', 4, 0));
    }
}
