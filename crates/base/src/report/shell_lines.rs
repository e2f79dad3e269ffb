//! Breaks the command of a step into lines that can be pasted: each but the last ends with a backslash.

use unicode_width::UnicodeWidthStr;

use super::escape::escaped;

/// Breaks a command that is longer than a line. A shell joins the lines again.
pub fn command_lines(command: &str, indent: usize, columns: usize) -> Vec<String> {
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

/// Splits a line of a script into its command and its comment, which begins with `#`; each may be empty.
pub fn without_comment(line: &str) -> (&str, &str) {
    let mut place = Place::default();
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        if place == Place::Plain && character == '#' && before == ' ' {
            let (command, comment) = line.split_at(at);
            return (command.trim_end(), comment);
        }
        place = place.after(character);
        before = character;
    }
    (line.trim_end(), "")
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

/// Returns the number of columns that a text needs on a terminal.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(&*escaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_joins_the_lines_of_a_long_command() {
        let command =
            "kubectl get --raw '/api/v1/nodes/a b/proxy' | head -200 | xargs -r crictl --timeout 20s rmp";
        for columns in 30..100 {
            let shown = command_lines(command, 4, columns);
            assert!(shown.iter().all(|line| width(line) <= columns), "{columns}: {shown:#?}");
            let joined = shown.join("\n").replace("'\\\n'", "").replace("\\\n", "");
            assert_eq!(shell_words(&joined).join(" "), command, "{columns}: {shown:#?}");
        }
    }

    #[test]
    fn a_comment_begins_with_a_word_and_is_not_in_quotation_marks() {
        assert_eq!(without_comment("ls '# a' b#c   # d 'e"), ("ls '# a' b#c", "# d 'e"));
        assert_eq!([without_comment("# all"), without_comment("ls ")], [("", "# all"), ("ls", "")]);
    }

    #[test]
    fn a_path_longer_than_a_line_is_broken_between_its_parts() {
        let command =
            "umount -f -l /var/lib/kubelet/pods/cd9915cc-1e36-4397/volumes/kubernetes.io~csi/pvc/mount";
        let shown = command_lines(command, 4, 60);
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
        let shown = command_lines(&command, 4, 30);
        assert!(shown.iter().all(|line| width(line) <= 30), "{shown:#?}");
        let joined = shown.join("\n").replace("'\\\n'", "").replace("\\\n", "");
        assert_eq!(shell_words(&joined).join(" "), command, "{shown:#?}");
    }
}
