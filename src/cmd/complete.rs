//! Shell completion of commands, options, scenarios, rule ids, kinds and pages: of what is in plegctl, and of files.
//!
//! A script of `plegctl completions` runs plegctl with [`VARIABLE`] set and prints the candidates that plegctl
//! returns. A shell that inserts a candidate as it is (bash, PowerShell, kubectl) completes files itself, with its own
//! quotes; zsh, fish and elvish quote each candidate. So no name from outside, which a shell might interpret, is a candidate.
//! Completion never calls the runtime, because a user presses Tab often and the runtime may be overloaded.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use clap::{CommandFactory, ValueHint};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter, complete};
use clap_complete::env::Shells;

use super::plugin::{self, StartedAs};
use super::term::streams;
use super::{CAPTURE, Cli, catalogue, docs, schema};
use crate::host::{HostRoot, WELL_KNOWN_SOCKETS};
use crate::sim;
use crate::threads::with_time_limit;

/// The environment variable that makes plegctl complete a command line; its value is the name of the shell.
pub const VARIABLE: &str = "PLEGCTL_COMPLETE";

/// The time limit for reading files; after it, completion offers no candidates.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// Prints the candidates for the command line that the script of `shell` passes in `arguments` after `--`.
pub fn run(shell: &str, arguments: &[OsString]) -> io::Result<()> {
    let start = arguments.iter().position(|word| word == "--").map_or(arguments.len(), |at| at + 1);
    let words: Vec<OsString> = arguments.get(start..).unwrap_or_default().to_vec();
    let mut command = command();
    let directory = std::env::current_dir().ok();
    let mut out = Vec::new();
    if shell == "bash" {
        let word = |index: usize| words.get(index).map(|word| word.to_string_lossy()).unwrap_or_default();
        complete_bash(&mut command, &word(0), &word(1), directory.as_deref(), &mut out)?;
    } else if shell == "powershell" {
        complete_powershell(&mut command, words, directory.as_deref(), &mut out)?;
    } else {
        let shells = Shells::builtins();
        let shell = shells.completer(shell).ok_or_else(|| unknown_shell(shell))?;
        shell.write_complete(&mut command, words, directory.as_deref(), &mut out)?;
    }
    streams::document(|stdout| stdout.write_all(&out))
}

/// Prints the candidates for the last word for kubectl, which completes the plugin's command line. The first word is the name
/// of the program.
pub fn kubectl(arguments: Vec<OsString>) -> io::Result<()> {
    plugin::print_candidates(command(), arguments)
}

/// Returns the command line whose words are completed.
fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    if shell_completes_files() { without_files(command) } else { command }
}

/// Whether the shell inserts candidates as they are, and completes files itself if it gets no candidate.
fn shell_completes_files() -> bool {
    StartedAs::current() == StartedAs::Completion
        || std::env::var(VARIABLE).is_ok_and(|shell| ["bash", "powershell"].contains(&shell.as_str()))
}

/// Lets no argument of a command have files as candidates.
fn without_files(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| argument.value_hint(ValueHint::Other));
    command.mut_subcommands(without_files)
}

/// Writes the script that makes `shell` run plegctl for completion.
pub fn registration(shell: &str, out: &mut Vec<u8>) -> io::Result<()> {
    if shell == "bash" {
        return out.write_all(BASH.replace("VARIABLE", VARIABLE).as_bytes());
    }
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| unknown_shell(shell))?;
    completer.write_registration(VARIABLE, "plegctl", "plegctl", "plegctl", out)?;
    if shell == "zsh" { out.write_all(ZSH_FIRST.as_bytes()) } else { Ok(()) }
}

/// For the first completion, zsh runs the file `_plegctl` instead of the function that the file defines.
const ZSH_FIRST: &str =
    "if [[ $funcstack[1] == _plegctl ]]; then _clap_dynamic_completer_plegctl \"$@\"; fi\n";

fn unknown_shell(shell: &str) -> io::Error {
    io::Error::other(format!("there is no shell `{shell}`"))
}

/// The script for bash. It passes the whole line, because bash splits words at colons. If there is no candidate, bash
/// completes files.
const BASH: &str = r#"_plegctl() {
    local IFS=$'\n'
    COMPREPLY=($(VARIABLE=bash plegctl -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _plegctl plegctl
"#;

/// Writes the candidates for the last word of `line`. Bash replaces only the part of that word after a character
/// in `breaks`, so only this part of each candidate is written.
fn complete_bash(
    command: &mut clap::Command,
    line: &str,
    breaks: &str,
    directory: Option<&Path>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let words = split(line);
    let last = words.len().saturating_sub(1);
    let current = words.get(last).cloned().unwrap_or_default();
    let kept =
        current.rfind(|letter| breaks.contains(letter) && ":=".contains(letter)).map_or(0, |at| at + 1);
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    for candidate in complete(command, words, last, directory)? {
        let value = candidate.get_value().to_string_lossy();
        writeln!(out, "{}", value.get(kept..).unwrap_or_default())?;
    }
    Ok(())
}

/// Writes the candidates for the last word, each with its help, as the script for PowerShell expects them.
fn complete_powershell(
    command: &mut clap::Command,
    words: Vec<OsString>,
    directory: Option<&Path>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let last = words.len().saturating_sub(1);
    for candidate in complete(command, words, last, directory)? {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        writeln!(out, "{}\t{help}", candidate.get_value().to_string_lossy())?;
    }
    Ok(())
}

/// Splits a line into words as a shell does. The last word is the one being typed; it may be empty.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quote, mut letters) = (None, line.chars());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ' | '\t') => {
                if words.last().is_some_and(|word| !word.is_empty()) {
                    words.push(String::new());
                }
            }
            (None | Some('"'), '\\') => push_to_last(&mut words, letters.next().unwrap_or('\\')),
            (_, letter) => push_to_last(&mut words, letter),
        }
    }
    words
}

fn push_to_last(words: &mut [String], letter: char) {
    if let Some(word) = words.last_mut() {
        word.push(letter);
    }
}

/// Returns those `values` that start with the typed text `current`.
fn matching(
    current: &OsStr,
    values: impl IntoIterator<Item = impl Into<String>>,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let values = values.into_iter().map(Into::into);
    values.filter(|value: &String| value.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

/// Returns those `names` that start with the typed text in any case.
fn in_any_case(current: &OsStr, names: impl Iterator<Item = &'static str>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy().to_lowercase();
    names.filter(|name| name.to_lowercase().starts_with(&current)).map(CompletionCandidate::new).collect()
}

/// Completes an endpoint: this node's well-known sockets, every scenario, captures, and files.
pub fn endpoints(current: &OsStr) -> Vec<CompletionCandidate> {
    let root = HostRoot::resolve(None);
    let sockets = WELL_KNOWN_SOCKETS.iter().map(|(_, path)| *path);
    let existing = with_time_limit(TIME_LIMIT, move || {
        sockets.filter(|path| fs::symlink_metadata(root.path(path)).is_ok()).collect::<Vec<_>>()
    });
    let sockets = existing.unwrap_or_default().into_iter().map(|path| format!("unix://{path}"));
    let mut all = matching(current, sockets.chain(sim::names().map(|name| format!("sim:{name}"))));
    all.extend(matching(current, [CAPTURE]));
    if !shell_completes_files() && current.to_string_lossy().starts_with(['/', '.']) {
        all.extend(PathCompleter::file().complete(current));
    }
    all
}

/// Completes a scenario's name, or the path of a file that may contain a scenario.
pub fn scenarios(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = matching(current, sim::names());
    if !shell_completes_files() {
        all.extend(PathCompleter::file().complete(current));
    }
    all
}

/// Completes the ids that `explain` knows.
pub fn ids(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_ascii_uppercase();
    matching(&current, catalogue::ids())
}

/// Completes the kinds that `schema` knows, in any case.
pub fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    in_any_case(current, schema::kinds())
}

/// Completes the names of the pages of the documentation, in any case.
pub fn pages(current: &OsStr) -> Vec<CompletionCandidate> {
    in_any_case(current, docs::names())
}

/// Completes the ids of `static-pods lint`, also after a comma.
pub fn checks(current: &OsStr) -> Vec<CompletionCandidate> {
    listed_ids(current, "SP")
}

/// Completes the ids of `preflight`, also after a comma.
pub fn start_checks(current: &OsStr) -> Vec<CompletionCandidate> {
    listed_ids(current, "KP")
}

/// Completes the last id of a list with commas; ids start with `prefix`.
fn listed_ids(current: &OsStr, prefix: &str) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy().to_ascii_uppercase();
    let before = current.rsplit_once(',').map_or("", |(before, _)| before);
    let before = if before.is_empty() { String::new() } else { format!("{before},") };
    let ids = catalogue::ids().filter(|id| id.starts_with(prefix)).map(|id| format!("{before}{id}"));
    matching(OsStr::new(&current), ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> Vec<String> {
        let mut command = Cli::command();
        command.build();
        let mut out = Vec::new();
        complete_bash(&mut command, line, " :=", None, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_gets_only_the_part_after_the_last_word_break() {
        assert_eq!(completed("plegctl health -r sim:hung-t"), ["hung-two-pods"]);
        assert_eq!(completed("plegctl health --runtime-endpoint=sim:hung-t"), ["hung-two-pods"]);
        assert!(completed("plegctl health -r si").contains(&"sim:quiet".to_owned()));
        assert_eq!(completed("plegctl health -r capt"), ["capture:"]);
        assert_eq!(completed("plegctl expl"), ["explain"]);
    }

    #[test]
    fn ids_and_scenarios_are_completed() {
        assert_eq!(completed("plegctl explain d2").first().map(String::as_str), Some("D20"));
        assert_eq!(completed("plegctl sim describe qui"), ["quiet"]);
        assert_eq!(completed("plegctl static-pods lint --ignore SP007,SP053"), ["SP007,SP053"]);
    }

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        assert_eq!(split("a  'b c' \"d\\\"e\" f\\ g "), ["a", "b c", "d\"e", "f g", ""]);
    }
}
