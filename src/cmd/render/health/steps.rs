//! Formats a step: its text, its command and a comment. A command stays on one line, or continues after a backslash, so
//! that it can be pasted into a shell.

use crate::cmd::render::words::{width, wrapped};

/// The first words of commands. A step that begins with another word is a text.
const PROGRAMS: [&str; 19] = [
    "cat",
    "crictl",
    "curl",
    "df",
    "dmesg",
    "echo",
    "grep",
    "iostat",
    "ip",
    "journalctl",
    "kubectl",
    "ls",
    "pgrep",
    "pkill",
    "plegctl",
    "ps",
    "runc",
    "sysctl",
    "systemctl",
];

/// What separates a command from its comment.
const COMMENT: &str = "   # ";

/// A step such as `look at the disk: iostat -x 1 5   # as root`.
struct Step<'a> {
    text: &'a str,
    command: &'a str,
    comment: Option<&'a str>,
}

impl<'a> Step<'a> {
    /// Splits a step; `None` if it has no command.
    fn of(step: &'a str) -> Option<Self> {
        let (rest, comment) = match step.split_once(COMMENT) {
            Some((rest, comment)) => (rest, Some(comment)),
            None => (step, None),
        };
        if is_command(rest) {
            return Some(Self { text: "", command: rest, comment });
        }
        let mut ends = rest.match_indices(": ").map(|(at, separator)| (at, at + separator.len()));
        let (end, begin) = ends.find(|(_, begin)| rest.get(*begin..).is_some_and(is_command))?;
        Some(Self { text: rest.get(..end)?, command: rest.get(begin..)?, comment })
    }
}

fn is_command(text: &str) -> bool {
    let mut words = text.split(' ');
    match (words.next(), words.next()) {
        (Some("find"), Some(path)) => path.starts_with('/'),
        (Some("for"), Some(_)) => text.contains("; do "),
        // "kill its shim" is a text.
        (Some("kill"), Some(pid)) => {
            pid.starts_with(|first: char| "-$".contains(first) || first.is_ascii_digit())
        }
        (Some(first), Some(_)) => PROGRAMS.contains(&first),
        _ => false,
    }
}

/// Formats a step in lines of at most this many columns.
pub(in crate::cmd::render) fn lines(step: &str, columns: usize) -> Vec<String> {
    let whole = format!("  {step}");
    let Some(step) = Step::of(step).filter(|_| width(&whole) > columns) else {
        return wrapped(&whole, columns, "      ");
    };
    let commented = step.comment.map(|comment| format!("    {}{COMMENT}{comment}", step.command));
    let commented = commented.filter(|line| width(line) <= columns);
    let text = match (step.comment.filter(|_| commented.is_none()), step.text) {
        (Some(comment), "") => format!("{comment}:"),
        (Some(comment), text) => format!("{text} ({comment}):"),
        (None, "") => String::new(),
        (None, text) => format!("{text}:"),
    };
    let mut lines =
        if text.is_empty() { Vec::new() } else { wrapped(&format!("  {text}"), columns, "      ") };
    let indent = if lines.is_empty() { 2 } else { 4 };
    lines.extend(commented.map_or_else(|| continued(step.command, indent, columns), |line| vec![line]));
    lines
}

/// Breaks a command that is longer than a line. A shell joins the lines again.
fn continued(command: &str, indent: usize, columns: usize) -> Vec<String> {
    const END: &str = " \\";
    let mut lines = Vec::new();
    let mut line = String::new();
    let words = shell_words(command);
    let last = words.len().saturating_sub(1);
    for (at, &word) in words.iter().enumerate() {
        let end = if at == last { 0 } else { width(END) };
        // A program of a pipeline that fits on a line of its own is not divided.
        let program = words.iter().skip(at + 1).take_while(|_| word == "|").take_while(|next| **next != "|");
        let program: usize = program.map(|next| 1 + width(next)).sum();
        let fits = indent + 3 + program + width(END) <= columns;
        let needed = width(word) + if fits { program } else { 0 };
        if line.is_empty() {
            line = format!("{:indent$}{word}", "");
        } else if width(&line) + 1 + needed + end > columns {
            lines.push(format!("{line}{END}"));
            line = format!("{:indent$}  {word}", "");
        } else {
            line = format!("{line} {word}");
        }
        // A word that is longer than a line continues at the first column, because a shell would take blanks as its end.
        while width(&line) + end > columns {
            let fits = line.char_indices().map(|(at, _)| at).take_while(|at| *at < columns).last();
            let rest = line.split_off(fits.unwrap_or_default());
            lines.push(format!("{line}\\"));
            line = rest;
        }
    }
    lines.push(line);
    lines
}

/// Splits a command at its blanks, but not within quotation marks.
fn shell_words(command: &str) -> Vec<&str> {
    let mut quote = None;
    let mut words = Vec::new();
    let mut begin = 0;
    for (at, character) in command.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None, ' ') => {
                words.extend(command.get(begin..at));
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.extend(command.get(begin..));
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_step_is_one_line() {
        assert_eq!(
            lines("look at it: iostat -x 1 5   # as root", 60),
            ["  look at it: iostat -x 1 5   # as root"]
        );
        assert_eq!(
            lines("find out: what it is, and where it is", 24),
            ["  find out: what it is,", "      and where it is"]
        );
    }

    #[test]
    fn a_command_is_on_its_own_line_without_its_text() {
        let step = "look at storage, memory and CPU: iostat -x 1 5; grep . /proc/pressure/*   # of the node";
        assert_eq!(
            lines(step, 60),
            [
                "  look at storage, memory and CPU:",
                "    iostat -x 1 5; grep . /proc/pressure/*   # of the node"
            ]
        );
        assert_eq!(
            lines(step, 44),
            [
                "  look at storage, memory and CPU (of the",
                "      node):",
                "    iostat -x 1 5; grep . /proc/pressure/*"
            ]
        );
    }

    #[test]
    fn a_shell_joins_the_lines_of_a_long_command() {
        let command =
            "kubectl get --raw '/api/v1/nodes/a b/proxy' | head -200 | xargs -r crictl --timeout 20s rmp";
        for columns in 30..100 {
            let shown = continued(command, 4, columns);
            assert!(shown.iter().all(|line| width(line) <= columns), "{columns}: {shown:#?}");
            let joined = shown.join("\n").replace("\\\n", "");
            assert_eq!(shell_words(&joined).join(" "), command, "{columns}: {shown:#?}");
        }
    }

    #[test]
    fn a_word_longer_than_a_line_is_joined_without_a_blank() {
        let command = format!("cat /proc/{}/stack > f.txt", "1".repeat(50));
        let shown = continued(&command, 4, 30);
        assert!(shown.iter().all(|line| width(line) <= 30), "{shown:#?}");
        let joined = shown.join("\n").replace("\\\n", "");
        assert_eq!(shell_words(&joined).join(" "), command, "{shown:#?}");
    }
}
