//! `plegctl`: parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    plegctl::main(std::env::args_os()).into()
}
