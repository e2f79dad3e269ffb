//! What all JSON of plegctl has in common: the two keys in front, how a duration is written, how a pod and a call are.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::pods::Pod;
use crate::cri::Outcome;

/// Version of every document that this program writes.
pub const API_VERSION: &str = "plegctl/v1";

/// A body with the two keys in front. The body brings `kind` itself, by `#[serde(tag = "kind")]`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, T> {
    api_version: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// `body` as a document, ready for any serializer.
pub const fn document<T: Serialize>(body: &T) -> Document<'_, T> {
    Document { api_version: API_VERSION, body }
}

/// A duration, or a difference of two clocks, that is a number of seconds in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds {
    nanos: i64,
}

impl Seconds {
    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// As a duration; zero if it is negative.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }

    /// As a number.
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
        // Text and back is exact to the nanosecond only while a double is; beyond, a duration is nonsense anyway.
        if nanos.is_finite() && nanos.abs() < 9e18 {
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked above")]
            let nanos = nanos as i64;
            return Ok(Self { nanos });
        }
        Err(serde::de::Error::custom("a number of seconds is out of range"))
    }
}

/// Which pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// Its UID; empty for containers without a UID label.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl From<&Pod<'_, '_>> for PodRef {
    fn from(pod: &Pod<'_, '_>) -> Self {
        Self { uid: pod.uid.to_owned(), namespace: pod.namespace.to_owned(), name: pod.name.to_owned() }
    }
}

/// A call that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// Its name in the CRI.
    pub rpc: String,
    /// The container or sandbox asked about; absent for a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The pod it was made for; absent for the lists of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// Bytes received.
    pub response_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// gRPC status code, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Which runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeRef {
    /// Where it was dialled.
    pub endpoint: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Version of the API it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_survive_json_to_the_nanosecond() {
        for nanos in [0, 1, -1, 999_999_999, 1_234_567_890_123, -500_000_000] {
            let text = serde_json::to_string(&Seconds::from_nanos(nanos)).unwrap();
            assert_eq!(serde_json::from_str::<Seconds>(&text).unwrap(), Seconds::from_nanos(nanos), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_of_seconds_is_refused() {
        for text in ["1e300", "-1e300", "null", "\"1s\""] {
            assert!(serde_json::from_str::<Seconds>(text).is_err(), "{text}");
        }
    }
}
