//! The program `plegctl`: runs the command line of the library and returns its exit status.

#![warn(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::process::ExitCode;

fn main() -> ExitCode {
    plegctl::main(std::env::args_os()).into()
}
