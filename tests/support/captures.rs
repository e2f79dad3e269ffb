//! For the tests: records captures with the real binary, in directories that are removed when the test ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::plegctl::{Output, plegctl};
use plegctl_engine::capture::Capture;

/// A directory for captures that is removed when the test ends.
pub struct CaptureDir(PathBuf);

impl CaptureDir {
    /// Creates an empty directory.
    pub fn make() -> Self {
        Self::make_in(&std::env::temp_dir())
    }

    /// Creates an empty directory in another one.
    pub fn make_in(parent: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("plegctl-record-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for CaptureDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a path as a command line argument.
pub fn argument(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Records `endpoint` into `directory`.
pub fn record(endpoint: &str, directory: &Path, more: &[&str]) -> Output {
    let output = plegctl(&[["record", "-r", endpoint, argument(directory)].as_slice(), more].concat());
    assert_eq!(output.code, Some(0), "{output}");
    output
}

/// Returns the endpoint that replays a capture from `time` on.
pub fn replayed(capture: &Path, time: &str) -> String {
    format!("capture:{}@{time}", argument(capture))
}

/// Returns the endpoint that replays a capture from the end of the relist with this number.
pub fn replayed_after(capture: &Path, relist: u64) -> String {
    let relists = Capture::open(capture).unwrap().relists;
    let then = relists.iter().find(|known| known.done.number == relist);
    replayed(capture, &then.unwrap_or_else(|| panic!("{} relists", relists.len())).wall.to_string())
}

/// Whether the tests run in CI, where no test may be skipped.
pub fn on_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Prints on standard error why a test is skipped, or fails in CI.
pub fn skip(why: &str) {
    use std::io::Write;
    assert!(!on_ci(), "CI=true, and {why}");
    let thread = std::thread::current();
    // Not `eprintln!`: the test harness captures its output in tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped {}: {why}", thread.name().unwrap_or("a test"));
}
