//! Temporary paths for the unit tests of captures.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A path for a file or directory that does not exist yet. The end of the test deletes it.
pub struct TestPath(pub PathBuf);

impl TestPath {
    /// Returns a new path.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("plegctl-capture-{}-{number}", std::process::id())))
    }
}

impl Drop for TestPath {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
    }
}
