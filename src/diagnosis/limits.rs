//! Every threshold of the diagnosis.
//!
//! A threshold without a source in the kubelet is a starting value, to be corrected by experience.

use std::time::Duration;

/// The size of a list, in percent of the kubelet's message limit, from which on D03 warns.
pub const LIST_SIZE_WARNING_PERCENT: u64 = 60;
/// The size of a list, in percent of the kubelet's message limit, from which on D03 is critical.
pub const LIST_SIZE_CRITICAL_PERCENT: u64 = 85;

/// A list slower than this is reported as slow.
pub const LIST_SLOW: Duration = Duration::from_secs(1);
/// A list slower than this waits for something. Only a long deadline allows it.
pub const LIST_VERY_SLOW: Duration = Duration::from_secs(10);

/// A serial relist longer than this is a warning.
pub const RELIST_SLOW: Duration = Duration::from_secs(10);
/// A serial relist longer than this is critical.
pub const RELIST_VERY_SLOW: Duration = Duration::from_secs(60);
/// The duration of one serial status call from which on each call is slow; below it, the number of calls is
/// to blame.
pub const CALL_SLOW: Duration = Duration::from_millis(100);
/// A status call slower than this is reported with its pod and container.
pub const STATUS_SLOW: Duration = Duration::from_secs(2);
/// The least time that CRI-O waits for a lost exit; its six steps add up to 3.74 s.
pub const LOST_EXIT_WAIT: Duration = Duration::from_secs(3);
/// How many times slower than the median a call has to be to count as an outlier.
pub const OUTLIER_FACTOR: u32 = 5;
/// A pod that changed within this time is visited by the next relist.
pub const CHURN_WINDOW: Duration = Duration::from_secs(60);

/// Dead sandboxes plus exited containers that are a backlog in any case.
pub const DEAD_BACKLOG: usize = 2000;
/// Exited containers for each running one that are a backlog.
pub const DEAD_PER_RUNNING: usize = 10;
/// With fewer dead ones than this, the ratio [`DEAD_PER_RUNNING`] does not count.
pub const DEAD_RATIO_FLOOR: usize = 200;

/// An OCI runtime's process that is younger than this may be doing a normal command.
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
/// The number of major page faults per second that counts.
pub const MAJOR_FAULTS_PER_SECOND: f64 = 500.0;
/// `some avg10` of CPU pressure that counts.
pub const CPU_SOME: f64 = 60.0;
/// How many times slower than the quickest status call Version has to be.
pub const VERSION_FACTOR: u32 = 10;
/// A Version quicker than this is never slow: any busy machine has such durations, and they block nothing.
pub const VERSION_FLOOR: Duration = Duration::from_millis(500);
/// Share of stolen CPU time, in percent, that counts.
pub const STEAL_PERCENT: f64 = 20.0;
/// The part of the time, in percent, from which on a daemon that its CPU limit stops can do next to nothing.
pub const HELD_BACK_PERCENT: f64 = 50.0;
/// The part of the time, in percent, from which on a CPU limit of the daemon is mentioned.
pub const HELD_BACK_HINT: f64 = 5.0;
/// The use of a limit, in percent, that counts as exhaustion.
pub const EXHAUSTED_PERCENT: u64 = 90;
/// A disk is full if less than this share is free, in percent …
pub const DISK_FREE_PERCENT: u64 = 1;
/// … and less than these bytes: a large disk has enough room in its last percent.
pub const DISK_FREE_BYTES: u64 = 1 << 30;
/// A disk on which only root may write is full if less than this share is free, in percent: ext4 may reserve
/// two percent even from root.
pub const DISK_WITHHELD_PERCENT: u64 = 3;
/// A disk with fewer free inodes than this is full.
pub const DISK_FREE_INODES: u64 = 10_000;
/// The number of mounts that overloads systemd.
pub const MANY_MOUNTS: usize = 5000;
/// The share of one CPU, in percent, that an overloaded systemd uses.
pub const INIT_BUSY_PERCENT: f64 = 80.0;
/// Threads of the runtime, as a multiple of (containers + sandboxes + shims + [`LEAK_OFFSET`]).
pub const LEAK_FACTOR: u64 = 3;
/// Descriptors of the runtime, as the same multiple. containerd 2.1 was measured with five for each container
/// and eleven for each shim.
pub const DESCRIPTOR_FACTOR: u64 = 8;
/// See [`LEAK_FACTOR`].
pub const LEAK_OFFSET: u64 = 200;
/// The number of failed exec probes per minute that counts as a storm.
pub const EXEC_ERRORS_PER_MINUTE: u64 = 10;
/// Growth between two samples below this, in percent, does not count.
pub const GROWTH_PERCENT: u64 = 5;

/// The PLEG age from which on D22 may warn.
pub const PLEG_AGE_STALE: Duration = Duration::from_secs(60);
/// A PLEG age below which the kubelet relists as it should.
pub const PLEG_AGE_YOUNG: Duration = Duration::from_secs(10);
/// Metrics from a file older than this are reported with their age.
pub const READING_OLD: Duration = Duration::from_secs(60);
/// How long a recorded reading of the kubelet's metrics stays valid in a capture.
pub const RECORDED_READING: Duration = Duration::from_secs(3);
/// The least time between two readings of the kubelet's metrics.
pub const METRICS_APART: Duration = Duration::from_secs(5);
/// An uninterruptible wait shorter than this is normal.
pub const UNINTERRUPTIBLE_WAIT_NORMAL: Duration = Duration::from_millis(100);
/// The least time between two samples of the node.
pub const SAMPLES_APART: Duration = Duration::from_secs(2);

/// How long a list may be pending before ids are searched outside the CRI.
pub const ID_SEARCH_AFTER: Duration = Duration::from_secs(1);
/// The number of parallel status calls.
pub const PASS_PARALLEL: usize = 4;
/// The number of parallel status calls for ids found outside the CRI: each silent call occupies one of them
/// for a while.
pub const ID_SEARCH_PARALLEL: usize = 8;
/// The number of status calls made one at a time, for the estimate.
pub const SERIAL_SAMPLES: usize = 32;
/// The time limit for all serial samples together.
pub const SERIAL_PHASE: Duration = Duration::from_millis(1500);
/// The number of silent status calls after which no further ones are made: each may cost the runtime a
/// goroutine.
pub const MAX_SILENT: usize = 16;
/// The number of silent ids up to which each one may be named as a culprit.
pub const MAX_CULPRITS: usize = 8;
/// The number of ids that one finding lists; its evidence has the total.
pub const MOST_IDS: usize = 256;
/// The number of ids that are taken from outside the CRI.
pub const MAX_OUTSIDE_IDS: usize = 4096;
/// The number of namespaces for which a list that is too large is fetched separately.
pub const MAX_SHARDS: usize = 256;

/// The silence from which on a call is likely hung.
pub const SILENT_LIKELY: Duration = Duration::from_secs(5);
/// The silence from which on a call is certainly hung.
pub const SILENT_CERTAIN: Duration = Duration::from_secs(10);
/// A silence below this is never a hang, however short the run.
pub const SILENT_AT_LEAST: Duration = Duration::from_secs(1);
/// How long a run waits for a pending call.
pub const PATIENCE: Duration = Duration::from_secs(12);
/// The part of the budget that is reserved for the follow-up samples after the calls.
pub const RESERVE_FOR_FOLLOW_UP: Duration = Duration::from_secs(3);
/// The part of the budget that is reserved for writing the report.
pub const RESERVE_FOR_REPORT: Duration = Duration::from_millis(200);
/// The part of the budget that is reserved for judging one list entry.
pub const RESERVE_PER_ENTRY: Duration = Duration::from_micros(10);
/// The part of the budget that is reserved for each mebibyte of answers.
pub const RESERVE_PER_MEBIBYTE: Duration = Duration::from_millis(10);
/// The upper bound on the slowdown under CPU contention.
pub const MAX_SLOWDOWN: f64 = 8.0;
/// The silence after which Version is also sent on the second connection.
pub const VERSION_SOON: Duration = Duration::from_secs(2);

/// The deadlines of the probes that are not part of the main sequence of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Each further list call.
    pub list: Duration,
    /// Each sample of `/proc`.
    pub proc: Duration,
    /// Each HTTP request to the kubelet.
    pub http: Duration,
    /// Each program that is run.
    pub command: Duration,
}

impl Deadlines {
    /// Scales the deadlines to the budget.
    pub fn within(budget: Duration) -> Self {
        let at_most = |seconds| Duration::from_secs(seconds).min(budget / 3);
        Self { list: at_most(4), proc: at_most(3), http: at_most(3), command: at_most(2) }
    }
}

/// Whether `part` is at least `percent` of `whole`.
pub fn reaches(part: u64, whole: u64, percent: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}
