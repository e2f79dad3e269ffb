//! Writes the verdict and the culprit in one sentence, with the time at which the node becomes `NotReady` if
//! it is known.

use std::time::Duration;

use crate::clock::Wall;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::report::{HealthFinding, NotChecked, Phase, RuleId, Verdict};
use crate::diagnosis::rules::Case;

/// How long the kubelet tolerates a runtime that is not ready (kubelet.go: `runtimeState`'s threshold).
const NOT_READY_AFTER: Duration = Duration::from_secs(30);

/// The room on a line of 100 columns after `UNHEALTHY  `.
const SENTENCE: usize = 89;

/// Returns the sentence.
pub(super) fn sentence(case: &Case<'_>, verdict: Verdict, primary: Option<&HealthFinding>) -> String {
    let Some(primary) = primary else {
        let skipped = |skipped: &NotChecked| format!("{}: {}", skipped.what, skipped.why);
        let why = why_unknown(case.evidence, skipped);
        return why.map_or_else(|| "not judged".to_owned(), |why| format!("not judged: {why}"));
    };
    let title = &primary.title;
    match verdict {
        Verdict::Unknown if primary.phase == Phase::Connect => title.clone(),
        Verdict::Unknown => {
            let open = why_unknown(case.evidence, |skipped| skipped.what.clone())
                .map(|why| format!("; not judged: {why}"));
            format!("{title}{}", open.unwrap_or_default())
        }
        Verdict::Degraded if case.estimate.hung_calls > 0 && case.estimate_is_known() => {
            format!("{title}: this node stays Ready")
        }
        Verdict::Healthy | Verdict::Degraded => title.clone(),
        Verdict::Unhealthy => {
            if !case.estimate_is_known() && !case.evidence.kubelet_is_over() {
                return title.clone();
            }
            let fate = fate(case, primary);
            let fits = |text: &String| text.chars().count() <= SENTENCE;
            let ways = ["this node ", "node "].map(|node| format!("{title}: {node}{fate}"));
            // The shorter version omits words that the reader can add.
            let bare = fate.trim_start_matches("goes ").trim_start_matches("is ");
            ways.into_iter().find(fits).unwrap_or_else(|| format!("{title}: {bare}"))
        }
    }
}

/// Returns why the verdict is unknown.
fn why_unknown(evidence: &Evidence, skipped: impl Fn(&NotChecked) -> String) -> Option<String> {
    let bad = evidence.bad_input.first().cloned();
    let unread = || evidence.runtime.unread_lists().next().map(ToString::to_string);
    let ended_early = || evidence.ended_early.clone();
    let first = || evidence.not_checked.first().map(skipped);
    bad.or_else(unread).or_else(ended_early).or_else(first)
}

/// Describes what happens to the node, and when.
fn fate(case: &Case<'_>, primary: &HealthFinding) -> String {
    let evidence = case.evidence;
    if evidence.kubelet_is_over() {
        return "is NotReady".to_owned();
    }
    let threshold = evidence.settings.threshold.value;
    let kubelet = &evidence.kubelet;
    match primary.id {
        RuleId::D31 => {
            return format!("goes NotReady by {}", clock_time(evidence.taken_at.plus(NOT_READY_AFTER)));
        }
        RuleId::D32 => return "goes NotReady".to_owned(),
        _ => {}
    }
    let last =
        kubelet.latest().and_then(|reading| reading.metrics.last_seen).filter(|_| !evidence.relists_seldom());
    if let Some(last) = last.and_then(|last| Duration::try_from_secs_f64(last).ok()) {
        let at = Wall::from_nanos(0).plus(last).plus(threshold);
        return format!("goes NotReady at {}", clock_time(at));
    }
    // Nobody knows when the kubelet began to wait; the latest possible time is now.
    let lasts = case.estimate.peak_age.map_or(threshold, |peak| peak.max(threshold));
    format!("goes NotReady by {}", clock_time(evidence.taken_at.plus(lasts)))
}

/// `14:03`, in UTC as everything else
fn clock_time(at: Wall) -> String {
    let text = at.to_string();
    text.get(11..16).unwrap_or(&text).to_owned()
}
