//! The process tests of `plegctl record` and `plegctl capture`: what a capture contains, and commands on a capture.

mod bad_input;
mod commands;
pub mod exports;
mod facts;
mod kubelet;
mod long {
    mod anonymise;
    mod disk;
    pub mod matrix;
    mod replay;
}
mod on_node;
mod one_judge;
mod service;
mod signals;
