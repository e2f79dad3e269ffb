//! `plegctl version`: prints the version. `-o json` adds the commit and the target of the build, for a report of a bug.
//!
//! ```text
//! $ plegctl version
//! plegctl 0.1.0
//! ```
//!
//! The command reads no file and calls no runtime.

use std::env::consts::{ARCH, OS};

use clap::Args;
use serde::Serialize;

use super::render::PLAIN;
use super::term::output::Output;
use super::{Error, Exit};
use crate::report::document;

#[derive(Debug, Args)]
pub struct VersionArgs {
    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Json, Output::Yaml, Output::Jsonl]))]
    output: Output,
}

/// Which build of plegctl this is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind")]
pub struct VersionReport {
    /// The version of the release.
    version: &'static str,
    /// The commit from which a release, a package or `make` built the program. Absent in other builds, and if files had
    /// changed since the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    /// The target of the build, such as `x86_64-unknown-linux-gnu`.
    target: String,
}

/// Runs the command.
pub fn run(arguments: &VersionArgs) -> Result<Exit, Error> {
    let version = env!("CARGO_PKG_VERSION");
    let library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    let report = VersionReport {
        version,
        // packaging/release.sh and the Makefile set the variable when they compile.
        commit: option_env!("PLEGCTL_COMMIT").filter(|commit| !commit.is_empty()),
        target: format!("{ARCH}-unknown-{OS}-{library}"),
    };
    arguments.output.print(&document(&report), PLAIN, |out| writeln!(out, "plegctl {version}"))?;
    Ok(Exit::Good)
}
