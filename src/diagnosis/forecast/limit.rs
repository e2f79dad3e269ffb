//! [`MeasuredLimit`]: how much of a hard limit is used, and [`LimitForecast`], when it is reached, in words.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::Forecast;
use crate::clock::Wall;
use crate::cri::Rpc;
use crate::diagnosis::facts::{Bytes, Decimal, ProcessRef};
use crate::report::Confidence;
use crate::report::duration::elapsed;
use crate::report::{Rename, grouped, word_enum};

/// The number of threads at which a Go program aborts, unless it calls `SetMaxThreads`, which no runtime and no kubelet does
/// (sched.maxmcount in Go's runtime/proc.go).
pub const GO_THREADS: u64 = 10_000;

word_enum! {
    /// A hard limit.
    pub json enum LimitKind: as_str {
        /// Threads of a Go program.
        Threads = "threads",
        /// Tasks in the cgroup of a process (`pids.max`).
        CgroupTasks = "cgroupTasks",
        /// Descriptors of a process.
        Descriptors = "descriptors",
        /// Memory of the cgroup of a process that the kernel cannot take back.
        CgroupMemory = "cgroupMemory",
        /// Tasks of the node (`pid_max` or `threads-max`).
        NodeTasks = "nodeTasks",
        /// The kubelet's limit for the answer to `ListPodSandbox`, or for one message of a stream.
        SandboxList = "sandboxList",
        /// The same of `ListContainers`.
        ContainerList = "containerList",
        /// Bytes of the file system of the runtime's root, without those that only root may use.
        RuntimeRootBytes = "runtimeRootBytes",
        /// Inodes of it.
        RuntimeRootInodes = "runtimeRootInodes",
        /// Bytes of the file system of the runtime's state, if it is another one.
        RuntimeStateBytes = "runtimeStateBytes",
        /// Inodes of it.
        RuntimeStateInodes = "runtimeStateInodes",
        /// Bytes of the kubelet's file system, if it is another one.
        KubeletBytes = "kubeletBytes",
        /// Inodes of it.
        KubeletInodes = "kubeletInodes",
    } ALL
}

/// How much of a limit is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredLimit {
    /// Which limit.
    pub limit: LimitKind,
    /// Whose limit; `None` if it is the node's.
    pub process: Option<ProcessRef>,
    /// How much is used.
    pub used: u64,
    /// The limit's value.
    pub max: u64,
    /// How long before the other limits it was measured.
    pub age: Duration,
}

impl LimitKind {
    /// Returns whose limit it is (`{}` stands for the process), what is counted, whether in bytes, and
    /// [`Self::cleaned_below`].
    const fn row(self) -> (&'static str, &'static str, bool, u64) {
        match self {
            Self::Threads => ("{}", " threads", false, 0),
            Self::CgroupTasks => ("the cgroup of {}", " tasks", false, 0),
            Self::Descriptors => ("{}", " descriptors open", false, 0),
            Self::CgroupMemory => ("the cgroup of {}", " of memory", true, 0),
            Self::NodeTasks => ("the node", " tasks", false, 0),
            Self::SandboxList => ("the answer to ListPodSandbox", "", true, 0),
            Self::ContainerList => ("the answer to ListContainers", "", true, 0),
            Self::RuntimeRootBytes => ("the file system of the runtime's root", "", true, 85),
            Self::RuntimeRootInodes => ("the file system of the runtime's root", " inodes", false, 85),
            Self::RuntimeStateBytes => ("the file system of the runtime's state", "", true, 0),
            Self::RuntimeStateInodes => ("the file system of the runtime's state", " inodes", false, 0),
            Self::KubeletBytes => ("the file system of the kubelet", "", true, 85),
            Self::KubeletInodes => ("the file system of the kubelet", " inodes", false, 85),
        }
    }

    /// Returns the used part, in percent, below which the kubelet may still make room, so that a growth says nothing; 0 where it
    /// makes none. It deletes images from 85 % on, and evicts pods when 5 % of the inodes are left, if its settings are the
    /// default ones.
    pub const fn cleaned_below(self) -> u64 {
        let (.., percent) = self.row();
        percent
    }

    /// Whether what is limited is counted in bytes.
    const fn is_in_bytes(self) -> bool {
        let (_, _, is_in_bytes, _) = self.row();
        is_in_bytes
    }

    /// Returns the limit for the answer to a list call; `None` for other calls.
    pub const fn of_list(rpc: Rpc) -> Option<Self> {
        match rpc.unary() {
            Rpc::ListPodSandbox => Some(Self::SandboxList),
            Rpc::ListContainers => Some(Self::ContainerList),
            _ => None,
        }
    }
}

/// When a limit is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase")]
pub struct LimitForecast {
    /// The limit.
    pub limit: LimitKind,
    /// Whose limit it is; absent if it is the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// How much is used.
    pub used: u64,
    /// The limit's value.
    pub max: u64,
    /// The growth.
    pub per_minute: Decimal,
    /// Since when the growth was measured.
    pub since: Wall,
    /// The time of the last measurement.
    pub taken_at: Wall,
    /// When the limit is reached.
    pub full_at: Wall,
    /// *Likely* or *possible*.
    pub confidence: Confidence,
}

impl LimitForecast {
    /// Describes a forecast for a limit that was measured last at `taken_at`.
    pub fn new(of: &MeasuredLimit, forecast: &Forecast, taken_at: Wall) -> Self {
        Self {
            limit: of.limit,
            process: of.process.clone(),
            used: forecast.used,
            max: forecast.max,
            per_minute: (forecast.per_second * 60.0).into(),
            since: taken_at.minus(forecast.measured),
            taken_at,
            full_at: taken_at.plus(forecast.left),
            confidence: forecast.confidence,
        }
    }

    /// Returns the time from `now` until the limit is reached.
    pub fn left(&self, now: Wall) -> std::time::Duration {
        self.full_at.duration_since(now)
    }

    /// Writes an amount of what is limited.
    fn amount(&self, amount: u64) -> String {
        if self.limit.is_in_bytes() { Bytes(amount).to_string() } else { grouped(amount, ',') }
    }

    /// Writes the growth in the smallest unit of time in which it is at least one.
    fn growth(&self) -> String {
        let per_minute = self.per_minute.value();
        let units = [(1.0, "a minute"), (60.0, "an hour"), (1440.0, "a day")];
        let fits = |(minutes, _): &&(f64, &str)| per_minute * minutes >= 1.0;
        let (minutes, unit) = units.iter().find(fits).unwrap_or(&(1440.0, "a day"));
        let growth = per_minute * minutes;
        let amount = if growth < 100.0 && !self.limit.is_in_bytes() {
            format!("{growth:.1}")
        } else {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rounded growth is shown"
            )]
            self.amount(growth.round() as u64)
        };
        format!("+{amount} {unit}")
    }
}

/// `containerd[812] has 6,312 of 10,000 threads, +3.4 a minute since 09:10:00 UTC: full in about 18h`
impl fmt::Display for LimitForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process.as_ref().map_or_else(|| "a process".to_owned(), ToString::to_string);
        let (owner, what, ..) = self.limit.row();
        let owner = owner.replace("{}", &process);
        write!(
            f,
            "{owner} has {} of {}{what}, {} since {}: full in about {}",
            self.amount(self.used),
            self.amount(self.max),
            self.growth(),
            self.since.time_of_day(self.taken_at),
            elapsed(self.left(self.taken_at)),
        )
    }
}

/// Reads the forecasts of this release or of a later one, without those that this release does not know.
pub fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LimitForecast>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}
