//! RFC 3339 times, only as far as to say whether a text is one.

/// True if Go's `time.Parse(time.RFC3339, …)` takes the text.
pub fn is_rfc3339(text: &str) -> bool {
    parse(text.as_bytes()).is_some()
}

fn parse(text: &[u8]) -> Option<()> {
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    expect(&mut rest, b'-')?;
    let month = in_range(number(&mut rest, 2)?, 1, 12)?;
    expect(&mut rest, b'-')?;
    in_range(number(&mut rest, 2)?, 1, days_in(year, month))?;
    expect(&mut rest, b'T')?;
    // Go takes an hour of one digit.
    let digits = if matches!(rest, [_, b':', ..]) { 1 } else { 2 };
    in_range(number(&mut rest, digits)?, 0, 23)?;
    expect(&mut rest, b':')?;
    in_range(number(&mut rest, 2)?, 0, 59)?;
    expect(&mut rest, b':')?;
    in_range(number(&mut rest, 2)?, 0, 59)?;
    if let [b'.' | b',', tail @ ..] = rest {
        let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        rest = tail.get(digits..)?;
    }
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
    use super::is_rfc3339;

    #[test]
    fn times_that_go_takes_are_taken() {
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
    fn other_text_is_no_time() {
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
}
