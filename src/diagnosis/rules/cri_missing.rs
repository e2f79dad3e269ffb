//! Adds the cause to a finding D06: why a running containerd does not serve CRI v1, or why no containerd runs.

use super::prelude::*;
use std::fmt;

use super::known_bad_version::numbers;
use crate::host::{ContainerdFault, InotifyUse};

/// The first containerd that serves CRI v1.
const FIRST_WITH_CRI_V1: [u32; 3] = [1, 6, 0];

/// What a cause adds to the finding.
#[derive(Default)]
struct Explanation {
    title: Option<FactKind>,
    facts: Vec<FactKind>,
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
        found.set_title(title);
    }
    found.add_facts(explanation.facts);
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
        explanation.facts.push(FactKind::CriPluginError { error: words.into() });
        let is_inotify = words.contains("too many open files");
        explanation.title = Some(if is_inotify {
            FactKind::InotifyUsedUp { is_now: false }
        } else if words.contains("invalid plugin config") || words.contains("invalid cri image config") {
            FactKind::CriPluginRefusesSettings
        } else {
            FactKind::CriPluginNotLoaded
        });
        if is_inotify {
            explanation.steps.extend(steps_of("inotify", &[]));
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
            ContainerdFault::Disabled { .. } => FactKind::CriPluginDisabled,
            _ => FactKind::CriPluginRefusesSettings,
        });
        explanation.facts.push(likely(fault));
        explanation.steps.push(correct(&place));
    } else if let Some(inotify) = exhausted {
        explanation.title = Some(FactKind::InotifyUsedUp { is_now: true });
        explanation.steps.extend(steps_of("inotify", &[]));
        explanation.facts.push(FactKind::CriPluginNeedsInotify);
        explanation.facts.push(inotify_use(inotify));
    }
    if logged_error.is_some_and(|words| words.contains("too many open files")) {
        explanation.facts.extend(start.inotify.as_ref().map(inotify_use));
    }
    if let Some(fault) = fault.filter(|fault| start.config_is_newer || fault.stops_the_daemon()) {
        let (place, fault) = (fault.place().into(), Quoted(fault.text()));
        explanation.facts.push(FactKind::FaultOfNextStart { place, fault });
    }
    let version = case.evidence.journal.as_ref().and_then(|journal| journal.containerd_version.as_ref());
    if let Some(version) = version
        && numbers(version).is_some_and(|version| version < FIRST_WITH_CRI_V1)
    {
        explanation.title = Some(FactKind::OnlyOlderCri { version: version.into() });
        explanation.facts.push(FactKind::CriV1Since);
        explanation.steps = vec![Step::change("upgrade containerd")];
    }
    if explanation.title.is_none() {
        explanation.facts.push(FactKind::WhoServesNoCriV1);
        explanation.steps.extend(steps_of("startOfContainerd", &[]));
    }
    explanation
}

/// The fault that is likely to be the cause.
fn likely(fault: &ContainerdFault) -> FactKind {
    FactKind::LikelyFault { place: fault.place().into(), fault: Quoted(fault.text()) }
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
    let error = logged_error.map(|words| FactKind::ContainerdStartError { error: words.into() });
    let file = match (fault, &start.config) {
        (Some(fault), _) => Place::word(fault.place()),
        (None, Some(config)) => Place::word(&config.path),
        (None, None) => Place::word("its configuration"),
    };
    let places = [("file", file), ("shown", Place::word("containerd"))];
    Explanation {
        title: Some(FactKind::ConfigurationUnreadable),
        facts: error.into_iter().chain(fault.map(likely)).collect(),
        steps: case.evidence.steps("containerdConfig", &places),
        shows_units: true,
    }
}

/// Describes how many inotify instances root uses.
fn inotify_use(inotify: &InotifyUse) -> FactKind {
    let (most, of_most) = match &inotify.largest {
        Some((name, pid, own)) => (Some(ProcessRef { name: name.clone(), pid: *pid }), *own),
        None => (None, 0),
    };
    FactKind::InotifyInstances { used: inotify.used, limit: inotify.limit, most, of_most }
}
