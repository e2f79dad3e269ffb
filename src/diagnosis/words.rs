//! Formats numbers with nouns, ids and durations for the report.

use crate::clock::Wall;
pub use crate::report::duration::in_sentence as seconds;

/// Returns the first twelve digits of an id; crictl shows the same.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Formats a time of day with its zone; with its date if it is more than a day away.
pub fn clock_time(now: Wall, at: Wall) -> String {
    const DAY: f64 = 86_400.0;
    let text = at.to_string();
    let first = if now.seconds_since(at).abs() < DAY { 11 } else { 0 };
    format!("{} UTC", text.get(first..19).unwrap_or(&text).replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_be_shorter_than_its_short_form() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short("0123456789abcdef"), "0123456789ab");
    }
}
