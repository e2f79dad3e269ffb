//! The kubelet's view of its manifest directory: verdicts recorded from real kubelets, rules by example, good manifests
//! that stay silent, hostile bytes.

mod fuzz;
mod good;
mod manual;
mod mutated;
mod releases;
mod rules;
mod source;
mod uids;
mod verdicts;
