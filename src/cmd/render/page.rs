//! The only writer of text for people. Whatever a renderer prints, a line of a [`Page`] contains no character that controls
//! a terminal: a [`Line`] escapes its text when it is created, and only this module adds line breaks and colours.
//!
//! Documents (JSON, YAML, HTML, SARIF, metrics) have their own escaping and do not pass here.

use std::fmt;
use std::io::{self, Write};

use super::Style;
use super::words::{width, wrapped};
use crate::report::escape::escaped;
use crate::report::shell_lines::command_lines;

/// The code of a colour (SGR), such as `31` for red; empty for none.
pub type Color = &'static str;

/// A line of text in parts, each with its colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<(Color, String)>);

impl Line {
    /// Creates a line in one colour.
    pub fn colored(color: Color, text: impl fmt::Display) -> Self {
        Self::default().and(color, text)
    }

    /// Appends a text in a colour.
    pub fn and(mut self, color: Color, text: impl fmt::Display) -> Self {
        self.0.push((color, escaped(&text.to_string()).into_owned()));
        self
    }

    /// Returns the text without colours.
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Returns the text with the control sequences of its colours.
    pub fn painted(&self) -> String {
        let paint = |(color, text): &(Color, String)| {
            if color.is_empty() || text.is_empty() {
                text.clone()
            } else {
                format!("\u{1b}[{color}m{text}\u{1b}[0m")
            }
        };
        self.0.iter().map(paint).collect()
    }

    /// Breaks the line between words, so that no part is wider than `columns`; the further parts are indented. Each word keeps
    /// its colour.
    fn broken(&self, columns: usize) -> Vec<Self> {
        let text = self.text();
        if width(&text) <= columns {
            return vec![self.clone()];
        }
        let margin = text.len() - text.trim_start_matches(' ').len();
        let indent = " ".repeat((margin + 2).min(columns / 2));
        let mut letters = self.0.iter().flat_map(|(color, text)| text.chars().map(move |one| (*color, one)));
        let mut broken = Vec::new();
        for part in wrapped(&text, columns, &indent) {
            let mut line = Self::default();
            let mut part = part.as_str();
            if let (false, Some(rest)) = (broken.is_empty(), part.strip_prefix(&indent)) {
                line = Self::from(indent.as_str());
                part = rest;
            }
            for letter in part.chars() {
                // Between two parts, only blanks are left out.
                let color = letters.find(|(_, next)| *next == letter).map_or("", |(color, _)| color);
                match line.0.last_mut().filter(|(last, _)| *last == color) {
                    Some((_, text)) => text.push(letter),
                    None => line.0.push((color, letter.to_string())),
                }
            }
            broken.push(line);
        }
        broken
    }

    /// Returns the number of terminal columns.
    pub fn width(&self) -> usize {
        width(&self.text())
    }
}

impl<T: Into<String> + fmt::Display> From<T> for Line {
    fn from(text: T) -> Self {
        Self::colored("", text)
    }
}

/// A destination of lines.
pub struct Page<'a> {
    destination: Destination<'a>,
    style: Style,
    /// The width of the terminal; `None` if the page is not printed on one.
    columns: Option<usize>,
    count: usize,
}

enum Destination<'a> {
    Writer(&'a mut dyn Write),
    Lines(&'a mut Vec<Line>),
}

impl<'a> Page<'a> {
    /// Creates a page that is written to `out`.
    pub fn new(out: &'a mut dyn Write, style: Style) -> Self {
        Self { destination: Destination::Writer(out), style, columns: None, count: 0 }
    }

    /// Breaks each line between words at the width of a terminal. The terminal itself would break it within a word.
    pub fn on_terminal(self, columns: Option<usize>) -> Self {
        Self { columns, ..self }
    }

    /// Returns the lines that `print` prints.
    pub fn lines_of(
        style: Style,
        print: impl FnOnce(&mut Page<'_>) -> io::Result<()>,
    ) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        print(&mut Page { destination: Destination::Lines(&mut lines), style, columns: None, count: 0 })?;
        Ok(lines)
    }

    /// Returns the style.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// Returns the number of lines so far.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Writes exactly one line, for `writeln!(page, …)`: whatever a text contains, it cannot begin another line.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let text = text.to_string();
        self.line(&Line::from(text.strip_suffix('\n').unwrap_or(&text)))
    }

    /// Writes a line in one colour.
    pub fn colored(&mut self, color: Color, text: impl fmt::Display) -> io::Result<()> {
        self.line(&Line::colored(color, text))
    }

    /// Writes a line.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        self.count += 1;
        match &mut self.destination {
            Destination::Lines(lines) => lines.push(line.clone()),
            Destination::Writer(out) => {
                let mut text = String::new();
                for line in line.broken(self.columns.unwrap_or(usize::MAX)) {
                    text.push_str(&if self.style.color { line.painted() } else { line.text() });
                    text.push('\n');
                }
                // One write, so that a line on stderr is never mixed with another program's.
                out.write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes a command. A shell joins the lines of one that is longer than the terminal.
    pub fn command(&mut self, indent: usize, command: &str) -> io::Result<()> {
        let lines = command_lines(command, indent, self.columns.unwrap_or(usize::MAX));
        lines.iter().try_for_each(|line| self.line(&line.as_str().into()))
    }

    /// Writes a text of several lines.
    pub fn lines(&mut self, text: &str) -> io::Result<()> {
        text.lines().try_for_each(|line| self.line(&line.into()))
    }

    /// Erases the last `rows` rows of a terminal with this number of rows, and everything below them.
    pub fn erase(&mut self, rows: usize, of: usize) -> io::Result<()> {
        match rows {
            0 => Ok(()),
            rows if rows >= of => self.control("\u{1b}[H\u{1b}[J"),
            rows => self.control(&format!("\r\u{1b}[{rows}A\u{1b}[J")),
        }
    }

    /// Writes a control sequence.
    fn control(&mut self, sequence: &str) -> io::Result<()> {
        match &mut self.destination {
            Destination::Lines(_) => Ok(()),
            Destination::Writer(out) => out.write_all(sequence.as_bytes()),
        }
    }
}

#[cfg(test)]
pub(in crate::cmd) mod tests {
    use super::*;

    /// Characters that control a terminal, break a line, or reorder and hide text.
    pub const HOSTILE: &str = "a\u{1b}[2J\u{7}\u{9b}\u{202e}\u{200b}b\r\n\tc\n";
    /// The same text on a page.
    pub const SHOWN: &str = r"a\u{1b}[2J\u{7}\u{9b}\u{202e}\u{200b}b\r\n\tc\n";

    /// Returns what `print` prints, as text.
    pub fn printed(style: Style, print: impl FnOnce(&mut Page<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut Page::new(&mut out, style)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn style(color: bool) -> Style {
        Style { headers: true, color }
    }

    #[test]
    fn a_line_is_one_line_without_control_characters_however_it_is_written() {
        let text = printed(style(true), |page| {
            writeln!(page, "1 {HOSTILE}")?;
            write!(page, "2 {HOSTILE}|")?;
            writeln!(page)?;
            page.colored("31", HOSTILE)?;
            page.line(&Line::from("3 ").and("1", HOSTILE).and("", HOSTILE))
        });
        let expected = format!(
            "1 {SHOWN}\n2 {SHOWN}|\n\n\u{1b}[31m{SHOWN}\u{1b}[0m\n3 \u{1b}[1m{SHOWN}\u{1b}[0m{SHOWN}\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_text_of_several_lines_keeps_only_its_line_breaks() {
        assert_eq!(printed(style(true), |page| page.lines("a\u{1b}[2J\nb\tc")), "a\\u{1b}[2J\nb\\tc\n");
    }

    #[test]
    fn without_colour_there_is_no_control_sequence() {
        let print = |page: &mut Page<'_>| page.line(&Line::colored("31", "a").and("", "b").and("1", ""));
        assert_eq!(printed(style(false), print), "ab\n");
        assert_eq!(printed(style(true), print), "\u{1b}[31ma\u{1b}[0mb\n");
    }

    #[test]
    fn on_a_terminal_a_line_is_broken_between_words_and_keeps_its_colours() {
        let line = Line::colored("31", "  one two").and("", " three →four");
        let on = |color: bool, columns: usize| {
            let mut out = Vec::new();
            Page::new(&mut out, style(color)).on_terminal(Some(columns)).line(&line).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(on(false, 11), "  one two\n    three\n    →four\n");
        let red = |text: &str| format!("\u{1b}[31m{text}\u{1b}[0m");
        assert_eq!(on(true, 10), format!("{}\n    three\n    →four\n", red("  one two")));
        assert_eq!(on(false, 21), "  one two three →four\n");
    }

    #[test]
    fn collected_lines_keep_their_colours_for_the_page_that_prints_them() {
        let lines = Page::lines_of(style(false), |page| page.colored("31", "red")).unwrap();
        assert_eq!(lines, [Line::colored("31", "red")]);
        assert_eq!(printed(style(true), |page| page.line(&lines[0])), "\u{1b}[31mred\u{1b}[0m\n");
    }

    #[test]
    fn erasing_more_rows_than_a_terminal_has_erases_the_terminal() {
        let erased = |rows: usize| printed(style(false), |page| page.erase(rows, 24));
        assert_eq!([0, 3, 24].map(erased), ["", "\r\u{1b}[3A\u{1b}[J", "\u{1b}[H\u{1b}[J"]);
    }
}
