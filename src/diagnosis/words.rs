//! Formats numbers with nouns, ids and durations for the report.

pub use crate::report::duration::in_sentence as seconds;

/// Returns the first twelve digits of an id; crictl shows the same.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Returns a text of at most this many characters. Of a longer one, long ids are shortened, and then the middle is left out: an
/// error has its cause at its end.
pub fn shortened(text: &str, most: usize) -> String {
    let is_short = |text: &str| text.chars().nth(most).is_none();
    if is_short(text) {
        return text.to_owned();
    }
    let text = with_short_ids(text);
    if is_short(&text) {
        return text;
    }
    let end = most / 2;
    let after = text.chars().count() - end;
    text.chars().take(most - end - 1).chain(['…']).chain(text.chars().skip(after)).collect()
}

/// Shortens the ids of 64 digits, which the runtime writes in full.
fn with_short_ids(text: &str) -> String {
    let is_other = |letter: char| !letter.is_ascii_hexdigit();
    let parts = text.split_inclusive(is_other).flat_map(|part| {
        let digits = part.trim_end_matches(is_other);
        let (id, sign) = if digits.len() == 64 { (short(digits), "…") } else { (digits, "") };
        [id, sign, part.get(digits.len()..).unwrap_or_default()]
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_error_the_ids_are_shortened_and_the_end_stays() {
        let id = "4e81059938ce21b5ed3c1b1c84c7de3db45be7415ffa7c210760d487cdd6f213";
        let error = format!("failed to create \"/run/{id}\": mkdir /run/{id}: no space left on device");
        let short =
            "failed to create \"/run/4e81059938ce…\": mkdir /run/4e81059938ce…: no space left on device";
        assert_eq!((shortened(&error, 300), shortened(&error, 100)), (error.clone(), short.to_owned()));
        let cut = shortened(&error, 60);
        assert_eq!(cut, "failed to create \"/run/4e8105…38ce…: no space left on device");
    }

    #[test]
    fn an_id_may_be_shorter_than_its_short_form() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short("0123456789abcdef"), "0123456789ab");
    }
}
