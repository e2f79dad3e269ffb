//! Reads the node's own files: configuration files, sockets' paths, disks, and the process table.
//!
//! All files are read below a [`HostRoot`], so that plegctl finds the same files on the node and in a debug pod in
//! which the node is mounted at `/host`. This module writes nothing.

mod arguments;
mod cni;
mod containerd;
mod cri_name;
pub mod disks;
mod inotify;
mod inotify_use;
mod kernel;
mod permissions;
pub mod proc;
mod scalars;

pub use arguments::{Arguments, parse_boolean, shell_words};
pub use cni::{CNI_DIRECTORY, cni_directory};
pub use containerd::{
    CONTAINERD_CONFIG, ContainerdConfig, ContainerdFault, ContainerdPlace, containerd_config_path,
    debug_address,
};
pub use cri_name::CriName;
pub use inotify::{PathEvent, PathWatch};
pub use inotify_use::InotifyUse;
pub use kernel::cpu_and_waiting_time;
pub use kernel::{
    KernelDir, kernel_bytes, kernel_record, kernel_text, slowed, thread_times, time_on_processors,
};
pub use permissions::open_to_others;
pub use scalars::{ScalarsError, file_scalars, scalars};

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plegctl_base::{test_settings, threads};

/// The well-known sockets of runtimes, in the order in which they are tried.
pub const WELL_KNOWN_SOCKETS: [(&str, &str); 7] = [
    ("containerd", "/run/containerd/containerd.sock"),
    ("CRI-O", "/run/crio/crio.sock"),
    ("CRI-O", "/var/run/crio/crio.sock"),
    ("cri-dockerd", "/run/cri-dockerd.sock"),
    ("k3s or RKE2", "/run/k3s/containerd/containerd.sock"),
    ("k0s", "/run/k0s/containerd.sock"),
    ("MicroK8s", "/var/snap/microk8s/common/run/containerd.sock"),
];

/// Returns the path of the node's process table: `/proc`, unless a test sets another path.
pub fn proc() -> PathBuf {
    test_settings::node().map_or_else(|| PathBuf::from("/proc"), |node| node.join("proc"))
}

/// Returns the default port of the kubelet's health check. A test must not see a kubelet of the machine, so it gets
/// port 1, where nothing listens.
pub fn healthz_port() -> u16 {
    if test_settings::node().is_some() { 1 } else { 10248 }
}

/// Where `kubectl debug node/…` mounts the node's root.
const DEBUG_POD_MOUNT: &str = "/host";

/// The time limit for examining a mounted node.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The host root: the directory that is the node's `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot {
    root: PathBuf,
    /// The directory below which the paths are that the user gives. Only tests set it to another directory than
    /// `root`.
    given: PathBuf,
    /// Whether plegctl chose `/host` itself: the user gave no root, and a node is mounted there.
    pub assumed: bool,
}

impl HostRoot {
    /// Returns the root that the user gives. Without one, returns `/host` if a node is mounted there, else `/`. A
    /// node that merely has a directory `/host` has other runtime sockets below `/` than below `/host`, so its root
    /// is `/`.
    pub fn resolve(given: Option<&Path>) -> Self {
        if let Some(root) = given {
            return Self::at(root);
        }
        let plain = Self::at(Path::new("/"));
        if let Some(root) = test_settings::node() {
            return Self { root, ..plain };
        }
        let below = Self { assumed: true, ..Self::at(Path::new(DEBUG_POD_MOUNT)) };
        let is_view = {
            let (plain, below) = (plain.clone(), below.clone());
            move || contains_a_node(&below.root) && plain.is_only_a_view_of(&below)
        };
        // A root that does not answer is not used.
        let is_view = threads::with_time_limit_if_possible(TIME_LIMIT, is_view).unwrap_or(false);
        if is_view { below } else { plain }
    }

    /// Whether every runtime socket below this root is the same socket as below `node`.
    fn is_only_a_view_of(&self, node: &Self) -> bool {
        let inode = |root: &Self, socket: &str| {
            let about = fs::metadata(root.path(socket)).ok()?;
            Some((about.dev(), about.ino()))
        };
        WELL_KNOWN_SOCKETS
            .iter()
            .all(|(_, socket)| inode(self, socket).is_none_or(|here| inode(node, socket) == Some(here)))
    }

    fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), given: root.to_path_buf(), assumed: false }
    }

    /// Returns the path at which plegctl finds the node's `path`. A path that is already below the root stays
    /// unchanged.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        below(&self.root, path.as_ref())
    }

    /// Returns the path at which plegctl finds a node's path that the user gave.
    pub fn given_path(&self, path: impl AsRef<Path>) -> PathBuf {
        below(&self.given, path.as_ref())
    }

    /// Converts a path that the user gave to the path that the node uses; `None` if the path is not below the root.
    pub fn on_node(&self, path: &Path) -> Option<PathBuf> {
        Some(Path::new("/").join(path.strip_prefix(&self.given).ok()?))
    }

    /// Returns the directory.
    pub fn as_path(&self) -> &Path {
        &self.root
    }

    /// Whether plegctl runs on the node itself, and not in a container that has only the node's files mounted.
    pub fn is_this_system(&self, proc: &Path) -> bool {
        let name_space = |process: PathBuf| fs::read_link(process.join("ns/uts")).ok();
        let own = || name_space(proc.join("self"));
        self.root == Path::new("/") || own().is_some_and(|own| name_space(self.path("/proc/1")) == Some(own))
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    if root == Path::new("/") || path.starts_with(root) {
        return path.to_path_buf();
    }
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether the directory looks like the root of a node.
fn contains_a_node(root: &Path) -> bool {
    ["etc", "run", "var/lib"].iter().all(|directory| root.join(directory).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooted(root: &str) -> HostRoot {
        HostRoot::resolve(Some(Path::new(root)))
    }

    /// Unit tests do not set a node, so the functions return what a user gets.
    #[test]
    fn the_node_is_this_machine_unless_a_test_sets_another() {
        assert_eq!((proc(), healthz_port()), (PathBuf::from("/proc"), 10248));
    }

    #[test]
    fn paths_are_looked_up_below_the_root() {
        assert_eq!(rooted("/host").path("/run/x.sock"), Path::new("/host/run/x.sock"));
        assert_eq!(rooted("/").path("/run/x.sock"), Path::new("/run/x.sock"));
    }

    #[test]
    fn a_pod_with_the_nodes_socket_mounted_still_counts_as_a_view_of_the_node() {
        let folder = std::env::temp_dir().join(format!("plegctl-view-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let socket = "run/containerd/containerd.sock";
        let [pod, node] = ["pod", "node"].map(|name| {
            fs::create_dir_all(folder.join(name).join("run/containerd")).unwrap();
            rooted(folder.join(name).to_str().unwrap())
        });
        assert!(pod.is_only_a_view_of(&node), "it has no socket of its own");
        let listening = std::os::unix::net::UnixListener::bind(folder.join("node").join(socket)).unwrap();
        assert!(pod.is_only_a_view_of(&node));
        fs::hard_link(folder.join("node").join(socket), folder.join("pod").join(socket)).unwrap();
        assert!(pod.is_only_a_view_of(&node), "the same socket");
        fs::remove_file(folder.join("pod").join(socket)).unwrap();
        let own = std::os::unix::net::UnixListener::bind(folder.join("pod").join(socket)).unwrap();
        assert!(!pod.is_only_a_view_of(&node), "a node that has a directory /host");
        drop((listening, own));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_path_that_is_already_below_the_root_stays_unchanged() {
        assert_eq!(rooted("/host").path("/host/run/x.sock"), Path::new("/host/run/x.sock"));
    }
}
