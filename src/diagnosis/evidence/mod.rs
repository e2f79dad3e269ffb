//! The evidence: everything that the probes of one run measured.
//!
//! This module stores the measurements and combines them, for example the processes of one container. The rules
//! ([`super::rules`]) draw the conclusions.

pub mod container_parts;
pub(super) mod missing;
pub mod oddities;
mod runtime;
pub(super) mod suspicion;

pub use runtime::{
    ListEvidence, Population, RuntimeEvidence, Shards, StatusFacts, StatusRecord, StatusTarget, StreamProbe,
};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Mono, Wall};
use crate::diagnosis::daemon_watch::DaemonWatch;
use crate::diagnosis::disks::WrittenDirectory;
use crate::diagnosis::forecast::LimitForecast;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::journal::{Journal, SystemState};
use crate::diagnosis::kernel_waits::KernelWait;
use crate::diagnosis::kubelet::KubeletEvidence;
use crate::diagnosis::left_over_shims::LeftOverShim;
use crate::diagnosis::limits;
use crate::diagnosis::living_exits::LivingExit;
use crate::diagnosis::names::IdNames;
use crate::diagnosis::proc::clients::SocketClients;
use crate::diagnosis::proc::{Ownership, ProcSample, Throttled};
use crate::diagnosis::report::{JudgedMoment, NotChecked};
use crate::diagnosis::runtime_start::RuntimeStart;
use crate::host::disks::Disk;
use crate::kubelet::timing;
use crate::kubelet::{KubeletVersion, Sourced};
use crate::report::Rename;
use crate::stacks::report::StackReport;

/// All measurements of one run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// When the run began.
    pub taken_at: Wall,
    /// How long the run took.
    pub took: Duration,
    /// The moment of the capture that is judged.
    pub moment: Option<JudgedMoment>,
    /// The first line of the recorder's diagnosis of this moment, if it found a problem.
    pub recorded_diagnosis: Option<String>,
    /// The node's name.
    pub node: String,
    /// The endpoint as the user gave it.
    pub endpoint: String,
    /// The runtime's socket, as a path in the daemon's file system.
    pub socket: Option<PathBuf>,
    /// Other runtime sockets on this node, which are suggested if the endpoint cannot be reached.
    pub other_sockets: Vec<String>,
    /// The kubelet's settings, on which the estimate is based.
    pub settings: Settings,
    /// The runtime's answers.
    pub runtime: RuntimeEvidence,
    /// How the runtime answered a streamed list, if the kubelet fell back to unary lists and a list is large.
    pub stream_probe: Option<StreamProbe>,
    /// Why the runtime may not have started as it should.
    pub runtime_start: RuntimeStart,
    /// The runtime's directory for the configuration of network plugins, if the network has a problem and the runtime's
    /// settings name one.
    pub cni_directory: Option<String>,
    /// The first ids of the contradictions in two looks at the lists, if a recorder has looked twice.
    pub lasting_oddities: Option<Vec<String>>,
    /// The names of pods and containers by id.
    pub names: IdNames,
    /// The node's processes and kernel statistics.
    pub host: Option<HostEvidence>,
    /// The kubelet's settings, process and answers.
    pub kubelet: KubeletEvidence,
    /// The journal's messages.
    pub journal: Option<Journal>,
    /// The answer of systemd.
    pub systemd: Option<SystemState>,
    /// Whether the operating system refused to start a thread of plegctl.
    pub no_thread: bool,
    /// The judged goroutine dump of the runtime, if a call is silent and the runtime provides a dump.
    pub stacks: Option<StackReport>,
    /// The socket on which containerd provides its goroutine dump, as a path on the node.
    pub debug_socket: Option<PathBuf>,
    /// The limits that will be reached, by a recorder on this node.
    pub forecasts: Vec<LimitForecast>,
    /// Files of the node, if a bundle is written.
    pub input_files: Vec<InputFile>,
    /// Whether something looked suspicious, and no time was left to look a second time.
    pub lacks_second_samples: bool,
    /// Why the run ended before all probes were made, if it did.
    pub ended_early: Option<String>,
    /// Whether the caller ended the run.
    pub interrupted: bool,
    /// What could not be checked, with the reasons.
    pub not_checked: Vec<NotChecked>,
    /// Error messages about files or URLs that the user named.
    pub bad_input: Vec<String>,
}

impl Evidence {
    /// Records that something was not checked.
    pub fn skip(&mut self, what: &str, why: impl Display) {
        self.not_checked.push(NotChecked::new(what, why));
    }

    /// Adds the names in the two lists.
    pub fn learn_listed_names(&mut self) {
        self.names.learn_lists(
            self.runtime.sandboxes.items().unwrap_or_default(),
            self.runtime.containers.items().unwrap_or_default(),
        );
    }

    /// Returns the result of a part of the run. If the part panicked, records it as not checked and returns the default.
    pub fn value_or_skip<T: Default>(&mut self, what: &str, part: Result<T, String>) -> T {
        part.unwrap_or_else(|why| {
            self.skip(what, format!("plegctl itself failed: {why}"));
            T::default()
        })
    }

    /// Returns whether the CPU limit of the daemon's cgroup stops the daemon for so long that this alone explains late
    /// answers.
    pub fn daemon_is_throttled(&self) -> bool {
        self.node()
            .and_then(HostEvidence::throttled_percent)
            .is_some_and(|percent| percent >= limits::THROTTLED_PERCENT)
    }

    /// Returns what a watch of the daemon during the run showed.
    pub fn daemon_watch(&self) -> Option<&DaemonWatch> {
        let daemon = self.daemon()?;
        self.node()?.daemon_watch.as_ref().filter(|watch| watch.pid == daemon.pid)
    }

    /// Returns whether the daemon was stopped at the end of the run.
    pub fn daemon_is_stopped(&self) -> bool {
        let stop = self.daemon_watch().and_then(DaemonWatch::worst_stop);
        stop.is_some_and(|stop| stop.lasts)
    }

    /// Returns for how long the daemon could not run during the run, because it was stopped or its CPU limit stopped it.
    pub fn daemon_was_held(&self) -> Duration {
        let throttled = self.node().and_then(HostEvidence::throttled_for).unwrap_or_default();
        self.daemon_watch().map(DaemonWatch::stopped_for).unwrap_or_default() + throttled
    }

    /// Returns the status calls that were answered late, the slowest first, without those that were late only because the
    /// daemon could not run.
    pub fn slow_calls(&self) -> Vec<&StatusRecord> {
        let held = self.daemon_was_held();
        let mut slow = self.runtime.slow_calls();
        slow.retain(|record| record.duration.saturating_sub(held) >= limits::STATUS_SLOW);
        slow
    }

    /// Returns the node's processes, if the process table belongs to the probed runtime.
    pub fn node(&self) -> Option<&HostEvidence> {
        self.host.as_ref().filter(|host| matches!(host.ownership, Ownership::OfRuntime { .. }))
    }
}

/// The settings of the node's kubelet that matter to PLEG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The time-out of one runtime call.
    pub request_timeout: Sourced<Duration>,
    /// The age at which PLEG is unhealthy.
    pub threshold: Sourced<Duration>,
    /// The pause between two relists.
    pub period: Duration,
    /// The longest pause between two updates of the node's status.
    pub status_period: Duration,
    /// The kubelet's release.
    pub kubelet: Sourced<KubeletVersion>,
}

impl Default for Settings {
    fn default() -> Self {
        let source = "the kubelet's default";
        Self {
            request_timeout: Sourced::new(timing::REQUEST_TIMEOUT, source),
            threshold: Sourced::new(timing::THRESHOLD, source),
            period: timing::PERIOD,
            status_period: timing::longest_status_period(timing::STATUS_UPDATE_FREQUENCY),
            kubelet: Sourced::new(KubeletVersion::CONFIRMED, "the newest confirmed"),
        }
    }
}

/// The node's processes and kernel statistics, from one sample or two.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Rename)]
#[names(emptied(sampled_at), Process(network_plugins), Id(overdue_ids))]
#[serde(rename_all = "camelCase", default)]
pub struct HostEvidence {
    /// Whether the process table belongs to the probed runtime.
    pub ownership: Ownership,
    /// When the first sample was taken.
    #[serde(skip)]
    pub sampled_at: Mono,
    /// The first sample.
    pub first: ProcSample,
    /// The program names of the installed network plugins, cut to 15 characters as the kernel does.
    pub network_plugins: BTreeSet<String>,
    /// The time between the samples, and the second sample.
    pub second: Option<(Duration, ProcSample)>,
    /// The time between the first sample and the end of the run, and the CPU throttling of the daemon's
    /// cgroup at the end.
    pub throttled_at_end: Option<(Duration, Throttled)>,
    /// What a watch of the daemon during the run showed.
    pub daemon_watch: Option<DaemonWatch>,
    /// The file systems to which the runtime and the kubelet write.
    pub disks: Vec<WrittenDisk>,
    /// The ids of the sandboxes and containers for which overdue processes work, by process id.
    pub overdue_ids: BTreeMap<u32, String>,
    /// The processes that are connected to the runtime's socket, if the kernel lists them.
    pub clients: Option<SocketClients>,
    /// The shims whose sandbox is in no list.
    pub left_over_shims: Vec<LeftOverShim>,
    /// The first processes of containers that the runtime lists as exited.
    pub living_exits: Vec<LivingExit>,
    /// The tasks that wait in the kernel in two looks, with the reason.
    pub waits: Vec<KernelWait>,
}

/// A file system to which the runtime or the kubelet writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct WrittenDisk {
    /// The directories on this file system.
    pub directories: Vec<WrittenDirectory>,
    /// Its size and free space.
    pub disk: Disk,
}

impl HostEvidence {
    /// Returns the share of the time, in percent, for which the CPU limit of its cgroup stopped the daemon.
    pub fn throttled_percent(&self) -> Option<f64> {
        let (apart, _) = self.throttled_at_end?;
        let throttled = self.throttled_for()?;
        (!apart.is_zero()).then(|| 100.0 * throttled.as_secs_f64() / apart.as_secs_f64())
    }

    /// Returns for how long the CPU limit of its cgroup stopped the daemon.
    pub fn throttled_for(&self) -> Option<Duration> {
        let (_, later) = self.throttled_at_end?;
        Some(later.total.saturating_sub(self.first.daemon_cgroup.throttled?.total))
    }

    /// Returns the second sample, or the first one if there is no second.
    pub fn latest(&self) -> &ProcSample {
        self.second.as_ref().map_or(&self.first, |(_, sample)| sample)
    }
}
