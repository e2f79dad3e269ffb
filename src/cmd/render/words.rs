//! Formats single values for a terminal: ages, percentages, short ids; measures, cuts and wraps text by columns. What
//! measures a text escapes it before, so that the measured text is the printed one.

use unicode_width::UnicodeWidthChar;

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

pub use crate::report::shell_lines::width;

/// Appends blanks to a text up to a width.
pub fn padded(text: &str, columns: usize) -> String {
    let text = escaped(text);
    let blanks = columns.saturating_sub(width(&text));
    format!("{text}{:blanks$}", "")
}

/// Returns the byte position at which the first `columns` columns of a text end.
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
    let text = escaped(text);
    if width(&text) <= columns {
        return text.into_owned();
    }
    let kept = text.get(..end_of(&text, columns.saturating_sub(1))).unwrap_or_default();
    format!("{kept}…")
}

/// Cuts a text to a width in its middle, so that both ends stay; `…` shows the cut.
pub fn cut_in_the_middle(text: &str, columns: usize) -> String {
    let text = escaped(text);
    if width(&text) <= columns {
        return text.into_owned();
    }
    let head = text.get(..end_of(&text, columns / 2)).unwrap_or_default();
    let room = columns.saturating_sub(width(head) + 1);
    let mut taken = 0;
    let tail = text.char_indices().rev().take_while(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken <= room
    });
    let start = tail.last().map_or(text.len(), |(at, _)| at);
    format!("{head}…{}", text.get(start..).unwrap_or_default())
}

/// Formats a number with a space between thousands: `1 008`.
pub fn grouped(number: u64) -> String {
    crate::report::grouped(number, ' ')
}

/// Breaks text between words and indents the following lines. A word that is longer than a line is broken
/// too.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> Vec<String> {
    // If the indent left almost no room, a line could not get shorter, and the loop would not end.
    let columns = columns.max(width(indent) + 4);
    let mut lines = Vec::new();
    let mut rest = escaped(text.trim_end()).into_owned();
    while width(&rest) > columns {
        let limit = end_of(&rest, columns);
        let margin = rest.len() - rest.trim_start().len();
        // A blank is a place to break if another character follows, so the first one beyond the limit counts too.
        let beyond = rest.get(limit..).and_then(|after| after.chars().next()).map_or(0, char::len_utf8);
        let between = rest.get(..limit + beyond).and_then(|part| part.trim_end().rfind(' '));
        let at = between.filter(|at| *at > margin).unwrap_or(limit);
        let after = rest.split_off(at);
        lines.push(rest.trim_end().to_owned());
        rest = format!("{indent}{}", after.trim_start());
    }
    lines.push(rest);
    lines
}

/// Returns the text; `<none>` if it is empty.
pub fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
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
    fn a_part_is_formatted_in_percent() {
        assert_eq!(percent(8, 16), "50.0%");
    }

    #[test]
    fn text_is_cut_wrapped_and_padded_by_terminal_columns() {
        assert_eq!(cut("running → exited", 10), "running →…");
        assert_eq!(cut("running", 7), "running");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(
            cut_in_the_middle("ip-10-0-1-23.eu-central-1.compute.internal", 20),
            "ip-10-0-1-….internal"
        );
        assert_eq!(cut_in_the_middle("gke-pool-a1b2", 13), "gke-pool-a1b2");
        assert_eq!(cut_in_the_middle("漢字漢字漢字", 7), "漢…漢字");
        assert_eq!(cut_in_the_middle("abc", 1), "…");
        assert_eq!(padded("漢字", 6), "漢字  ");
        assert_eq!(wrapped("one two three", 8, "  "), ["one two", "  three"]);
        assert_eq!(wrapped("one two→three", 7, ""), ["one", "two→thr", "ee"]);
        assert_eq!(wrapped("漢字漢字", 5, ""), ["漢字", "漢字"]);
        assert_eq!(wrapped("漢字漢字", 1, "    "), ["漢字漢字"]);
        assert_eq!(wrapped("漢字漢字漢", 1, "    ").len(), 2);
    }

    #[test]
    fn thousands_are_separated_by_spaces() {
        assert_eq!([7, 999, 1008, 1_234_567].map(grouped), ["7", "999", "1 008", "1 234 567"]);
    }

    #[test]
    fn a_text_is_measured_as_it_is_printed() {
        let hostile = "a\u{1b}\tb";
        let shown = r"a\u{1b}\tb";
        assert_eq!(width(hostile), 10);
        assert_eq!(cut(hostile, 9), r"a\u{1b}\…");
        assert_eq!(cut_in_the_middle(hostile, 9), r"a\u{…}\tb");
        assert_eq!(padded(hostile, 11), format!("{shown} "));
        assert_eq!(wrapped(hostile, 6, ""), [r"a\u{1b", r"}\tb"]);
    }
}
