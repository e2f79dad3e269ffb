//! Tests of the real binary and of plegctl's client against a scripted runtime, with one module for each sub-command.

mod blocked_files;
mod crictl;
mod diff;
mod evented;
mod exhausted;
mod fake_runtime;
mod health;
mod hostile;
mod impostors;
mod lint;
mod outputs;
mod pods;
mod preflight;
mod relist;
mod runner;
mod screens;
mod sim;
mod stacks;
mod standing;
mod stdout;
mod stream_records;
mod syscalls;
mod watch;
