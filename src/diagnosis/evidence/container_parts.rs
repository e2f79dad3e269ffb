//! Finds on the node what may block a hung call about a container: its shim or conmon, its OCI runtime process, its frozen
//! cgroup, its blocked tasks and its network mounts. Also decides which processes belong to the probed runtime, and how
//! sure a hang is.

use std::path::Path;
use std::time::Duration;

use super::{Evidence, HostEvidence};
use crate::cri::ContainerState;
use crate::diagnosis::advice::DaemonFamily;
use crate::diagnosis::facts::{FactKind, Function, ProcessRef};
use crate::diagnosis::kernel_waits::KernelWait;
use crate::diagnosis::limits;
use crate::diagnosis::proc::{
    self, Blocked, Freeze, NodeMount, Ownership, ProcSample, Process, Role, conmon_container, is_conmon,
};
use crate::diagnosis::report::Confidence;

/// The parts of one container or sandbox on the node. Some of them may block a call about it.
#[derive(Debug, Default)]
pub struct ContainerParts<'a> {
    /// The shim or conmon.
    pub shim: Option<&'a Process>,
    /// The OCI runtime processes that work on the container.
    pub oci: Vec<&'a Process>,
    /// The tasks in uninterruptible sleep: of the container, its shim or its OCI runtime.
    pub blocked: Vec<(&'a Process, &'a Blocked)>,
    /// The container's frozen cgroup.
    pub frozen: Option<&'a Freeze>,
    /// The network and FUSE mounts of the pod.
    pub mounts: Vec<&'a NodeMount>,
}

/// Finds the processes, cgroup and mounts of `id`.
pub fn parts_of<'a>(evidence: &'a Evidence, id: &str) -> ContainerParts<'a> {
    let Some(host) = evidence.node() else {
        return ContainerParts::default();
    };
    let sample = host.latest();
    let sandbox = evidence.names.sandbox_of(id).unwrap_or(id);
    let uid = evidence.names.pod(id).map(|pod| pod.uid).filter(|uid| !uid.is_empty());
    let own: Vec<&Process> = sample
        .processes
        .values()
        .filter(|process| process.container_id.as_deref() == Some(id) && process.role != Role::Shim)
        .collect();
    let shim = shim_of(sample, id, sandbox);
    let oci: Vec<&Process> = sample
        .with_role(Role::OciRuntime)
        .filter(|process| {
            process.command.mentions(id)
                || process.container_id.as_deref() == Some(id)
                || shim.is_some_and(|shim| process.parent == shim.pid && process.command.is_empty())
        })
        .filter(|process| !waits_to_be_started(evidence, process))
        .collect();
    let blocked = own
        .iter()
        .copied()
        .chain(shim)
        .chain(oci.iter().copied())
        .flat_map(|process| process.blocked.iter().map(move |task| (process, task)))
        .filter(|(_, task)| still_blocked(host, task.tid))
        .collect();
    let belongs_to_container = |freeze: &&Freeze| {
        freeze.container_id.as_deref() == Some(id)
            || (freeze.container_id.is_none() && uid.is_some() && freeze.pod_uid == uid)
    };
    ContainerParts {
        shim,
        oci,
        blocked,
        frozen: sample.frozen.iter().find(belongs_to_container),
        mounts: sample
            .remote_mounts()
            .filter(|mount| uid.is_some() && mount.pod_uid() == uid.as_deref())
            .collect(),
    }
}

/// Returns whether a process is the first process of a container that is created and not yet started. In this process,
/// the program of the OCI runtime waits until the container is started, which may take any time. Returns `false` for a
/// process in uninterruptible sleep, because it is blocked and does not wait for its start.
pub fn waits_to_be_started(evidence: &Evidence, process: &Process) -> bool {
    let is_created = || {
        let listed = evidence.runtime.containers.latest().into_iter().flatten();
        let mut created = listed.filter(|container| container.state == ContainerState::Created);
        created.any(|container| process.container_id.as_deref() == Some(container.id.as_str()))
    };
    let is_first = process.comm == "runc:[2:INIT]" || is_created();
    is_first && process.blocked.is_empty() && !process.is_stopped()
}

/// Returns whether an OCI runtime process has the container's id on its command line, is no zombie, and runs longer
/// than a normal command. The limit for `exec` is higher: an exec probe of a pod may run for seconds, and it blocks no
/// status call.
pub fn works_on(process: &Process, id: &str) -> bool {
    let is_exec = process.command.iter().any(|word| word == "exec");
    let least = if is_exec { limits::LONG_OCI_COMMAND } else { limits::OCI_COMMAND };
    process.command.mentions(id) && !process.is_zombie() && process.age >= least
}

/// Returns whether the process is in a frozen cgroup or below it.
pub fn is_frozen_by(process: &Process, freeze: &Freeze) -> bool {
    let rest = process.cgroup.strip_prefix(&freeze.path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Finds the shim by the id on its command line, otherwise as an ancestor of the processes of the container or its sandbox. The
/// command line of a shim with a blocked task is not read, and a container that has ended has no process.
fn shim_of<'a>(sample: &'a ProcSample, id: &str, sandbox: &str) -> Option<&'a Process> {
    let is_searched = |named: &str| named == id || named == sandbox;
    let by_id = sample.with_role(Role::Shim).find(|shim| proc::monitored_ids(&shim.command).any(is_searched));
    by_id.or_else(|| {
        let processes = sample.processes.values().filter(|process| process.role != Role::Shim);
        let own: Vec<&Process> =
            processes.filter(|process| process.container_id.as_deref().is_some_and(is_searched)).collect();
        sample
            .with_role(Role::Shim)
            .find(|shim| own.iter().any(|process| sample.descends(process.pid, shim.pid)))
    })
}

impl Evidence {
    /// Returns whether a process is the kubelet, or belongs to the probed runtime or to one of its containers. A node may
    /// have a second runtime, whose processes are ignored.
    pub fn concerns(&self, process: &Process) -> bool {
        let names = &self.names;
        let in_known_container = process.container_id.as_deref().is_some_and(|id| names.knows(id));
        match process.role {
            Role::Kubelet => true,
            Role::Daemon => match self.host.as_ref().map(|host| &host.ownership) {
                // A child that has not executed its program yet still has the daemon's name.
                Some(Ownership::OfRuntime { daemon: Some(pid) }) => {
                    [process.pid, process.parent].contains(pid)
                }
                _ => true,
            },
            Role::Shim => {
                let parent = || self.parent(process).filter(|parent| parent.role == Role::Shim);
                self.owns_shim(process) || parent().is_some_and(|parent| self.owns_shim(parent))
            }
            Role::OciRuntime => {
                in_known_container
                    || process.command.iter().any(|word| names.knows(word))
                    || self.parent(process).is_some_and(|parent| match parent.role {
                        Role::Shim => self.owns_shim(parent),
                        role => role == Role::Daemon && self.concerns(parent),
                    })
            }
            Role::Other => {
                let is_of_daemon = |parent: &Process| parent.role == Role::Daemon && self.concerns(parent);
                in_known_container
                    || process.pod_uid.as_deref().is_some_and(|uid| names.pod_by_uid(uid).is_some())
                    || self.parent(process).is_some_and(is_of_daemon)
            }
        }
    }

    /// Returns the daemon's child process `runc state` that does not end, and the id of its container. When a runtime
    /// starts, it restores its containers one after the other, and waits for one such process each time.
    pub fn hung_state_process(&self) -> Option<(&Process, &str)> {
        let daemon = self.daemon()?;
        let host = self.node()?;
        let is_hung_state_process = |process: &&Process| {
            process.parent == daemon.pid
                && process.age >= limits::LONG_OCI_COMMAND
                && process.command.iter().any(|word| word == "state")
        };
        let child = host
            .latest()
            .with_role(Role::OciRuntime)
            .filter(is_hung_state_process)
            .max_by_key(|child| child.age)?;
        let id = child.command.iter().find_map(|word| proc::cgroup::container_id(word))?;
        Some((child, id))
    }

    /// Returns whether a frozen cgroup belongs to one of the runtime's pods.
    pub fn concerns_cgroup(&self, freeze: &Freeze) -> bool {
        let id = freeze.container_id.as_deref();
        let uid = freeze.pod_uid.as_deref();
        id.is_some_and(|id| self.names.knows(id))
            || uid.is_some_and(|uid| self.names.pod_by_uid(uid).is_some())
            || self.host.as_ref().is_some_and(|host| {
                let below = |process: &&Process| process.cgroup.starts_with(&freeze.path);
                let mut inside = host.latest().processes.values().filter(below);
                inside.any(|process| process.container_id.as_deref().is_some_and(|id| self.names.knows(id)))
            })
    }

    /// Returns whether a shim belongs to the probed runtime: by the daemon's address on its command line, otherwise by the
    /// containers that it started.
    fn owns_shim(&self, shim: &Process) -> bool {
        if let (Some(address), Some(socket)) = (shim.flag("address"), &self.socket) {
            return proc::same_socket(Path::new(address), socket);
        }
        proc::monitored_ids(&shim.command).any(|id| self.names.knows(id))
            || self.is_conmon_of_crio(shim)
            || self.host.as_ref().is_some_and(|host| {
                let sample = host.latest();
                sample.processes.values().any(|process| {
                    process.container_id.as_deref().is_some_and(|id| self.names.knows(id))
                        && sample.descends(process.pid, shim.pid)
                })
            })
    }

    /// Returns whether a process is a conmon of the probed CRI-O, also while its container is created and in no list. Only
    /// CRI-O gives its containers such names, and each CRI-O passes the same directory for exits to all of its conmons.
    pub fn is_conmon_of_crio(&self, conmon: &Process) -> bool {
        let sample = self.host.as_ref().map(HostEvidence::latest);
        let is_listed = |other: &&Process| proc::monitored_ids(&other.command).any(|id| self.names.knows(id));
        let conmons = sample.into_iter().flat_map(|sample| sample.with_role(Role::Shim));
        let mut exit_dirs = conmons.filter(is_listed).map(|other| other.flag("exit-dir")).peekable();
        self.family() == DaemonFamily::Crio
            && is_conmon(&conmon.comm)
            && conmon_container(&conmon.command).is_some_and(|(_, name)| name.is_some())
            && (exit_dirs.peek().is_none() || exit_dirs.any(|dir| dir == conmon.flag("exit-dir")))
    }

    fn parent(&self, process: &Process) -> Option<&Process> {
        self.host.as_ref()?.latest().processes.get(&process.parent)
    }
}

/// Returns whether a task that is blocked in the second sample was blocked in the first sample too. Without a second
/// sample, returns true.
pub fn still_blocked(host: &HostEvidence, tid: u32) -> bool {
    let at_first = || host.first.processes.values().flat_map(|process| &process.blocked);
    host.second.is_none() || at_first().any(|task| task.tid == tid)
}

impl Evidence {
    /// Returns the confidence that the call about `id` hangs: by the length of its silence, and by other evidence.
    pub fn hang_confidence(&self, id: &str, waited: Duration) -> Confidence {
        let by_silence = self.runtime.silence.confidence(waited);
        if by_silence == Confidence::Likely && self.second_evidence(id).is_some() {
            return Confidence::Certain;
        }
        by_silence
    }

    /// Describes what blocks a silent call about `id`: the evidence of [`Self::second_evidence`], otherwise the OCI
    /// runtime process that works on the container. An OCI runtime process does not prove a hang, because a slow call
    /// has such a process too.
    pub fn holder(&self, id: &str) -> Option<FactKind> {
        self.second_evidence(id).or_else(|| {
            let parts = parts_of(self, id);
            let process = parts.oci.iter().copied().find(|process| works_on(process, id))?;
            Some(FactKind::CommandWorks { process: process.into(), age: process.age.into() })
        })
    }

    /// Describes the evidence other than silence that `id` is blocked: a goroutine dump, a frozen cgroup, a stopped shim, or
    /// a task in uninterruptible sleep in both samples.
    pub fn second_evidence(&self, id: &str) -> Option<FactKind> {
        if let Some(confirmation) = self.dump_blames(id) {
            return Some(confirmation);
        }
        let host = self.node()?;
        let parts = parts_of(self, id);
        if let Some(freeze) = parts.frozen {
            return Some(FactKind::CgroupFrozen { path: (&freeze.path).into() });
        }
        if let Some(shim) = parts.shim.filter(|shim| shim.is_stopped()) {
            return Some(FactKind::ShimStopped { shim: shim.into(), state: shim.state });
        }
        // One sample is not enough: every write to a disk blocks a task for a moment.
        host.second.as_ref()?;
        parts.blocked.first().map(|(process, task)| {
            // A process that starts a program waits until its child has executed it.
            let is_of_child = |wait: &&KernelWait| {
                let child = host.latest().processes.get(&wait.pid);
                child.is_some_and(|child| child.parent == process.pid && child.role == process.role)
            };
            let own = host.waits.iter().find(|wait| wait.tid == task.tid);
            let (process, task, function) =
                (ProcessRef::from(*process), task.tid, Function::from(&task.wchan));
            match own.or_else(|| host.waits.iter().find(is_of_child)) {
                Some(wait) => FactKind::TaskWaits { process, task, waits: wait.waits() },
                None => FactKind::TaskWaitsInKernel { process, task, function },
            }
        })
    }
}
