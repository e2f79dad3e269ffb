//! Formats times, sizes and percentages in few characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::clock::Wall;
pub use crate::report::duration::{elapsed, took};
use crate::report::escape::escaped;

/// The text for an absent value.
pub const NONE: &str = "<none>";

/// The text for an unknown value.
pub const UNKNOWN: &str = "<unknown>";

/// Formats the time since `then` as kubectl does: at most two units, no fractions.
pub fn age(now: Wall, then: Option<Wall>) -> String {
    then.map_or_else(|| UNKNOWN.to_owned(), |then| elapsed(now.duration_since(then)))
}

/// Formats `part` of `whole` in percent.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", part as f64 * 100.0 / whole as f64)
}

/// The length of a short id in every runtime's tools.
pub const SHORT_ID: usize = 12;

/// Returns the short id.
pub fn short_id(id: &str) -> String {
    or_none(&id.chars().take(SHORT_ID).collect::<String>())
}

/// Returns the number of terminal columns of a text.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Appends blanks to a text up to a width.
pub fn padded(text: &str, columns: usize) -> String {
    let blanks = columns.saturating_sub(width(text));
    format!("{text}{:blanks$}", "")
}

/// Returns the position after the first columns of a text.
fn end_of(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    let beyond = text.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > columns
    });
    beyond.map_or(text.len(), |(at, _)| at)
}

/// Cuts a text to a width; `…` shows the cut.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let kept = text.get(..end_of(text, columns.saturating_sub(1))).unwrap_or_default();
    format!("{kept}…")
}

/// Breaks text between words and indents the following lines. A word that is longer than a line is broken
/// too.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> Vec<String> {
    // With almost no room after the indent the loop would never end.
    let columns = columns.max(width(indent) + 4);
    let mut lines = Vec::new();
    let mut rest = text.trim_end().to_owned();
    while width(&rest) > columns {
        let limit = end_of(&rest, columns);
        let margin = rest.len() - rest.trim_start().len();
        let between = rest.get(..=limit).and_then(|part| part.trim_end().rfind(' '));
        let at = between.filter(|at| *at > margin).unwrap_or(limit);
        let after = rest.split_off(at);
        lines.push(rest.trim_end().to_owned());
        rest = format!("{indent}{}", after.trim_start());
    }
    lines.push(rest);
    lines
}

/// Escapes text from outside; returns `<none>` if it is empty.
pub fn or_none(text: &str) -> String {
    if text.is_empty() { NONE.to_owned() } else { escaped(text).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_time_has_no_age() {
        assert_eq!(age(Wall::from_nanos(5), None), "<unknown>");
        assert_eq!(age(Wall::from_nanos(5), Some(Wall::from_nanos(9))), "0s");
    }

    #[test]
    fn a_part_is_told_in_percent() {
        assert_eq!(percent(8, 16), "50.0%");
    }

    #[test]
    fn lines_are_cut_broken_and_filled_by_columns() {
        assert_eq!(cut("running → exited", 10), "running →…");
        assert_eq!(cut("running", 7), "running");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(padded("漢字", 6), "漢字  ");
        assert_eq!(wrapped("one two three", 8, "  "), ["one two", "  three"]);
        assert_eq!(wrapped("漢字漢字", 5, ""), ["漢字", "漢字"]);
        assert_eq!(wrapped("漢字漢字", 1, "    "), ["漢字漢字"]);
        assert_eq!(wrapped("漢字漢字漢", 1, "    ").len(), 2);
    }

    #[test]
    fn hostile_names_are_escaped() {
        assert_eq!(or_none("a\u{1b}[31m"), "a\\u{1b}[31m");
        assert_eq!(or_none(""), "<none>");
    }
}
