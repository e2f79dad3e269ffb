//! Finds what holds up a hung call: the shim, the OCI runtime process, the cgroup, the blocked tasks and the
//! mounts of its container.

use std::path::Path;
use std::time::Duration;

use super::{Evidence, HostEvidence};
use crate::cri::ContainerState;
use crate::diagnosis::limits;
use crate::diagnosis::proc::{self, Blocked, Freeze, NodeMount, Ownership, ProcSample, Process, Role};
use crate::diagnosis::report::Confidence;
use crate::diagnosis::words::seconds;

/// The processes, cgroup and mounts of one container or sandbox.
#[derive(Debug, Default)]
pub struct Holders<'a> {
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
pub fn holders<'a>(evidence: &'a Evidence, id: &str) -> Holders<'a> {
    let Some(host) = evidence.node() else {
        return Holders::default();
    };
    let sample = host.latest();
    let sandbox = evidence.names.sandbox_of(id).unwrap_or(id);
    let uid = evidence.names.pod(id).map(|pod| pod.uid).filter(|uid| !uid.is_empty());
    let own: Vec<&Process> = of_container(sample, id);
    let shim = shim_of(sample, id, sandbox, &own);
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
    let is_its = |freeze: &&Freeze| {
        freeze.container_id.as_deref() == Some(id)
            || (freeze.container_id.is_none() && uid.is_some() && freeze.pod_uid == uid)
    };
    Holders {
        shim,
        oci,
        blocked,
        frozen: sample.frozen.iter().find(is_its),
        mounts: sample
            .remote_mounts()
            .filter(|mount| uid.is_some() && mount.pod_uid() == uid.as_deref())
            .collect(),
    }
}

/// Whether this is the first process of a container that is created and not started: the OCI runtime's own
/// program waits in that process until the container is started, however long that takes. A process that
/// waits in the kernel is stuck.
pub fn waits_to_be_started(evidence: &Evidence, process: &Process) -> bool {
    let is_created = || {
        let listed = evidence.runtime.containers.latest().into_iter().flatten();
        let mut created = listed.filter(|container| container.state == ContainerState::Created);
        created.any(|container| process.container_id.as_deref() == Some(container.id.as_str()))
    };
    let is_first = process.comm == "runc:[2:INIT]" || is_created();
    is_first && process.blocked.is_empty() && !process.is_stopped()
}

/// Whether this OCI runtime process works on the container, by its command line, for longer than one command
/// takes. An exec of a probe ends by itself and blocks no status call, so it has to be older.
pub fn works_on(process: &Process, id: &str) -> bool {
    let is_exec = process.command.iter().any(|word| word == "exec");
    let least = if is_exec { limits::SILENT_LIKELY } else { limits::OCI_COMMAND };
    process.command.mentions(id) && !process.is_zombie() && process.age >= least
}

fn of_container<'a>(sample: &'a ProcSample, id: &str) -> Vec<&'a Process> {
    sample
        .processes
        .values()
        .filter(|process| process.container_id.as_deref() == Some(id) && process.role != Role::Shim)
        .collect()
}

/// Finds the shim by the id on its command line, else as an ancestor of the container's own processes.
fn shim_of<'a>(sample: &'a ProcSample, id: &str, sandbox: &str, own: &[&Process]) -> Option<&'a Process> {
    let is_its = |named: &str| named == id || named == sandbox;
    let named = sample.with_role(Role::Shim).find(|shim| proc::monitored_ids(&shim.command).any(is_its));
    named.or_else(|| {
        sample
            .with_role(Role::Shim)
            .find(|shim| own.iter().any(|process| sample.descends(process.pid, shim.pid)))
    })
}

impl Evidence {
    /// Whether the process is the kubelet, or belongs to the probed runtime or one of its containers. A node
    /// may have a second runtime, whose processes do not matter.
    pub fn concerns(&self, process: &Process) -> bool {
        let names = &self.names;
        let in_known_container = process.container_id.as_deref().is_some_and(|id| names.knows(id));
        match process.role {
            Role::Kubelet => true,
            Role::Daemon => match self.host.as_ref().map(|host| &host.ownership) {
                Some(Ownership::Ours { daemon: Some(pid) }) => *pid == process.pid,
                _ => true,
            },
            Role::Shim => self.owns_shim(process),
            Role::OciRuntime => {
                in_known_container
                    || process.command.iter().any(|word| names.knows(word))
                    || self.parent(process).is_some_and(|parent| match parent.role {
                        Role::Shim => self.owns_shim(parent),
                        role => role == Role::Daemon && self.concerns(parent),
                    })
            }
            Role::Other => {
                in_known_container
                    || process.pod_uid.as_deref().is_some_and(|uid| names.pod_by_uid(uid).is_some())
            }
        }
    }

    /// Returns the daemon's child that has been waiting too long for the state of one container, and the
    /// container's id: a runtime that restores its containers one after the other waits for that child.
    pub fn restored_by_child(&self) -> Option<(&Process, &str)> {
        let daemon = self.daemon()?;
        let host = self.node()?;
        let waits_for_state = |process: &&Process| {
            process.parent == daemon.pid
                && process.age >= limits::SILENT_LIKELY
                && process.command.iter().any(|word| word == "state")
        };
        let child = host
            .latest()
            .with_role(Role::OciRuntime)
            .filter(waits_for_state)
            .max_by_key(|child| child.age)?;
        let id = child.command.iter().find_map(|word| proc::cgroup::container_id(word))?;
        Some((child, id))
    }

    /// Whether the frozen cgroup belongs to one of the runtime's pods.
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

    /// Whether the shim belongs to the probed runtime: by the daemon's address on its command line, else by
    /// the containers that it started.
    fn owns_shim(&self, shim: &Process) -> bool {
        if let (Some(address), Some(socket)) = (shim.flag("address"), &self.socket) {
            return proc::same_socket(Path::new(address), socket);
        }
        proc::monitored_ids(&shim.command).any(|id| self.names.knows(id))
            || self.host.as_ref().is_some_and(|host| {
                let sample = host.latest();
                sample.processes.values().any(|process| {
                    process.container_id.as_deref().is_some_and(|id| self.names.knows(id))
                        && sample.descends(process.pid, shim.pid)
                })
            })
    }

    fn parent(&self, process: &Process) -> Option<&Process> {
        self.host.as_ref()?.latest().processes.get(&process.parent)
    }
}

/// Whether the task is blocked in both samples, if there are two.
pub fn still_blocked(host: &HostEvidence, tid: u32) -> bool {
    let at_first = || host.first.processes.values().flat_map(|process| &process.blocked);
    host.second.is_none() || at_first().any(|task| task.tid == tid)
}

impl Evidence {
    /// Returns how sure it is that the call about `id` hangs: by its silence, and by a second piece of
    /// evidence.
    pub fn hang_confidence(&self, id: &str, waited: Duration) -> Confidence {
        let by_silence = self.runtime.silence.confidence(waited);
        if by_silence == Confidence::Likely && self.second_evidence(id).is_some() {
            return Confidence::Certain;
        }
        by_silence
    }

    /// Describes what holds up a silent call about `id`: the second piece of evidence, else the OCI runtime
    /// process that works on the container. Such a process makes the hang no more certain, because a slow
    /// answer has one too.
    pub fn holder(&self, id: &str) -> Option<String> {
        self.second_evidence(id).or_else(|| {
            let holders = holders(self, id);
            let process = holders.oci.iter().find(|process| works_on(process, id))?;
            Some(format!("{} works on it and has not finished for {}", process.label(), seconds(process.age)))
        })
    }

    /// Describes what shows, apart from the silence, that `id` is blocked: a frozen cgroup, a task in
    /// uninterruptible sleep in every sample, a stopped shim or a goroutine dump.
    pub fn second_evidence(&self, id: &str) -> Option<String> {
        if let Some(confirmation) = self.dump_blames(id) {
            return Some(confirmation);
        }
        let host = self.node()?;
        let holders = holders(self, id);
        if let Some(freeze) = holders.frozen {
            return Some(format!("its cgroup {} is frozen", freeze.path));
        }
        if let Some(shim) = holders.shim.filter(|shim| shim.is_stopped()) {
            return Some(format!("its shim {} is stopped (state {})", shim.label(), shim.state));
        }
        // One sample proves nothing: every write to a disk blocks for a moment.
        host.second.as_ref()?;
        holders.blocked.first().map(|(process, task)| {
            format!(
                "{}, task {} waits in the kernel in every look ({})",
                process.label(),
                task.tid,
                task.wchan
            )
        })
    }
}
