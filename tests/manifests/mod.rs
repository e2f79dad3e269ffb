//! Tests of the predicted verdicts on manifests: recordings of real kubelets, examples of each rule, real manifests,
//! and hostile bytes.

mod good;
mod long {
    mod fuzz;
    mod releases;
    mod uids;
}
mod mutated;
mod rules;
mod source;
mod verdicts;
