//! Goroutine dumps of a container runtime, its shim or a kubelet: who waits for whom.
//!
//! Pure functions of bytes: [`read`] takes a dump apart, [`wait`] and [`holders`] say who waits and who may hold what they
//! wait for, [`signatures`] are the causes known, [`judge`] makes findings. Beside them, [`sources`] is where dumps come from
//! and [`live`] reads names from a process that still waits. Signals, traces and stops no process.

mod daemon;
pub mod dump;
pub mod holders;
pub mod judge;
pub mod live;
pub mod own;
pub mod read;
pub mod report;
pub mod signatures;
pub mod sources;
pub mod wait;
pub(crate) mod words;

pub use daemon::Daemon;
