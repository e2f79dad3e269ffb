//! Parses and prints durations in Go's format (`1m30s`), which the kubelet's flags, files and log use.

use std::fmt;
use std::time::Duration;

/// Parses a duration in Go's format: `2m0s`, `1.5h`, `90s`. A zero duration is `None`, because the kubelet then uses
/// its default.
pub fn go_duration(text: &str) -> Option<Duration> {
    let nanoseconds = go_nanoseconds(text.trim()).ok()?;
    u64::try_from(nanoseconds).ok().filter(|found| *found > 0).map(Duration::from_nanos)
}

/// Parses a duration as Go does, in nanoseconds and with its sign; the error is Go's message.
pub fn go_nanoseconds(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut total = 0.0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|letter| !is_number(letter)).unwrap_or(rest.len()));
        let value: f64 = number.parse().map_err(|_| invalid())?;
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let nanoseconds = match unit {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        };
        total += value * nanoseconds;
        rest = after;
    }
    // The largest duration in Go is 2^63 - 1 nanoseconds, about 292 years.
    if total > 9_223_372_036_854_775_807.0 {
        return Err(invalid());
    }
    #[expect(clippy::cast_possible_truncation, reason = "compared with the limit above")]
    let nanoseconds = (sign * total).round() as i64;
    Ok(nanoseconds)
}

/// Prints a duration in Go's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds == 0 {
            return match nanos {
                0 => f.write_str("0s"),
                1..1_000 => write!(f, "{nanos}ns"),
                1_000..1_000_000 => decimal(f, u64::from(nanos), 3, "µs"),
                _ => decimal(f, u64::from(nanos), 6, "ms"),
            };
        }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        decimal(f, seconds % 60 * 1_000_000_000 + u64::from(nanos), 9, "s")
    }
}

/// Writes `value` / 10^`places` without trailing zeros.
fn decimal(f: &mut fmt::Formatter<'_>, value: u64, places: u32, unit: &str) -> fmt::Result {
    let scale = 10_u64.pow(places);
    write!(f, "{}", value / scale)?;
    let mut rest = value % scale;
    if rest > 0 {
        f.write_str(".")?;
        let mut place = scale / 10;
        while rest > 0 {
            write!(f, "{}", rest / place)?;
            rest %= place;
            place /= 10;
        }
    }
    f.write_str(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_parsed_and_zero_or_invalid_text_is_none() {
        assert_eq!(go_duration("2m0s"), Some(Duration::from_secs(120)));
        assert_eq!(go_duration("1.5h"), Some(Duration::from_secs(5400)));
        assert_eq!(go_duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(go_duration("0s"), None);
        assert_eq!(go_duration("soon"), None);
        assert_eq!(go_duration("5"), None);
    }

    #[test]
    fn a_duration_that_go_refuses_has_gos_message() {
        assert_eq!(go_nanoseconds("1m30s"), Ok(90_000_000_000));
        assert_eq!(
            (go_nanoseconds("0"), go_nanoseconds("0s"), go_nanoseconds("-1.5ms")),
            (Ok(0), Ok(0), Ok(-1_500_000))
        );
        for (text, why) in [
            ("5", "time: missing unit in duration \"5\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
            ("", "time: invalid duration \"\""),
            ("soon", "time: invalid duration \"soon\""),
            ("9999999999h", "time: invalid duration \"9999999999h\""),
        ] {
            assert_eq!(go_nanoseconds(text), Err(why.to_owned()));
        }
    }

    #[test]
    fn durations_are_printed_as_in_the_kubelets_log() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (1_500_000, "1.5ms"),
            (1_000_000_000, "1s"),
            (180_000_000_000, "3m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (215_027_736_415, "3m35.027736415s"),
            (60_050_000_000, "1m0.05s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(GoDuration(Duration::from_nanos(nanos)).to_string(), text);
        }
    }
}
