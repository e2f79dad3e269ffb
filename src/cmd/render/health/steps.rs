//! Formats a step: its purpose and its command. A command stays on one line, or continues after a backslash, so that it can be
//! pasted into a shell.

use super::{HEADING, WARNING};
use crate::cmd::render::page::Line;
use crate::cmd::render::words::{width, wrapped};
use crate::report::Step;
use crate::report::shell_lines::command_lines;

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
    text.chain(command_lines(command, 4, columns).into_iter().map(|line| (String::new(), line))).collect()
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
}
