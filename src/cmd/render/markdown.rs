//! Breaks a page of the documentation at the width of a terminal: refills its paragraphs, and leaves out its comments, which
//! are for tests. It keeps each other mark as it is. The text of a code block is never broken, except shell commands, which
//! can still be pasted.

use super::words::{width, wrapped};
use crate::report::shell_lines::{command_lines, without_comment};

/// Stands for a blank at which a line is not broken.
const NO_BREAK: char = '\u{a0}';

/// Returns the lines of a page.
pub fn lines(text: &str, columns: usize) -> Vec<String> {
    let mut shown = Vec::new();
    let mut paragraph = String::new();
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        let content = line.trim_start();
        let marker = marker_width(content);
        let is_alone =
            content.is_empty() || content.starts_with(['#', '|', '<']) || content.starts_with("```");
        if (is_alone || marker > 0) && !paragraph.is_empty() {
            shown.extend(filled(&std::mem::take(&mut paragraph), columns));
        }
        if content.starts_with("```") {
            let block: Vec<&str> =
                rest.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            shown.push(line.to_owned());
            match content {
                "```sh" => shown.extend(script(&block, columns)),
                _ => shown.extend(block.iter().map(|line| (*line).to_owned())),
            }
            shown.push("```".to_owned());
        } else if is_alone {
            let is_comment = content.starts_with("<!--");
            shown.extend((!is_comment).then(|| filled(line, columns)).into_iter().flatten());
        } else if paragraph.is_empty() {
            line.clone_into(&mut paragraph);
        } else {
            paragraph.push(' ');
            paragraph.push_str(content);
        }
    }
    shown.extend((!paragraph.is_empty()).then(|| filled(&paragraph, columns)).into_iter().flatten());
    shown
}

/// Returns the number of columns of the mark of a list's item; 0 for another text.
fn marker_width(content: &str) -> usize {
    let number = content.bytes().take_while(u8::is_ascii_digit).count();
    let is_item = |mark: &str| content.get(number..).is_some_and(|rest| rest.starts_with(mark));
    match number {
        0 if is_item("- ") || is_item("* ") => 2,
        1.. if is_item(". ") => number + 2,
        _ => 0,
    }
}

/// Breaks a text between words, but not within a short `command`. The further lines of an item begin below its text, those of
/// a row of a table below its first cell.
fn filled(text: &str, columns: usize) -> Vec<String> {
    let content = text.trim_start();
    let marker = if content.starts_with('|') { 2 } else { marker_width(content) };
    let indent = " ".repeat(text.len() - content.len() + marker);
    let spans = text.split('`').enumerate().map(|(at, part)| {
        let is_whole = at % 2 == 1 && width(part) + indent.len() + 2 <= columns;
        if is_whole { part.replace(' ', NO_BREAK.encode_utf8(&mut [0; 4])) } else { part.to_owned() }
    });
    let kept = spans.collect::<Vec<_>>().join("`");
    wrapped(&kept, columns, &indent).into_iter().map(|line| line.replace(NO_BREAK, " ")).collect()
}

/// Breaks the commands of a script that are too long for the terminal. The comment of such a command precedes it.
fn script(block: &[&str], columns: usize) -> Vec<String> {
    let mut shown = Vec::new();
    for command in block.split_inclusive(|line| !line.ends_with('\\')) {
        if command.iter().all(|line| width(line) <= columns) {
            shown.extend(command.iter().map(|line| (*line).to_owned()));
            continue;
        }
        let parts: Vec<&str> = command.iter().map(|line| line.trim_end_matches('\\').trim()).collect();
        let whole = parts.join(" ");
        let (code, comment) = without_comment(&whole);
        if !comment.is_empty() {
            shown.extend(wrapped(comment, columns, "# "));
        }
        if !code.is_empty() {
            shown.extend(command_lines(code, 0, columns));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_refilled_and_comments_are_left_out() {
        let text =
            "# Title\n\nOne two\nthree four.\n\n<!-- run: plegctl -->\n- an item\n  that goes on\n1. first\n";
        let shown = ["# Title", "", "One two three", "four.", "", "- an item", "  that goes on", "1. first"];
        assert_eq!(lines(text, 14), shown);
        assert_eq!(lines("| one | two three |\n| four |\n", 12), ["| one | two", "  three |", "| four |"]);
        assert_eq!(lines("a b c `plegctl top` d\n", 14), ["a b c", "`plegctl top`", "d"]);
    }

    #[test]
    fn only_the_shell_commands_of_code_blocks_are_broken_and_a_shell_joins_them_again() {
        let wide = "x ".repeat(20);
        assert_eq!(lines(&format!("```text\n{wide}\n```\n"), 20), ["```text", &wide, "```"]);
        let text = "```sh\nls -l /run\ncp \"$(uname -m)\" to   # the program of this node\n```";
        let shown = [
            "```sh",
            "ls -l /run",
            "# the program of",
            "# this node",
            "cp \"$(uname -m)\" \\",
            "  to",
            "```",
        ];
        assert_eq!(lines(text, 18), shown);
        let continued = "```sh\ntool --option one \\\n  --another-option two\n```";
        assert_eq!(
            lines(continued, 20),
            ["```sh", "tool --option one \\", "  --another-option \\", "  two", "```"]
        );
    }
}
