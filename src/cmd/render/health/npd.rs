//! `health --npd`: formats a health report as one line for node-problem-detector.

use std::time::Duration;

use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, RuleId, Verdict};
use crate::diagnosis::rules;

/// The longest line that node-problem-detector keeps.
const NPD_BYTES: usize = 80;

/// Formats one line of at most 80 ASCII bytes, which starts with the id of the finding. While the problem lasts, only
/// `hung_for` changes, the age of a hang from the state file.
pub fn npd(report: &HealthReport, hung_for: Option<Duration>) -> String {
    let line = match &report.primary {
        Some(primary) if report.verdict != Verdict::Healthy => {
            let phrase = rules::row(primary.id).map_or("unknown", |row| row.phrase);
            let age = hung_for.map_or_else(String::new, still_after);
            let mut line = format!("{} {age}{}{phrase}", primary.id, confidence(primary));
            if let Some(pod) = &primary.pod {
                line.push(' ');
                line.push_str(&pod.to_string());
                if let Some(container) = &primary.container {
                    line.push('/');
                    line.push_str(&container.name);
                }
            }
            if let Some(rpc) = &primary.rpc {
                line.push_str(" rpc=");
                line.push_str(rpc);
            }
            line
        }
        _ if report.verdict == Verdict::Healthy => "D00 healthy".to_owned(),
        _ => "D00 unknown: not judged".to_owned(),
    };
    line.chars()
        .map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' })
        .take(NPD_BYTES)
        .collect()
}

fn still_after(age: Duration) -> String {
    match age.as_secs() {
        0 => String::new(),
        seconds @ 1..120 => format!("still after {seconds}s: "),
        seconds => format!("still after {}m: ", seconds / 60),
    }
}

/// Returns `likely ` for a hang that is only likely, because a short run cannot be certain of it.
const fn confidence(primary: &HealthFinding) -> &'static str {
    match (primary.id, primary.confidence) {
        (RuleId::D01 | RuleId::D02 | RuleId::D07, Confidence::Likely) => "likely ",
        _ => "",
    }
}
