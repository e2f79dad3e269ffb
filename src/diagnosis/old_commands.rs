//! Finds OCI runtime processes and network plugins that are so old that they may hang, and the pod for which each of them
//! runs. While they hang, no list has the pod's sandbox or container.

use std::path::Path;

use super::evidence::Evidence;
use super::evidence::container_parts::waits_to_be_started;
use super::id_search::{bundle_identity, under_root};
use super::names::{ItemKind, OutsideId};
use super::offload::FILES_TIME_LIMIT;
use super::proc::cgroup::container_id;
use super::proc::{ProcSample, Process, Role, waits_uninterruptibly};
use super::report::PodRef;
use super::{HealthRun, limits, offload};
use crate::host::kernel_bytes;

/// Returns whether an OCI runtime process or a network plugin is so old that it may hang.
pub fn exist(evidence: &Evidence) -> bool {
    let Some(host) = evidence.node() else { return false };
    old_commands(evidence, &host.first).next().is_some()
}

/// Returns the OCI runtime processes and network plugins that are so old that they may hang.
pub fn old_commands<'a>(evidence: &'a Evidence, sample: &'a ProcSample) -> impl Iterator<Item = &'a Process> {
    sample.processes.values().filter(|process| is_old(evidence, sample, process))
}

/// Whether a process is an OCI runtime process of the runtime, or a child of the daemon with the name of an installed
/// network plugin, and so old that it may hang. Other children, such as image unpackers, may run for any time.
pub fn is_old(evidence: &Evidence, sample: &ProcSample, process: &Process) -> bool {
    let parent = || sample.processes.get(&process.parent).map(|parent| parent.role);
    let plugins = evidence.node().map(|host| &host.network_plugins);
    process.age >= limits::OCI_PROCESS_OLD
        && !process.is_zombie()
        && match process.role {
            Role::OciRuntime => {
                matches!(parent(), Some(Role::Shim | Role::Daemon))
                    && !waits_to_be_started(evidence, process)
                    && evidence.concerns(process)
            }
            Role::Other => {
                parent() == Some(Role::Daemon)
                    && plugins.is_some_and(|plugins| plugins.contains(&process.comm))
            }
            _ => false,
        }
}

/// Whether a process creates a container. Such a process ends within seconds; an `exec` may run for any time.
pub fn creates(process: &Process) -> bool {
    process.command.iter().any(|word| word == "create")
}

/// Finds for which sandbox or container each old command works: by the bundle of an OCI runtime process, and by the
/// environment of a network plugin.
pub(super) async fn identify<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Vec<(u32, OutsideId)> {
    let (Some(host), Some(proc)) = (evidence.node(), run.inputs.proc.clone()) else { return Vec::new() };
    let commands: Vec<Process> = old_commands(evidence, &host.first).cloned().collect();
    if commands.is_empty() {
        return Vec::new();
    }
    let root = run.inputs.host_root.clone();
    let find = move || {
        let identity = |process: &Process| match process.role {
            Role::OciRuntime => of_runtime_command(&root, process),
            _ => of_plugin(&proc.join(process.pid.to_string())),
        };
        commands.iter().filter_map(|process| Some((process.pid, identity(process)?))).collect()
    };
    offload::value(FILES_TIME_LIMIT.min(run.budget.left()), find).await.unwrap_or_default()
}

/// Returns the container of an OCI runtime process: its id is the last word of `create`, and the bundle has its names.
fn of_runtime_command(root: &Path, process: &Process) -> Option<OutsideId> {
    let id = process.command.iter().filter_map(|word| container_id(word)).next_back()?;
    let bundle = process.flag("bundle").or_else(|| process.flag("b"));
    let identity = bundle.and_then(|bundle| bundle_identity(&under_root(root, Path::new(bundle)), id));
    Some(identity.unwrap_or_else(|| OutsideId::bare(id)))
}

/// Returns the sandbox of a network plugin. The CNI passes it in the environment (CNI specification, "Parameters"); both
/// containerd and CRI-O pass the pod in `CNI_ARGS`.
fn of_plugin(dir: &Path) -> Option<OutsideId> {
    // The environment is in the memory of the process.
    if waits_uninterruptibly(dir) {
        return None;
    }
    let environment = kernel_bytes(&dir.join("environ")).ok()?;
    of_environment(&String::from_utf8_lossy(&environment))
}

fn of_environment(environment: &str) -> Option<OutsideId> {
    let value =
        |key: &str| environment.split('\0').find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let id = container_id(value("CNI_CONTAINERID")?)?;
    let arguments = value("CNI_ARGS").unwrap_or_default();
    let argument = |key: &str| {
        let found = arguments.split(';').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_default().to_owned()
    };
    let pod = PodRef {
        uid: argument("K8S_POD_UID"),
        namespace: argument("K8S_POD_NAMESPACE"),
        name: argument("K8S_POD_NAME"),
    };
    let pod = (!pod.name.is_empty()).then_some(pod);
    Some(OutsideId { kind: Some(ItemKind::Sandbox), pod, ..OutsideId::bare(id) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_plugin_names_sandbox_and_pod() {
        let id = "a".repeat(64);
        let environment = format!(
            "PATH=/bin\0CNI_COMMAND=ADD\0CNI_CONTAINERID={id}\0CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;\
             K8S_POD_NAME=db-0;K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID=u-1\0"
        );
        let found = of_environment(&environment).unwrap();
        assert_eq!(found.id, id);
        let pod = found.pod.unwrap();
        assert_eq!((pod.to_string().as_str(), pod.uid.as_str()), ("shop/db-0", "u-1"));
        assert_eq!(of_environment("CNI_CONTAINERID=short\0"), None);
        assert_eq!(of_environment(&format!("CNI_CONTAINERID={id}\0")).unwrap().pod, None);
    }
}
