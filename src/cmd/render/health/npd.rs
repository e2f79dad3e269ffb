//! `health --npd`: formats a health report as one line for node-problem-detector.

use std::time::Duration;

use super::most_important;
use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, Verdict};
use crate::diagnosis::rules::row;

/// The longest line that node-problem-detector keeps.
const NPD_BYTES: usize = 80;

/// Formats one line of at most 80 ASCII bytes, which starts with the id of the finding. It has the word *healthy* only if the
/// verdict is healthy and everything that may change it was looked at. While the problem lasts, only `hung_for` changes, the age
/// of a hang from the state file.
pub fn npd(report: &HealthReport, hung_for: Option<Duration>) -> String {
    let line = match (&report.primary, report.verdict) {
        (_, Verdict::Healthy) => match most_important(&report.not_checked) {
            Some((what, true)) => format!("D00 nothing found; not looked at: {what}"),
            Some((_, false)) | None => "D00 healthy".to_owned(),
        },
        (Some(primary), verdict) => about(primary, verdict, hung_for),
        (None, _) => "D00 unknown: not judged".to_owned(),
    };
    line.chars()
        .map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' })
        .take(NPD_BYTES)
        .collect()
}

/// Names the finding, the verdict if the node stays Ready or is not judged, and the pod; the call only if it fits.
fn about(primary: &HealthFinding, verdict: Verdict, hung_for: Option<Duration>) -> String {
    let age = hung_for.map_or_else(String::new, still_after);
    let verdict = match verdict {
        Verdict::Degraded => "degraded, PLEG works: ",
        Verdict::Unknown => "unknown: ",
        Verdict::Healthy | Verdict::Unhealthy => "",
    };
    let phrase = row(primary.id).words;
    let mut line = format!("{} {age}{verdict}{}{phrase}", primary.id, confidence(primary));
    if let Some(pod) = &primary.pod {
        let container = primary.container.as_ref().map(|container| format!("/{}", container.name));
        line.extend([" ".to_owned(), pod.to_string(), container.unwrap_or_default()]);
    }
    let rpc = primary.rpc.as_ref().map(|rpc| format!(" rpc={rpc}"));
    line.extend(rpc.filter(|rpc| line.len() + rpc.len() <= NPD_BYTES));
    line
}

fn still_after(age: Duration) -> String {
    match age.as_secs() {
        0 => String::new(),
        seconds @ 1..120 => format!("still after {seconds}s: "),
        seconds => format!("still after {}m: ", seconds / 60),
    }
}

/// Says that a finding is not certain. A short run cannot be certain of a hang.
const fn confidence(primary: &HealthFinding) -> &'static str {
    match primary.confidence {
        Confidence::Certain => "",
        Confidence::Likely => "likely ",
        Confidence::Possible => "possible ",
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::rules::catalogue;

    #[test]
    fn every_rule_has_a_short_ascii_phrase_of_its_own() {
        let phrases: Vec<&str> = catalogue().map(|row| row.words).collect();
        for (index, text) in phrases.iter().enumerate() {
            assert!(text.is_ascii() && !text.is_empty() && text.len() <= 24, "{text}");
            assert!(!phrases.iter().skip(index + 1).any(|other| other == text), "{text}");
        }
    }
}
