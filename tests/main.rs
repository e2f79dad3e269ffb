//! What plegctl promises, tried on the real binary and on the library: everything that needs nothing but Rust and is quick.
//!
//! One binary, so that the library is linked once. `docs/design.md` says which suite proves which promise.

pub mod support;

mod capture;
mod cli;
mod completions;
mod docs;
pub mod examples;
mod fleet;
mod generated;
mod manifests;
mod pleg;
mod releases;
mod simulator;
mod stacks;
mod supply;
