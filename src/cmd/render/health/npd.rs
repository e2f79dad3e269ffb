//! `health --npd`: formats a health report as one line for node-problem-detector.

use std::time::Duration;

use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, Verdict};
use crate::diagnosis::rules::row;

/// The longest line that node-problem-detector keeps.
const NPD_BYTES: usize = 80;

/// Formats one line of at most 80 ASCII bytes, which starts with the id of the finding. While the problem lasts, only
/// `hung_for` changes, the age of a hang from the state file.
pub fn npd(report: &HealthReport, hung_for: Option<Duration>) -> String {
    let line = match &report.primary {
        Some(primary) if report.verdict != Verdict::Healthy => {
            let phrase = row(primary.id).screen.words;
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

/// Returns `likely ` for a finding that is only likely. A short run cannot be certain of a hang.
const fn confidence(primary: &HealthFinding) -> &'static str {
    if matches!(primary.confidence, Confidence::Likely) { "likely " } else { "" }
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::rules::catalogue;

    #[test]
    fn every_rule_has_a_short_ascii_phrase_of_its_own() {
        let phrases: Vec<&str> = catalogue().map(|row| row.screen.words).collect();
        for (index, text) in phrases.iter().enumerate() {
            assert!(text.is_ascii() && !text.is_empty() && text.len() <= 24, "{text}");
            assert!(!phrases.iter().skip(index + 1).any(|other| other == text), "{text}");
        }
    }
}
