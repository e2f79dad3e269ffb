//! Whole runs against a scripted runtime, on a paused clock.

mod crio;
mod kubelet;
mod matrix;
mod node;
pub(crate) mod scripted;
mod silence;
