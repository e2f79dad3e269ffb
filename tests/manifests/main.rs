//! The kubelet's view of its manifest directory: verdicts recorded from real kubelets, rules by example, good manifests
//! that stay silent, hostile bytes.

#[path = "../support/difference.rs"]
mod difference;
mod fuzz;
mod good;
mod manual;
mod mutated;
mod releases;
mod rules;
mod source;
#[path = "../support/static_pods.rs"]
mod static_pods;
mod uids;
mod verdicts;
