//! Finds out what tasks wait for in the kernel. It looks at the same tasks twice: a task that ran between the two looks may
//! only have waited for a moment, and is left out. For each other task, `reason` recognises the kind of wait by kernel
//! functions, and `owner` searches who or what keeps the task waiting.

mod owner;
mod reason;
mod remedy;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::facts::{FactKind, Function, WaitOwner, Waits};
use super::proc::waits::{self, DiskCounters, TaskLook, WaitLook};
use super::proc::{Process, Role};
use super::processes::paths;
use super::report::KernelReason;
use super::rules::steps::{Place, Places, TableStep};
use super::{HealthRun, advice, offload, overdue_processes};
use crate::clock::Mono;
use crate::host::proc::NodeMount;
use crate::report::Step;
use crate::report::rename::{Rename, without_names};
use owner::OwnerSearch;
pub use reason::{KernelWaitReason, WaitKind};
use remedy::Remedy;

/// The time limit for the search of owners, which reads the descriptors of all processes.
const OWNER_TIME_LIMIT: Duration = Duration::from_secs(2);

/// A task that waited in the kernel at both looks, for a known kind of reason.
#[derive(Clone, Debug, Serialize, Deserialize, Rename)]
#[names(Function(function, stack), emptied(remedy))]
#[serde(rename_all = "camelCase")]
pub struct KernelWait {
    /// The kind of reason.
    pub reason: &'static KernelWaitReason,
    /// The process.
    pub pid: u32,
    /// The task.
    pub tid: u32,
    /// The kernel function by which the reason was recognised.
    pub function: String,
    /// The innermost functions of the kernel stack; empty if it is not readable.
    pub stack: Vec<String>,
    /// The name of the process, server, disk or control group that keeps the task waiting, if known.
    pub owner: Option<WaitOwner>,
    /// The facts that point to the owner.
    pub facts: Vec<FactKind>,
    /// What ends the wait, if plegctl knows it with its path.
    #[serde(default)]
    pub remedy: Option<Remedy>,
    /// The mount of the file server or daemon that does not answer, if there is only one.
    pub mount: Option<NodeMount>,
    /// The number of programs on the node that have a task in uninterruptible sleep for the same reason.
    pub programs: usize,
    /// For how long the task has not run, at least; `None` if the kernel does not show it.
    pub lasted: Option<Duration>,
}

impl KernelWait {
    /// Returns what the task waits for.
    pub fn waits(&self) -> Waits {
        Waits { reason: self.reason.rule.id.into(), owner: self.owner.clone() }
    }

    /// Returns the kernel stack.
    pub fn stack(&self) -> FactKind {
        FactKind::KernelStack { functions: self.stack.iter().map(Function::from).collect() }
    }

    /// Converts the wait into its part of the report; `process` is the process that waits.
    pub fn report(&self, process: Option<&Process>) -> KernelReason {
        KernelReason {
            id: self.reason.rule.id.to_owned(),
            process: process.map(|process| process.comm.clone()).unwrap_or_default(),
            pid: self.pid,
            function: self.function.clone(),
            owner: self.owner.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the steps against the wait. A file server is named, and steps for FUSE or NFS are left out if the wait is for
    /// another file system.
    pub(super) fn steps(&self, node: &str) -> Vec<Step> {
        let is_fuse =
            self.owner.as_ref().is_none_or(WaitOwner::is_fuse) || self.function.starts_with("fuse_");
        let server = self.owner.as_ref().and_then(WaitOwner::server).filter(|_| !is_fuse);
        let fits = |step: &TableStep| match step.tag {
            "server" => server.is_some(),
            "noServer" => server.is_none(),
            "abort" => is_fuse,
            "nfs" => ["nfs", "rpc_"].iter().any(|begin| self.function.starts_with(begin)),
            _ => true,
        };
        // An IPv6 address has brackets only before a path.
        let host = server.map(|server| ("server", Place::word(server.trim_matches(['[', ']']))));
        let mount = self.mount.as_ref().map(|mount| ("mount", Place::word(&mount.target)));
        let of_server = server.map(|server| ("fileServer", Place::word(server)));
        let places: Vec<_> =
            [("node", Place::word(node))].into_iter().chain(host).chain(mount).chain(of_server).collect();
        let steps = self.reason.steps().filter(|step| step.key != "keep" && fits(step));
        steps.map(|step| self.exact(step, &places)).chain(self.reason.explain()).collect()
    }

    /// Returns what to save before the steps against the wait. `name` is the name of the process that waits.
    pub(super) fn keep(&self, name: &str) -> Vec<Step> {
        let stack = if self.tid == self.pid {
            advice::kernel_stack(&format!("where {name} waits in the kernel"), self.pid)
        } else {
            advice::task_stack(name, self.pid, self.tid)
        };
        let keep = self.reason.steps().filter(|step| step.key == "keep");
        keep.map(|step| self.exact(step, &[])).chain([stack]).collect()
    }

    /// Returns a step of the catalogue with what is known of the owner and of what ends the wait.
    fn exact(&self, step: TableStep, places: Places<'_>) -> Step {
        let remedy = self.remedy.as_ref().filter(|_| matches!(step.tag, "abort" | "thaw"));
        let owner = self.owner.as_ref().and_then(WaitOwner::process).map(|owner| owner.process.pid);
        let of_owner: Vec<_> = owner
            .iter()
            .flat_map(|pid| ["agent", "holder"].map(|name| (name, Place::Process(*pid))))
            .collect();
        match remedy {
            Some(remedy) => step.with(remedy.command()),
            None => step.filled(&[places, &of_owner].concat()),
        }
    }

    /// Whether the wait has lasted for so long that a person must end it, also if no call hangs. A short wait for a snapshot,
    /// a slow server or a lock is normal.
    pub fn is_overdue(&self) -> bool {
        self.reason.overdue.zip(self.lasted).is_some_and(|(limit, lasted)| lasted >= limit)
    }

    /// Returns the UIDs of the pods with a volume on the file system for which the task waits. While the wait lasts, such a
    /// pod may neither start nor end.
    pub fn pods_of_mount<'a>(&self, mounts: &'a [NodeMount]) -> BTreeSet<&'a str> {
        let device = self.mount.as_ref().map(|mount| &mount.device);
        let same = mounts.iter().filter(|mount| device == Some(&mount.device));
        same.filter_map(NodeMount::pod_uid).collect()
    }

    /// Creates a simulated wait of the process `pid`; `None` for a reason that no task waits for.
    pub(super) fn simulated(
        pid: u32,
        reason: &'static KernelWaitReason,
        owner: Option<WaitOwner>,
    ) -> Option<Self> {
        let function = reason.sample_function()?.to_owned();
        let stack = vec![function.clone()];
        let is_agent = reason.kind == WaitKind::SecurityAgent;
        let agent = owner.iter().filter_map(WaitOwner::process).filter(|_| is_agent);
        let facts = agent.map(|agent| FactKind::AgentDecides { agent: agent.clone() }).collect();
        Some(Self {
            reason,
            pid,
            tid: pid,
            function,
            stack,
            owner,
            facts,
            remedy: None,
            mount: None,
            programs: 1,
            lasted: None,
        })
    }

    /// Whether the stack was readable and the owner is known, so that the wait is proven.
    pub fn is_proven(&self) -> bool {
        !self.stack.is_empty() && self.owner.is_some()
    }
}

/// The first look, and its time.
pub(super) struct FirstLook {
    look: WaitLook,
    pub(super) at: Mono,
}

/// Looks for the first time at the tasks of the runtime, its shims, OCI runtimes and network plugins, and at blocked tasks
/// of containers. The caller does this only if something is suspicious.
pub(super) async fn first_look<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Option<FirstLook> {
    let host = evidence.node()?;
    let sample = &host.first;
    let concerned = |process: &&Process| match process.role {
        Role::Other => {
            overdue_processes::origin(evidence, sample, process).is_some()
                || (!process.blocked.is_empty() && evidence.concerns(process))
        }
        _ => evidence.concerns(process),
    };
    let pids: Vec<u32> = sample.processes.values().filter(concerned).map(|process| process.pid).collect();
    first_look_at(run, pids).await
}

/// Looks for the first time at all tasks of these processes.
pub(super) async fn first_look_at<R>(run: HealthRun<'_, R>, pids: Vec<u32>) -> Option<FirstLook> {
    let at = run.inputs.clock.mono();
    Some(FirstLook { look: look(run, pids).await?, at })
}

async fn look<R>(run: HealthRun<'_, R>, pids: Vec<u32>) -> Option<WaitLook> {
    let paths = paths(run.inputs)?;
    let limit = run.inputs.deadlines().proc.min(run.budget.left());
    offload::value(limit, move || waits::look(&paths.proc, &pids)).await
}

/// Looks for the second time, and returns the waits of the tasks that have not run since the first look.
pub(super) async fn second_look<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
    first: FirstLook,
) -> Vec<KernelWait> {
    let pids: BTreeSet<u32> = first.look.tasks.iter().map(|task| task.pid).collect();
    if pids.is_empty() {
        return Vec::new();
    }
    let Some(second) = look(run, pids.into_iter().collect()).await else { return Vec::new() };
    let (Some(paths), Some(host)) = (paths(run.inputs), evidence.node()) else { return Vec::new() };
    let tasks = unchanged(&first.look, second.tasks);
    if tasks.is_empty() {
        return Vec::new();
    }
    let search = OwnerSearch {
        connections: paths.cgroup.with_file_name("fuse").join("connections"),
        paths,
        sample: host.latest().clone(),
        written: host.disks.iter().map(|written| written.disk.device.clone()).collect(),
        stalled: stalled_disks(&first.look.disks, &second.disks),
    };
    let limit = OWNER_TIME_LIMIT.min(run.budget.left());
    offload::value(limit, move || search.classify(&tasks)).await.unwrap_or_default()
}

/// Returns the tasks that are unchanged since the first look.
fn unchanged(first: &WaitLook, second: Vec<TaskLook>) -> Vec<TaskLook> {
    second.into_iter().filter(|task| first.tasks.iter().any(|earlier| earlier.is_same_wait(task))).collect()
}

/// Returns the disks that have requests and completed none between two looks, by device number.
fn stalled_disks(
    first: &BTreeMap<String, DiskCounters>,
    second: &BTreeMap<String, DiskCounters>,
) -> BTreeMap<String, DiskCounters> {
    let is_stalled = |(device, now): &(&String, &DiskCounters)| {
        first.get(*device).is_some_and(|before| {
            before.in_flight > 0 && now.in_flight > 0 && before.completed == now.completed
        })
    };
    second.iter().filter(is_stalled).map(|(device, disk)| (device.clone(), disk.clone())).collect()
}

without_names! { &'static KernelWaitReason }
