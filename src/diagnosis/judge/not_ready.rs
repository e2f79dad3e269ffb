//! Computes when the node becomes `NotReady`, or since when it has been `NotReady`.

use std::time::Duration;

use crate::clock::Wall;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::report::HealthReport;
use crate::diagnosis::report::{Confidence, EstimateReport, HealthFinding, RuleId, Verdict};
use crate::diagnosis::rules::{Case, Impact, row};

/// The age of the last good Status from which on the kubelet reports that the runtime is down (kubelet.go:
/// `maxWaitForContainerRuntime`).
const STATUS_THRESHOLD: Duration = Duration::from_secs(30);

/// The time after which the node controller gives up a node whose kubelet does not report: 50 s from 1.32 on, 40 s before
/// (kube-controller-manager: `--node-monitor-grace-period`), and the 5 s between two of its looks
/// (`--node-monitor-period`).
const KUBELET_GRACE: Duration = Duration::from_secs(55);

/// The time for which the kubelet's last message that it does not work counts. It logs one at least every five seconds.
const MESSAGE_VALID: Duration = Duration::from_secs(30);

/// When the node becomes or became `NotReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// At this time or earlier; it is not known whether it is `NotReady` already.
    AtLatest(Wall),
    /// Since this time, according to the node's condition or the kubelet.
    Since(Wall),
}

impl NotReady {
    /// Returns the time if the verdict is that the node becomes or is `NotReady`, and the time is known.
    pub(super) fn of(case: &Case<'_>, verdict: Verdict, findings: &[HealthFinding]) -> Option<Self> {
        let is_known = case.estimate_is_known() || case.evidence.kubelet_is_over();
        let primary = findings.first().filter(|_| verdict == Verdict::Unhealthy && is_known)?;
        // The node stays Ready, which is the trouble with it.
        if row(primary.id).impact == Impact::StaysReady {
            return None;
        }
        let since = since(case.evidence).map(Self::Since);
        since.or_else(|| Some(Self::AtLatest(latest(case.evidence, primary.id, findings))))
    }

    /// Formats the time with its zone and its distance: `NotReady at the latest at 21:05:10 UTC (in 2m50s)`.
    pub fn text(self, now: Wall) -> String {
        match self {
            Self::AtLatest(at) => {
                format!("NotReady at the latest at {} ({})", at.time_of_day(now), distance(now, at))
            }
            Self::Since(at) => format!("NotReady since {}", at.time_of_day(now)),
        }
    }

    /// Returns the summary of a report whose most important finding has this title.
    pub fn summary(self, title: &str, now: Wall) -> String {
        format!("{title}: {}", self.text(now))
    }

    /// Returns the time at which the node becomes `NotReady`, at the latest.
    const fn at(self) -> Option<Wall> {
        if let Self::AtLatest(at) = self { Some(at) } else { None }
    }

    /// Returns the time since which the node has been `NotReady`.
    const fn since(self) -> Option<Wall> {
        if let Self::Since(at) = self { Some(at) } else { None }
    }
}

impl EstimateReport {
    /// Returns the estimate with this time.
    #[must_use]
    pub(super) fn with_not_ready(self, not_ready: Option<NotReady>) -> Self {
        Self {
            not_ready_at: not_ready.and_then(NotReady::at),
            not_ready_since: not_ready.and_then(NotReady::since),
            ..self
        }
    }

    /// Returns when the node becomes or became `NotReady`.
    pub fn not_ready(&self) -> Option<NotReady> {
        let since = self.not_ready_since.map(NotReady::Since);
        since.or_else(|| self.not_ready_at.map(NotReady::AtLatest))
    }
}

impl HealthReport {
    /// Returns when the node becomes or became `NotReady`.
    pub fn not_ready(&self) -> Option<NotReady> {
        self.estimate.as_ref()?.not_ready()
    }

    /// Replaces the time of `NotReady` in the estimate and in the summary, which is written as it reads at `now`.
    pub fn set_not_ready(&mut self, not_ready: NotReady, now: Wall) {
        self.estimate = self.estimate.take().map(|estimate| estimate.with_not_ready(Some(not_ready)));
        if let Some(primary) = &self.primary {
            self.summary = not_ready.summary(&primary.title, now);
        }
    }

    /// Keeps a time that an earlier report on the same hang predicted, if it is the earlier of the two.
    pub fn keep_prediction(&mut self, earlier: Wall) {
        if self.not_ready().and_then(NotReady::at).is_some_and(|at| earlier < at) {
            let now =
                self.taken_at.plus(Duration::try_from_secs_f64(self.duration_seconds).unwrap_or_default());
            self.set_not_ready(NotReady::AtLatest(earlier), now);
        }
    }
}

/// Returns the longest time from the start of the kubelet's last relist to the moment at which the node is `NotReady`: PLEG
/// is unhealthy from its threshold on, and the next update of the node's status reports that.
pub const fn after_last_relist(threshold: Duration, status_period: Duration) -> Duration {
    threshold.saturating_add(status_period)
}

/// Returns since when the node has been `NotReady`, according to the kubelet: its message that the node became not ready,
/// else the age of its last relist, by its metrics or by its messages.
fn since(evidence: &Evidence) -> Option<Wall> {
    let message = || {
        let journal = evidence.journal.as_ref()?;
        unix(journal.not_ready_since?).filter(|_| is_recent(evidence, journal.last_not_ready))
    };
    let by_age = || {
        let over = last_relist(evidence)?.plus(evidence.settings.threshold.value);
        Some(over).filter(|over| *over <= evidence.taken_at.plus(evidence.took))
    };
    message().or_else(by_age)
}

/// Returns the time at which the kubelet, or without one the node controller, has reported the node as `NotReady`, at the
/// latest.
fn latest(evidence: &Evidence, primary: RuleId, findings: &[HealthFinding]) -> Wall {
    let (runtime, settings) = (&evidence.runtime, &evidence.settings);
    if row(primary).impact == Impact::NoKubelet {
        let since = evidence.journal.as_ref().and_then(|journal| journal.kubelet_runs.none_works_since());
        return since.unwrap_or(evidence.taken_at).min(evidence.taken_at).plus(KUBELET_GRACE);
    }
    let begun = begun(evidence);
    if runtime.both_versions_silent().is_some() {
        // The update of the node's status calls Version, and waits for its time-out before it reports anything
        // (nodestatus/setters.go: `VersionInfo`).
        let timeout = settings.request_timeout.value;
        let too_early = if timeout < STATUS_THRESHOLD { STATUS_THRESHOLD } else { Duration::ZERO };
        return begun.plus(settings.status_period + timeout + too_early);
    }
    let last = last_relist(evidence).unwrap_or(begun);
    let by_relist = last.plus(after_last_relist(settings.threshold.value, settings.status_period));
    let is_status = |found: &HealthFinding| {
        row(found.id).impact == Impact::NoRuntime && found.confidence != Confidence::Possible
    };
    if runtime.is_reached() && !findings.iter().any(is_status) {
        return by_relist;
    }
    // Version or Status fails. That may have begun later than a hang.
    by_relist.min(evidence.taken_at.plus(STATUS_THRESHOLD + settings.status_period))
}

/// Returns a time at which the hang had begun: the start of the oldest call without an answer.
fn begun(evidence: &Evidence) -> Wall {
    let runtime = &evidence.runtime;
    let lists = runtime.hung_lists().into_iter().map(|(_, waited)| waited);
    let statuses = runtime.hung().map(|record| record.duration);
    let versions = runtime.both_versions_silent().into_iter().map(|(first, second)| first.max(second));
    let longest = lists.chain(statuses).chain(versions).max().unwrap_or_default();
    evidence.taken_at.plus(evidence.took).minus(longest).min(evidence.taken_at)
}

/// Returns the start of the kubelet's last relist, by its metrics or by its messages in the journal.
fn last_relist(evidence: &Evidence) -> Option<Wall> {
    if evidence.relists_seldom() {
        return None;
    }
    // After a reading from before the hang, the kubelet may have relisted again.
    let is_valid = |at: Wall| at >= begun(evidence) || evidence.kubelet_is_over();
    let reading = evidence.kubelet.latest().filter(|reading| is_valid(reading.at));
    if let Some(last) = reading.and_then(|reading| reading.metrics.last_seen).and_then(unix) {
        return Some(last);
    }
    let (logged, age) = evidence.journal.as_ref()?.last_pleg_message?;
    let age = Duration::try_from_secs_f64(age).ok()?;
    unix(logged).filter(|_| is_recent(evidence, Some(logged))).map(|logged| logged.minus(age))
}

/// Whether a message of the kubelet, at this time in seconds since the epoch, still counts.
pub(in crate::diagnosis) fn is_recent(evidence: &Evidence, logged: Option<f64>) -> bool {
    is_at_most(MESSAGE_VALID, evidence, logged)
}

/// Whether a message, at this time in seconds since the epoch, is at most so old.
pub(in crate::diagnosis) fn is_at_most(age: Duration, evidence: &Evidence, logged: Option<f64>) -> bool {
    let logged = logged.and_then(unix);
    logged.is_some_and(|logged| evidence.taken_at.duration_since(logged) <= age)
}

/// Converts a time in seconds since the epoch.
fn unix(seconds: f64) -> Option<Wall> {
    Duration::try_from_secs_f64(seconds).ok().map(|since| Wall::from_nanos(0).plus(since))
}

/// Formats the distance of a time: `in 2m50s`, `45s ago`.
fn distance(now: Wall, at: Wall) -> String {
    let seconds = at.duration_since(now).max(now.duration_since(at)).as_secs();
    let length =
        if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) };
    if at < now { format!("{length} ago") } else { format!("in {length}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Wall {
        Wall::from_nanos(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_predicted_time_has_its_zone_and_its_distance_also_when_it_is_over() {
        let predicted = NotReady::AtLatest(at(1_700_000_170));
        for (now, distance) in
            [(0, "in 2m50s"), (140, "in 30s"), (170, "in 0s"), (193, "23s ago"), (900, "12m10s ago")]
        {
            let text = predicted.text(at(1_700_000_000 + now));
            assert_eq!(text, format!("NotReady at the latest at 22:16:10 UTC ({distance})"));
        }
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
