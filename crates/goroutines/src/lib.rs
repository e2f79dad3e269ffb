//! Analyses goroutine dumps of containerd, its shim, CRI-O or a kubelet: which goroutine waits for which, and why.
//!
//! [`sources`] finds dumps, [`read`] parses them, and [`judge`] makes a [`report`] from them. For that, `wait` finds what
//! each goroutine waits for, `holders` finds which goroutine may hold a lock, and [`signatures`] describes the known
//! causes. [`live`] then reads the names of pods and processes from a process that still waits. Only [`sources`] and
//! [`live`] read sockets, files and `/proc`. This crate sends no signal, and does not trace or stop a process.
//!
//! ```
//! use plegctl_goroutines::judge::{DumpSource, KnownHangs, judge};
//! use plegctl_goroutines::read::{Bounds, read};
//! use plegctl_goroutines::signatures::signatures;
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

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

mod children;
mod conmon;
mod daemon;
pub mod dump;
mod functions;
pub mod holders;
pub mod judge;
pub mod kubelet;
pub mod live;
pub mod read;
mod recorded;
pub mod report;
pub mod signatures;
pub mod sources;
pub mod wait;
pub mod wait_time;
pub mod words;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;

pub use daemon::Daemon;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
