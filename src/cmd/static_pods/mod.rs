//! `plegctl static-pods`: the group of sub-commands for static pods; its only one is `lint`.

mod github;
mod lint;
mod lint_text;

use clap::{Args, Subcommand};

use super::args::GlobalArgs;
use super::{Error, Exit};

/// The directory of manifests that kubeadm configures.
pub(super) const KUBEADM_MANIFESTS: &str = "/etc/kubernetes/manifests";

#[derive(Debug, Args)]
pub struct StaticPodsArgs {
    #[command(subcommand)]
    command: StaticPodsCommand,
}

#[derive(Debug, Subcommand)]
enum StaticPodsCommand {
    Lint(lint::LintArgs),
}

/// Runs the command.
pub fn run(arguments: &StaticPodsArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    match &arguments.command {
        StaticPodsCommand::Lint(arguments) => lint::run(arguments, global),
    }
}
