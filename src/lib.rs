//! Finds the CRI call, the pod and the container that block the kubelet's PLEG.
//!
//! `docs/design.md` describes how the modules depend on each other. `examples/` has three programs: one relists a
//! runtime, one lints a static pod, one reads a capture.
//!
//! The public modules, each with an example:
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
//! The private modules are the command line, the node's files and the nodes behind an API server.
//!
//! The default feature `cli` adds the command line: [`main`] and the binary. A program that needs only the modules
//! above sets `default-features = false` and builds without an argument parser and without tables.

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit
)]
// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

pub mod capture;
#[cfg(feature = "cli")]
mod cmd;
pub mod cri;
pub mod diagnosis;
#[cfg(feature = "cli")]
mod fleet;
pub mod manifests;
pub mod pleg;
pub mod sim;

#[cfg(feature = "cli")]
pub use cmd::{Exit, main};
#[cfg(feature = "cli")]
use plegctl_base::optional_future;
use plegctl_base::{children, panics, test_settings, threads};
pub use plegctl_base::{clock, report};
use plegctl_go_yaml as yaml;
pub use plegctl_goroutines as stacks;
use plegctl_node::host;
pub use plegctl_node::kubelet;
