//! The node's own files: where its root is mounted, its settings files, its process table.
//!
//! Everything is read below a [`HostRoot`], so that a debug pod that sees the node under `/host` finds the same things.
//! Nothing is written and no mount point is touched.

mod arguments;
pub mod disks;
mod inotify;
mod kernel;
pub mod proc;
mod scalars;
pub mod yaml;

pub use arguments::{Arguments, truth};
pub use inotify::{PathWatch, Seen};
pub use kernel::{
    KernelDir, kernel_bytes, kernel_record, kernel_text, slowed, time_on_and_for_processors,
    time_on_processors,
};
pub use scalars::{ScalarsError, file_scalars, scalars};

use std::fs;
use std::path::{Path, PathBuf};

/// Sockets that runtimes are known to listen on, in the order they are tried.
pub const WELL_KNOWN_SOCKETS: [(&str, &str); 7] = [
    ("containerd", "/run/containerd/containerd.sock"),
    ("CRI-O", "/run/crio/crio.sock"),
    ("CRI-O", "/var/run/crio/crio.sock"),
    ("cri-dockerd", "/run/cri-dockerd.sock"),
    ("k3s or RKE2", "/run/k3s/containerd/containerd.sock"),
    ("k0s", "/run/k0s/containerd.sock"),
    ("MicroK8s", "/var/snap/microk8s/common/run/containerd.sock"),
];

/// Where this process sees a process table.
pub const PROC: &str = "/proc";

/// Where `kubectl debug node/…` mounts the node.
const DEBUG_POD_MOUNT: &str = "/host";

/// The directory that is the node's `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot {
    root: PathBuf,
    /// Whether nobody asked for it and we found it ourselves.
    pub assumed: bool,
}

impl HostRoot {
    /// The root that was asked for; else `/host` if a node is mounted there and no runtime socket is seen without it.
    pub fn resolve(asked: Option<&Path>) -> Self {
        if let Some(root) = asked {
            return Self { root: root.to_path_buf(), assumed: false };
        }
        let mounted = Path::new(DEBUG_POD_MOUNT);
        let plain = Self { root: PathBuf::from("/"), assumed: false };
        if holds_a_node(mounted) && !plain.has_a_runtime_socket() {
            return Self { root: mounted.to_path_buf(), assumed: true };
        }
        plain
    }

    /// Where the node's `path` is for us. A path that is already below the root is left alone.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if self.root == Path::new("/") || path.starts_with(&self.root) {
            return path.to_path_buf();
        }
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What a path of ours is on the node; nothing if it does not lie below the root.
    pub fn on_node(&self, path: &Path) -> Option<PathBuf> {
        Some(Path::new("/").join(path.strip_prefix(&self.root).ok()?))
    }

    /// The directory itself.
    pub fn as_path(&self) -> &Path {
        &self.root
    }

    fn has_a_runtime_socket(&self) -> bool {
        WELL_KNOWN_SOCKETS.iter().any(|(_, socket)| self.path(socket).exists())
    }

    /// Whether this process lives in the system that the root is of, and not in a container that only sees its files.
    pub fn is_this_system(&self, proc: &Path) -> bool {
        let name_space = |process: PathBuf| fs::read_link(process.join("ns/uts")).ok();
        let own = || name_space(proc.join("self"));
        self.root == Path::new("/") || own().is_some_and(|own| name_space(self.path("/proc/1")) == Some(own))
    }
}

fn holds_a_node(root: &Path) -> bool {
    ["etc", "run", "var/lib"].iter().all(|directory| root.join(directory).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(root: &str) -> HostRoot {
        HostRoot::resolve(Some(Path::new(root)))
    }

    #[test]
    fn paths_are_looked_up_below_the_root() {
        assert_eq!(below("/host").path("/run/x.sock"), Path::new("/host/run/x.sock"));
        assert_eq!(below("/").path("/run/x.sock"), Path::new("/run/x.sock"));
    }

    #[test]
    fn a_path_that_already_names_the_root_is_not_doubled() {
        assert_eq!(below("/host").path("/host/run/x.sock"), Path::new("/host/run/x.sock"));
    }
}
