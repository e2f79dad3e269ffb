//! Analyses goroutine dumps of containerd, its shim, CRI-O or a kubelet: which goroutine waits for which, and why.
//!
//! [`sources`] finds dumps, [`read`] parses them, and [`judge`] makes a [`report`] from them. For that, `wait` finds what
//! each goroutine waits for, `holders` finds which goroutine may hold a lock, and [`signatures`] describes the known
//! causes. [`live`] then reads the names of pods and processes from a process that still waits. Only [`sources`] and
//! [`live`] read sockets, files and `/proc`. This module sends no signal, and does not trace or stop a process.
//!
//! ```
//! use plegctl::stacks::judge::{DumpSource, KnownHangs, judge};
//! use plegctl::stacks::read::{Bounds, read};
//! use plegctl::stacks::signatures::signatures;
//!
//! let text = "goroutine 1 [select, 3 minutes]:\nmain.main()\n\t/go/main.go:7 +0x1\n";
//! let reading = read(text.as_bytes(), Bounds::default())?;
//! let sources: Vec<DumpSource> = reading
//!     .dumps
//!     .into_iter()
//!     .map(|dump| DumpSource { name: "main.log".into(), dump, ..DumpSource::default() })
//!     .collect();
//! let report = judge(&sources, &signatures(), &KnownHangs::default());
//! assert_eq!(report.summary, "no goroutine waits for another one");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod children;
mod conmon;
mod daemon;
pub mod dump;
pub(crate) mod holders;
pub mod judge;
pub mod live;
pub mod own;
pub mod read;
pub mod report;
pub mod signatures;
pub mod sources;
pub(crate) mod wait;
pub(crate) mod wait_time;
pub(crate) mod words;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;

pub use daemon::Daemon;
