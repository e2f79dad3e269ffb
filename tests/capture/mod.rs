//! The flight recorder as a process: what it keeps, what is left of it after a kill, and what a replay makes of it.

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
