//! The only module that reads the system's clocks. All other modules receive a [`Clock`], so that tests can use a
//! [`ManualClock`] and never sleep.
//!
//! There are two kinds of time: [`Mono`] measures durations, and [`Wall`] is a point in time. They have different
//! types, so that nobody mixes them.
//!
//! ```
//! use std::time::Duration;
//!
//! use plegctl_base::clock::{Clock, ManualClock};
//!
//! let clock = ManualClock::default();
//! let began = clock.mono();
//! clock.advance(Duration::from_secs(3));
//! assert_eq!(clock.mono().since(began), Duration::from_secs(3));
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The names of the months in logs and in HTTP headers.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A reading of the monotonic clock. Only differences have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(Duration);

impl Mono {
    /// Returns the reading `since_origin` after the clock's origin.
    pub const fn at(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the reading `by` later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

/// A point in time, in nanoseconds since the Unix epoch, as in the CRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(i64);

impl Wall {
    /// Returns the time `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Converts a CRI timestamp; `None` for zero, negative values and Go's zero time, which mean that the time is not
    /// known.
    pub fn known(nanos: i64) -> Option<Self> {
        (nanos > 0).then_some(Self(nanos))
    }

    /// Returns the seconds from `earlier` to `self`; negative if `earlier` is later.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        nanos_as_seconds(i128::from(self.0) - i128::from(earlier.0))
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// Returns the time `by` later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// Returns the time `by` earlier.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// Returns the time in RFC 3339, in whole seconds of UTC, such as `2026-11-21T02:00:00Z`.
    pub fn whole_seconds(self) -> String {
        let text = self.to_string();
        format!("{}Z", text.get(..19).unwrap_or_default())
    }

    /// Returns the time in whole seconds of UTC without punctuation, such as `20261121T020000Z`: part of a file name.
    pub fn compact(self) -> String {
        self.whole_seconds().replace(['-', ':'], "")
    }

    /// Returns the time of day in UTC, such as `21:05:10 UTC`; with its date if it is more than a day away from `now`.
    pub fn time_of_day(self, now: Self) -> String {
        const DAY: f64 = 86_400.0;
        let text = self.to_string();
        let first = if now.seconds_since(self).abs() < DAY { 11 } else { 0 };
        format!("{} UTC", text.get(first..19).unwrap_or(&text).replace('T', " "))
    }

    /// Converts into the type of the standard library.
    pub fn system_time(self) -> SystemTime {
        let distance = Duration::from_nanos(self.0.unsigned_abs());
        let moment =
            if self.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        moment.unwrap_or(UNIX_EPOCH)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a clock difference in seconds needs no more than 53 bits")]
fn nanos_as_seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}

/// RFC 3339, UTC, nine sub-second digits.
impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // humantime cannot format times before 1970, which do not occur in practice.
        let moment = if self.0 < 0 { UNIX_EPOCH } else { self.system_time() };
        humantime::format_rfc3339_nanos(moment).fmt(f)
    }
}

impl Serialize for Wall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Wall {
    type Err = humantime::TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let nanos =
            humantime::parse_rfc3339(text)?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Ok(Self(i64::try_from(nanos).unwrap_or(i64::MAX)))
    }
}

impl<'de> Deserialize<'de> for Wall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let why = |why| serde::de::Error::custom(format!("`{text}` is not an RFC 3339 time: {why}"));
        text.parse().map_err(why)
    }
}

#[cfg(feature = "testing")]
impl schemars::JsonSchema for Wall {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Wall".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Reads the monotonic clock.
    fn mono(&self) -> Mono;
    /// Reads the wall clock.
    fn wall(&self) -> Wall;
}

/// The system's clocks. The monotonic clock is tokio's, so that a paused test runtime pauses it too.
#[derive(Debug)]
pub struct SystemClock {
    origin: tokio::time::Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic origin is now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the real clock")]
    pub fn start() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the real clock")]
    fn mono(&self) -> Mono {
        Mono(tokio::time::Instant::now().saturating_duration_since(self.origin))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the real clock")]
    fn wall(&self) -> Wall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Wall(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// The system's clocks with a shifted wall clock, for a scenario that starts at a chosen time.
#[derive(Debug)]
pub struct ShiftedClock {
    clock: SystemClock,
    /// The shift in nanoseconds.
    by: i64,
}

impl ShiftedClock {
    /// Creates a clock whose wall clock shows `moment` now.
    pub fn showing(clock: SystemClock, moment: Wall) -> Self {
        let by = moment.nanos().saturating_sub(clock.wall().nanos());
        Self { clock, by }
    }
}

impl Clock for ShiftedClock {
    fn mono(&self) -> Mono {
        self.clock.mono()
    }

    fn wall(&self) -> Wall {
        Wall(self.clock.wall().0.saturating_add(self.by))
    }
}

/// A clock that only moves when a test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    mono_nanos: AtomicU64,
    wall_nanos: AtomicI64,
}

impl ManualClock {
    /// Creates a clock that shows `wall` until it is advanced.
    pub fn at(wall: Wall) -> Self {
        Self { mono_nanos: AtomicU64::new(0), wall_nanos: AtomicI64::new(wall.0) }
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.mono_nanos.fetch_add(nanos, Ordering::SeqCst);
        self.wall_nanos.fetch_add(i64::try_from(nanos).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn mono(&self) -> Mono {
        Mono(Duration::from_nanos(self.mono_nanos.load(Ordering::SeqCst)))
    }

    fn wall(&self) -> Wall {
        Wall(self.wall_nanos.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_after_writing_and_reading_json() {
        let stamp = Wall::from_nanos(1_700_000_000_000_000_001);
        let text = serde_json::to_string(&stamp).unwrap();
        assert_eq!(text, "\"2023-11-14T22:13:20.000000001Z\"");
        assert_eq!(serde_json::from_str::<Wall>(&text).unwrap(), stamp);
    }

    #[test]
    fn compact_time_has_no_punctuation() {
        assert_eq!(Wall::from_nanos(1_700_000_000_999_000_001).compact(), "20231114T221320Z");
        assert_eq!(Wall::from_nanos(1_700_000_000_999_000_001).whole_seconds(), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn zero_negative_and_go_zero_time_are_unknown() {
        assert_eq!(Wall::known(0), None);
        assert_eq!(Wall::known(-1), None);
        assert_eq!(Wall::known(-6_795_364_578_871_345_152), None);
        assert_eq!(Wall::known(7), Some(Wall::from_nanos(7)));
    }

    #[test]
    fn a_clock_that_goes_back_gives_no_negative_duration() {
        assert_eq!(Mono::at(Duration::from_secs(1)).since(Mono::at(Duration::from_secs(2))), Duration::ZERO);
        assert!((Wall::from_nanos(1).seconds_since(Wall::from_nanos(1_000_000_001)) + 1.0).abs() < 1e-12);
    }
}
