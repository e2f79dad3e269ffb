//! Finds the programs that `fetch.sh` has unpacked for the tests, or the reason why they are missing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The containerd series under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containerd {
    /// Debian 12's version. It has no event stream.
    V1_6,
    /// Debian 13's version. Its event readers share one channel.
    V1_7,
    /// Debian unstable's version. It sends events to every reader.
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

    /// Returns the beginning of `runtime_version`.
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

/// The directory that `fetch.sh` fills.
#[derive(Clone, Debug)]
pub struct Packages {
    cache: PathBuf,
}

impl Packages {
    /// Returns the packages, or the reason why the tests cannot run on this machine.
    pub fn find() -> Result<Self, String> {
        static FOUND: OnceLock<Result<Packages, String>> = OnceLock::new();
        FOUND.get_or_init(find).clone()
    }

    /// Returns the path of `containerd`, `ctr` or a shim of that version.
    pub fn program(&self, version: Containerd, name: &str) -> PathBuf {
        self.cache.join(version.folder()).join("usr/bin").join(name)
    }

    /// Returns a value of `PATH` with that version's shim and the tests' runc.
    pub fn search_path(&self, version: Containerd) -> String {
        let system = std::env::var("PATH").unwrap_or_default();
        let shim = self.cache.join(version.folder()).join("usr/bin");
        let tools = self.cache.join("tools/usr/sbin");
        format!("{}:{}:{system}", shim.display(), tools.display())
    }

    /// Returns the directory of libseccomp for runc, in case the system has none.
    pub fn library_path(&self) -> PathBuf {
        let libraries = self.cache.join("tools/usr/lib");
        let architecture = std::env::consts::ARCH;
        libraries.join(format!("{architecture}-linux-gnu"))
    }

    /// Returns the docker-archive with the pause and the busybox image.
    pub fn image(&self) -> PathBuf {
        self.cache.join("image.tar")
    }
}

/// Whether the tests run in CI, where a missing runtime is a failure.
pub fn on_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Returns a script in the directory of the tests.
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
    // Only CI downloads packages automatically; on other machines the user runs `fetch.sh`.
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
