//! The program `plegctl`. All of it is in `src/program.rs`.

fn main() -> std::process::ExitCode {
    plegctl::run()
}
