//! For the tests: measures the memory of a running process.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory that an export may need besides that of the recorder.
pub const EXPORT_MEMORY: u64 = 24 << 20;

/// Measures by how much the memory use of a process grows, without the parts of its program file, of which a test build has
/// far more than the released program.
pub struct MemoryUse {
    process: PathBuf,
    before: u64,
}

impl MemoryUse {
    /// Starts to measure; `None` if the kernel does not forget the highest memory use so far.
    pub fn start(pid: u32) -> Option<Self> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        fs::write(process.join("clear_refs"), "5").ok()?;
        let before = Self::read(&process, "RssAnon:");
        Some(Self { process, before })
    }

    fn read(process: &Path, name: &str) -> u64 {
        let status = fs::read_to_string(process.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Returns the difference between the highest memory use and that at the start.
    pub fn growth(&self) -> u64 {
        let file = Self::read(&self.process, "RssFile:");
        Self::read(&self.process, "VmHWM:").saturating_sub(file).saturating_sub(self.before)
    }
}
