//! Keeps the time at which a node becomes `NotReady`: for one hang, a later diagnosis never predicts a later time. Its calls
//! have been silent for a shorter time than the hang lasts, because the calls before them reached their time-out.

use crate::capture::{FindingSubject, Prediction};
use crate::diagnosis::HealthReport;
use crate::diagnosis::not_ready::NotReady;
use crate::diagnosis::report::{Confidence, Severity};

/// Returns what a report is about; `None` if its findings are only possible.
pub fn subject(report: &HealthReport) -> Option<FindingSubject> {
    let is_probable = report
        .primary
        .as_ref()
        .filter(|primary| primary.confidence != Confidence::Possible && primary.severity != Severity::Info);
    is_probable.map(|primary| FindingSubject { rule: primary.id.to_string(), ids: primary.ids.clone() })
}

/// Returns the time that a report predicts.
pub fn prediction(report: &HealthReport) -> Option<Prediction> {
    let Some(NotReady::AtLatest(not_ready_at)) = report.not_ready() else { return None };
    Some(Prediction { subject: subject(report)?, not_ready_at })
}

/// Keeps a time that was predicted earlier, if the report is about the same fault.
pub fn keep(report: &mut HealthReport, predicted: Option<&Prediction>) {
    let subject = subject(report);
    if let (Some(predicted), Some(subject)) = (predicted, subject)
        && predicted.subject.may_be_same_fault(&subject)
    {
        report.keep_prediction(predicted.not_ready_at);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Wall;

    fn report(rule: &str, not_ready_at: u64) -> HealthReport {
        let text = r#"{"apiVersion": "plegctl/v1", "kind": "HealthReport", "takenAt": "2023-11-14T22:13:20Z",
            "runtime": {"endpoint": "unix:///x"}, "durationSeconds": 6.0, "verdict": "unhealthy", "phase": "list",
            "findings": [], "probes": [], "abandonedCalls": 1, "notChecked": [],
            "primary": {"id": "RULE", "title": "a call hangs", "severity": "critical", "confidence": "certain",
                "phase": "list"},
            "estimate": {"hungCalls": 1, "changedPods": 0, "requestTimeoutSeconds": 120.0, "thresholdSeconds": 180.0,
                "wouldTrip": true, "flaps": false, "basis": []}}"#;
        let mut report: HealthReport = serde_json::from_str(&text.replace("RULE", rule)).unwrap();
        report.set_not_ready(NotReady::AtLatest(at(not_ready_at)), at(6));
        report
    }

    fn at(second: u64) -> Wall {
        Wall::from_nanos(1_700_000_000_000_000_000).plus(Duration::from_secs(second))
    }

    #[test]
    fn a_later_diagnosis_of_the_same_hang_keeps_the_time_and_one_of_another_fault_does_not() {
        let first = prediction(&report("D02", 190)).unwrap();
        let mut later = report("D02", 310);
        keep(&mut later, Some(&first));
        assert_eq!(later.not_ready(), Some(NotReady::AtLatest(at(190))));
        assert_eq!(later.summary, "a call hangs: NotReady at the latest at 22:16:30 UTC (in 3m04s)");
        let mut other = report("D07", 310);
        keep(&mut other, Some(&first));
        assert_eq!(other.not_ready(), Some(NotReady::AtLatest(at(310))));
    }
}
