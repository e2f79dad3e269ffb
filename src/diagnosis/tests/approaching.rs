//! Limits that will be reached (D46).

use std::time::Duration;

use super::scripted::{Scripted, inputs};
use crate::clock::{Clock, SystemClock, Wall};
use crate::diagnosis::forecast::{LimitForecast, LimitKind};
use crate::diagnosis::report::{Confidence, HealthReport, RuleId, Severity, Verdict};

/// A forecast for a runtime whose threads are used up in so many hours.
fn threads(hours: u64, confidence: Confidence) -> LimitForecast {
    let left = Duration::from_secs(hours * 3600 + 60);
    LimitForecast::of_threads(SystemClock::start().wall(), left, confidence)
}

async fn judged(forecasts: Vec<LimitForecast>) -> HealthReport {
    let mut inputs = inputs(Scripted::with_pods(2));
    inputs.forecasts = forecasts;
    super::travels::judge(&crate::diagnosis::gather(&inputs, &|_| ()).await)
}

#[tokio::test(start_paused = true)]
async fn likely_limit_of_the_next_day_needs_a_person() {
    let report = judged(vec![threads(18, Confidence::Likely)]).await;
    let found = report.primary.unwrap();
    assert_eq!(
        (report.verdict, found.id, found.severity),
        (Verdict::Degraded, RuleId::ApproachingLimit, Severity::Warning)
    );
    let title = found.title.clone();
    assert!(
        title.starts_with("containerd[812] has 6,312 of 10,000 threads, +3.4 a minute since "),
        "{title}"
    );
    assert!(title.ends_with(" UTC: full in about 18h"), "{title}");
    assert!(found.evidence.iter().any(|line| line.contains("measured over 4h")), "{found:#?}");
    assert!(found.steps.iter().any(|step| step.to_string().contains("/proc/812/task")), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn limit_that_is_only_possible_or_days_away_changes_no_verdict() {
    for (hours, confidence) in [(18, Confidence::Possible), (30, Confidence::Likely)] {
        let report = judged(vec![threads(hours, confidence)]).await;
        let found = report.findings.iter().find(|found| found.id == RuleId::ApproachingLimit).unwrap();
        assert_eq!((report.verdict, found.severity), (Verdict::Healthy, Severity::Info), "{hours}");
        assert_eq!(found.confidence, confidence);
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_limit_has_its_words_and_a_step() {
    for limit in LimitKind::ALL {
        let report = judged(vec![LimitForecast { limit, ..threads(1, Confidence::Likely) }]).await;
        let found = report.primary.unwrap();
        assert!(!found.steps.is_empty(), "{limit}");
        assert!(found.evidence.len() == 2 && !found.evidence[1].is_empty(), "{found:#?}");
    }
}

#[test]
fn slow_growth_is_written_for_an_hour_or_a_day() {
    let text = |limit, per_minute: f64, max| {
        let forecast = LimitForecast {
            limit,
            per_minute: per_minute.into(),
            max,
            since: Wall::default(),
            ..threads(1, Confidence::Likely)
        };
        forecast.to_string()
    };
    assert!(
        text(LimitKind::Descriptors, 0.5, 10_000)
            .contains(" of 10,000 descriptors open, +30.0 an hour since ")
    );
    assert!(
        text(LimitKind::NodeTasks, 0.01, 10_000)
            .contains("the node has 6,312 of 10,000 tasks, +14.4 a day since ")
    );
    let list = text(LimitKind::ContainerList, 2048.0, 16 << 20);
    assert!(list.contains("ListContainers has 6.2 KiB of 16.0 MiB, +2.0 KiB a minute since "), "{list}");
}
