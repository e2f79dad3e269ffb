//! The program `plegctl`: the command line of the engine ([`plegctl_engine`]) and the nodes behind an API server.
//!
//! It is a library, so that the compiler reads it while it still translates the engine. `src/main.rs` only calls [`run`].

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit
)]
// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

mod cmd;
mod fleet;

// What the unit tests share with those of the engine.
#[cfg(test)]
#[path = "diagnosis/tests/scripted.rs"]
#[expect(dead_code, reason = "the tests of the engine use the rest")]
mod scripted;
#[cfg(test)]
#[path = "diagnosis/tests/seen_calls.rs"]
mod seen_calls;

use std::process::ExitCode;

use plegctl_base::{children, clock, optional_future, panics, report, test_settings, threads};
use plegctl_engine::{capture, cri, diagnosis, manifests, pleg, sim};
use plegctl_goroutines as stacks;
use plegctl_node::{host, kubelet};

/// Runs the command of this process's arguments.
pub fn run() -> ExitCode {
    cmd::main(std::env::args_os()).into()
}
