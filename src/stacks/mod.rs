//! Goroutine dumps of a container runtime, its shim or a kubelet: who waits for whom.
//!
//! Pure functions of bytes: [`read`] takes a dump apart.
//! Signals, traces and stops no process.

pub mod dump;
pub mod read;
