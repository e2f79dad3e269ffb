//! [`Seconds`]: a duration that is a number of seconds in JSON. Up to 104 days it is exact to the nanosecond.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration, or a difference of two clocks, which may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds {
    nanos: i64,
}

impl Seconds {
    /// Creates a value from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// Converts into a duration; zero if the value is negative.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }

    /// Converts into a number of seconds.
    #[expect(clippy::cast_precision_loss, reason = "a double holds 104 days in whole nanoseconds")]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let nanos = (f64::deserialize(deserializer)? * 1e9).round();
        // A longer duration does not fit into 64 bits of nanoseconds.
        if nanos.is_finite() && nanos.abs() < 9e18 {
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked above")]
            let nanos = nanos as i64;
            return Ok(Self { nanos });
        }
        Err(serde::de::Error::custom("a number of seconds is out of range"))
    }
}

#[cfg(feature = "testing")]
impl schemars::JsonSchema for Seconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_nanoseconds_in_json() {
        for nanos in [0, 1, -1, 999_999_999, 1_234_567_890_123, -500_000_000] {
            let text = serde_json::to_string(&Seconds::from_nanos(nanos)).unwrap();
            assert_eq!(serde_json::from_str::<Seconds>(&text).unwrap(), Seconds::from_nanos(nanos), "{text}");
        }
    }

    #[test]
    fn an_invalid_number_of_seconds_is_rejected() {
        for text in ["1e300", "-1e300", "null", "\"1s\""] {
            assert!(serde_json::from_str::<Seconds>(text).is_err(), "{text}");
        }
    }
}
