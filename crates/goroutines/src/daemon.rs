//! Identifies the program that wrote a dump, and the program's Go release, by the functions and paths in the dump.

use std::collections::HashSet;
use std::sync::Arc;

use super::dump::Dump;
use plegctl_base::report::word_enum;

word_enum! {
    /// A program that `stacks` recognises.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum Daemon: as_str {
        /// containerd.
        Containerd = "containerd",
        /// containerd's shim.
        ContainerdShim = "containerd-shim",
        /// CRI-O.
        Crio = "crio",
        /// A kubelet.
        Kubelet = "kubelet",
        /// Another Go program.
        Unknown = "unknown",
    }
}

impl Daemon {
    /// Parses the name of a program.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Containerd, Self::ContainerdShim, Self::Crio, Self::Kubelet]
            .into_iter()
            .find(|daemon| daemon.as_str() == name)
    }
}

/// Parts of function names that occur in one program only. The shim comes first, because it contains packages of
/// containerd.
const TYPICAL_FUNCTIONS: &[(&str, Daemon)] = &[
    ("containerd-shim-runc-v2", Daemon::ContainerdShim),
    ("containerd/runtime/v2/shim.", Daemon::ContainerdShim),
    ("containerd/v2/pkg/shim.", Daemon::ContainerdShim),
    ("containerd/cmd/containerd/command.", Daemon::Containerd),
    ("containerd/v2/cmd/containerd/command.", Daemon::Containerd),
    ("containerd/pkg/cri/server.", Daemon::Containerd),
    ("containerd/v2/internal/cri/server.", Daemon::Containerd),
    ("github.com/cri-o/cri-o/", Daemon::Crio),
    ("k8s.io/kubernetes/cmd/kubelet/", Daemon::Kubelet),
    ("k8s.io/kubernetes/pkg/kubelet.", Daemon::Kubelet),
];

/// The program that wrote a dump.
pub struct Program {
    /// The daemon.
    pub daemon: Daemon,
    /// The Go release that built the program, if a path contains the release.
    pub go: Option<String>,
}

/// Returns the program that wrote a dump.
pub fn identify(dump: &Dump) -> Program {
    let mut daemon = Daemon::Unknown;
    // The position in the table of the best function so far; only earlier positions are searched.
    let mut rank = TYPICAL_FUNCTIONS.len();
    let mut go = None;
    // Frames share the memory of their names, so each name is checked once.
    let mut seen = HashSet::new();
    for goroutine in &dump.goroutines {
        let creators = goroutine.created_by.iter().map(|creator| &creator.function);
        for function in goroutine.frames.iter().map(|frame| &frame.function).chain(creators) {
            if !seen.insert(Arc::as_ptr(function).addr()) {
                continue;
            }
            if let Some((at, (_, found))) =
                TYPICAL_FUNCTIONS.iter().enumerate().take(rank).find(|(_, (part, _))| function.contains(part))
            {
                (daemon, rank) = (*found, at);
            }
        }
        if go.is_none() {
            go = goroutine
                .frames
                .iter()
                .filter_map(|frame| frame.place.as_ref())
                .find_map(|(file, _)| go_release(file));
        }
    }
    Program { daemon, go }
}

/// Finds Go's release in a path such as `/usr/lib/go-1.26/src/…` or `/usr/local/go1.24.4/src/…`.
fn go_release(file: &str) -> Option<String> {
    let (before, _) = file.split_once("/src/")?;
    let release = before.rsplit('/').next()?.strip_prefix("go")?.trim_start_matches('-');
    let plausible =
        release.contains('.') && release.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plausible.then(|| format!("go{release}"))
}
