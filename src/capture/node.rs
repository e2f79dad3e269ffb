//! Samples of the node, which a capture stores as JSON: [`NodeSample`] has the pressure on its resources, the container
//! runtime's daemons, the kubelet's process and the shims; [`KubeletMetricsSample`] has the kubelet's own metrics.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::diagnosis::facts::ProcessRef;
use crate::diagnosis::forecast::{GO_THREADS, LimitKind, MeasuredLimit};
use crate::host::proc::Role;
use crate::host::proc::limits::LimitUse;
use crate::report::Seconds;

/// A sample of the node.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSample {
    /// The pressure on cpu, memory and io.
    #[serde(default)]
    pub pressure: Vec<PressureSample>,
    /// The processes of the kubelet and of the container runtime's daemons.
    #[serde(default)]
    pub processes: Vec<ProcessSample>,
    /// The state of the kubelet's process, whatever its process name; `None` if no kubelet was ever found.
    pub kubelet: Option<SampledKubeletState>,
    /// The shims that a signal has stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped_shims: Vec<ShimSample>,
    /// The shim with the most threads, if it has many.
    pub largest_shim: Option<ProcessSample>,
    /// How much of its limits the node and the lists use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitSample>,
    /// The number of pods in the last relist; `None` before the first one.
    pub pods: Option<u64>,
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSample {
    /// The limit.
    pub limit: LimitKind,
    /// How much is used.
    pub used: u64,
    /// The limit's value.
    pub max: u64,
    /// How many seconds before the sample it was measured.
    #[serde(default, rename = "ageSeconds", skip_serializing_if = "crate::report::is_zero")]
    pub age: u64,
}

/// A shim, or CRI-O's monitor of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShimSample {
    /// The process id.
    pub pid: u32,
    /// The process name.
    pub name: String,
    /// The id of the sandbox or container, from the process's command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The state of the kubelet's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum SampledKubeletState {
    /// The process runs.
    Running {
        /// The process id.
        pid: u32,
    },
    /// A signal has stopped the process.
    Stopped {
        /// The process id.
        pid: u32,
    },
    /// The process has ended.
    Gone,
}

/// The pressure on one resource, from `/proc/pressure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PressureSample {
    /// `cpu`, `memory` or `io`.
    pub resource: String,
    /// The percentage of time in which at least one task waited for the resource.
    pub some: f64,
    /// The percentage of time in which all tasks waited for the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<f64>,
}

/// One process of the kubelet or of the container runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessSample {
    /// The process id.
    pub pid: u32,
    /// The process name.
    pub name: String,
    /// The kernel's letter for the process's state, for example `S`.
    pub state: String,
    /// The processor time that the process has used so far, in clock ticks.
    pub cpu_ticks: u64,
    /// The number of threads.
    pub threads: u64,
    /// The number of memory pages that are in RAM.
    pub resident_pages: u64,
    /// The age at the time of the sample; `None` in captures of older releases.
    #[serde(default, rename = "ageSeconds", skip_serializing_if = "Option::is_none")]
    pub age: Option<Seconds>,
    /// How much of its limits it uses; the number of threads is above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitSample>,
}

impl LimitSample {
    /// Describes how much of a limit is used; `None` if that could not be read.
    pub fn of(limit: LimitKind, measured: Option<LimitUse>) -> Option<Self> {
        measured.map(|LimitUse { used, max }| Self { limit, used, max, age: 0 })
    }

    fn measured(self, process: Option<ProcessRef>) -> MeasuredLimit {
        let age = Duration::from_secs(self.age);
        MeasuredLimit { limit: self.limit, process, used: self.used, max: self.max, age }
    }
}

impl NodeSample {
    /// Returns how much of each limit is used. All daemons of runtimes, all kubelets and the largest shim are Go programs.
    pub fn measured_limits(&self) -> Vec<MeasuredLimit> {
        let kubelet = self.kubelet.and_then(SampledKubeletState::pid);
        let is_go = |process: &ProcessSample| {
            kubelet == Some(process.pid) || matches!(Role::of(&process.name), Role::Daemon | Role::Kubelet)
        };
        let all = self.processes.iter().filter(|process| is_go(process)).chain(&self.largest_shim);
        let of_process = all.flat_map(|process| {
            let threads = LimitUse { used: process.threads, max: GO_THREADS };
            let threads = LimitSample::of(LimitKind::Threads, Some(threads));
            let name = || ProcessRef { name: process.name.clone(), pid: process.pid };
            let all = threads.into_iter().chain(process.limits.iter().copied());
            all.map(move |limit| limit.measured(Some(name())))
        });
        of_process.chain(self.limits.iter().map(|limit| limit.measured(None))).collect()
    }
}

/// A sample of the kubelet's own metrics: one request to its `/metrics`.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletMetricsSample {
    /// The duration of the request.
    #[serde(rename = "tookSeconds")]
    pub took: Seconds,
    /// Whether the kubelet did not answer in time.
    #[serde(default)]
    pub silent: bool,
    /// The error of the request; `None` if it succeeded.
    pub why: Option<String>,
    /// The metrics that a capture needs, in the text form that the kubelet sent; `None` if the request failed.
    pub text: Option<String>,
}

impl SampledKubeletState {
    /// Returns the process id, unless the process is gone.
    pub const fn pid(self) -> Option<u32> {
        match self {
            Self::Running { pid } | Self::Stopped { pid } => Some(pid),
            Self::Gone => None,
        }
    }
}
