//! Writes the line for node-problem-detector.

use std::time::Duration;

use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, RuleId, Verdict};
use crate::diagnosis::rules;

/// The longest line that node-problem-detector keeps.
const NPD_BYTES: usize = 80;

/// Writes one line of at most 80 ASCII bytes: the id first, and nothing that changes from run to run except
/// the age of a remembered hang.
pub fn npd(report: &HealthReport, still: Option<Duration>) -> String {
    let line = match &report.primary {
        Some(primary) if report.verdict != Verdict::Healthy => {
            let phrase = rules::row(primary.id).map_or("unknown", |row| row.phrase);
            let known_for = still.map_or_else(String::new, still_for);
            let mut line = format!("{} {known_for}{}{phrase}", primary.id, degree(primary));
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

fn still_for(age: Duration) -> String {
    match age.as_secs() {
        0 => String::new(),
        seconds @ 1..120 => format!("still after {seconds}s: "),
        seconds => format!("still after {}m: ", seconds / 60),
    }
}

/// Adds the confidence of a silence: a short run cannot be certain.
const fn degree(primary: &HealthFinding) -> &'static str {
    match (primary.id, primary.confidence) {
        (RuleId::D01 | RuleId::D02 | RuleId::D07, Confidence::Likely) => "likely ",
        _ => "",
    }
}
