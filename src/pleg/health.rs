//! The kubelet's health check of PLEG, with the kubelet's exact messages.

use std::time::Duration;

use crate::clock::Mono;
use crate::kubelet::GoDuration;

/// The reason why PLEG is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// No list call has succeeded yet.
    #[error("pleg has yet to be successful")]
    NeverSuccessful,
    /// The last successful list calls were too long ago.
    #[error("pleg was last seen active {} ago; threshold is {}", GoDuration(*.elapsed), GoDuration(*.threshold))]
    TooOld {
        /// The time since the start of the last relist whose list calls succeeded.
        elapsed: Duration,
        /// The largest age that counts as healthy.
        threshold: Duration,
    },
}

/// Runs the kubelet's health check `PLEG`. `last_list` is the start of the last relist whose two list calls
/// succeeded.
pub fn check(last_list: Option<Mono>, now: Mono, threshold: Duration) -> Result<(), Unhealthy> {
    let elapsed = now.since(last_list.ok_or(Unhealthy::NeverSuccessful)?);
    if elapsed > threshold {
        return Err(Unhealthy::TooOld { elapsed, threshold });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::timing::THRESHOLD;

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
    fn a_pleg_without_a_successful_list_is_unhealthy() {
        let error = check(None, Mono::at(Duration::from_secs(600)), THRESHOLD).unwrap_err();
        assert_eq!(error.to_string(), "pleg has yet to be successful");
    }
}
