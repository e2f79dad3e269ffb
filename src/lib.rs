//! The engine of `plegctl`: calls a container runtime as the kubelet's PLEG does, and finds the call, the pod and the
//! container that block it.
//!
//! `docs/design.md` describes how the modules depend on each other. `examples/` has three programs: one relists a
//! runtime, one lints a static pod, one reads a capture.
//!
//! The modules, each with an example:
//!
//! * [`cri`] calls a runtime, times every call and classifies its errors; its server side simulates a runtime;
//! * [`pleg`] relists as the kubelet of a release does;
//! * [`diagnosis`] finds what blocks PLEG;
//! * [`manifests`] predicts what a kubelet does with a static pod;
//! * [`stacks`] finds in a goroutine dump who waits for whom;
//! * [`capture`] reads what the flight recorder wrote;
//! * [`sim`] simulates a node;
//! * [`clock`], [`kubelet`] and [`report`] contain types that the other modules use.
//!
//! The engine knows no argument parser and no terminal. The command line is the package `plegctl`: `src/program.rs`, `src/cmd`
//! and `src/fleet`.

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

// The macro `each_scenario!`, which the build script writes.
include!(concat!(env!("OUT_DIR"), "/each_scenario.rs"));

pub mod capture;
pub mod diagnosis;
pub mod manifests;
pub mod sim;

use plegctl_base::{children, optional_future, panics, test_settings, threads};
pub use plegctl_base::{clock, report};
use plegctl_go_yaml as yaml;
pub use plegctl_goroutines as stacks;
use plegctl_node::host;
pub use plegctl_node::kubelet;
pub use plegctl_pleg::{cri, pleg};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../crates/engine/README.md")]
struct Readme;
