//! The kubelet's Pod Lifecycle Event Generator outside the kubelet: [`cri`] calls a container runtime, times every call and
//! classifies its errors, and [`pleg`] relists as the kubelet of a release does.
//!
//! The sources of both modules are in `src` at the root of the repository, beside those of the engine.

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

#[path = "../../../src/cri/mod.rs"]
pub mod cri;
#[path = "../../../src/pleg/mod.rs"]
pub mod pleg;

pub use plegctl_base::{clock, report};
use plegctl_base::{panics, threads};
use plegctl_node::host;
pub use plegctl_node::kubelet;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
