//! `health --npd`: formats a health report as one line for node-problem-detector.

use std::time::Duration;

use crate::diagnosis::report::{Confidence, HealthFinding, HealthReport, RuleId, Verdict};

/// The longest line that node-problem-detector keeps.
const NPD_BYTES: usize = 80;

/// Formats one line of at most 80 ASCII bytes, which starts with the id of the finding. While the problem lasts, only
/// `hung_for` changes, the age of a hang from the state file.
pub fn npd(report: &HealthReport, hung_for: Option<Duration>) -> String {
    let line = match &report.primary {
        Some(primary) if report.verdict != Verdict::Healthy => {
            let phrase = phrase(primary.id);
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

/// Returns two or three words for the rule, the same in every run.
const fn phrase(id: RuleId) -> &'static str {
    match id {
        RuleId::D00 => "healthy",
        RuleId::D01 => "status hang",
        RuleId::D02 => "list hang",
        RuleId::D03 => "list too large",
        RuleId::D04 => "dead containers",
        RuleId::D05 => "slow status pass",
        RuleId::D06 => "runtime unreachable",
        RuleId::D07 => "runtime silent",
        RuleId::D08 => "storage stall",
        RuleId::D09 => "remote storage stall",
        RuleId::D10 => "shim or runc hang",
        RuleId::D11 => "frozen cgroup",
        RuleId::D12 => "out of memory",
        RuleId::D13 => "cpu starved",
        RuleId::D14 => "limits exhausted",
        RuleId::D15 => "systemd stuck",
        RuleId::D16 => "network not ready",
        RuleId::D17 => "exec probe storm",
        RuleId::D18 => "name reserved",
        RuleId::D19 => "state inconsistent",
        RuleId::D20 => "status fails",
        RuleId::D21 => "runtime recovering",
        RuleId::D22 => "kubelet stale",
        RuleId::D23 => "evented pleg",
        RuleId::D24 => "never relisted",
        RuleId::D25 => "pleg flaps",
        RuleId::D26 => "watchdog restarts",
        RuleId::D27 => "known bad version",
        RuleId::D28 => "hidden stall",
        RuleId::D29 => "list fails",
        RuleId::D30 => "lists slow",
        RuleId::D31 => "runtime not ready",
        RuleId::D32 => "kubelet down",
        RuleId::D33 => "exit lost",
        RuleId::D34 => "disk full",
        RuleId::D35 => "runtime throttled",
        RuleId::D36 => "certificate invalid",
        RuleId::D37 => "kernel wait",
        RuleId::D38 => "left-over shims",
        RuleId::D39 => "many clients",
        RuleId::D40 => "a large daemon",
        RuleId::D41 => "ready and dead",
        RuleId::D42 => "exited but alive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::CATALOGUE;

    #[test]
    fn every_rule_has_a_short_ascii_phrase_of_its_own() {
        let phrases: Vec<&str> = CATALOGUE.iter().map(|row| phrase(row.id)).collect();
        for (index, text) in phrases.iter().enumerate() {
            assert!(text.is_ascii() && !text.is_empty() && text.len() <= 24, "{text}");
            assert!(!phrases.iter().skip(index + 1).any(|other| other == text), "{text}");
        }
    }
}
