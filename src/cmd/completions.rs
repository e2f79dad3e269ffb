//! `plegctl completions SHELL` prints the completion script of a shell, and `plegctl man DIR` writes the man pages; a
//! package installs both with the binary. The scripts run plegctl for each completion; see [`super::complete`].

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::term::streams;
use super::{Cli, Error, Exit, complete};
use crate::report::{DirectoryUse, open_directory, save};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs `completions`.
pub fn completions(arguments: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    complete::registration(&arguments.shell.to_string(), &mut script)?;
    streams::document(|out| out.write_all(&script))?;
    Ok(Exit::Good)
}

/// Runs `man`.
pub fn man(arguments: &ManArgs) -> Result<Exit, Error> {
    let directory = &arguments.directory;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    open_directory(directory, DirectoryUse::Public)
        .map_err(|why| Error::Write(save::Error { path: directory.clone(), source: why.into() }))?;
    write_pages(&command, directory).map_err(Error::Write)?;
    Ok(Exit::Good)
}

/// Writes the page of a command and those of its sub-commands. The examples get a section of their own, with the same
/// lines as in the help.
fn write_pages(command: &Command, directory: &Path) -> Result<(), save::Error> {
    for command in command.get_subcommands() {
        write_pages(command, directory)?;
    }
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(None::<&str>));
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.lines().skip(1) {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    save::write(&directory.join(man.get_filename()), |mut page| {
        man.render(&mut page)?;
        section.to_writer(&mut page)
    })
}
