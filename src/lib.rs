//! Says which CRI call, which pod and which container hold up the kubelet's PLEG.
//!
//! See `docs/design.md` for how the modules lean on each other.

pub mod capture;
pub mod clock;
pub mod cmd;
pub mod cri;
pub mod diagnosis;
pub mod host;
pub mod kubelet;
pub mod manifests;
mod panics;
pub mod pleg;
pub mod report;
pub mod sim;
pub mod stacks;
