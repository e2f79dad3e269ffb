//! Adds the cause to a finding D06: why a running containerd does not serve CRI v1, or why no containerd runs.

use std::fmt;

use super::Case;
use super::versions::numbers;
use crate::cri::Error;
use crate::diagnosis::report::HealthFinding;
use crate::host::{ContainerdFault, InotifyUse};
use crate::report::{Command, Step};

/// The first containerd that serves CRI v1.
const FIRST_WITH_CRI_V1: [u32; 3] = [1, 6, 0];

/// What a cause adds to the finding.
#[derive(Default)]
struct Explanation {
    title: Option<String>,
    evidence: Vec<String>,
    steps: Vec<Step>,
    /// Whether a step shows the state of the unit.
    shows_units: bool,
}

/// Adds the cause to a finding D06, if the node shows a cause. An error of containerd in the journal is the best evidence,
/// then a fault in its configuration, then used-up limits of the node. Returns whether a step shows the state of the unit.
pub(super) fn explain(case: &Case<'_>, error: &Error, found: &mut HealthFinding) -> bool {
    let explanation = match error {
        Error::Unimplemented { .. } => not_served(case),
        Error::Refused { .. } | Error::NoSuchSocket { .. } => not_started(case),
        _ => return false,
    };
    if let Some(title) = explanation.title {
        found.title = title;
    }
    found.evidence.extend(explanation.evidence);
    if !explanation.steps.is_empty() {
        found.steps = explanation.steps;
    }
    explanation.shows_units
}

/// Explains why containerd runs without its CRI plugin.
fn not_served(case: &Case<'_>) -> Explanation {
    let start = &case.evidence.runtime_start;
    let logged_error = case.evidence.journal.as_ref().and_then(|journal| journal.cri_plugin_error.as_ref());
    let fault = start.config.as_ref().and_then(|config| config.fault.as_ref());
    // A fault in a file that the daemon has not read yet is not the cause.
    let fault_that_counts =
        fault.filter(|fault| !start.config_is_newer && !fault.stops_the_daemon() && logged_error.is_none());
    let exhausted = start.inotify.as_ref().filter(|inotify| inotify.is_exhausted());
    let mut explanation = Explanation::default();
    if let Some(words) = logged_error {
        explanation.evidence.push(format!("containerd did not load its CRI plugin: {words}"));
        let is_inotify = words.contains("too many open files");
        explanation.title = Some(if is_inotify {
            "containerd serves no CRI v1: root's inotify instances were used up".to_owned()
        } else if words.contains("invalid plugin config") || words.contains("invalid cri image config") {
            "containerd serves no CRI v1: its CRI plugin refuses its settings".to_owned()
        } else {
            "containerd serves no CRI v1: it did not load its CRI plugin".to_owned()
        });
        if is_inotify {
            explanation.steps.extend(more_instances());
        } else if let Some(place) =
            fault.filter(|fault| !fault.stops_the_daemon()).map(ContainerdFault::place)
        {
            explanation.steps.push(correct(&place));
        } else {
            explanation.steps.push(correct(&"its configuration"));
        }
    } else if let Some(fault) = fault_that_counts {
        let place = fault.place();
        explanation.title = Some(match fault {
            ContainerdFault::Disabled { .. } => {
                "containerd serves no CRI v1: disabled_plugins has its CRI plugin".to_owned()
            }
            _ => "containerd serves no CRI v1: its CRI plugin refuses its settings".to_owned(),
        });
        explanation.evidence.push(format!("likely: {place}: {}", fault.text()));
        explanation.steps.push(correct(&place));
    } else if let Some(inotify) = exhausted {
        explanation.title =
            Some("containerd serves no CRI v1: root's inotify instances are used up".to_owned());
        explanation.steps.extend(more_instances());
        explanation.evidence.push("likely: its CRI plugin needs an inotify instance at its start".to_owned());
        explanation.evidence.push(inotify_use(inotify));
    }
    if logged_error.is_some_and(|words| words.contains("too many open files")) {
        explanation.evidence.extend(start.inotify.as_ref().map(inotify_use));
    }
    if let Some(fault) = fault.filter(|fault| start.config_is_newer || fault.stops_the_daemon()) {
        explanation.evidence.push(format!(
            "{}: {}; the daemon that runs has not read this, so the fault counts at its next start",
            fault.place(),
            fault.text()
        ));
    }
    let version = case.evidence.journal.as_ref().and_then(|journal| journal.containerd_version.as_ref());
    if let Some(version) = version
        && numbers(version).is_some_and(|version| version < FIRST_WITH_CRI_V1)
    {
        explanation.title = Some(format!("containerd {version} serves only an older CRI, not CRI v1"));
        explanation
            .evidence
            .push("containerd serves CRI v1 from 1.6 on; the kubelet uses no older CRI".to_owned());
        explanation.steps = vec![Step::change("upgrade containerd")];
    }
    if explanation.title.is_none() {
        explanation.evidence.push(
            "containerd without its CRI plugin, and containerd before 1.6 or CRI-O before 1.23, which serve only an older \
             CRI, answer so"
                .to_owned(),
        );
        let find =
            "journalctl --no-pager -u containerd | grep -e 'failed to load plugin' -e 'starting containerd'";
        explanation.steps.push(Step::look("what containerd says about it").with(Command::new(find)));
    }
    explanation
}

fn correct(place: &impl fmt::Display) -> Step {
    Step::change(format!("correct {place}, then restart containerd"))
}

/// Explains why nothing listens on the socket: containerd may not have started.
fn not_started(case: &Case<'_>) -> Explanation {
    let start = &case.evidence.runtime_start;
    let logged_error = case.evidence.journal.as_ref().and_then(|journal| journal.config_unread.as_ref());
    let fault = start.config.as_ref().and_then(|config| config.fault.as_ref());
    let fault = fault.filter(|fault| fault.stops_the_daemon());
    if logged_error.is_none() && fault.is_none() {
        return Explanation::default();
    }
    let words = logged_error.map(|words| format!("containerd does not start: {words}"));
    let place = fault.map(|fault| format!("likely: {}: {}", fault.place(), fault.text()));
    let file = match (fault, &start.config) {
        (Some(fault), _) => fault.place().to_string(),
        (None, Some(config)) => config.path.clone(),
        (None, None) => "its configuration".to_owned(),
    };
    Explanation {
        title: Some("nothing listens on the socket: containerd cannot read its configuration".to_owned()),
        evidence: words.into_iter().chain(place).collect(),
        steps: vec![
            Step::change(format!("correct {file}, then start containerd")),
            case.evidence.show_units(&["containerd"]),
        ],
        shows_units: true,
    }
}

/// Describes how many inotify instances root uses.
fn inotify_use(inotify: &InotifyUse) -> String {
    let most = inotify.largest.as_ref().map(|(process, own)| format!("; {process} has {own}"));
    format!("root uses {} of {} inotify instances{}", inotify.used, inotify.limit, most.unwrap_or_default())
}

/// Suggests how to get more inotify instances.
fn more_instances() -> [Step; 2] {
    let raise = Command::new("sysctl -w fs.inotify.max_user_instances=8192");
    let find = Command::new("find /proc/*/fd -lname anon_inode:inotify | cut -d/ -f3 | sort | uniq -c");
    [
        Step::change("raise the limit, then restart containerd").with(raise),
        Step::look("find the processes that use them").with(find),
    ]
}
