//! Formats counts, ids and durations for the report.

pub use crate::report::duration::in_sentence as seconds;

/// `1 pod`, `2 pods`, `3 processes`.
pub fn plural(count: usize, one: &str) -> String {
    let ending = match (count, one.ends_with(['s', 'x'])) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {one}{ending}")
}

/// Returns the first twelve digits of an id, as crictl shows them.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_and_plural() {
        assert_eq!(plural(1, "hung call"), "1 hung call");
        assert_eq!(plural(0, "sandbox"), "0 sandboxes");
        assert_eq!(plural(2, "process"), "2 processes");
    }

    #[test]
    fn an_id_may_be_shorter_than_its_short_form() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short("0123456789abcdef"), "0123456789ab");
    }
}
