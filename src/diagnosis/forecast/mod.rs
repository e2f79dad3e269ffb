//! Forecasts: when does the node reach a hard limit? [`forecast`] is a pure function of what was measured of one limit;
//! [`LimitHistory`] keeps what a recorder measures; [`MeasuredLimit`] is one measurement.
//!
//! A forecast is a straight line, so this module says nothing where a line is not what it sees: where the parts of the
//! measured time disagree, where the growth follows the number of pods, or where the limit is far away. docs/design.md
//! ("Forecasts") has the reasons.

mod history;
mod limit;
mod slope;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use history::{LimitHistory, STALE};
pub use limit::{GO_THREADS, LimitForecast, LimitKind, MeasuredLimit, known};

use self::slope::Line;
use crate::diagnosis::limits;
use crate::report::Confidence;

/// What was measured of one limit at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// When, since any fixed moment.
    pub at: Duration,
    /// How much is used.
    pub used: u64,
    /// The limit.
    pub max: u64,
    /// The number of pods on the node.
    pub pods: u64,
}

/// The shortest measured time.
pub const SHORTEST: Duration = Duration::from_secs(30 * 60);
/// The longest time to the limit.
const FARTHEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many times the measured time the time to the limit may be.
const REACH: u32 = 4;
/// How many times the measured time it may be for a forecast that is likely.
const LIKELY_REACH: u32 = 2;
/// The used part, in percent, below which there is no forecast.
const LEAST_PERCENT: u64 = 10;
/// The used part, in percent, from which on a forecast is likely.
const LIKELY_PERCENT: u64 = 50;

/// A growth that reaches its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// How much is used now.
    pub used: u64,
    /// The limit.
    pub max: u64,
    /// The growth, in units per second.
    pub per_second: f64,
    /// The time over which the growth was measured, until now.
    pub measured: Duration,
    /// The time until the limit is reached.
    pub left: Duration,
    /// *Likely* or *possible*, never more.
    pub confidence: Confidence,
}

/// Returns when the limit is reached, or `None` where that cannot be said. The measurements are in the order of time. Only tests
/// use another time than [`SHORTEST`].
pub fn forecast(measured: &[Measurement], shortest: Duration) -> Option<Forecast> {
    let last = measured.last()?;
    let is_used = |percent: u64| limits::reaches(last.used, last.max, percent);
    if last.used >= last.max || !is_used(LEAST_PERCENT) {
        return None;
    }
    let (before, line) = longest_line(measured, shortest)?;
    let (earlier, window) = measured.split_at_checked(before)?;
    if line.follows_pods() || earlier.iter().any(|one| one.used > last.used) {
        return None;
    }
    let time = last.at.saturating_sub(window.first()?.at);
    #[expect(clippy::cast_precision_loss, reason = "no limit comes near 2^52")]
    let left = Duration::try_from_secs_f64((last.max - last.used) as f64 / line.per_second).ok()?;
    if left > FARTHEST || left > time.saturating_mul(REACH) {
        return None;
    }
    let is_likely = left <= time.saturating_mul(LIKELY_REACH) || is_used(LIKELY_PERCENT);
    Some(Forecast {
        used: last.used,
        max: last.max,
        per_second: line.per_second,
        measured: time,
        left,
        confidence: if is_likely { Confidence::Likely } else { Confidence::Possible },
    })
}

/// Returns the longest time over which the growth is a line that still goes on, as the number of measurements before it. The
/// times are the shortest one, twice as much, and so on.
fn longest_line(measured: &[Measurement], shortest: Duration) -> Option<(usize, Line)> {
    let (first, last) = (measured.first()?, measured.last()?);
    let whole = last.at.saturating_sub(first.at);
    let double = |length: &Duration| Some(length.saturating_mul(2));
    let lengths = std::iter::successors(Some(shortest), double).take_while(|length| *length < whole);
    let lengths: Vec<Duration> = lengths.chain((whole >= shortest).then_some(whole)).collect();
    // A window has at least its length: the measurement before its begin belongs to it.
    let before = |length: Duration| {
        let from = last.at.saturating_sub(length);
        measured.partition_point(|one| one.at <= from).saturating_sub(1)
    };
    let now = slope::per_second(measured.get(before(*lengths.first()?)..)?)?;
    if now <= 0.0 {
        return None;
    }
    lengths.iter().rev().find_map(|length| {
        let before = before(*length);
        let line = Line::of(measured.get(before..)?)?;
        (now >= line.per_second * slope::AGREEMENT).then_some((before, line))
    })
}
