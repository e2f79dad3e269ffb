//! Tests of the files that distribute plegctl and use its results: alerts, dashboard, node-problem-detector, Kubernetes
//! objects, packages. Some of them need another program to be checked (promtool, kubectl, lintian). Without it the test
//! passes with a message; with `CI=true` it fails.

mod alerts;
mod api;
mod chart;
mod dashboard;
mod debug;
mod exports;
mod facts;
pub mod fetch;
mod hangs;
mod kubectl;
mod kubelet;
pub mod licences;
mod long {
    mod simulated;
}
mod nodes;
mod objects;
mod outside;
mod plugin;
mod preflight;
mod probes;
mod recorders;
mod release;
mod remote;
mod skill;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Returns the path of a file of the checkout.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the content of a file of the checkout.
fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns a program of the system, or `None` with the reason on standard error.
pub fn tool(name: &str, package: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
    {
        return Some(found);
    }
    let reason = format!("there is no {name} here (Debian: {package})");
    assert_ne!(env::var("CI").as_deref(), Ok("true"), "{reason}");
    let thread = std::thread::current();
    // Not `eprintln!`: the test harness captures its output in tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped {}: {reason}", thread.name().unwrap_or("a test"));
    None
}

/// Returns the output of a program; the test fails if the program fails.
fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}
