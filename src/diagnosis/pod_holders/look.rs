//! Reads the node around one pod: its processes and how they treat signals, the mounts below the pod's directory and who
//! uses them, umounts that run, and for what all these tasks wait in the kernel.
//!
//! It accesses no volume: mounts come from `mountinfo`, and the name of a CSI driver from a file of the kubelet beside the
//! mount, unless that file is on a network file system itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::PodFacts;
use crate::diagnosis::budget::RunBudget;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::evidence::container_parts::parts_of;
use crate::diagnosis::kernel_waits::{self, KernelWait};
use crate::diagnosis::report::NotChecked;
use crate::diagnosis::{HealthRun, Inputs, limits, offload};
use crate::host::disks::resolve;
use crate::host::proc::usage::{PathUser, SignalSets, command_line_if_safe, runs_as_root, users_below};
use crate::host::proc::{NodeMount, ProcPaths, ProcSample, Process, Role, command_line};
use crate::host::{Arguments, kernel_text};
use crate::report::load::load;

/// The time limit for reading mounts, their users and signals.
const READ_TIME_LIMIT: Duration = Duration::from_secs(3);
/// The most users of the pod's mounts that are kept.
const MAX_USERS: usize = 20;
/// The largest file `vol_data.json` that is read.
const MAX_VOLUME_DATA: usize = 64 << 10;
/// Parts of the names of programs that mount and unmount volumes.
const STORAGE_PROGRAMS: [&str; 8] = ["csi", "nfs", "mount", "fuse", "lustre", "ceph", "plugin", "driver"];

/// A volume of the pod that is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMount {
    /// The mount.
    pub mount: NodeMount,
    /// The volume's directory below the pod's directory: the volume's name or that of its `PersistentVolume`.
    pub volume: String,
    /// The CSI driver, from `vol_data.json`.
    pub driver: Option<String>,
}

impl VolumeMount {
    /// Names the file system: `10.1.2.3:/export`, `tmpfs`.
    pub fn source(&self) -> String {
        let NodeMount { source, kind, .. } = &self.mount;
        if source.contains(['/', ':']) { source.clone() } else { format!("{source} ({kind})") }
    }
}

/// A living process of the pod.
#[derive(Clone, Debug)]
pub struct PodProcess {
    /// The process. Its command line is that of the node, if it is a root and readable.
    pub process: Process,
    /// Whether the runtime started it: its parent is not in the container.
    pub is_root: bool,
    /// How it treats signals, if readable.
    pub signals: Option<SignalSets>,
}

/// A process that mounts or unmounts a file system.
#[derive(Clone, Debug)]
pub struct Umount {
    /// The process, with its command line if readable.
    pub process: Process,
    /// The program that runs it, such as `csi-nfs[2231]`.
    pub by: String,
}

impl Umount {
    /// Returns the mount point on its command line: the last word that is a path.
    pub fn path(&self) -> Option<&str> {
        self.process.command.iter().skip(1).rfind(|word| word.starts_with('/')).map(String::as_str)
    }

    /// Returns the word before the mount point, which a mount has for what it mounts.
    pub fn source(&self) -> Option<&str> {
        let path = self.process.command.iter().rposition(|word| word.starts_with('/'))?;
        let source = self.process.command.get(path.checked_sub(1)?)?;
        (!source.starts_with('-')).then_some(source)
    }
}

/// What the node shows around one pod.
#[derive(Clone, Debug, Default)]
pub struct PodLook {
    /// Whether the node's processes could be read and belong to the runtime.
    pub sees_node: bool,
    /// The mounts below the pod's directory.
    pub mounts: Vec<VolumeMount>,
    /// The processes that use files below the pod's directory.
    pub users: Vec<(PathUser, Process)>,
    /// The living processes of the pod.
    pub members: Vec<PodProcess>,
    /// The umounts that run on the node.
    pub umounts: Vec<Umount>,
    /// The mounts that run on the node, of the programs `mount` and `mount.nfs` and the like.
    pub mounting: Vec<Umount>,
    /// The shims and OCI runtimes of the pod.
    pub parts: BTreeSet<u32>,
    /// The tasks that wait in the kernel in two looks.
    pub waits: Vec<KernelWait>,
    /// What could not be read.
    pub not_checked: Vec<NotChecked>,
}

/// Looks at the pod. Takes two looks at tasks, 2 s apart, unless the node is simulated or recorded.
pub async fn look<R>(inputs: &Inputs<R>, evidence: &Evidence, facts: &PodFacts) -> PodLook {
    let Some(host) = evidence.node() else { return PodLook::default() };
    let uid = facts.pod.uid.clone();
    let sample = host.latest().clone();
    let mut found = in_sample(evidence, &sample, &uid);
    let Some(proc) = inputs.proc.clone().filter(|_| inputs.simulated_processes.is_none()) else {
        found.waits.clone_from(&host.waits);
        return found;
    };
    let budget = RunBudget::start(inputs);
    let run = HealthRun { inputs, budget: &budget, progress: &|_: &str| () };
    let began = inputs.clock.mono();
    let first = kernel_waits::first_look_at(run, watched(&sample, &found)).await;
    let paths = ProcPaths { proc, cgroup: inputs.cgroup.clone(), socket: None };
    let root = inputs.host_root.clone();
    let unread = found.clone();
    let read = move || {
        read(&paths, &root, &sample, &uid, &mut found);
        found
    };
    let limit = READ_TIME_LIMIT.min(budget.left());
    let mut found = offload::value(limit, read).await.unwrap_or_else(|| {
        let what = "mounts of the pod, their users, and signals";
        PodLook { not_checked: vec![NotChecked::new(what, offload::why_nothing())], ..unread }
    });
    if let Some(first) = first {
        tokio::time::sleep(limits::SAMPLES_APART.saturating_sub(inputs.clock.mono().since(began))).await;
        found.waits = kernel_waits::second_look(run, evidence, first).await;
    }
    found
}

/// Finds in a sample what it shows about the pod.
fn in_sample(evidence: &Evidence, sample: &ProcSample, uid: &str) -> PodLook {
    let is_of_pod = |process: &&Process| {
        let of_container = || evidence.names.pod(process.container_id.as_deref()?);
        process.role != Role::Shim
            && !process.is_zombie()
            && (process.pod_uid.as_deref() == Some(uid) || of_container().is_some_and(|pod| pod.uid == uid))
    };
    let member = |process: &Process| {
        let parent = sample.processes.get(&process.parent);
        PodProcess {
            is_root: parent.is_none_or(|parent| parent.container_id != process.container_id),
            process: Process { command: Arguments::default(), ..process.clone() },
            signals: None,
        }
    };
    let ids: BTreeSet<&str> = evidence
        .runtime
        .listed_ids()
        .filter(|id| evidence.names.pod(id).is_some_and(|pod| pod.uid == uid))
        .collect();
    let parts = ids.iter().flat_map(|id| {
        let parts = parts_of(evidence, id);
        parts.shim.into_iter().chain(parts.oci).map(|process| process.pid).collect::<Vec<_>>()
    });
    let members: Vec<PodProcess> = sample.processes.values().filter(is_of_pod).map(member).collect();
    PodLook {
        sees_node: true,
        mounts: volume_mounts(&sample.mounts, uid),
        umounts: running(sample, |name| name.starts_with("umount")),
        mounting: running(sample, mounts),
        parts: parts.filter(|pid| members.iter().all(|member| member.process.pid != *pid)).collect(),
        members,
        ..PodLook::default()
    }
}

/// Returns the mounts of the pod's volumes. A mount that is visible under two paths is returned once.
fn volume_mounts(mounts: &[NodeMount], uid: &str) -> Vec<VolumeMount> {
    let mut found: Vec<VolumeMount> = Vec::new();
    let tail = |mount: &NodeMount| mount.target.split_once("/pods/").map(|(_, tail)| tail.to_owned());
    for mount in mounts.iter().filter(|mount| !uid.is_empty() && mount.pod_uid() == Some(uid)) {
        let Some(place) = tail(mount) else { continue };
        let mut parts = place.split('/').skip(1);
        let volume = match parts.next() {
            Some("volumes") => parts.nth(1),
            Some("volume-subpaths") => parts.next(),
            _ => None,
        };
        let is_new = found.iter().all(|known| tail(&known.mount).as_ref() != Some(&place));
        if let Some(volume) = volume.filter(|_| is_new) {
            found.push(VolumeMount { mount: mount.clone(), volume: volume.to_owned(), driver: None });
        }
    }
    found
}

/// Whether a program mounts a file system and then ends. A FUSE daemon serves its file system, and does not end.
fn mounts(name: &str) -> bool {
    name == "mount" || name.strip_prefix("mount.").is_some_and(|kind| !kind.starts_with("fuse"))
}

/// Finds the processes that mount or unmount a file system: those that are called `umount`, or after a helper such as
/// `umount.nfs`.
fn running(sample: &ProcSample, is_named: fn(&str) -> bool) -> Vec<Umount> {
    let is_umount = |process: &Process| is_named(&process.comm) && !process.is_zombie();
    let processes = || sample.processes.values().filter(|process| is_umount(process));
    let has_helper = |pid: u32| processes().any(|other| other.parent == pid);
    let starter = |process: &Process| {
        let mut at = sample.processes.get(&process.parent);
        while let Some(parent) = at.filter(|parent| is_umount(parent)) {
            at = sample.processes.get(&parent.parent);
        }
        // The parent of a process whose parent has ended is the first process of the node.
        at.filter(|parent| parent.pid > 1).unwrap_or(process).label()
    };
    let umount = |process: &Process| Umount { process: process.clone(), by: starter(process) };
    processes().filter(|process| !has_helper(process.pid)).map(umount).collect()
}

/// Returns the processes at whose tasks to look: those of the pod, mounts and umounts, shims and OCI runtimes of the pod, the
/// kubelet, and programs that mount volumes.
fn watched(sample: &ProcSample, found: &PodLook) -> Vec<u32> {
    let is_storage = |process: &Process| {
        let name = process.comm.to_ascii_lowercase();
        let is_blocked_pod = process.state == 'D' && process.pod_uid.is_some();
        !process.is_kernel_thread
            && (is_blocked_pod || STORAGE_PROGRAMS.iter().any(|part| name.contains(part)))
    };
    let others = sample.processes.values().filter(|process| {
        process.role == Role::Kubelet || (process.role == Role::Other && is_storage(process))
    });
    let mut pids: Vec<u32> = others.map(|process| process.pid).collect();
    pids.extend(found.members.iter().map(|member| member.process.pid));
    pids.extend(found.umounts.iter().chain(&found.mounting).map(|umount| umount.process.pid));
    pids.extend(&found.parts);
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Adds to `found` what the sample does not contain.
fn read(paths: &ProcPaths, root: &Path, sample: &ProcSample, uid: &str, found: &mut PodLook) {
    let proc = &paths.proc;
    // In a container, only the first process of the node sees all mounts of the node.
    let of_first = kernel_text(&proc.join("1/mountinfo")).unwrap_or_default();
    let mounts: Vec<NodeMount> = sample.mounts.iter().cloned().chain(NodeMount::all(&of_first)).collect();
    found.mounts = volume_mounts(&mounts, uid);
    for volume in &mut found.mounts {
        volume.driver = csi_driver(root, &mounts, &volume.mount.target);
    }
    for PodProcess { process, is_root, signals } in &mut found.members {
        *signals = SignalSets::read(proc, process.pid);
        if *is_root {
            process.command = command_line(&proc.join(process.pid.to_string()));
        }
    }
    // Any program can have the name `umount`.
    for umounts in [&mut found.umounts, &mut found.mounting] {
        umounts.retain(|umount| runs_as_root(proc, umount.process.pid));
        for Umount { process, .. } in umounts {
            process.command = command_line_if_safe(&proc.join(process.pid.to_string()));
        }
    }
    // All mounts of the pod are below the same directory.
    let directory = found.mounts.iter().find_map(|volume| {
        let (before, _) = volume.mount.target.split_once("/pods/")?;
        Some(PathBuf::from(format!("{before}/pods/{uid}")))
    });
    let Some(directory) = directory else { return };
    let own = std::process::id();
    let with_process = |user: PathUser| {
        let process = sample.processes.get(&user.pid)?.clone();
        Some((user, process))
    };
    let users = users_below(proc, &directory).into_iter().filter(|user| user.pid != own);
    found.users = users.filter_map(with_process).take(MAX_USERS).collect();
}

/// Reads the name of the CSI driver of a volume from the file that the kubelet keeps beside the mount point. Does not read
/// it if a step of its path is on a network file system.
fn csi_driver(root: &Path, mounts: &[NodeMount], target: &str) -> Option<String> {
    let (front, rest) = target.split_once("/kubernetes.io~csi/")?;
    let volume = rest.split('/').next()?;
    let path = PathBuf::from(format!("{front}/kubernetes.io~csi/{volume}/vol_data.json"));
    let on_node = path.strip_prefix(root).map_or_else(|_| path.clone(), |rest| Path::new("/").join(rest));
    let place = resolve(root, mounts, &on_node).ok()?;
    let data: Value = serde_json::from_slice(&load(&place, MAX_VOLUME_DATA).ok()?).ok()?;
    data.get("driverName")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(target: &str, kind: &str, source: &str) -> NodeMount {
        NodeMount { target: target.into(), kind: kind.into(), source: source.into(), ..NodeMount::default() }
    }

    #[test]
    fn only_volumes_of_the_pod_are_taken_and_each_once() {
        let pods = "/var/lib/kubelet/pods";
        let mounts = [
            mount(&format!("{pods}/u1/volumes/kubernetes.io~csi/pvc-1/mount"), "nfs4", "10.1.2.3:/export"),
            mount(
                &format!("/host{pods}/u1/volumes/kubernetes.io~csi/pvc-1/mount"),
                "nfs4",
                "10.1.2.3:/export",
            ),
            mount(&format!("{pods}/u1/volumes/kubernetes.io~projected/token"), "tmpfs", "tmpfs"),
            mount(&format!("{pods}/u1/volume-subpaths/conf/app/0"), "ext4", "/dev/sda1"),
            mount(&format!("{pods}/u1/etc-hosts"), "ext4", "/dev/sda1"),
            mount(&format!("{pods}/u2/volumes/kubernetes.io~csi/pvc-2/mount"), "nfs4", "10.1.2.3:/other"),
        ];
        let found = volume_mounts(&mounts, "u1");
        let names: Vec<(&str, String)> =
            found.iter().map(|volume| (volume.volume.as_str(), volume.source())).collect();
        let expected = [("pvc-1", "10.1.2.3:/export"), ("token", "tmpfs (tmpfs)"), ("conf", "/dev/sda1")];
        assert_eq!(names, expected.map(|(name, source)| (name, source.to_owned())));
        assert!(volume_mounts(&mounts, "").is_empty());
    }

    #[test]
    fn an_umount_is_named_after_the_program_that_runs_it() {
        let mut sample = ProcSample::default();
        for (pid, parent, comm) in [
            (1, 0, "systemd"),
            (2231, 1, "csi-nfs"),
            (2290, 2231, "umount"),
            (2291, 2290, "umount.nfs4"),
            (2300, 1, "umount"),
        ] {
            let process = Process { pid, parent, comm: comm.into(), state: 'S', ..Process::default() };
            sample.processes.insert(pid, process);
        }
        let umounts = running(&sample, |name| name.starts_with("umount"));
        let by: Vec<(u32, String)> =
            umounts.into_iter().map(|umount| (umount.process.pid, umount.by)).collect();
        assert_eq!(by, [(2291, "csi-nfs[2231]".to_owned()), (2300, "umount[2300]".to_owned())]);
    }

    #[test]
    fn the_csi_driver_is_read_beside_the_mount_and_not_from_a_network_file_system() {
        let root = std::env::temp_dir().join(format!("plegctl-csi-{}", std::process::id()));
        let volume = root.join("pods/u1/volumes/kubernetes.io~csi/pvc-1");
        std::fs::create_dir_all(&volume).unwrap();
        let data = r#"{"driverName":"nfs.csi.k8s.io","volumeHandle":"v"}"#;
        std::fs::write(volume.join("vol_data.json"), data).unwrap();
        let target = volume.join("mount").display().to_string();
        let own = mount(&target, "nfs4", "10.1.2.3:/export");
        let whole = Path::new("/");
        assert_eq!(csi_driver(whole, std::slice::from_ref(&own), &target).as_deref(), Some("nfs.csi.k8s.io"));
        let remote = mount(&root.join("pods").display().to_string(), "nfs4", "10.1.2.3:/kubelet");
        assert_eq!(csi_driver(whole, &[own, remote], &target), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
