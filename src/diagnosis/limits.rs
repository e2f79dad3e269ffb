//! Every threshold of the diagnosis, in one place.
//!
//! Those without a source in the kubelet are starting values.

use std::time::Duration;

/// Share of what the kubelet takes of one message from which a list is an early warning, in percent.
pub const LIST_SIZE_WARNING_PERCENT: u64 = 60;
/// Share from which it is about to fail.
pub const LIST_SIZE_CRITICAL_PERCENT: u64 = 85;

/// A list slower than this is worth a word.
pub const LIST_SLOW: Duration = Duration::from_secs(1);
/// A list slower than this means that something waits. Only reachable with long deadlines.
pub const LIST_VERY_SLOW: Duration = Duration::from_secs(10);

/// A serial relist longer than this is a warning.
pub const RELIST_SLOW: Duration = Duration::from_secs(10);
/// A serial relist longer than this is critical.
pub const RELIST_VERY_SLOW: Duration = Duration::from_secs(60);
/// A status call slower than this is latency, not count.
pub const CALL_SLOW: Duration = Duration::from_millis(100);
/// A status call slower than this is told by name.
pub const STATUS_SLOW: Duration = Duration::from_secs(2);
/// How long CRI-O waits at least for an exit that was lost: six steps of 3.74 s in all.
pub const LOST_EXIT_WAIT: Duration = Duration::from_secs(3);
/// How many times slower than the typical call one has to be to stand out.
pub const OUTLIER_FACTOR: u32 = 5;
/// What changed within this time is churn.
pub const CHURN_WINDOW: Duration = Duration::from_secs(60);

/// Dead sandboxes plus exited containers that are a backlog in any case.
pub const DEAD_BACKLOG: usize = 2000;
/// Exited containers for each running one that are a backlog.
pub const DEAD_PER_RUNNING: usize = 10;
/// Below this many dead ones the ratio says nothing.
pub const DEAD_RATIO_FLOOR: usize = 200;

/// What an OCI runtime's process takes for one command, and more.
pub const OCI_COMMAND: Duration = Duration::from_secs(1);

/// An OCI runtime process older than this hangs.
pub const OCI_PROCESS_OLD: Duration = Duration::from_secs(30);
/// A CNI plugin process older than this is suspicious.
pub const CNI_PROCESS_OLD: Duration = Duration::from_secs(30);
/// A CNI plugin process older than this hangs.
pub const CNI_PROCESS_STUCK: Duration = Duration::from_secs(60);
/// Something younger than this may still be starting.
pub const STARTING: Duration = Duration::from_secs(60);

/// `full avg10` of I/O pressure that is a hint.
pub const IO_FULL_HINT: f64 = 20.0;
/// `full avg10` of I/O pressure that explains a hang.
pub const IO_FULL_STALL: f64 = 50.0;
/// Blocked tasks of kubelet and runtime that are a storage stall.
pub const BLOCKED_TASKS: usize = 2;
/// `full avg10` of memory pressure that counts.
pub const MEMORY_FULL: f64 = 10.0;
/// Available memory, in percent, below which it counts.
pub const MEMORY_AVAILABLE_PERCENT: u64 = 5;
/// Major faults a second that count.
pub const MAJOR_FAULTS_PER_SECOND: f64 = 500.0;
/// `some avg10` of CPU pressure that counts.
pub const CPU_SOME: f64 = 60.0;
/// How many times slower than the best probe Version has to be.
pub const VERSION_FACTOR: u32 = 10;
/// Below this, a slow Version is noise: any busy machine has it, and it holds nothing up.
pub const VERSION_FLOOR: Duration = Duration::from_millis(500);
/// Share of stolen CPU time, in percent, that counts.
pub const STEAL_PERCENT: f64 = 20.0;
/// Part of the time, in percent, for which a daemon that is held back by its own limit can do next to nothing.
pub const HELD_BACK_PERCENT: f64 = 50.0;
/// The same from which on it is worth a word.
pub const HELD_BACK_HINT: f64 = 5.0;
/// Share of a limit, in percent, that is exhaustion.
pub const EXHAUSTED_PERCENT: u64 = 90;
/// A disk with less than this share free, in percent …
pub const DISK_FREE_PERCENT: u64 = 1;
/// … and less than these bytes is full; a large one has room for long at its last percent.
pub const DISK_FREE_BYTES: u64 = 1 << 30;
/// A disk of which nobody but root may have any more is full from this share on: root may not have two percent of it.
pub const DISK_WITHHELD_PERCENT: u64 = 3;
/// The same of files that can still be made.
pub const DISK_FREE_INODES: u64 = 10_000;
/// Mounts that keep systemd busy.
pub const MANY_MOUNTS: usize = 5000;
/// Share of one CPU that pid 1 uses when it is overrun.
pub const INIT_BUSY_PERCENT: f64 = 80.0;
/// Threads of the runtime, as a multiple of (containers + sandboxes + shims + [`LEAK_OFFSET`]).
pub const LEAK_FACTOR: u64 = 3;
/// The same for its descriptors. containerd 2.1 was seen with five a container and eleven a shim.
pub const DESCRIPTOR_FACTOR: u64 = 8;
/// See [`LEAK_FACTOR`].
pub const LEAK_OFFSET: u64 = 200;
/// Failing exec probes a minute that are a storm.
pub const EXEC_ERRORS_PER_MINUTE: u64 = 10;
/// Growth between two samples, in percent, that is growth.
pub const GROWTH_PERCENT: u64 = 5;

/// PLEG age that is a warning.
pub const PLEG_AGE_STALE: Duration = Duration::from_secs(60);
/// A PLEG age below which the kubelet relists as it should.
pub const PLEG_AGE_YOUNG: Duration = Duration::from_secs(10);
/// A file with metrics that was written longer ago says so.
pub const READING_OLD: Duration = Duration::from_secs(60);
/// A reading of the kubelet's metrics in a capture says how it is for so long.
pub const RECORDED_READING: Duration = Duration::from_secs(3);
/// How far apart two readings of the kubelet's metrics have to be.
pub const METRICS_APART: Duration = Duration::from_secs(5);
/// How long a task may wait uninterruptibly without anybody taking note.
pub const INSTANT: Duration = Duration::from_millis(100);
/// How far apart two samples of the node have to be.
pub const SAMPLES_APART: Duration = Duration::from_secs(2);

/// How long a list may be pending before the hunt starts.
pub const HUNT_AFTER: Duration = Duration::from_secs(1);
/// Status calls in flight at once.
pub const PASS_PARALLEL: usize = 4;
/// Status calls in flight at once during the hunt: the silent ones hold a place each until their deadline.
pub const HUNT_PARALLEL: usize = 8;
/// Status calls made one at a time, for the estimate.
pub const SERIAL_SAMPLES: usize = 32;
/// What the serial samples may take together.
pub const SERIAL_PHASE: Duration = Duration::from_millis(1500);
/// Silent status calls after which no more ids are asked: each may cost the runtime a goroutine.
pub const MAX_SILENT: usize = 16;
/// Silent ids up to which each of them may be called a culprit.
pub const MAX_CULPRITS: usize = 8;
/// Ids that one finding names; how many there are is in its evidence.
pub const MOST_IDS: usize = 256;
/// Ids taken from outside the CRI.
pub const MAX_OUTSIDE_IDS: usize = 4096;
/// Namespaces asked one by one when a list is too large.
pub const MAX_SHARDS: usize = 256;

/// Silence from which on a call is likely hung.
pub const SILENT_LIKELY: Duration = Duration::from_secs(5);
/// Silence from which on it is.
pub const SILENT_CERTAIN: Duration = Duration::from_secs(10);
/// Below this no silence is a hang, however short the run.
pub const SILENT_AT_LEAST: Duration = Duration::from_secs(1);
/// How long pending calls are waited for.
pub const PATIENCE: Duration = Duration::from_secs(12);
/// What of the budget is kept for the looks that follow the questions.
pub const LOOKING: Duration = Duration::from_secs(3);
/// What of the budget is kept for the report.
pub const CLOSING: Duration = Duration::from_millis(200);
/// The same for each entry of the lists that has to be judged.
pub const JUDGING: Duration = Duration::from_micros(10);
/// The same for each mebibyte that has come, whatever is in it.
pub const HANDLING: Duration = Duration::from_millis(10);
/// How many times longer than alone our own work is taken to last at most, beside whoever wants the processors too.
pub const MOST_SLOWED: f64 = 8.0;
/// Version is asked once more, on the other connection, when it has not been answered so soon.
pub const VERSION_SOON: Duration = Duration::from_secs(2);

/// How long what is no call of the ladder may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// A list besides the two of the ladder.
    pub list: Duration,
    /// `/proc`, from the first look to giving it up.
    pub proc: Duration,
    /// Each HTTP request to the kubelet.
    pub http: Duration,
    /// Each other program.
    pub command: Duration,
}

impl Deadlines {
    /// Scaled to the budget: a short run has little time for each of them, but some.
    pub fn within(budget: Duration) -> Self {
        let at_most = |seconds| Duration::from_secs(seconds).min(budget / 3);
        Self { list: at_most(4), proc: at_most(3), http: at_most(3), command: at_most(2) }
    }
}

/// Whether `part` is at least `percent` of `whole`.
pub fn reaches(part: u64, whole: u64, percent: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}
