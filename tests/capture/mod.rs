//! The process tests of `plegctl record` and `plegctl capture`: what a capture contains, and commands on a capture.

mod anonymise;
mod bad_input;
mod commands;
mod disk;
pub mod exports;
mod facts;
mod kubelet;
mod matrix;
mod on_node;
mod one_judge;
mod replay;
mod service;
mod signals;
