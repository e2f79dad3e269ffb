//! Whether PLEG is healthy, in the kubelet's exact words.

use std::fmt;
use std::time::Duration;

use super::channel::EventChannel;
use crate::clock::Mono;

/// From which age of the last successful lists on PLEG is unhealthy (`genericPlegRelistThreshold`).
pub const THRESHOLD: Duration = Duration::from_secs(180);
/// The same while the event stream is in use (`eventedPlegRelistThreshold`).
pub const EVENTED_THRESHOLD: Duration = Duration::from_secs(600);

/// Why PLEG is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// No list has succeeded yet.
    #[error("pleg has yet to be successful")]
    NeverSuccessful,
    /// The last success is too long ago.
    #[error("pleg was last seen active {} ago; threshold is {}", GoDuration(*.elapsed), GoDuration(*.threshold))]
    TooOld {
        /// Since the start of the last relist whose lists succeeded.
        elapsed: Duration,
        /// What would be acceptable.
        threshold: Duration,
    },
    /// The sync loop does not take events.
    #[error("EventedPLEG: pleg event channel capacity is full with {waiting} events")]
    ChannelFull {
        /// How many events wait.
        waiting: usize,
    },
}

/// The kubelet's check `PLEG`. `last_list` is the start of the last relist whose lists both succeeded.
pub fn check(last_list: Option<Mono>, now: Mono, threshold: Duration) -> Result<(), Unhealthy> {
    let elapsed = now.since(last_list.ok_or(Unhealthy::NeverSuccessful)?);
    if elapsed > threshold {
        return Err(Unhealthy::TooOld { elapsed, threshold });
    }
    Ok(())
}

/// The kubelet's check `EventedPLEG`.
pub fn check_channel(channel: &EventChannel) -> Result<(), Unhealthy> {
    if channel.is_full() {
        return Err(Unhealthy::ChannelFull { waiting: channel.len() });
    }
    Ok(())
}

/// A duration as Go prints it.
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

/// `value` / 10^`places` without trailing zeros.
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
    fn durations_read_as_in_the_kubelet_log() {
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

    #[test]
    fn exactly_the_threshold_is_healthy_and_a_nanosecond_more_is_not() {
        let at = |duration| Mono::at(duration);
        let start = Some(at(Duration::ZERO));
        assert_eq!(check(start, at(THRESHOLD), THRESHOLD), Ok(()));
        let late = THRESHOLD + Duration::from_nanos(1);
        assert_eq!(
            check(start, at(late), THRESHOLD).unwrap_err().to_string(),
            "pleg was last seen active 3m0.000000001s ago; threshold is 3m0s"
        );
    }

    #[test]
    fn a_pleg_that_never_listed_says_so() {
        let error = check(None, Mono::at(Duration::from_secs(600)), THRESHOLD).unwrap_err();
        assert_eq!(error.to_string(), "pleg has yet to be successful");
    }
}
