//! Formats a step: its purpose and its command. A command stays on one line, or continues after a backslash, so that it can be
//! pasted into a shell.

use super::{HEADING, WARNING};
use crate::cmd::render::page::Line;
use crate::cmd::render::words::{width, wrapped};
use crate::report::Step;

/// Formats a step in lines of at most this many columns.
pub(crate) fn lines(step: &Step, columns: usize) -> Vec<String> {
    parts(step, columns).into_iter().map(|(text, command)| text + &command).collect()
}

/// Formats a step as [`lines`] does. The text of a step that changes the state is coloured, and each command is bold.
pub(super) fn painted(step: &Step, columns: usize) -> Vec<Line> {
    let color = if step.changes_state { WARNING } else { "" };
    let paint = |(text, command)| Line::colored(color, text).and(HEADING, command);
    parts(step, columns).into_iter().map(paint).collect()
}

/// Returns the text and the command of each line.
fn parts(step: &Step, columns: usize) -> Vec<(String, String)> {
    let purpose = format!("  {}", step.text());
    let as_text = |line: String| (line, String::new());
    let Some(command) = &step.command else {
        return wrapped(&purpose, columns, "      ").into_iter().map(as_text).collect();
    };
    if width(&purpose) + 1 + width(command) <= columns {
        return vec![(purpose + " ", command.clone())];
    }
    let text = wrapped(&purpose, columns, "      ").into_iter().map(as_text);
    text.chain(continued(command, 4, columns).into_iter().map(|line| (String::new(), line))).collect()
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
            let Some((at, place)) = last_break(&line, columns) else { break };
            let rest = line.split_off(at);
            // Within single quotation marks, a backslash does not continue a line.
            let mark = if place == Place::Single { "'" } else { "" };
            lines.push(format!("{line}{mark}\\"));
            line = format!("{mark}{rest}");
        }
    }
    lines.push(line);
    lines
}

/// Where a place in a command is, for a shell.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Plain,
    /// Behind a backslash.
    Escaped,
    /// Within single quotation marks.
    Single,
    /// Within double quotation marks.
    Double,
    /// Behind a backslash within double quotation marks.
    EscapedInDouble,
}

impl Place {
    /// Returns the place behind a character at this place.
    const fn after(self, character: char) -> Self {
        match (self, character) {
            (Self::Plain, '\\') => Self::Escaped,
            (Self::Plain, '\'') => Self::Single,
            (Self::Plain, '"') | (Self::EscapedInDouble, _) => Self::Double,
            (Self::Single, '\'') | (Self::Double, '"') | (Self::Escaped, _) => Self::Plain,
            (Self::Double, '\\') => Self::EscapedInDouble,
            (place, _) => place,
        }
    }
}

/// Returns the place at which a line is broken, so that its first part and the mark of the continuation have at most this many
/// columns: in front of the last `/` in the second half of the line, otherwise as late as possible. A command within double
/// quotation marks is not broken.
fn last_break(line: &str, columns: usize) -> Option<(usize, Place)> {
    let mut place = Place::default();
    let (mut found, mut slash) = (None, None);
    for (at, character) in line.char_indices() {
        let marks = match place {
            Place::Plain => Some(1),
            Place::Single => Some(2),
            Place::Escaped | Place::Double | Place::EscapedInDouble => None,
        };
        let is_begun = line.get(..at).is_some_and(|part| part.trim_start().len() > 1);
        let fits =
            marks.is_some_and(|marks| line.get(..at).is_some_and(|part| width(part) + marks <= columns));
        if is_begun && fits {
            found = Some((at, place));
            if character == '/' && at * 2 > columns {
                slash = found;
            }
        }
        place = place.after(character);
    }
    slash.or(found)
}

/// Splits a command at its blanks, but not within quotation marks.
fn shell_words(command: &str) -> Vec<&str> {
    let mut place = Place::default();
    let mut words = Vec::new();
    let mut begin = 0;
    for (at, character) in command.char_indices() {
        if place == Place::Plain && character == ' ' {
            words.extend(command.get(begin..at));
            begin = at + 1;
        }
        place = place.after(character);
    }
    words.extend(command.get(begin..));
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Command;

    #[test]
    fn a_short_step_is_one_line() {
        let disk = Step::look("look at it").with(Command::new("iostat -x 1 5"));
        assert_eq!(lines(&disk, 60), ["  look at it: iostat -x 1 5"]);
        let text = Step::look("find out: what it is, and where it is");
        assert_eq!(lines(&text, 24), ["  find out: what it is,", "      and where it is"]);
    }

    #[test]
    fn a_command_is_on_its_own_line_and_behind_the_mark_of_a_change() {
        let command = Command::new("iostat -x 1 5; grep . /proc/pressure/*");
        let step = Step::look("look at storage, memory and CPU of the node").with(command);
        let shown =
            ["  look at storage, memory and CPU of the node:", "    iostat -x 1 5; grep . /proc/pressure/*"];
        assert_eq!(lines(&step, 60), shown);
        let change = Step::change("remove the dead ones").with(Command::new("crictl rm 55f1fe6bb863"));
        assert_eq!(
            lines(&change, 42),
            ["  remove the dead ones (changes state):", "    crictl rm 55f1fe6bb863"]
        );
    }

    #[test]
    fn a_shell_joins_the_lines_of_a_long_command() {
        let command =
            "kubectl get --raw '/api/v1/nodes/a b/proxy' | head -200 | xargs -r crictl --timeout 20s rmp";
        for columns in 30..100 {
            let shown = continued(command, 4, columns);
            assert!(shown.iter().all(|line| width(line) <= columns), "{columns}: {shown:#?}");
            let joined = shown.join("\n").replace("'\\\n'", "").replace("\\\n", "");
            assert_eq!(shell_words(&joined).join(" "), command, "{columns}: {shown:#?}");
        }
    }

    #[test]
    fn a_shell_runs_the_printed_command_with_its_words_at_any_width() {
        let long = format!("/mnt/it's my disk/{}", "x y".repeat(40));
        for hostile in ["a b", "it's", "$(reboot); `reboot` | \"x\" \\", "a\nb\u{202e}c", "*", &long] {
            let command = Command::new("printf '<%s>' {} {} end").arg(hostile).arg("web-0").line();
            let step =
                Step::look("look").with(Command::new("printf '<%s>' {} {} end").arg(hostile).arg("web-0"));
            for columns in [30, 80, 200] {
                let shown = lines(&step, columns);
                let at = shown.iter().position(|line| line.contains("printf")).unwrap();
                let text = shown[at..].join("\n").replacen("look: ", "", 1);
                #[expect(clippy::disallowed_methods, reason = "the test needs a shell")]
                let output = std::process::Command::new("sh").args(["-c", &text]).output().unwrap();
                let said = String::from_utf8(output.stdout).unwrap();
                assert_eq!(said, format!("<{hostile}><web-0><end>"), "{columns} {command}\n{text}");
            }
        }
    }

    #[test]
    fn a_path_longer_than_a_line_is_broken_between_its_parts() {
        let command =
            "umount -f -l /var/lib/kubelet/pods/cd9915cc-1e36-4397/volumes/kubernetes.io~csi/pvc/mount";
        let shown = continued(command, 4, 60);
        let lines = [
            "    umount -f -l \\",
            "      /var/lib/kubelet/pods/cd9915cc-1e36-4397/volumes\\",
            "/kubernetes.io~csi/pvc/mount",
        ];
        assert_eq!(shown, lines);
    }

    #[test]
    fn a_word_longer_than_a_line_is_joined_without_a_blank() {
        let command = format!("cat /proc/{}/stack > f.txt", "1".repeat(50));
        let shown = continued(&command, 4, 30);
        assert!(shown.iter().all(|line| width(line) <= 30), "{shown:#?}");
        let joined = shown.join("\n").replace("'\\\n'", "").replace("\\\n", "");
        assert_eq!(shell_words(&joined).join(" "), command, "{shown:#?}");
    }
}
