//! D16: the network plugin is slow or not ready.

use super::failing_pods;
use super::prelude::*;
use super::runtime_state::{condition, fact_of};
use crate::cri::RuntimeCondition;

/// Returns the condition of Status which says that the network is not ready.
fn network_not_ready(evidence: &Evidence) -> Option<&RuntimeCondition> {
    condition(evidence, "NetworkReady").filter(|ready| !ready.holds)
}

/// Whether anything shows a problem of the network, so that D16 applies.
pub(in crate::diagnosis) fn has_network_problem(evidence: &Evidence) -> bool {
    network_not_ready(evidence).is_some()
        || !overdue_plugins(evidence).is_empty()
        || failing_pods::any(evidence, FailureCause::Network)
}

/// Applies D16. The network makes the node `NotReady`, but does not affect PLEG.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let mut signs = Vec::new();
    let mut confidence = Confidence::Possible;
    let mut title = FactKind::NetworkPluginSlow;
    let (mut about, mut pid) = (None, None);
    let not_ready = network_not_ready(evidence);
    if let Some(condition) = not_ready {
        confidence = Confidence::Certain;
        title = FactKind::NetworkNotReady;
        signs.push(fact_of(condition));
    }
    for plugin in overdue_plugins(evidence) {
        let id = evidence.node().and_then(|host| host.overdue_ids.get(&plugin.pid));
        let (process, age) = (ProcessRef::from(plugin), plugin.age.into());
        let sandbox = id.map(|id| evidence.names.item(id));
        if plugin.age >= limits::CNI_PROCESS_STUCK && confidence == Confidence::Possible {
            confidence = Confidence::Likely;
            title = FactKind::NetworkPluginHangs { process: process.clone(), sandbox: sandbox.clone() };
            pid = Some(plugin.pid);
        } else if signs.is_empty() {
            let (process, sandbox) = (process.clone(), sandbox.clone());
            title = FactKind::NetworkPluginUnfinished { process, sandbox, age };
            pid = Some(plugin.pid);
        }
        signs.push(FactKind::NetworkPluginAge { process, sandbox, age });
        about = about.or_else(|| id.cloned());
    }
    if signs.is_empty() {
        return None;
    }
    let found = finding(RuleId::NetworkNotReady, Severity::Warning, confidence, title);
    let mut found = case.about(found, about.as_deref());
    found.pid = pid;
    if not_ready.is_some() {
        found.rpc = Some("Status".to_owned());
    }
    found.add_facts(signs);
    found.add_fact(FactKind::PodsCannotStartOrStop);
    found.steps = evidence.steps("networkNotReady", &[]);
    Some(found)
}

/// Returns the overdue network plugins.
fn overdue_plugins(evidence: &Evidence) -> Vec<&Process> {
    let Some(host) = evidence.node() else { return Vec::new() };
    let overdue = overdue_processes::find(evidence, host.latest());
    overdue.filter(|process| process.role == Role::Other).collect()
}
