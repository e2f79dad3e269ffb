//! Decides from which length on the silence of a call counts as a hang, and how sure that is. The limits depend on how
//! long the run may wait.
//!
//! A slow disk delays status calls by several seconds. These calls do not hang, and a user must not delete a pod because
//! of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits;
use super::report::Confidence;

/// The lengths of silence after which a call counts as hung, for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SilenceLimits {
    /// The silence that makes a hang likely.
    pub likely: Duration,
    /// The silence that makes a hang certain.
    pub certain: Duration,
}

impl Default for SilenceLimits {
    fn default() -> Self {
        Self { likely: limits::SILENT_LIKELY, certain: limits::SILENT_CERTAIN }
    }
}

impl SilenceLimits {
    /// Computes the limits of a run that waits for a call no longer than `patience`. In a short run, a shorter silence
    /// counts as a likely hang; the limit for *certain* does not change.
    ///
    /// `divisor` is 1 except in tests, which use shorter limits.
    pub fn within(patience: Duration, divisor: u32) -> Self {
        let [at_least, likely, certain] =
            [limits::SILENT_AT_LEAST, limits::SILENT_LIKELY, limits::SILENT_CERTAIN]
                .map(|limit| limit.checked_div(divisor).unwrap_or(limit));
        Self { likely: (patience / 2).clamp(at_least, likely), certain }
    }

    /// Returns whether a silence of this length counts as a hang.
    pub fn hangs(&self, waited: Duration) -> bool {
        waited >= self.likely
    }

    /// Returns the confidence in a hang that a silence of this length gives without other evidence.
    pub fn confidence(&self, waited: Duration) -> Confidence {
        match waited {
            _ if waited >= self.certain => Confidence::Certain,
            _ if waited >= self.likely => Confidence::Likely,
            _ => Confidence::Possible,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_becomes_likely_and_then_certain() {
        let limits_of_run = SilenceLimits::default();
        let after = |seconds| limits_of_run.confidence(Duration::from_millis(seconds));
        assert_eq!(after(4_999), Confidence::Possible);
        assert_eq!(after(5_000), Confidence::Likely);
        assert_eq!(after(9_999), Confidence::Likely);
        assert_eq!(after(10_000), Confidence::Certain);
    }

    #[test]
    fn in_a_short_run_only_the_limit_for_likely_is_shorter() {
        let npd = SilenceLimits::within(Duration::from_secs(4), 1);
        assert!(npd.hangs(Duration::from_secs(2)) && !npd.hangs(Duration::from_millis(1999)));
        assert_eq!(npd.confidence(Duration::from_millis(3900)), Confidence::Likely);
        let tiny = SilenceLimits::within(Duration::from_millis(500), 1);
        assert!(
            !tiny.hangs(Duration::from_millis(500)),
            "half a second is no hang, however short the run is"
        );
        assert_eq!(SilenceLimits::within(Duration::from_secs(60), 1), SilenceLimits::default());
    }

    #[test]
    fn the_divisor_divides_every_limit() {
        let limits_of_run = SilenceLimits::within(Duration::from_millis(2400), 5);
        assert_eq!(
            (limits_of_run.likely, limits_of_run.certain),
            (Duration::from_secs(1), Duration::from_secs(2))
        );
        let tiny = SilenceLimits::within(Duration::from_millis(100), 5);
        assert_eq!(tiny.likely, Duration::from_millis(200));
    }
}
