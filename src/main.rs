//! `plegctl`: parse, run, exit.
fn main() {}
