//! Decides when a call without an answer is reported: after 5 s, 10 s, 30 s, and then each minute.

use std::time::Duration;

use super::calls::OpenCall;
use crate::clock::Mono;

/// After this time without an answer, an open call counts as silent, and plegctl reports it for the first time.
pub const SILENT_AFTER: Duration = Duration::from_secs(5);

/// The ages of a silent call at which the second to fourth reports are made. After the last of these ages there is one
/// report each minute.
const REPORTS: [Duration; 3] = [Duration::from_secs(10), Duration::from_secs(30), MINUTE];

const MINUTE: Duration = Duration::from_secs(60);

/// Remembers the last report about the open call.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilenceTracker {
    /// The start of the reported call, and the age that its last report named.
    last_report: Option<(Mono, Duration)>,
}

impl SilenceTracker {
    /// Returns the age to report for the open call, if a report is due.
    pub fn due(&mut self, open: Option<&OpenCall>, now: Mono) -> Option<Duration> {
        let started = open?.started;
        let last_age = self.last_report.filter(|(start, _)| *start == started).map(|(_, age)| age);
        let next = last_age.map_or(SILENT_AFTER, next_report);
        let waited = now.since(started);
        if waited < next {
            return None;
        }
        // If several reports are due, only the latest is made.
        let step = std::iter::successors(Some(next), |step| Some(next_report(*step)))
            .take_while(|step| *step <= waited)
            .last()
            .unwrap_or(next);
        self.last_report = Some((started, step));
        Some(step)
    }
}

/// Returns the age of a call at which its next report is due. `last_age` is its age at the last report.
fn next_report(last_age: Duration) -> Duration {
    REPORTS.into_iter().find(|step| *step > last_age).unwrap_or_else(|| last_age.saturating_add(MINUTE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Rpc;

    fn at(seconds: u64) -> Mono {
        Mono::at(Duration::from_secs(seconds))
    }

    fn call(started: u64) -> OpenCall {
        OpenCall { rpc: Rpc::ContainerStatus, id: None, pod: None, started: at(started) }
    }

    #[test]
    fn a_silent_call_is_reported_after_5_10_and_30_seconds_and_each_minute() {
        let (mut silence, open) = (SilenceTracker::default(), call(100));
        let reports: Vec<u64> = (100..400)
            .filter_map(|now| silence.due(Some(&open), at(now)))
            .map(|step| step.as_secs())
            .collect();
        assert_eq!(reports, [5, 10, 30, 60, 120, 180, 240]);
    }

    #[test]
    fn a_new_call_starts_again_and_a_late_check_reports_once() {
        let mut silence = SilenceTracker::default();
        assert_eq!(silence.due(Some(&call(0)), at(47)), Some(Duration::from_secs(30)));
        assert_eq!(silence.due(Some(&call(0)), at(48)), None);
        assert_eq!(silence.due(Some(&call(50)), at(54)), None);
        assert_eq!(silence.due(Some(&call(50)), at(55)), Some(SILENT_AFTER));
        assert_eq!(silence.due(None, at(500)), None);
    }
}
