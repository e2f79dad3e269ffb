//! `plegctl completions SHELL` and `plegctl man DIR`: the files that a package installs with the binary. The
//! scripts are short, because they run plegctl for each completion; see [`super::complete`].

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Error, Exit, complete};
use crate::report::save;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write to; made if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs `completions`.
pub fn completions(arguments: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    complete::registration(&arguments.shell.to_string(), &mut script)?;
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(Exit::Good)
}

/// Runs `man`.
pub fn man(arguments: &ManArgs) -> Result<Exit, Error> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|source| Error::Write(save::Error { path: directory.clone(), source }))?;
    Ok(Exit::Good)
}
