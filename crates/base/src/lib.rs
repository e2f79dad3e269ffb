//! What the crates of plegctl share: clocks, threads with time limits, child processes, and in [`report`] the frame of a
//! document, references, escaping, and safe reading and writing of files.
//!
//! This crate knows neither a terminal nor a runtime.

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

// The code of derived traits names this crate.
extern crate self as plegctl_base;

pub mod children;
pub mod clock;
pub mod optional_future;
pub mod panics;
pub mod report;
pub mod test_settings;
pub mod threads;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
