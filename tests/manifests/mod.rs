//! Tests of the predicted verdicts on manifests: recordings of real kubelets, examples of each rule, real manifests,
//! and hostile bytes.

mod fuzz;
mod good;
mod mutated;
mod releases;
mod rules;
mod source;
mod uids;
mod verdicts;
