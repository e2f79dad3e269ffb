//! Formats durations: an age as kubectl formats it, and a measured duration either for a column (`4.21ms`) or for a
//! sentence (`4.2 ms`). Durations in the format of Go are in `kubelet::GoDuration`.

use std::time::Duration;

/// Formats an age roughly: `45s`, `3m20s`, `12h`, `5d3h`, `2y40d`.
pub fn elapsed(duration: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two_units(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two_units(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two_units(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two_units(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Formats a duration in two units; leaves out the smaller unit if it is zero.
fn two_units(seconds: u64, large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match seconds % large / small {
        0 => format!("{}{large_unit}", seconds / large),
        rest => format!("{}{large_unit}{rest}{small_unit}", seconds / large),
    }
}

/// Formats a measured duration with three significant digits: `812µs`, `4.21ms`, `1.02s`, `2m3s`.
pub fn took(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 100.0 {
        return elapsed(duration);
    }
    let (value, unit) = match seconds {
        1.0.. => (seconds, "s"),
        1e-3.. => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

/// Formats a measured duration for a sentence: `1.5 ms`, `4.1 s`, `4m01s`.
pub fn in_sentence(duration: Duration) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_in_kubectl() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3600, "60m"),
            (10_860, "3h1m"),
            (100_000, "27h"),
            (200_000, "2d7h"),
            (864_000, "10d"),
        ] {
            assert_eq!(elapsed(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn measured_durations_have_three_significant_digits() {
        assert_eq!(took(Duration::from_micros(812)), "812µs");
        assert_eq!(took(Duration::from_micros(4213)), "4.21ms");
        assert_eq!(took(Duration::from_millis(10_240)), "10.2s");
        assert_eq!(took(Duration::from_secs(123)), "2m3s");
    }

    #[test]
    fn durations_in_sentences_have_a_space_before_the_unit() {
        assert_eq!(in_sentence(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(in_sentence(Duration::from_millis(250)), "250 ms");
        assert_eq!(in_sentence(Duration::from_millis(4100)), "4.1 s");
        assert_eq!(in_sentence(Duration::from_secs(241)), "4m01s");
    }
}
