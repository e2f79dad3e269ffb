//! Identifies the program that wrote a dump, and the program's Go release, by the functions and paths in the dump.

use std::collections::HashSet;
use std::sync::Arc;

use super::dump::Dump;
use super::functions::DAEMONS;
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

/// The program that wrote a dump.
pub struct Program {
    /// The daemon.
    pub daemon: Daemon,
    /// The Go release that built the program, if a path contains the release.
    pub go: Option<String>,
}

/// Returns the program that wrote a dump.
pub fn identify(dump: &Dump) -> Program {
    // The position in the table of the best function so far; only earlier positions are searched.
    let mut rank = DAEMONS.len();
    let mut go = None;
    // Frames share the memory of their names, so each name is checked once.
    let mut seen = HashSet::new();
    for goroutine in &dump.goroutines {
        let creators = goroutine.created_by.iter().map(|creator| &creator.function);
        for function in goroutine.frames.iter().map(|frame| &frame.function).chain(creators) {
            if !seen.insert(Arc::as_ptr(function).addr()) {
                continue;
            }
            let better = DAEMONS.iter().take(rank).position(|row| row.fits(|part| function.contains(part)));
            rank = better.unwrap_or(rank);
        }
        if go.is_none() {
            go = goroutine
                .frames
                .iter()
                .filter_map(|frame| frame.place.as_ref())
                .find_map(|(file, _)| go_release(file));
        }
    }
    let daemon = DAEMONS.get(rank).and_then(|row| Daemon::parse(row.meaning));
    Program { daemon: daemon.unwrap_or(Daemon::Unknown), go }
}

/// Finds Go's release in a path such as `/usr/lib/go-1.26/src/…` or `/usr/local/go1.24.4/src/…`.
fn go_release(file: &str) -> Option<String> {
    let (before, _) = file.split_once("/src/")?;
    let release = before.rsplit('/').next()?.strip_prefix("go")?.trim_start_matches('-');
    let plausible =
        release.contains('.') && release.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plausible.then(|| format!("go{release}"))
}
