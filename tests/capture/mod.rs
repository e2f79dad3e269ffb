//! The process tests of `plegctl record`: the capture, its state after a kill, and its replay.

mod anonymise;
mod bad_input;
mod commands;
mod compare;
mod disk;
mod kubelet;
mod matrix;
mod replay;
mod service;
mod signals;
mod stream;
