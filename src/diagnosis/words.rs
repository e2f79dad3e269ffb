//! Formats numbers with nouns, ids and durations for the report.

pub use crate::report::duration::in_sentence as seconds;

/// Returns the first twelve digits of an id; crictl shows the same.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
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
