//! Times, sizes and shares in as few characters as a tired reader needs.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::clock::Wall;
pub use crate::report::duration::{elapsed, took};
use crate::report::escape::escaped;

/// What stands where there is nothing.
pub const NONE: &str = "<none>";

/// What stands where nobody knows.
pub const UNKNOWN: &str = "<unknown>";

/// How long ago `then` was, as kubectl writes ages: two units at most, no fractions.
pub fn age(now: Wall, then: Option<Wall>) -> String {
    then.map_or_else(|| UNKNOWN.to_owned(), |then| elapsed(now.duration_since(then)))
}

/// `part` of `whole` in percent.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", part as f64 * 100.0 / whole as f64)
}

/// How much of an id every runtime's tools show.
pub const SHORT_ID: usize = 12;

/// The beginning of an id.
pub fn short_id(id: &str) -> String {
    or_none(&id.chars().take(SHORT_ID).collect::<String>())
}

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// A text with blanks behind it, so that what follows lines up.
pub fn padded(text: &str, columns: usize) -> String {
    let blanks = columns.saturating_sub(width(text));
    format!("{text}{:blanks$}", "")
}

/// Where the first so many columns of a text end.
fn end_of(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    let beyond = text.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > columns
    });
    beyond.map_or(text.len(), |(at, _)| at)
}

/// At most so many columns; what does not fit is `…`.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let kept = text.get(..end_of(text, columns.saturating_sub(1))).unwrap_or_default();
    format!("{kept}…")
}

/// Broken between words; what goes on is indented. A word that is longer than a line is broken too.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> Vec<String> {
    // Where there is next to no room behind the indent, nothing would ever be done.
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

/// Text from outside, made harmless; `<none>` if there is none.
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
