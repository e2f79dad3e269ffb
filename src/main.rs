//! `plegctl`: parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    plegctl::cmd::main(std::env::args_os()).into()
}
