//! The report of `plegctl preflight`: what `plegctl-kubelet-start` finds about the kubelet, and what `plegctl-static-pods`
//! finds about an upgrade. Neither of the two crates depends on the other.

mod report;
mod static_pods;

pub use plegctl_kubelet_start::*;
pub use report::{FindingCounts, PreflightReport};
pub use static_pods::{compare as compare_static_pods, restarts_every_static_pod};
