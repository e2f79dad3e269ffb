//! Tests of plegctl's promises on the real binary and on the library, as far as they need no container runtime.
//!
//! They are one test binary, so that the library is linked only once. `docs/testing.md` lists which suite proves which
//! promise.

pub mod support;

mod capture;
mod cli;
mod completions;
mod docs;
pub mod examples;
mod fleet;
mod manifests;
mod pleg;
mod releases;
mod shipped;
mod simulator;
mod slow;
mod stacks;
