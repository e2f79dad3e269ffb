//! How the report says durations, counts and ids.

use std::time::Duration;

/// A duration as people say it.
pub fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 10 {
        format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
    } else if millis < 1000 {
        format!("{millis} ms")
    } else if duration < Duration::from_secs(100) {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        let whole = duration.as_secs();
        format!("{}m{:02}s", whole / 60, whole % 60)
    }
}

/// `1 pod`, `2 pods`, `3 processes`.
pub fn plural(count: usize, one: &str) -> String {
    let ending = match (count, one.ends_with(['s', 'x'])) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {one}{ending}")
}

/// The first twelve digits, as people write ids.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_speech() {
        assert_eq!(seconds(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(seconds(Duration::from_millis(250)), "250 ms");
        assert_eq!(seconds(Duration::from_millis(4100)), "4.1 s");
        assert_eq!(seconds(Duration::from_secs(241)), "4m01s");
    }

    #[test]
    fn one_is_not_many() {
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
