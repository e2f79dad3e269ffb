//! Identifies the program of a dump by the functions in it.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use super::dump::Dump;

/// A program whose dumps are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Daemon {
    /// containerd.
    Containerd,
    /// containerd's shim.
    ContainerdShim,
    /// CRI-O.
    Crio,
    /// A kubelet.
    Kubelet,
    /// Another Go program.
    Unknown,
}

impl Daemon {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::ContainerdShim => "containerd-shim",
            Self::Crio => "crio",
            Self::Kubelet => "kubelet",
            Self::Unknown => "unknown",
        }
    }

    /// Parses the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Containerd, Self::ContainerdShim, Self::Crio, Self::Kubelet]
            .into_iter()
            .find(|daemon| daemon.as_str() == word)
    }
}

/// Functions that only one program has. The shim comes first, because it contains packages of containerd.
const SIGNS: &[(&str, Daemon)] = &[
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

/// The program of a dump, and the Go release that built it if paths show it.
pub fn identify(dump: &Dump) -> (Daemon, Option<String>) {
    let mut daemon = Daemon::Unknown;
    let mut rank = SIGNS.len();
    let mut go = None;
    // Frames share their names, so each name is checked once.
    let mut seen = HashSet::new();
    for goroutine in &dump.goroutines {
        let makers = goroutine.created_by.iter().map(|creator| &creator.function);
        for function in goroutine.frames.iter().map(|frame| &frame.function).chain(makers) {
            if !seen.insert(Arc::as_ptr(function).addr()) {
                continue;
            }
            if let Some((at, (_, found))) =
                SIGNS.iter().enumerate().take(rank).find(|(_, (sign, _))| function.contains(sign))
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
    (daemon, go)
}

/// Go's release in a path: `/usr/lib/go-1.26/src/…`, `/usr/local/go1.24.4/src/…`.
fn go_release(file: &str) -> Option<String> {
    let (before, _) = file.split_once("/src/")?;
    let release = before.rsplit('/').next()?.strip_prefix("go")?.trim_start_matches('-');
    let plausible =
        release.contains('.') && release.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plausible.then(|| format!("go{release}"))
}
