//! What the tests run, where `fetch.sh` put it, and why it may not be there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The containerd series under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containerd {
    /// Debian 12's. Has no event stream.
    V1_6,
    /// Debian 13's. Event readers compete for one channel.
    V1_7,
    /// Debian unstable's. Events are broadcast.
    V2,
}

impl Containerd {
    fn folder(self) -> &'static str {
        match self {
            Self::V1_6 => "containerd-1.6",
            Self::V1_7 => "containerd-1.7",
            Self::V2 => "containerd-2",
        }
    }

    /// How `runtime_version` begins.
    pub fn version_prefix(self) -> &'static str {
        match self {
            Self::V1_6 => "1.6.",
            Self::V1_7 => "1.7.",
            Self::V2 => "2.",
        }
    }
}

impl fmt::Display for Containerd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}

/// The folder that `fetch.sh` fills.
#[derive(Clone, Debug)]
pub struct Packages {
    cache: PathBuf,
}

impl Packages {
    /// The packages, or why the tests cannot run here.
    pub fn find() -> Result<Self, String> {
        static FOUND: OnceLock<Result<Packages, String>> = OnceLock::new();
        FOUND.get_or_init(find).clone()
    }

    /// `containerd`, `ctr` or a shim of that version.
    pub fn program(&self, version: Containerd, name: &str) -> PathBuf {
        self.cache.join(version.folder()).join("usr/bin").join(name)
    }

    /// A search path on which that version finds its own shim, and our runc.
    pub fn search_path(&self, version: Containerd) -> String {
        let system = std::env::var("PATH").unwrap_or_default();
        let own = self.cache.join(version.folder()).join("usr/bin");
        let tools = self.cache.join("tools/usr/sbin");
        format!("{}:{}:{system}", own.display(), tools.display())
    }

    /// Where runc finds its libseccomp, should the system have none.
    pub fn library_path(&self) -> PathBuf {
        let libraries = self.cache.join("tools/usr/lib");
        let architecture = std::env::consts::ARCH;
        libraries.join(format!("{architecture}-linux-gnu"))
    }

    /// The docker-archive with the pause and the busybox image.
    pub fn image(&self) -> PathBuf {
        self.cache.join("image.tar")
    }
}

/// Whether the absence of a real runtime is a failure.
pub fn on_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// A script that lies beside the tests.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_runtime").join(name)
}

fn find() -> Result<Packages, String> {
    if !cfg!(target_os = "linux") {
        return Err("containerd runs pods on Linux only".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("running pods needs root".to_owned());
    }
    let cache = match std::env::var_os("PLEGCTL_RUNTIME_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/real-runtime"),
    };
    // Only CI may go to the network unasked; on a laptop somebody has to want it.
    if on_ci() {
        fetch(&cache)?;
    }
    if !cache.join("complete").is_file() {
        return Err(format!("no packages in {}: run tests/real_runtime/fetch.sh", cache.display()));
    }
    Ok(Packages { cache })
}

fn fetch(cache: &Path) -> Result<(), String> {
    let fetch = script("fetch.sh");
    let output = Command::new("sh")
        .arg(&fetch)
        .env("PLEGCTL_RUNTIME_CACHE", cache)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", fetch.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{} failed: {}", fetch.display(), String::from_utf8_lossy(&output.stderr)))
}
