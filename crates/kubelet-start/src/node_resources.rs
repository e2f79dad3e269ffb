//! Reads the resources that a kubelet shares with the other programs of its node: ports, the lock file, file systems,
//! cgroups and addresses. `resource_checks` checks the result.
//!
//! A read may block on a broken disk, so the caller must use a thread that it can give up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plegctl_node::host::disks::{Disk, disk};
use plegctl_node::host::proc::{NodeMount, TcpSocket, waits_uninterruptibly};
use plegctl_node::host::{ContainerdConfig, HostRoot, KernelDir, kernel_text};
use plegctl_node::kubelet::KubeletSettings;

/// A port on which the kubelet listens.
#[derive(Debug)]
pub struct KubeletPort {
    /// The configuration field that sets the port.
    pub field: &'static str,
    /// The flag that sets the port.
    pub flag: &'static str,
    /// The port if neither the field nor the flag is set.
    pub default: u16,
    /// Whether the default applies only to a kubelet without a configuration file.
    pub only_without_file: bool,
    /// The configuration field that sets the address.
    pub address: &'static str,
    /// The address if that field is not set.
    pub default_address: &'static str,
}

/// The ports of a kubelet and their defaults (`SetDefaults_KubeletConfiguration` and `applyLegacyDefaults`).
pub const PORTS: [KubeletPort; 3] = [
    port("port", "port", 10250),
    KubeletPort { only_without_file: true, ..port("readOnlyPort", "read-only-port", 10255) },
    KubeletPort {
        address: "healthzBindAddress",
        default_address: "127.0.0.1",
        ..port("healthzPort", "healthz-port", 10248)
    },
];

/// Returns a port of the kubelet's server, which listens on all addresses unless `address` is set.
const fn port(field: &'static str, flag: &'static str, default: u16) -> KubeletPort {
    let (address, default_address) = ("address", "0.0.0.0");
    KubeletPort { field, flag, default, only_without_file: false, address, default_address }
}

/// The settings whose value is the path of a cgroup: the flag and the field of each.
const CGROUP_SETTINGS: [(&str, &str); 2] =
    [("kube-reserved-cgroup", "kubeReservedCgroup"), ("system-reserved-cgroup", "systemReservedCgroup")];

/// The directories that contain cgroups: the tree of version 2, and two trees of version 1.
const CGROUP_TREES: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/systemd"];

/// Another process that listens on one of the kubelet's ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// The process.
    pub owner: ProcessName,
}

/// A process by id and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessName {
    /// The id.
    pub pid: u32,
    /// The kernel's name of the process.
    pub name: String,
}

/// A file system that the kubelet or the runtime uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedDisk {
    /// The directory of the kubelet or of the runtime.
    pub path: String,
    /// The total and the free space and inodes.
    pub disk: Disk,
}

/// The resources that a kubelet shares with other programs. `None` means that plegctl could not read a resource.
#[derive(Clone, Debug, Default)]
pub struct NodeResources {
    /// Whether the kubelet is not built into another program such as k3s, so that each missing setting has its default.
    pub has_known_defaults: bool,
    /// Whether the kubelet has a configuration file.
    pub has_config_file: bool,
    /// The other processes that listen on the kubelet's ports, as far as the processes are known.
    pub listeners: Option<Vec<Listener>>,
    /// The kubelet's lock file, and the process that holds it.
    pub lock_holder: Option<(String, ProcessName)>,
    /// The file systems to which the kubelet and the runtime write.
    pub disks: Vec<UsedDisk>,
    /// The paths of cgroups in the settings, and whether each cgroup exists.
    pub cgroups: BTreeMap<String, bool>,
    /// The addresses of the node.
    pub addresses: Option<BTreeSet<IpAddr>>,
}

impl NodeResources {
    /// Reads the node below `host` with the process table `proc`, for a kubelet with these settings. `pid` is the
    /// process id of the running kubelet, and `socket` the path of the runtime's socket.
    pub fn read(
        settings: &KubeletSettings,
        host: &HostRoot,
        proc: &Path,
        pid: Option<u32>,
        socket: Option<&str>,
        containerd: Option<&ContainerdConfig>,
    ) -> Self {
        let mut found = Self {
            has_known_defaults: settings.is_plain_kubelet(),
            has_config_file: settings.flag("config").is_some(),
            disks: disks(settings, host, proc, runtime_root(socket, containerd)),
            cgroups: cgroups(settings, host),
            ..Self::default()
        };
        // In a container, the process table and the network are the container's own.
        if pid.is_none() && !host.is_this_system(proc) {
            return found;
        }
        // The kubelet and the first process are in the node's network namespace.
        let network = proc.join(pid.unwrap_or(1).to_string()).join("net");
        found.listeners = listeners(&network, proc, pid, &wanted_ports(settings));
        found.lock_holder = settings.flag("lock-file").and_then(|path| lock_holder(path, host, proc, pid));
        found.addresses = addresses(&network);
        found
    }
}

/// Returns the ports on which a kubelet with these settings listens.
fn wanted_ports(settings: &KubeletSettings) -> BTreeSet<u16> {
    let ports = PORTS.iter().filter_map(|port| match settings.setting(port.flag, port.field) {
        Ok(Some(setting)) => setting.value.parse().ok(),
        Ok(None) => Some(port.default),
        Err(_) => None,
    });
    ports.collect()
}

/// Finds the processes, except the kubelet `pid`, that listen on `ports`. A socket whose process is not found may be the
/// kubelet's own, so it is left out. The descriptors of a process in uninterruptible sleep are not read.
fn listeners(network: &Path, proc: &Path, pid: Option<u32>, ports: &BTreeSet<u16>) -> Option<Vec<Listener>> {
    let all = TcpSocket::all(network).ok()?.into_iter();
    let wanted = all.filter(|socket| socket.listens() && ports.contains(&socket.local.1));
    let sockets: HashMap<String, (IpAddr, u16)> = wanted.map(|socket| (socket.link, socket.local)).collect();
    if sockets.is_empty() {
        return Some(Vec::new());
    }
    let mut owners: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for process in KernelDir::open(proc).ok()?.numbered() {
        let dir = proc.join(process.to_string());
        if waits_uninterruptibly(&dir) {
            continue;
        }
        let Ok(descriptors) = fs::read_dir(dir.join("fd")) else { continue };
        for target in descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()) {
            let target = target.to_string_lossy().into_owned();
            if sockets.contains_key(&target) {
                owners.entry(target).or_default().push(process);
            }
        }
    }
    let mut found = Vec::new();
    for (socket, processes) in owners {
        let Some((address, port)) = sockets.get(&socket).copied() else { continue };
        if let Some(owner) = processes.first().filter(|_| !processes.iter().any(|one| Some(*one) == pid)) {
            found.push(Listener { address, port, owner: process_name(proc, *owner) });
        }
    }
    found.sort_by_key(|listener| (listener.port, listener.address));
    Some(found)
}

fn process_name(proc: &Path, pid: u32) -> ProcessName {
    let name = kernel_text(&proc.join(pid.to_string()).join("comm")).unwrap_or_default();
    ProcessName { pid, name: name.trim().to_owned() }
}

/// Returns the path of the lock file and the process, except the kubelet `pid`, that holds a lock on this file.
fn lock_holder(path: &str, host: &HostRoot, proc: &Path, pid: Option<u32>) -> Option<(String, ProcessName)> {
    let about = fs::metadata(host.path(path)).ok()?;
    let (major, minor) = (rustix::fs::major(about.dev()), rustix::fs::minor(about.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", about.ino());
    let text = kernel_text(&proc.join("locks")).ok()?;
    let holder = text.lines().find_map(|line| {
        // Example: `1: POSIX  ADVISORY  WRITE 1234 08:01:131 0 EOF`. In the line of a waiting process, `->` follows `1:`.
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, kind, _, _, holder, locked, ..] = words.as_slice() else { return None };
        (*kind != "->" && *locked == file).then(|| holder.parse::<u32>().ok()).flatten()
    })?;
    (Some(holder) != pid).then(|| (path.to_owned(), process_name(proc, holder)))
}

/// Returns the directory with the runtime's data, from containerd's configuration or else the runtime's default.
fn runtime_root<'a>(socket: Option<&str>, containerd: Option<&'a ContainerdConfig>) -> Option<&'a str> {
    if let Some(root) = containerd.and_then(|config| config.root.as_deref()) {
        return Some(root);
    }
    match socket? {
        socket if socket.ends_with("containerd/containerd.sock") && !socket.contains("k3s") => {
            Some("/var/lib/containerd")
        }
        socket if socket.ends_with("crio/crio.sock") => Some("/var/lib/containers/storage"),
        _ => None,
    }
}

/// Reads the file systems with the kubelet's root directory and with the runtime's data.
fn disks(settings: &KubeletSettings, host: &HostRoot, proc: &Path, runtime: Option<&str>) -> Vec<UsedDisk> {
    // plegctl opens the paths, so the mounts of plegctl's own mount namespace count.
    let mounts = NodeMount::all(&kernel_text(&proc.join("self/mountinfo")).unwrap_or_default());
    let kubelet = settings.flag("root-dir").unwrap_or("/var/lib/kubelet");
    let read = [Some(kubelet), runtime].into_iter().flatten().filter_map(|path| {
        let disk = disk(host.as_path(), &mounts, Path::new(path)).ok()?;
        Some(UsedDisk { path: path.to_owned(), disk })
    });
    read.collect()
}

/// Returns the paths of cgroups in the settings, and whether each cgroup exists. The two cgroup drivers use different
/// directories for a path, and either of them counts.
fn cgroups(settings: &KubeletSettings, host: &HostRoot) -> BTreeMap<String, bool> {
    if !host.path("/sys/fs/cgroup").is_dir() {
        return BTreeMap::new();
    }
    let names =
        CGROUP_SETTINGS.iter().filter_map(|(flag, field)| settings.setting(flag, field).ok().flatten());
    let exists = |name: &str| {
        CGROUP_TREES.iter().any(|tree| {
            let tree = host.path(tree);
            cgroup_paths(name).into_iter().any(|path| tree.join(path).is_dir())
        })
    };
    names.map(|setting| (setting.value.clone(), exists(&setting.value))).collect()
}

/// Returns the directories of a cgroup: for the driver cgroupfs the path itself; for the driver systemd nested slices, made
/// from the last part of the path, in which each hyphen starts a new level (`ParseSystemdToCgroupName` and `ToSystemd`).
fn cgroup_paths(name: &str) -> [PathBuf; 2] {
    let plain = name.trim_matches('/');
    let last = plain.rsplit('/').next().unwrap_or_default();
    let mut slices = PathBuf::new();
    let mut slice = String::new();
    for part in last.trim_end_matches(".slice").split('-') {
        if !slice.is_empty() {
            slice.push('-');
        }
        slice.push_str(part);
        slices.push(format!("{slice}.slice"));
    }
    [PathBuf::from(plain), slices]
}

/// Returns the addresses in a network namespace: the local routes in `fib_trie`, and the IPv6 addresses in `if_inet6`.
fn addresses(network: &Path) -> Option<BTreeSet<IpAddr>> {
    let routes = kernel_text(&network.join("fib_trie")).ok()?;
    let mut found = BTreeSet::new();
    let mut last = None;
    for line in routes.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.ends_with("host LOCAL") {
            found.extend(last.map(IpAddr::V4));
        }
    }
    // A kernel without IPv6 has no such table.
    for line in kernel_text(&network.join("if_inet6")).unwrap_or_default().lines() {
        let address =
            line.split_ascii_whitespace().next().and_then(|text| u128::from_str_radix(text, 16).ok());
        found.extend(address.map(|address| IpAddr::V6(Ipv6Addr::from(address))));
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_reads_a_hyphen_in_the_name_of_a_cgroup_as_a_level() {
        let of = |name| cgroup_paths(name).map(|path| path.display().to_string());
        assert_eq!(of("/kube-reserved"), ["kube-reserved", "kube.slice/kube-reserved.slice"]);
        assert_eq!(of("/system.slice"), ["system.slice", "system.slice"]);
        assert_eq!(of("/a/runtime.slice"), ["a/runtime.slice", "runtime.slice"]);
    }

    #[test]
    fn the_disk_of_the_runtime_is_the_one_that_containerd_is_configured_to_use() {
        let socket = Some("/run/containerd/containerd.sock");
        let moved =
            ContainerdConfig { root: Some("/data/containerd".to_owned()), ..ContainerdConfig::default() };
        assert_eq!(runtime_root(socket, Some(&moved)), Some("/data/containerd"));
        assert_eq!(runtime_root(socket, Some(&ContainerdConfig::default())), Some("/var/lib/containerd"));
        assert_eq!(runtime_root(socket, None), Some("/var/lib/containerd"));
        assert_eq!(runtime_root(Some("/run/crio/crio.sock"), None), Some("/var/lib/containers/storage"));
        assert_eq!(runtime_root(None, None), None);
    }

    #[test]
    fn the_files_of_a_process_in_uninterruptible_sleep_are_not_read() {
        let proc = std::env::temp_dir().join(format!("plegctl-listeners-{}", std::process::id()));
        let _ = fs::remove_dir_all(&proc);
        let network = proc.join("1/net");
        fs::create_dir_all(&network).unwrap();
        let line = "0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1 0";
        fs::write(network.join("tcp"), line).unwrap();
        fs::create_dir_all(proc.join("7/fd")).unwrap();
        fs::write(proc.join("7/comm"), "nginx").unwrap();
        std::os::unix::fs::symlink("socket:[777]", proc.join("7/fd/3")).unwrap();
        let owners = |state: &str| {
            fs::write(proc.join("7/stat"), format!("7 (nginx) {state} 1 7 7 0 -1 0")).unwrap();
            listeners(&network, &proc, None, &BTreeSet::from([10248])).unwrap().len()
        };
        assert_eq!((owners("S"), owners("D")), (1, 0));
        let _ = fs::remove_dir_all(&proc);
    }
}
