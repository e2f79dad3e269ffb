//! Checks whether Go's RFC 3339 parser or go-yaml accepts a text as a time.

/// Whether Go's `time.Parse(time.RFC3339, …)` accepts the text.
pub fn is_rfc3339(text: &str) -> bool {
    rfc3339(text.as_bytes()).is_some()
}

/// Whether go-yaml accepts the text as a time: a date, or a date and a time, with or without leading zeros
/// (`allowedTimestampFormats` in resolve.go).
pub fn is_yaml_time(text: &str) -> bool {
    yaml_time(text.as_bytes()).is_some()
}

fn rfc3339(text: &[u8]) -> Option<()> {
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    expect(&mut rest, b'-')?;
    let month = in_range(number(&mut rest, 2)?, 1, 12)?;
    expect(&mut rest, b'-')?;
    in_range(number(&mut rest, 2)?, 1, days_in(year, month))?;
    expect(&mut rest, b'T')?;
    // Go accepts an hour with one digit.
    in_range(short_number(&mut rest)?, 0, 23)?;
    expect(&mut rest, b':')?;
    in_range(number(&mut rest, 2)?, 0, 59)?;
    expect(&mut rest, b':')?;
    in_range(number(&mut rest, 2)?, 0, 59)?;
    if matches!(rest, [b'.' | b',', ..]) && !skip_fraction(&mut rest) {
        return None;
    }
    zone(rest)
}

fn yaml_time(text: &[u8]) -> Option<()> {
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    expect(&mut rest, b'-')?;
    let month = in_range(short_number(&mut rest)?, 1, 12)?;
    expect(&mut rest, b'-')?;
    in_range(short_number(&mut rest)?, 1, days_in(year, month))?;
    let Some((separator, mut rest)) = rest.split_first() else { return Some(()) };
    in_range(short_number(&mut rest)?, 0, 23)?;
    expect(&mut rest, b':')?;
    in_range(short_number(&mut rest)?, 0, 59)?;
    expect(&mut rest, b':')?;
    in_range(short_number(&mut rest)?, 0, 59)?;
    skip_fraction(&mut rest);
    match separator {
        b'T' | b't' => zone(rest),
        b' ' => rest.is_empty().then_some(()),
        _ => None,
    }
}

/// Skips a fraction of a second. Returns whether the text had one.
fn skip_fraction(rest: &mut &[u8]) -> bool {
    let [b'.' | b',', tail @ ..] = *rest else { return false };
    let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        *rest = tail.get(digits..).unwrap_or_default();
    }
    digits > 0
}

/// Checks that the rest is a time zone: `Z` or an offset such as `+02:00`.
fn zone(rest: &[u8]) -> Option<()> {
    match rest {
        [b'Z'] => Some(()),
        [b'+' | b'-', offset @ ..] => {
            let mut offset = offset;
            in_range(number(&mut offset, 2)?, 0, 24)?;
            expect(&mut offset, b':')?;
            in_range(number(&mut offset, 2)?, 0, 60)?;
            offset.is_empty().then_some(())
        }
        _ => None,
    }
}

/// Reads a number of one or two digits.
fn short_number(rest: &mut &[u8]) -> Option<u32> {
    let digits = if matches!(rest, [_, next, ..] if next.is_ascii_digit()) { 2 } else { 1 };
    number(rest, digits)
}

/// Reads a number with exactly this many digits.
fn number(rest: &mut &[u8], digits: usize) -> Option<u32> {
    let (head, tail) = rest.split_at_checked(digits)?;
    *rest = tail;
    head.iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u32::from(digit - b'0')))
}

fn expect(rest: &mut &[u8], wanted: u8) -> Option<()> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    (*first == wanted).then_some(())
}

fn in_range(value: u32, lowest: u32, highest: u32) -> Option<u32> {
    (lowest..=highest).contains(&value).then_some(value)
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_rfc3339, is_yaml_time};

    #[test]
    fn times_that_go_accepts_are_accepted() {
        for text in [
            "2024-02-29T23:59:59Z",
            "2024-01-02T03:04:05.678+02:00",
            "0000-01-01T00:00:00-11:30",
            "2024-01-02T3:04:05Z",
        ] {
            assert!(is_rfc3339(text), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_time_is_rejected() {
        for text in [
            "",
            "yesterday",
            "2024-01-02",
            "2023-02-29T00:00:00Z",
            "2024-01-02 03:04:05Z",
            "2024-01-02T25:00:00Z",
            "2024-01-02T03:04:05",
        ] {
            assert!(!is_rfc3339(text), "{text}");
        }
    }

    #[test]
    fn yaml_accepts_short_dates_and_times_and_rejects_trailing_text() {
        for text in [
            "2024-01-02",
            "2024-1-2",
            "2024-1-2T3:4:5Z",
            "2024-1-2t3:4:5.25+01:00",
            "2024-01-02 03:04:05",
            "2024-01-02 3:4:5,5",
        ] {
            assert!(is_yaml_time(text), "{text}");
        }
        for text in [
            "2024-01-01 :1",
            "2024-01",
            "2024-13-01",
            "2023-02-29",
            "24-01-02",
            "2024-01-02T03:04:05",
            "2024-01-02 03:04:05Z",
            "2024-01-02 03:04",
            "2024-01-02x",
        ] {
            assert!(!is_yaml_time(text), "{text}");
        }
    }
}
