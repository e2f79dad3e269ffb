//! Tests of the sub-commands, of the real binary and of plegctl's client against a scripted runtime. A *process test*
//! runs the real binary.

mod blocked_files;
mod crictl;
mod diff;
mod docs;
mod evented;
mod exhausted;
mod fake_runtime;
mod health;
mod health_state;
mod help;
mod hostile;
mod impostors;
mod lint;
mod long {
    mod oversized;
    mod screens;
    mod syscalls;
}
mod outputs;
mod pods;
pub mod preflight;
mod preflight_steps;
mod refused;
mod relist;
mod runner;
mod sim;
mod stacks;
mod stdout;
mod stream_records;
mod streamed_lists;
mod text;
mod top;
mod waiting;
mod watch;
