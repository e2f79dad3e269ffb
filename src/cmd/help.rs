//! Adds examples to the help and the man page of each command, and hides the global options that the command does not
//! use. `help.txt` lists the examples and the used options of each command.
//!
//! A hidden option is still accepted, so that a script can give every command the same options.

use clap::Command;

/// A section for each command: a heading `== name: options`, then the examples.
const HELP: &str = include_str!("help.txt");

/// Adds the examples to the help of a command, and hides the global options that the command does not use. Does the same
/// for its sub-commands when clap builds them.
pub fn with_examples(command: Command) -> Command {
    let used = section(command.get_name()).map_or("", |(used, _)| used);
    let examples = examples(command.get_name());
    command
        .mut_args(|argument| {
            let is_used = |long| used.split(' ').any(|used| used == long);
            if !argument.is_global_set() {
                return argument;
            }
            let hidden = !argument.get_long().is_some_and(is_used);
            argument.hide(hidden)
        })
        .mut_subcommands(|command| command.defer(with_examples))
        .after_help(examples)
}

/// Returns the examples of a command under a heading.
pub fn examples(name: &str) -> String {
    format!("Examples:\n{}", section(name).map_or("", |(_, examples)| examples))
}

/// Returns the global options that a command uses, separated by spaces, and its examples.
fn section(name: &str) -> Option<(&'static str, &'static str)> {
    HELP.split("\n== ").find_map(|section| {
        let (heading, examples) = section.split_once('\n')?;
        let (command, used) = heading.split_once(':')?;
        (command == name).then_some((used, examples.trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::Cli;
    use clap::{CommandFactory, Parser};

    /// Returns all commands with their sub-commands, with all their arguments.
    fn commands() -> Vec<Command> {
        fn collect(command: &Command, all: &mut Vec<Command>) {
            all.push(command.clone());
            command.get_subcommands().for_each(|command| collect(command, all));
        }
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut all = Vec::new();
        collect(&root, &mut all);
        all
    }

    #[test]
    fn every_command_has_two_or_three_examples_that_fit_80_columns() {
        for command in commands() {
            let (_, examples) = section(command.get_name()).unwrap_or_else(|| panic!("{command}"));
            let count = examples.lines().filter(|line| line.starts_with("  #")).count();
            assert!((2..=3).contains(&count), "{command} has {count} examples");
            assert!(examples.lines().all(|line| line.len() <= 80 && line.starts_with("  ")), "{command}");
        }
    }

    #[test]
    fn every_section_belongs_to_a_command_and_names_only_global_options() {
        let commands = commands();
        let global: Vec<&str> = Cli::command()
            .get_arguments()
            .filter(|argument| argument.is_global_set())
            .filter_map(|argument| argument.get_long().map(str::to_owned))
            .map(|long| &*long.leak())
            .collect();
        for section in HELP.split("\n== ").skip(1) {
            let (command, used) = section.lines().next().unwrap().split_once(':').unwrap();
            assert!(commands.iter().any(|known| known.get_name() == command), "{command}");
            for option in used.split_whitespace() {
                assert!(global.contains(&option), "{command}: {option}");
            }
        }
    }

    #[test]
    fn the_arguments_of_every_example_are_accepted() {
        for command in commands() {
            let (_, examples) = section(command.get_name()).unwrap();
            for line in examples.lines().filter(|line| !line.trim_start().starts_with('#')) {
                let Some(start) = line.find("plegctl ") else { continue };
                let words =
                    line[start..].split_whitespace().take_while(|word| !["|", ">", "&&"].contains(word));
                let words = words.map(|word| word.trim_end_matches(')'));
                Cli::try_parse_from(words).unwrap_or_else(|why| panic!("{line}: {why}"));
            }
        }
    }

    #[test]
    fn help_leaves_out_the_global_options_that_a_command_does_not_use() {
        let shown = |name: &str| -> Vec<String> {
            let command = commands().into_iter().find(|command| command.get_name() == name).unwrap();
            let global =
                command.get_arguments().filter(|known| known.is_global_set() && !known.is_hide_set());
            global.filter_map(|known| known.get_long().map(str::to_owned)).collect()
        };
        assert_eq!(shown("explain"), ["color"]);
        assert_eq!(shown("capture"), Vec::<String>::new());
        assert_eq!(shown("ls"), ["no-headers"]);
        assert_eq!(shown("relist").len(), 8);
        assert!(Cli::try_parse_from(["plegctl", "explain", "-r", "sim:quiet", "D01"]).is_ok());
    }
    #[test]
    fn commands_accept_each_others_names_for_the_same_thing() {
        for words in [
            "plegctl health --node-name n1",
            "plegctl pods --node n1",
            "plegctl static-pods lint --node n1",
            "plegctl static-pods lint --fail-on critical",
            "plegctl preflight --fail-on critical",
            "plegctl health --fail-on error",
            "plegctl health --fail-on never",
        ] {
            Cli::try_parse_from(words.split(' ')).unwrap_or_else(|why| panic!("{words}: {why}"));
        }
    }
}
