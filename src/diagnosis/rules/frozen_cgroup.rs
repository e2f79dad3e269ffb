//! D11: a cgroup is frozen.

use super::prelude::*;
use crate::diagnosis::facts::FilePath;
use crate::diagnosis::proc::Freeze;

/// Applies D11. The finding mentions that a cgroup may be frozen on purpose.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let is_in_both = |freeze: &&Freeze| match &host.second {
        None => true,
        Some(_) => host.first.frozen.iter().any(|before| before.path == freeze.path),
    };
    let sample = host.latest();
    let all: Vec<&Freeze> = sample
        .frozen
        .iter()
        .filter(is_in_both)
        .filter(|freeze| case.evidence.concerns_cgroup(freeze))
        .collect();
    // All cgroups below a frozen cgroup are frozen too, so only the outermost cgroup is reported.
    let outermost = all.iter().filter(|freeze| {
        !all.iter()
            .any(|other| freeze.path != other.path && freeze.path.starts_with(&format!("{}/", other.path)))
    });
    outermost
        .take(5)
        .map(|freeze| {
            let ids: Vec<String> = sample
                .processes
                .values()
                .filter(|process| container_parts::is_frozen_by(process, freeze))
                .filter_map(|process| process.container_id.clone())
                .collect();
            let id = freeze.container_id.clone().or_else(|| ids.first().cloned());
            let hangs = case
                .culprits
                .iter()
                .any(|culprit| ids.contains(&culprit.id) || Some(&culprit.id) == id.as_ref());
            let of_a_pod = freeze.pod_uid.is_some() || id.is_some();
            let checkpoint = of_a_pod && case.evidence.settings.kubelet.value.at_least(37);
            let (severity, confidence) = match (hangs, host.second.is_some()) {
                (false, _) if checkpoint => (Severity::Info, Confidence::Possible),
                (true, _) => (Severity::Critical, Confidence::Certain),
                (false, true) => (Severity::Warning, Confidence::Likely),
                (false, false) => (Severity::Warning, Confidence::Possible),
            };
            let uid = freeze.pod_uid.as_deref();
            let pod = id
                .as_deref()
                .and_then(|id| case.evidence.names.pod(id))
                .or_else(|| uid.and_then(|uid| case.evidence.names.pod_by_uid(uid)));
            let cgroup = FilePath::from(&freeze.path);
            let title = FactKind::CgroupIsFrozen { cgroup: cgroup.clone(), pod: pod.clone() };
            let mut found = finding(RuleId::FrozenCgroup, severity, confidence, title);
            found.phase = if hangs { case.hang_phase() } else { Phase::None };
            found.rpc = case.hung_rpc().filter(|_| hangs).map(|rpc| rpc.name().to_owned());
            found.container = id.as_deref().and_then(|id| case.evidence.names.container(id));
            found.pod = pod;
            found.ids = id.into_iter().collect();
            found.add_fact(FactKind::IsFrozen { cgroup, seen_twice: host.second.is_some() });
            found.add_fact(FactKind::ProcessesInIt { processes: ids.len() });
            found.add_fact(who_froze(sample, &ids));
            if checkpoint {
                found.add_fact(FactKind::CheckpointMayFreeze);
            }
            found.add_step(Step::change("unless it was paused on purpose, thaw it").with(freeze.thaw()));
            found
        })
        .collect()
}

/// Names the program that may have frozen a cgroup with these containers. The kernel does not record who did it, so only a
/// program that still runs can be named.
fn who_froze(sample: &ProcSample, ids: &[String]) -> FactKind {
    // runc freezes a cgroup also while it kills, updates or removes the container.
    const FREEZES: [&str; 5] = ["pause", "checkpoint", "kill", "update", "delete"];
    let may_freeze = |process: &&Process| {
        let has_verb = || process.command.iter().find(|word| FREEZES.contains(&word.as_str()));
        let is_about_it = || ids.iter().any(|id| process.command.mentions(id));
        process.comm == "criu" || (process.role == Role::OciRuntime && is_about_it() && has_verb().is_some())
    };
    match sample.processes.values().find(may_freeze) {
        Some(process) => FactKind::MayHaveFrozenIt { process: process.into() },
        None => FactKind::NobodyKnownFrozeIt,
    }
}
