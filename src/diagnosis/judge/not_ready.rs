//! Computes when the node becomes `NotReady`, or since when it has been `NotReady`.

use std::time::Duration;

use crate::clock::Wall;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::limits;
use crate::diagnosis::report::{HealthFinding, Phase, RuleId, Verdict};
use crate::diagnosis::rules::Case;
use crate::diagnosis::words::clock_time;

/// The time after which the kubelet reports a runtime whose Status fails or is not ready (kubelet.go: `runtimeState`'s
/// threshold).
const STATUS_THRESHOLD: Duration = Duration::from_secs(30);

/// The time after which the node controller gives up a node whose kubelet does not report: 50 s from 1.32 on, 40 s before
/// (kube-controller-manager: `--node-monitor-grace-period`).
const KUBELET_GRACE: Duration = Duration::from_secs(50);

/// The time for which the kubelet's last message about PLEG counts. It logs one at least every five seconds.
const MESSAGE_VALID: Duration = Duration::from_secs(30);

/// When the node becomes or became `NotReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReady {
    /// At this time in the future.
    At(Wall),
    /// At this time in the future or earlier: it is not known since when the kubelet waits.
    AtLatest(Wall),
    /// Since this time.
    Since(Wall),
}

impl NotReady {
    /// Returns the time if the verdict is that the node becomes or is `NotReady`, and the time is known.
    pub(super) fn of(case: &Case<'_>, verdict: Verdict, primary: Option<&HealthFinding>) -> Option<Self> {
        let evidence = case.evidence;
        let is_known = case.estimate_is_known() || evidence.kubelet_is_over();
        let primary = primary.filter(|_| verdict == Verdict::Unhealthy && is_known)?;
        // The node stays Ready, which is the trouble with it.
        if primary.id == RuleId::D41 {
            return None;
        }
        let now = evidence.taken_at.plus(evidence.took);
        let threshold = evidence.settings.threshold.value;
        let by_age = last_relist(evidence).map(|last| last.plus(threshold));
        if let Some(since) = by_age.filter(|at| *at <= now) {
            return Some(Self::Since(since));
        }
        let (begun, lasts) = match (primary.id, primary.phase) {
            (RuleId::D31, _) | (_, Phase::Connect) => (evidence.taken_at, STATUS_THRESHOLD),
            (RuleId::D32, _) => (evidence.taken_at, KUBELET_GRACE),
            _ if by_age.is_some() => return by_age.map(Self::At),
            // The kubelet waits at least as long as the oldest call that hangs.
            _ => {
                let lists = evidence.runtime.hung_lists();
                let waited = lists.iter().map(|(_, waited)| *waited);
                let statuses = evidence.runtime.hung().map(|record| record.duration);
                let longest = waited.chain(statuses).max().unwrap_or_default();
                (now.minus(longest).min(evidence.taken_at), threshold)
            }
        };
        Some(Self::AtLatest(begun.plus(lasts).max(now)))
    }

    /// Formats the time with its zone, and with its distance if it is in the future: `NotReady in 2m50s (21:05:10 UTC)`.
    pub(super) fn text(self, now: Wall) -> String {
        match self {
            Self::At(at) => format!("NotReady in {} ({})", distance(now, at), clock_time(now, at)),
            Self::AtLatest(at) => {
                format!("NotReady already, or within {} ({})", distance(now, at), clock_time(now, at))
            }
            Self::Since(at) => format!("NotReady since {}", clock_time(now, at)),
        }
    }

    /// Returns the time at which the node becomes `NotReady`, at the latest.
    pub(super) const fn at(self) -> Option<Wall> {
        match self {
            Self::At(at) | Self::AtLatest(at) => Some(at),
            Self::Since(_) => None,
        }
    }

    /// Returns the time since which the node has been `NotReady`.
    pub(super) const fn since(self) -> Option<Wall> {
        if let Self::Since(at) = self { Some(at) } else { None }
    }
}

/// Returns the start of the kubelet's last relist, by its metrics or by its messages in the journal.
fn last_relist(evidence: &Evidence) -> Option<Wall> {
    if evidence.relists_seldom() {
        return None;
    }
    let is_valid = |age: Duration| age <= limits::READING_OLD || evidence.kubelet_is_over();
    let reading = evidence.kubelet.latest();
    let reading = reading.filter(|reading| is_valid(evidence.taken_at.duration_since(reading.at)));
    let unix =
        |seconds| Duration::try_from_secs_f64(seconds).ok().map(|since| Wall::from_nanos(0).plus(since));
    if let Some(last) = reading.and_then(|reading| reading.metrics.last_seen).and_then(unix) {
        return Some(last);
    }
    let (logged, age) = evidence.journal.as_ref()?.last_pleg_message?;
    let logged = unix(logged)?;
    let is_recent = evidence.taken_at.duration_since(logged) <= MESSAGE_VALID;
    Some(logged.minus(Duration::try_from_secs_f64(age).ok()?)).filter(|_| is_recent)
}

/// Formats the time from `now` to `at`: `2m50s`, `45s`.
fn distance(now: Wall, at: Wall) -> String {
    let seconds = at.duration_since(now).as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Wall {
        Wall::from_nanos(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_time_has_its_zone_and_its_distance() {
        let now = at(1_700_000_000);
        let later = at(1_700_000_170);
        assert_eq!(NotReady::At(later).text(now), "NotReady in 2m50s (22:16:10 UTC)");
        assert_eq!(NotReady::AtLatest(later).text(now), "NotReady already, or within 2m50s (22:16:10 UTC)");
        assert_eq!(NotReady::At(at(1_700_000_030)).text(now), "NotReady in 30s (22:13:50 UTC)");
    }

    #[test]
    fn a_time_in_the_past_does_not_move_and_has_its_date_after_a_day() {
        let since = NotReady::Since(at(1_700_000_000));
        for now in [1_700_000_001, 1_700_000_900] {
            assert_eq!(since.text(at(now)), "NotReady since 22:13:20 UTC");
        }
        assert_eq!(since.text(at(1_700_090_000)), "NotReady since 2023-11-14 22:13:20 UTC");
    }
}
