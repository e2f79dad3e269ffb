//! Finds shims whose memory or number of threads is far beyond that of the other shims of the node.

use super::limits;
use super::proc::{ProcSample, Process, Role, is_conmon};

/// The median size of the shims of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShimSizes {
    /// The number of shims.
    pub count: usize,
    /// The median of the resident memory, in bytes.
    pub resident: u64,
    /// The median of the number of threads.
    pub threads: u64,
}

impl ShimSizes {
    /// Measures the shims; `None` if they are too few to compare.
    pub fn of(sample: &ProcSample) -> Option<Self> {
        let shims: Vec<&Process> = comparable(sample).collect();
        let median = |size: fn(&Process) -> u64| {
            let mut sizes: Vec<u64> = shims.iter().map(|shim| size(shim)).collect();
            sizes.sort_unstable();
            sizes.get(sizes.len() / 2).copied()
        };
        (shims.len() >= limits::COMPARED_SHIMS).then_some(())?;
        Some(Self {
            count: shims.len(),
            resident: median(|shim| shim.resident)?,
            threads: median(|shim| shim.threads)?,
        })
    }

    /// Whether a shim is far larger than the others.
    pub fn are_exceeded_by(&self, shim: &Process) -> bool {
        let exceeds = |size: u64, median: u64, least: u64| {
            size >= least && size >= median.saturating_mul(limits::LARGE_SHIM_FACTOR)
        };
        exceeds(shim.resident, self.resident, limits::LARGE_SHIM_BYTES)
            || exceeds(shim.threads, self.threads, limits::LARGE_SHIM_THREADS)
    }
}

/// Returns the shims that are far larger than the others.
pub fn outliers(sample: &ProcSample) -> impl Iterator<Item = &Process> {
    let sizes = ShimSizes::of(sample);
    comparable(sample).filter(move |shim| sizes.is_some_and(|sizes| sizes.are_exceeded_by(shim)))
}

/// Returns the shims that only watch their containers. The shims of Kata and `WebAssembly` run more than that; as far as
/// their command lines are known, they are left out.
fn comparable(sample: &ProcSample) -> impl Iterator<Item = &Process> {
    let only_watches = |shim: &&Process| {
        let program = shim.command.iter().next().and_then(|program| program.rsplit('/').next());
        let is_runc = program.is_none_or(|name| name == "containerd-shim" || name.contains("-runc-"));
        is_runc && !is_conmon(&shim.comm) && !shim.is_zombie() && shim.age >= limits::STARTING
    };
    sample.with_role(Role::Shim).filter(only_watches)
}
