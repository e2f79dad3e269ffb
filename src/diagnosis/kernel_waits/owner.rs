//! Searches the owner of a wait in the kernel: the process, server, disk or control group that keeps a task waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::KernelWait;
use super::reason::{KernelWaitReason, WaitKind};
use super::remedy::Remedy;
use crate::diagnosis::facts::{FactKind, FilePath, OwnerProcess, ProcessRef, Resource, WaitOwner};
use crate::diagnosis::limits;
use crate::host::kernel_text;
use crate::host::proc::waits::{self, DiskCounters, TaskLook};
use crate::host::proc::{NodeMount, ProcPaths, ProcSample, Process, Psi};

/// Programs that freeze file systems for backups and snapshots.
const FREEZERS: [&str; 6] = ["fsfreeze", "xfs_freeze", "qemu-ga", "vmtoolsd", "lvcreate", "dmsetup"];

/// What the search for owners reads.
pub(super) struct OwnerSearch {
    pub paths: ProcPaths,
    /// The directory with one entry for each FUSE connection.
    pub connections: PathBuf,
    pub sample: ProcSample,
    /// The device numbers of the file systems to which the runtime and the kubelet write.
    pub written: BTreeSet<String>,
    /// The disks that completed no request between the two looks, by device number.
    pub stalled: BTreeMap<String, DiskCounters>,
}

/// What the search found about the owner of a wait.
#[derive(Default)]
struct FoundOwner {
    /// The owner, if exactly one is possible.
    owner: Option<WaitOwner>,
    /// The facts that point to the owner or, without a name, to the possible owners.
    facts: Vec<FactKind>,
    /// See [`KernelWait::remedy`].
    remedy: Option<Remedy>,
    /// See [`KernelWait::mount`].
    mount: Option<NodeMount>,
}

impl OwnerSearch {
    /// Returns the waits of the tasks whose reason is known.
    pub(super) fn classify(&self, tasks: &[TaskLook]) -> Vec<KernelWait> {
        let mut waits: Vec<KernelWait> = tasks.iter().filter_map(|task| self.wait_of(task)).collect();
        for wait in &mut waits {
            wait.programs = self.programs_in(wait.reason);
        }
        waits
    }

    /// Counts the programs of the node that have a task in uninterruptible sleep for this reason.
    fn programs_in(&self, reason: &KernelWaitReason) -> usize {
        let waits = |process: &&Process| {
            process.blocked.iter().any(|task| reason.function_in(&TaskLook::of_blocked(task)).is_some())
        };
        let waiting = self.sample.processes.values().filter(waits);
        waiting.map(|process| process.comm.as_str()).collect::<BTreeSet<_>>().len()
    }

    /// Returns the wait of a task, with the first reason that fits and has the proof that it requires.
    fn wait_of(&self, task: &TaskLook) -> Option<KernelWait> {
        let process = self.sample.processes.get(&task.pid)?;
        let frozen = waits::frozen_around(&self.paths.cgroup, &process.cgroup);
        let (reason, function, owner) = if let Some(freeze) = frozen {
            let facts = vec![FactKind::IsFrozen { cgroup: (&freeze.path).into(), seen_twice: false }];
            let owner = Some(WaitOwner::Frozen { path: (&freeze.path).into() });
            let remedy = Some(Remedy::Thaw(freeze));
            let owner = FoundOwner { owner, facts, remedy, ..FoundOwner::default() };
            (KernelWaitReason::row(WaitKind::FrozenCgroup)?, task.wchan.as_str(), owner)
        } else {
            KernelWaitReason::all().iter().find_map(|row| {
                let function = row.function_in(task)?;
                Some((row, function, self.owner(row.kind, task, process, function)?))
            })?
        };
        Some(KernelWait {
            reason,
            pid: task.pid,
            tid: task.tid,
            function: function.to_owned(),
            stack: task.stack.iter().take(6).cloned().collect(),
            owner: owner.owner,
            facts: owner.facts,
            remedy: owner.remedy,
            mount: owner.mount,
            programs: 0,
            lasted: waits::not_run_for(&self.paths.proc, task),
        })
    }

    /// Describes a process that keeps a task waiting.
    fn process(&self, pid: u32) -> OwnerProcess {
        let process = self.sample.processes.get(&pid);
        OwnerProcess {
            process: process.map_or_else(|| ProcessRef { name: String::new(), pid }, Into::into),
            is_stopped: process.is_some_and(Process::is_stopped),
        }
    }

    /// Searches the owner of a wait of this kind. Returns `None` if this reason requires a proof, and the search
    /// finds none: then the task waits for another reason.
    fn owner(
        &self,
        kind: WaitKind,
        task: &TaskLook,
        process: &Process,
        function: &str,
    ) -> Option<FoundOwner> {
        match kind {
            WaitKind::SecurityAgent => Some(self.agent()),
            WaitKind::NetworkLock => Some(self.network_cleaner()),
            WaitKind::Device => {
                let owner = module_of(task).map(|name| WaitOwner::Module { name: name.into() });
                Some(FoundOwner { owner, ..FoundOwner::default() })
            }
            WaitKind::RemoteFileSystem => Some(self.server(process, function)),
            WaitKind::FrozenFileSystem => Some(self.frozen_file_system(task, process)),
            WaitKind::BlockDevice => self.disk(),
            WaitKind::FileLock => Some(self.lock_holder(task)),
            WaitKind::MemoryReclaim => {
                let pressure = self.sample.pressure_on(|pressure| pressure.memory);
                let facts = vec![Resource::Memory.pressure(&pressure)?];
                (pressure.highest(Psi::all_waited) >= limits::MEMORY_FULL)
                    .then(|| FoundOwner { facts, ..FoundOwner::default() })
            }
            // `wait_of` finds frozen tasks without this search.
            WaitKind::FrozenCgroup => None,
            WaitKind::UmountWrites | WaitKind::StuckProcessor | WaitKind::ShrinkerLock => {
                Some(FoundOwner::default())
            }
        }
    }

    /// Finds the security agents that decide whether a file may be opened (fanotify permission events). Names the agent if
    /// there is only one.
    fn agent(&self) -> FoundOwner {
        let agents = waits::permission_agents(&self.paths.proc);
        let decides = |pid: &u32| FactKind::AgentDecides { agent: self.process(*pid) };
        let facts = agents.iter().map(decides).collect();
        let only = if let [only] = agents.as_slice() { Some(self.process(*only)) } else { None };
        let owner = only.map(|process| WaitOwner::Process { process });
        FoundOwner { owner, facts, ..FoundOwner::default() }
    }

    /// Finds the kernel thread that removes network namespaces, if it is blocked.
    fn network_cleaner(&self) -> FoundOwner {
        let cleans = |process: &&Process| process.is_kernel_thread && process.comm.ends_with("netns");
        let thread = self.sample.processes.values().filter(|process| process.state == 'D').find(cleans);
        let fact = |thread: &Process| FactKind::RemovesNetworkNamespaces { process: thread.into() };
        FoundOwner { facts: thread.map(fact).into_iter().collect(), ..FoundOwner::default() }
    }

    /// Finds the network file server or the FUSE daemon behind a mount. Names it if the function fits only one mount, or only
    /// one mount of the process's pod.
    fn server(&self, process: &Process, function: &str) -> FoundOwner {
        // The name of a kernel module may follow the function.
        let is_fuse =
            function.starts_with("fuse") || function.split(' ').next() == Some("request_wait_answer");
        let waiting = |mount: &NodeMount| {
            waits::fuse_waiting(&self.connections, waits::fuse_connection(&mount.device)?)
        };
        let fits = |mount: &&NodeMount| {
            let begins =
                |kind: &str| function.starts_with(kind) || (kind == "nfs" && function.starts_with("rpc"));
            let kind = mount.kind.split('.').next().unwrap_or_default();
            match kind {
                "fuse" => is_fuse && waiting(mount) != Some(0),
                "nfs4" | "nfs" => begins("nfs"),
                "smb3" | "cifs" => begins("cifs") || begins("smb2") || begins("wait_for_response"),
                "lustre" => ["ptlrpc", "ldlm", "osc", "mdc"].iter().any(|part| begins(part)),
                "9p" => begins("p9"),
                kind => begins(kind),
            }
        };
        let mounts: Vec<_> = self.sample.remote_mounts().filter(fits).collect();
        let uid = process.pod_uid.as_deref();
        let own = mounts.iter().copied().filter(|mount| uid.is_some() && mount.pod_uid() == uid);
        let own: Vec<_> = own.collect();
        let candidates = if own.is_empty() { mounts } else { own };
        let devices: BTreeSet<&str> = candidates.iter().map(|mount| mount.device.as_str()).collect();
        let Some(&mount) = candidates.first().filter(|_| devices.len() == 1) else {
            let facts = candidates.iter().take(3).map(|mount| FactKind::MayBeMount {
                source: (&mount.source).into(),
                file_system: (&mount.kind).into(),
            });
            return FoundOwner { facts: facts.collect(), ..FoundOwner::default() };
        };
        let mut facts = vec![FactKind::of_mount(mount)];
        let connection = waits::fuse_connection(&mount.device).filter(|_| is_fuse);
        if let Some(connection) = connection
            && let Some(requests) = waiting(mount)
        {
            facts.push(FactKind::FuseRequestsWait { requests, connection });
        }
        let servers = connection.map(|connection| waits::fuse_servers(&self.paths.proc, connection));
        let daemon = servers.into_iter().flatten().next().map(|server| self.process(server));
        FoundOwner {
            owner: Some(WaitOwner::of_mount(mount, daemon)),
            facts,
            remedy: connection.map(|connection| self.abort(connection)),
            mount: Some(mount.clone()),
        }
    }

    /// Returns the remedy of a FUSE connection.
    fn abort(&self, connection: u64) -> Remedy {
        let is_mounted = !self.connections.is_dir() || self.connections.join(connection.to_string()).is_dir();
        Remedy::Abort { connection, is_mounted }
    }

    /// Finds the file system to which the task writes. Without the descriptor of a file, only the commands have the file
    /// system, if the runtime and the kubelet write to no other local one. A container may write to any volume.
    fn frozen_file_system(&self, task: &TaskLook, process: &Process) -> FoundOwner {
        let of_first = kernel_text(&self.paths.proc.join("1/mountinfo")).unwrap_or_default();
        let of_first = NodeMount::all(&of_first);
        let mounts = if of_first.is_empty() { &self.sample.mounts } else { &of_first };
        let mut facts = self.freezers();
        let file = waits::written_file(&self.paths.proc, task, mounts);
        let by_file = file.as_ref().map(|(mount, _)| *mount);
        facts.extend(file.as_ref().map(|(_, file)| FactKind::ItWritesTo { path: (&file.display()).into() }));
        let may_freeze = |mount: &&NodeMount| {
            process.container_id.is_none()
                && self.written.contains(&mount.device)
                && !["tmpfs", "ramfs", "overlay"].contains(&mount.kind.as_str())
        };
        let mut written: BTreeMap<&str, &NodeMount> = BTreeMap::new();
        for mount in mounts.iter().filter(may_freeze) {
            // The other mounts of a file system show parts of it.
            let known = written.entry(&mount.device).or_insert(mount);
            *known = if mount.target.len() < known.target.len() { mount } else { known };
        }
        let mount = by_file.or_else(|| written.values().copied().next().filter(|_| written.len() == 1));
        if by_file.is_none() && !written.is_empty() {
            let paths = written.values().map(|mount| (&mount.target).into()).collect();
            facts.push(FactKind::RuntimeAndKubeletWriteTo { paths });
        }
        FoundOwner {
            owner: by_file.map(|mount| WaitOwner::Frozen { path: (&mount.target).into() }),
            facts,
            remedy: mount.map(|mount| Remedy::Unfreeze { target: mount.target.clone() }),
            ..FoundOwner::default()
        }
    }

    /// Finds running programs that may have frozen the file system.
    fn freezers(&self) -> Vec<FactKind> {
        let may_freeze = |process: &&Process| FREEZERS.contains(&process.comm.as_str());
        let running = self.sample.processes.values().filter(may_freeze);
        running.map(|process| FactKind::RunsHere { process: process.into() }).collect()
    }

    /// Finds the disks that had requests and completed none between the two looks. Names a physical disk if there is one,
    /// because a virtual disk (device mapper, RAID, loop) waits for the disks below it.
    fn disk(&self) -> Option<FoundOwner> {
        let is_virtual = |name: &str| ["dm-", "md", "loop"].iter().any(|kind| name.starts_with(kind));
        let (_, disk) =
            self.stalled.iter().min_by_key(|(device, disk)| (is_virtual(&disk.name), (*device).clone()))?;
        let facts = self.stalled.iter().flat_map(|(device, disk)| {
            let mounts = self.sample.mounts.iter().filter(move |mount| mount.device == *device);
            let mounted = mounts.take(2).map(|mount| FactKind::SourceIsMountedAt {
                source: (&mount.source).into(),
                file_system: None,
                path: (&mount.target).into(),
            });
            let stalls =
                FactKind::DiskStalls { disk: (&disk.name).into(), requests_in_flight: disk.in_flight };
            std::iter::once(stalls).chain(mounted)
        });
        let owner = Some(WaitOwner::Disk { name: (&disk.name).into() });
        Some(FoundOwner { owner, facts: facts.collect(), ..FoundOwner::default() })
    }

    /// Finds the process that holds the file lock for which the task waits.
    fn lock_holder(&self, task: &TaskLook) -> FoundOwner {
        // `/proc/locks` lists a waiter by its process or by its task.
        let found = waits::lock_holder(&self.paths.proc, task.pid)
            .or_else(|| waits::lock_holder(&self.paths.proc, task.tid));
        // A process may wait for a lock of another of its threads.
        let Some(holder) = found.filter(|holder| holder.pid != task.pid) else {
            return FoundOwner::default();
        };
        let process = self.process(holder.pid);
        let path = holder.path.as_ref().map(FilePath::from);
        FoundOwner {
            facts: vec![FactKind::HasLocked { process: process.clone(), path }],
            owner: Some(WaitOwner::Process { process }),
            ..FoundOwner::default()
        }
    }
}

/// Returns the kernel module of the innermost function that is in a module.
fn module_of(task: &TaskLook) -> Option<&str> {
    task.stack.iter().find_map(|line| line.split_once(" [")?.1.strip_suffix(']'))
}
