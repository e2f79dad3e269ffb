//! The real binary and the product's client against a scripted runtime, one module per sub-command.

#[path = "../support/mod.rs"]
pub mod support;

mod fake_runtime;
mod runner;
mod watch;
