//! All thresholds of the diagnosis: sizes, durations and counts at which a rule reports something, and the limits of its
//! own work. D03 and the like are the ids of rules (`plegctl explain D03`).
//!
//! A threshold without a source in the kubelet is an estimate, which experience may correct.

use std::time::Duration;

/// How long the list calls wait for the kubelet's metrics, if these may show which calls the kubelet makes.
pub const LIST_METRICS_WAIT: Duration = Duration::from_millis(500);
/// The entries in each message of containerd's streamed lists (2.4).
pub const CONTAINERD_BATCH: usize = 5000;
/// The entries in each message of CRI-O's streamed lists (`streamChunkSize`).
pub const CRIO_BATCH: usize = 3000;
/// The size of a list, in percent of the kubelet's message limit, at which D03 warns.
pub const LIST_SIZE_WARNING_PERCENT: u64 = 60;
/// The size of a list, in percent of the kubelet's message limit, from which a fallback to unary lists matters (D43).
pub const FALLBACK_SIZE_PERCENT: u64 = 50;
/// The size of a list, in percent of the kubelet's message limit, at which D03 is critical.
pub const LIST_SIZE_CRITICAL_PERCENT: u64 = 85;

/// A healthy report names the containers that were restarted so often.
pub const MANY_RESTARTS: u32 = 5;
/// A container that is restarted this often on average is in a crash loop: twice the kubelet's longest pause of 5 minutes.
pub const CRASH_LOOP_PAUSE: Duration = Duration::from_secs(600);
/// A list slower than this is reported as slow.
pub const LIST_SLOW: Duration = Duration::from_secs(1);
/// A list slower than this is critical: the runtime waits for something. Only a run with a long deadline can measure it.
pub const LIST_VERY_SLOW: Duration = Duration::from_secs(10);

/// A serial relist longer than this is a warning.
pub const RELIST_SLOW: Duration = Duration::from_secs(10);
/// A serial relist longer than this is critical.
pub const RELIST_VERY_SLOW: Duration = Duration::from_secs(60);
/// The duration of one serial status call at which the calls themselves are slow. Below it, a long relist is caused by
/// the number of calls.
pub const CALL_SLOW: Duration = Duration::from_millis(100);
/// A status call slower than this is reported with its pod and container.
pub const STATUS_SLOW: Duration = Duration::from_secs(2);
/// The least duration of a status call in which CRI-O waits for a lost exit; CRI-O's six steps add up to 3.74 s.
pub const LOST_EXIT_WAIT: Duration = Duration::from_secs(3);
/// How many times slower than the median a call has to be to count as an outlier.
pub const OUTLIER_FACTOR: u32 = 5;
/// A pod that changed within this time is visited by the next relist.
pub const CHURN_WINDOW: Duration = Duration::from_secs(60);

/// The number of dead sandboxes and exited containers at which they are a backlog.
pub const DEAD_BACKLOG: usize = 2000;
/// The number of exited containers for each running container at which they are a backlog.
pub const DEAD_PER_RUNNING: usize = 10;
/// The number of dead sandboxes and exited containers at which [`DEAD_PER_RUNNING`] counts.
pub const DEAD_RATIO_FLOOR: usize = 200;

/// An OCI runtime process that is younger than this may execute a normal command.
pub const OCI_COMMAND: Duration = Duration::from_secs(1);
/// An `exec` or `state` process of the OCI runtime that is younger than this may execute a normal command.
pub const LONG_OCI_COMMAND: Duration = Duration::from_secs(5);

/// An OCI runtime process or a CNI plugin process older than this is suspicious; beside a silent call for its container, it
/// hangs.
pub const OCI_PROCESS_OLD: Duration = Duration::from_secs(30);
/// A `create`, `state`, `kill` or `delete` process of the OCI runtime older than this hangs, although no list waits for it.
pub const OCI_COMMAND_STUCK: Duration = Duration::from_secs(60);
/// A CNI plugin process older than this hangs.
pub const CNI_PROCESS_STUCK: Duration = Duration::from_secs(60);
/// Something younger than this may still be starting.
pub const STARTING: Duration = Duration::from_secs(60);

/// How long a pod must be past the end of its grace period, or wait for its sandbox, to count for D41.
pub const STUCK_POD: Duration = Duration::from_secs(300);
/// The number of different owners of such pods at which D41 sees a problem of the whole node.
pub const STUCK_OWNERS: usize = 2;

/// The number of errors of one step for one pod at which the step fails again and again, and for how long it must fail.
pub const FAILING_TIMES: usize = 3;
/// See [`FAILING_TIMES`].
pub const FAILING_FOR: Duration = Duration::from_secs(60);
/// The longest time between two attempts, with which the kubelet waits 10 to 15 s and a call may take its two minutes.
pub const FAILING_PAUSE: Duration = Duration::from_secs(150);
/// The same for the start of a container, before which the kubelet waits for up to 5 minutes.
pub const FAILING_START_PAUSE: Duration = Duration::from_secs(330);

/// The number of processes besides the kubelet that use the runtime's socket, at which D39 names them.
pub const SOCKET_CLIENTS: usize = 3;
/// The number of unread bytes at which a client of the runtime's socket does not keep up.
pub const UNREAD_BYTES: u64 = 64 << 10;
/// The least time between the two looks at what the clients of the socket read and write.
pub const CLIENTS_COUNTED_FOR: Duration = Duration::from_secs(1);
/// The writes per second from which on a client calls the runtime often: programs in Go make two for a call.
pub const CLIENT_WRITES_PER_SECOND: f64 = 100.0;
/// The bytes per second from which on a client reads much: the two lists of 250 pods, which a kubelet reads each second, have
/// 250 KB.
pub const CLIENT_BYTES_PER_SECOND: f64 = 1_000_000.0;
/// The mean size of a write up to which the writes of a client may be requests, which have 100 to 200 bytes.
pub const REQUEST_BYTES: u64 = 512;
/// The mean size of a write from which on the writes of the runtime may be answers, which have 300 bytes and more. A line of a
/// container's output that is shorter than what containerd writes before it has at most 80 bytes in the file.
pub const ANSWER_BYTES: u64 = 128;

/// The number of left-over shims at which they matter to the node: each keeps about 10 MiB and ten threads.
pub const LEFT_OVER_SHIMS: usize = 20;

/// The number of shims at which their sizes can be compared.
pub const COMPARED_SHIMS: usize = 4;
/// A shim is far larger than the others from this many times the median on.
pub const LARGE_SHIM_FACTOR: u64 = 10;
/// A shim with less memory than this is never far larger than the others; a healthy one has about 10 MiB.
pub const LARGE_SHIM_BYTES: u64 = 256 << 20;
/// A shim with fewer threads than this is never far larger than the others; a healthy one has about twelve.
pub const LARGE_SHIM_THREADS: u64 = 500;
/// The memory of a runtime or kubelet at which D40 reports it, with [`GROWN_BYTES_EACH`] more for each container.
pub const GROWN_BYTES: u64 = 1 << 30;
/// See [`GROWN_BYTES`].
pub const GROWN_BYTES_EACH: u64 = 4 << 20;
/// The age of a runtime or kubelet at which its size may be the result of growth.
pub const GROWN_AGE: Duration = Duration::from_secs(3600);
/// The share of the node's memory, in percent, at which the size of a runtime or kubelet matters to the node.
pub const GROWN_PERCENT: u64 = 25;

/// The I/O pressure (`full avg10`) at which a storage stall is possible.
pub const IO_FULL_HINT: f64 = 20.0;
/// The I/O pressure (`full avg10`) at which a storage stall explains a hang.
pub const IO_FULL_STALL: f64 = 50.0;
/// The number of blocked tasks of kubelet and runtime at which they are a storage stall.
pub const BLOCKED_TASKS: usize = 2;
/// The memory pressure (`full avg10`) at which it is a sign of D12.
pub const MEMORY_FULL: f64 = 10.0;
/// The available memory, in percent, below which it is a sign of D12.
pub const MEMORY_AVAILABLE_PERCENT: u64 = 5;
/// The number of major page faults per second at which they are a sign of D12.
pub const MAJOR_FAULTS_PER_SECOND: f64 = 500.0;
/// The CPU pressure (`some avg10`) at which it is a sign of D13.
pub const CPU_SOME: f64 = 60.0;
/// The CPU is not the cause if the daemon's threads wait for a processor for less than this share of the time together, in
/// percent.
pub const CPU_WAIT_PERCENT: f64 = 10.0;
/// A Version that is this many times slower than the quickest status call is a sign of D13.
pub const VERSION_FACTOR: u32 = 10;
/// A Version that is quicker than this is no sign of D13: on a busy machine, such durations are normal.
pub const VERSION_FLOOR: Duration = Duration::from_millis(500);
/// The share of stolen CPU time, in percent, at which it is a sign of D13.
pub const STEAL_PERCENT: f64 = 20.0;
/// The share of the time, in percent, for which a CPU limit stops the daemon, at which D35 reports it.
pub const THROTTLED_PERCENT: f64 = 50.0;
/// The share of the time, in percent, for which a CPU limit stops the daemon, at which it is a sign of D13.
pub const THROTTLED_HINT: f64 = 5.0;
/// The used part of a limit, in percent, at which the limit is exhausted.
pub const EXHAUSTED_PERCENT: u64 = 90;
/// A disk is full if less than this share is free, in percent, and less than [`DISK_FREE_BYTES`].
pub const DISK_FREE_PERCENT: u64 = 1;
/// A disk is full if fewer bytes than this are free, and less than [`DISK_FREE_PERCENT`]: one percent of a large disk may
/// be enough.
pub const DISK_FREE_BYTES: u64 = 1 << 30;
/// A disk whose free space only root may use is full if less than this share is free, in percent: ext4 may refuse up to two
/// percent to root, too.
pub const DISK_WITHHELD_PERCENT: u64 = 3;
/// A disk is full if fewer inodes than this are free, and less than [`DISK_FREE_PERCENT`].
pub const DISK_FREE_INODES: u64 = 10_000;
/// The number of mounts above which they are a sign of D15: systemd reads all of them again and again.
pub const MANY_MOUNTS: usize = 5000;
/// The share of one CPU, in percent, that systemd uses, at which it is a sign of D15.
pub const INIT_BUSY_PERCENT: f64 = 80.0;
/// The runtime leaks threads if it has more threads than this many times (containers + sandboxes + shims + [`LEAK_OFFSET`]).
pub const LEAK_FACTOR: u64 = 3;
/// The runtime leaks file descriptors if it has more than this many times (containers + sandboxes + shims +
/// [`LEAK_OFFSET`]).
/// containerd 2.1 was measured with five descriptors for each container and eleven for each shim.
pub const DESCRIPTOR_FACTOR: u64 = 8;
/// The constant in the formulas of [`LEAK_FACTOR`] and [`DESCRIPTOR_FACTOR`].
pub const LEAK_OFFSET: u64 = 200;
/// The number of exec probes per minute that time out, at which it is a sign of D17.
pub const EXEC_ERRORS_PER_MINUTE: u64 = 10;
/// The number of zombies whose parents are shims, above which it is a sign of D17.
pub const ZOMBIES_OF_SHIMS: usize = 50;
/// The growth of the runtime's threads between two samples, in percent, at which it is a sign of D17.
pub const GROWTH_PERCENT: u64 = 5;

/// A limit that is likely reached within this time needs a person (D46).
pub const FORECAST_SOON: Duration = Duration::from_secs(24 * 3600);

/// The PLEG age at which D22 may warn.
pub const PLEG_AGE_STALE: Duration = Duration::from_secs(60);
/// The PLEG age below which the kubelet relists normally.
pub const PLEG_AGE_YOUNG: Duration = Duration::from_secs(10);
/// Metrics from a file older than this are reported with their age.
pub const READING_OLD: Duration = Duration::from_secs(60);
/// How long a recorded reading of the kubelet's metrics stays valid in a capture.
pub const RECORDED_READING: Duration = Duration::from_secs(3);
/// The least time between two readings of the kubelet's metrics.
pub const METRICS_APART: Duration = Duration::from_secs(5);
/// The pause before a blocked task is read again; a shorter uninterruptible wait is normal.
pub const UNINTERRUPTIBLE_WAIT_NORMAL: Duration = Duration::from_millis(100);
/// The least time between two samples of the node.
pub const SAMPLES_APART: Duration = Duration::from_secs(2);

/// How long a list may be pending before ids are searched outside the CRI.
pub const ID_SEARCH_AFTER: Duration = Duration::from_secs(1);
/// The number of parallel status calls.
pub const PASS_PARALLEL: usize = 4;
/// The number of parallel status calls if all serial samples were answered within [`SERIAL_QUICK`]: as many as `relist` makes, because each
/// call then costs less.
pub const PASS_PARALLEL_QUICK: usize = 8;
/// The number of parallel status calls for ids found outside the CRI. It is larger than [`PASS_PARALLEL`], because some of
/// these calls are expected to be silent.
pub const ID_SEARCH_PARALLEL: usize = 8;
/// The number of status calls made one at a time, for the estimate.
pub const SERIAL_SAMPLES: usize = 16;
/// The time limit for all serial samples together.
pub const SERIAL_PHASE: Duration = Duration::from_millis(1500);
/// Serial samples that take no longer together are quick.
pub const SERIAL_QUICK: Duration = Duration::from_millis(750);
/// The number of silent status calls at which no more are made, because each may use a goroutine of the runtime.
pub const MAX_SILENT: usize = 16;
/// The number of silent ids above which none is named as a culprit if more than half of all status calls are silent.
pub const MAX_CULPRITS: usize = 8;
/// The most ids that one finding lists; its evidence has the total.
pub const MAX_LISTED_IDS: usize = 256;
/// The most ids from outside the CRI.
pub const MAX_OUTSIDE_IDS: usize = 4096;
/// The most calls in which a list that is too large is fetched in parts.
pub const MAX_SHARDS: usize = 256;
/// The most pods of a namespace for which its list is fetched pod by pod.
pub const MAX_POD_SHARDS: usize = 128;

/// The silence at which a call is likely hung.
pub const SILENT_LIKELY: Duration = Duration::from_secs(5);
/// The silence at which a call is certainly hung.
pub const SILENT_CERTAIN: Duration = Duration::from_secs(10);
/// A silence shorter than this is not a hang, even in a very short run.
pub const SILENT_AT_LEAST: Duration = Duration::from_secs(1);
/// The longest time that a run waits for a pending call.
pub const PATIENCE: Duration = Duration::from_secs(12);
/// The part of the budget that is reserved for the follow-up samples after the calls.
pub const RESERVE_FOR_FOLLOW_UP: Duration = Duration::from_secs(3);
/// The part of the budget that is reserved for writing the report.
pub const RESERVE_FOR_REPORT: Duration = Duration::from_millis(200);
/// The part of the budget that is reserved for judging one list entry.
pub const RESERVE_PER_ENTRY: Duration = Duration::from_micros(10);
/// The part of the budget that is reserved for each mebibyte of answers.
pub const RESERVE_PER_MEBIBYTE: Duration = Duration::from_millis(10);
/// The largest factor for slowdown by CPU contention that is assumed.
pub const MAX_SLOWDOWN: f64 = 8.0;
/// The silence after which Version is also sent on the second connection.
pub const VERSION_SOON: Duration = Duration::from_secs(2);

/// The deadlines of the probes that are not part of the main sequence of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For each list call after the first two.
    pub list: Duration,
    /// For each sample of `/proc`.
    pub proc: Duration,
    /// For each HTTP request to the kubelet.
    pub http: Duration,
    /// For each program that is run.
    pub command: Duration,
}

impl Deadlines {
    /// Returns the deadlines for a run with this budget: at most a third of the budget each.
    pub fn within(budget: Duration) -> Self {
        let at_most = |seconds| Duration::from_secs(seconds).min(budget / 3);
        // On a node without a free processor, `journalctl` takes seconds, for which `--deep` has time.
        let command = (budget / 12).clamp(at_most(2), at_most(10));
        Self { list: at_most(4), proc: at_most(3), http: at_most(3), command }
    }
}

/// Returns whether `part` is at least `percent` of `whole`.
pub fn reaches(part: u64, whole: u64, percent: u64) -> bool {
    whole > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_more_time_in_a_run_that_has_more() {
        let milliseconds = |budget| Deadlines::within(Duration::from_secs(budget)).command.as_millis();
        assert_eq!([6, 30, 120, 600].map(milliseconds), [2000, 2500, 10_000, 10_000]);
    }
}
