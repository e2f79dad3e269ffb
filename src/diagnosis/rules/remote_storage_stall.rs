//! D09: a network or user-space file system does not answer.

use super::blocked_tasks::{is_remote, line, logged, pod_of};
use super::prelude::*;
use crate::diagnosis::facts::WaitOwner;
use crate::diagnosis::kernel_waits::WaitKind;
use crate::diagnosis::proc::NodeMount;

/// Applies D09. It does not access the mount, and names a pod only if a task of this pod waits.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let blocked = case.blocked();
    let waiting: Vec<_> = blocked.iter().filter(|(_, task)| is_remote(task)).collect();
    let (process, _) = waiting.first()?;
    let pod = pod_of(case, process);
    let uid = pod.as_ref().map(|pod| pod.uid.as_str()).filter(|uid| !uid.is_empty());
    let mounts: Vec<_> =
        host.latest().remote_mounts().filter(|mount| uid.is_none() || mount.pod_uid() == uid).collect();
    let message = case.evidence.journal.as_ref().and_then(|journal| journal.server_silent.as_ref());
    let likely = !mounts.is_empty() || message.is_some();
    let (confidence, severity) = if likely {
        (Confidence::Likely, case.severity_of_cause())
    } else {
        (Confidence::Possible, Severity::Warning)
    };
    let owners = host.waits.iter().filter(|wait| wait.reason.kind == WaitKind::RemoteFileSystem);
    let mut named = owners.filter_map(|wait| wait.owner.as_ref().map(|owner| (wait, owner)));
    // The owner of this process's own wait is the server or the daemon; of several mounts, the first may be another one.
    let owner = named.clone().find(|(wait, _)| wait.pid == process.pid).map(|(_, owner)| owner.clone());
    let of_mount = |mount: &&NodeMount| WaitOwner::of_mount(mount, None);
    let title = FactKind::ServerDoesNotAnswer {
        server: owner.or_else(|| mounts.first().map(of_mount)),
        pod: pod.clone(),
        process: (*process).into(),
    };
    let mut found = case.cause(RuleId::RemoteStorageStall, severity, confidence, title);
    if let Some(id) = process.container_id.as_deref() {
        found.container = case.evidence.names.container(id);
        found.ids = vec![id.to_owned()];
    }
    found.pod = pod;
    found.add_facts(waiting.iter().take(5).map(|(process, task)| line(process, task)));
    found.add_facts(mounts.iter().take(3).map(|mount| FactKind::MountedAt { path: (&mount.target).into() }));
    found.add_facts(named.next().map(|(wait, _)| FactKind::ItWaits { waits: wait.waits() }));
    found.add_facts(message.map(logged));
    Some(found)
}
