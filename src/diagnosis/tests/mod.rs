//! Tests of whole runs of `health` against a runtime in memory (`scripted`), with a paused clock.

mod approaching;
mod clients;
mod cost;
mod crio;
mod daemon;
mod failing_pods;
mod kernel;
mod kubelet;
mod list_calls;
mod matrix;
mod node;
mod not_ready;
mod one_judge;
mod outside;
mod pod_holders;
mod pod_starts;
mod pods;
mod printed_commands;
pub(super) mod scripted;
mod seen_calls;
mod shims;
mod silence;
mod start;
pub(super) mod travels;
