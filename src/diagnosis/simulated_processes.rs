//! Creates a sample of the processes of a simulated node, as `host::proc` would read it from `/proc`. The simulator has
//! no real processes.

use std::time::Duration;

use super::facts::{FactKind, WaitOwner};
use super::kernel_waits::{KernelWait, KernelWaitReason, WaitKind};
use super::proc::{Blocked, NodeMount, ProcSample, Process, Role};
use crate::host::proc::Tasks;

/// The processes of a simulated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedProcesses {
    /// The kubelet's process id and state letter; `None` if no kubelet runs.
    pub kubelet: Option<(u32, char)>,
    /// Whether a kubelet is installed on the node, so that its absence is a problem.
    pub has_kubelet: bool,
    /// The state letter of the daemon, if it is known that it listens on the runtime's socket.
    pub daemon: Option<char>,
    /// The sandbox ids of the shims whose pods are gone.
    pub left_over_shims: Vec<String>,
    /// The running pods.
    pub pods: Vec<SimulatedPod>,
    /// The umounts that do not return.
    pub hung_umounts: Vec<HungUmount>,
}

/// An umount of an NFS volume whose server is dead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HungUmount {
    /// The UID of the pod.
    pub pod_uid: String,
    /// The file server and its path.
    pub source: String,
    /// The name and the process id of the program that runs the umount.
    pub by: (String, u32),
    /// How long it has been running.
    pub age: Duration,
}

/// A pod of a simulated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedPod {
    /// The id of its sandbox.
    pub sandbox_id: String,
    /// Its UID.
    pub uid: String,
    /// The state letter of its shim.
    pub shim: char,
    /// The id of the reason for which its shim waits in the kernel, and who or what keeps it waiting.
    pub kernel_wait: Option<(String, Option<String>)>,
    /// The ids and names of its running containers.
    pub containers: Vec<(String, String)>,
}

/// The process id of the runtime's daemon.
const DAEMON: u32 = 812;

/// The first process id of shims and containers.
const OTHERS: u32 = 814;

/// The age of every process.
const AGE: Duration = Duration::from_secs(40 * 86_400);

/// The program of a shim.
const SHIM: &str = "containerd-shim-runc-v2";

/// The address that a shim gets from containerd.
const ADDRESS: &str = "/run/containerd/containerd.sock";

/// The time between the starts of two left-over shims.
const LEFT_OVER_APART: Duration = Duration::from_secs(3600);

/// The functions in which an umount waits for the server, innermost first, as in the stack of a hung `umount` of NFS 4
/// (`fs/nfs/nfs4proc.c`, `fs/namei.c`).
const UMOUNT_STACK: [&str; 6] = [
    "rpc_wait_bit_killable",
    "nfs4_proc_getattr",
    "__nfs_revalidate_inode",
    "nfs_weak_revalidate",
    "user_path_at",
    "ksys_umount",
];

/// The memory of a left-over shim.
const LEFT_OVER_BYTES: u64 = 11 << 20;

impl SimulatedProcesses {
    /// Returns for what the shims in the sample wait in the kernel.
    pub(super) fn waits(&self, sample: &ProcSample) -> Vec<KernelWait> {
        let wait = |pod: &SimulatedPod| {
            let (reason, owner) = pod.kernel_wait.as_ref()?;
            let mut shims = sample.with_role(Role::Shim);
            let shim = shims.find(|shim| shim.flag("id") == Some(&pod.sandbox_id))?;
            KernelWait::simulated(
                shim.pid,
                KernelWaitReason::with_id(reason)?,
                owner.as_deref().map(WaitOwner::simulated),
            )
        };
        let umount = |umount: &HungUmount| {
            let mount = umount.mount();
            let owner = WaitOwner::of_mount(&mount, None);
            let reason = KernelWaitReason::row(WaitKind::RemoteFileSystem)?;
            let wait = KernelWait::simulated(umount.pid(), reason, Some(owner))?;
            let stack: Vec<String> = UMOUNT_STACK.map(str::to_owned).to_vec();
            let facts = vec![FactKind::of_mount(&mount)];
            let function = stack.first().cloned().unwrap_or_default();
            let lasted = Some(umount.age);
            Some(KernelWait { function, stack, facts, mount: Some(mount), lasted, ..wait })
        };
        self.pods.iter().filter_map(wait).chain(self.hung_umounts.iter().filter_map(umount)).collect()
    }

    /// Creates the runtime's daemon.
    pub fn daemon() -> Process {
        Process { pid: DAEMON, ..process_of("containerd", 1, 'S', &["/usr/bin/containerd"]) }
    }

    /// Creates one sample of the processes.
    pub(super) fn sample(&self) -> ProcSample {
        let mut sample = ProcSample {
            complete: true,
            tasks: Tasks { now: 600, pid_max: 4_194_304, threads_max: 120_000 },
            ..ProcSample::default()
        };
        let mut mounts = Vec::new();
        let mut next = OTHERS;
        let mut add = |pid: Option<u32>, process: Process| {
            let pid = pid.unwrap_or(next);
            next += 1;
            sample.processes.insert(pid, Process { pid, ..process });
            pid
        };
        for pod in &self.pods {
            let command = [SHIM, "-id", &pod.sandbox_id];
            let shim = add(None, process_of(SHIM, 1, pod.shim, &command));
            for (id, name) in &pod.containers {
                let process = process_of(name, shim, 'S', &[name]);
                let (container_id, pod_uid) = (Some(id.clone()), Some(pod.uid.clone()));
                add(None, Process { container_id, pod_uid, ..process });
            }
        }
        let mut age = Duration::ZERO;
        for id in &self.left_over_shims {
            age += LEFT_OVER_APART;
            let command = [SHIM, "-namespace", "k8s.io", "-id", id, "-address", ADDRESS];
            let shim = process_of(SHIM, 1, 'S', &command);
            add(None, Process { age, threads: 11, resident: LEFT_OVER_BYTES, ..shim });
        }
        for umount in &self.hung_umounts {
            let (name, pid) = &umount.by;
            add(Some(*pid), process_of(name, 1, 'S', &[name]));
            let process = process_of("umount", *pid, 'D', &[]);
            let blocked = Blocked {
                tid: umount.pid(),
                wchan: UMOUNT_STACK.first().map(|name| (*name).to_owned()).unwrap_or_default(),
                ..Blocked::default()
            };
            let process = Process { age: umount.age, threads: 1, blocked: vec![blocked], ..process };
            add(Some(umount.pid()), process);
            mounts.push(umount.mount());
        }
        sample.mounts = mounts;
        let state = self.daemon.unwrap_or('S');
        sample.processes.insert(DAEMON, Process { state, ..Self::daemon() });
        if let Some((pid, state)) = self.kubelet {
            let process = process_of("kubelet", 1, state, &["/usr/bin/kubelet"]);
            sample.processes.insert(pid, Process { pid, ..process });
        }
        sample.socket_owner = self.daemon.map(|_| DAEMON);
        sample
    }
}

fn process_of(comm: &str, parent: u32, state: char, command: &[&str]) -> Process {
    // The kernel cuts names.
    let comm: String = comm.chars().take(15).collect();
    let role = Role::of(&comm);
    let command = command.iter().copied().collect();
    Process { comm, role, parent, state, command, age: AGE, threads: 8, ..Process::default() }
}

impl HungUmount {
    /// Returns the process id of the umount.
    const fn pid(&self) -> u32 {
        self.by.1.saturating_add(59)
    }

    /// Returns the mount of the volume.
    fn mount(&self) -> NodeMount {
        NodeMount {
            target: format!(
                "/var/lib/kubelet/pods/{}/volumes/kubernetes.io~csi/pvc-data/mount",
                self.pod_uid
            ),
            kind: "nfs4".to_owned(),
            source: self.source.clone(),
            device: "0:59".to_owned(),
            ..NodeMount::default()
        }
    }
}
