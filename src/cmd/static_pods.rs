//! `plegctl static-pods`: what the kubelet runs from files.

use clap::{Args, Subcommand};

use super::context::Context;
use super::{Error, Exit, lint};

#[derive(Debug, Args)]
pub struct StaticPodsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Lint(lint::LintArgs),
}

/// Runs the command.
pub fn run(arguments: &StaticPodsArgs, context: &Context) -> Result<Exit, Error> {
    match &arguments.command {
        Command::Lint(arguments) => lint::run(arguments, context),
    }
}
