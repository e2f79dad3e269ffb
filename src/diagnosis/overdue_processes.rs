//! Finds overdue processes: OCI runtime processes, network plugins and conmons of CRI-O that should have ended or detached
//! long ago, so that they may hang. Finds also the sandbox or container for which each of them works. A sandbox or container
//! whose creation hangs is in no list of the runtime, so its name comes from the process.

use std::path::Path;

use super::evidence::Evidence;
use super::evidence::container_parts::waits_to_be_started;
use super::id_search::{bundle_identity, under_root};
use super::names::{ItemKind, OutsideId};
use super::offload::FILES_TIME_LIMIT;
use super::proc::cgroup::container_id;
use super::proc::{
    ProcSample, Process, Role, conmon_container, is_conmon, sub_command, waits_uninterruptibly,
};
use super::report::PodRef;
use super::{HealthRun, limits, offload};
use crate::host::kernel_bytes;

/// Returns whether the node has an overdue process.
pub fn has_overdue_process(evidence: &Evidence) -> bool {
    let Some(host) = evidence.node() else { return false };
    find(evidence, &host.first).next().is_some()
}

/// Returns the overdue processes.
pub fn find<'a>(evidence: &'a Evidence, sample: &'a ProcSample) -> impl Iterator<Item = &'a Process> {
    sample.processes.values().filter(|process| is_overdue(evidence, sample, process))
}

/// Returns the overdue process for which a process works: the process itself, or the nearest ancestor that is overdue. A
/// network plugin starts other programs, such as host-local, and an OCI runtime starts hooks.
pub fn origin<'a>(
    evidence: &'a Evidence,
    sample: &'a ProcSample,
    process: &'a Process,
) -> Option<&'a Process> {
    /// More generations than real plugins and hooks have.
    const GENERATIONS: usize = 8;
    let parent = |process: &&'a Process| sample.processes.get(&process.parent);
    let mut ancestors = std::iter::successors(Some(process), parent).take(GENERATIONS);
    ancestors.find(|ancestor| is_overdue(evidence, sample, ancestor))
}

/// Whether a process is overdue: older than [`limits::OCI_PROCESS_OLD`], and an OCI runtime process of the runtime, a conmon
/// for which the daemon waits, or a network plugin: a child of the daemon with the name of an installed plugin, or with the
/// environment of one. Other children, such as image unpackers, may run for any time.
pub fn is_overdue(evidence: &Evidence, sample: &ProcSample, process: &Process) -> bool {
    let parent = || sample.processes.get(&process.parent).map(|parent| parent.role);
    process.age >= limits::OCI_PROCESS_OLD
        && !process.is_zombie()
        && match process.role {
            Role::OciRuntime => {
                matches!(parent(), Some(Role::Shim | Role::Daemon))
                    && !waits_to_be_started(evidence, process)
                    && evidence.concerns(process)
            }
            Role::Shim => is_awaited_by_daemon(sample, process) && evidence.concerns(process),
            Role::Other => {
                parent() == Some(Role::Daemon)
                    && evidence.node().is_some_and(|host| {
                        host.network_plugins.contains(&process.comm)
                            || host.overdue_ids.contains_key(&process.pid)
                    })
            }
            _ => false,
        }
}

/// Whether the daemon waits for this conmon: it has not detached from the daemon, which it does before it starts a
/// container. For example, it waits for a reader of a log that is a FIFO. A conmon that runs an `exec` never detaches.
pub fn is_awaited_by_daemon(sample: &ProcSample, conmon: &Process) -> bool {
    let parent = sample.processes.get(&conmon.parent);
    is_conmon(&conmon.comm)
        && parent.is_some_and(|parent| parent.role == Role::Daemon)
        && conmon_container(&conmon.command).is_some()
        && !["-e", "--exec"].iter().any(|flag| conmon.command.mentions(flag))
}

/// Whether an OCI runtime process creates a container.
pub fn creates(process: &Process) -> bool {
    sub_command(&process.command) == Some("create")
}

/// Finds for which sandbox or container each overdue process works: by the bundle of an OCI runtime process, and by the
/// environment of a network plugin. Returns it by process id. Reads the environment of every old child of the daemon,
/// because the directory of the plugins can be any.
pub(super) async fn identify<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Vec<(u32, OutsideId)> {
    let (Some(host), Some(proc)) = (evidence.node(), run.inputs.proc.clone()) else { return Vec::new() };
    let may_be_plugin = |process: &&Process| {
        let parent = host.first.processes.get(&process.parent);
        process.role == Role::Other
            && process.age >= limits::OCI_PROCESS_OLD
            && parent.is_some_and(|parent| parent.role == Role::Daemon && evidence.concerns(parent))
    };
    let children = host.first.processes.values().filter(may_be_plugin);
    let runtimes = find(evidence, &host.first).filter(|process| process.role != Role::Other);
    let overdue: Vec<Process> = runtimes.chain(children).cloned().collect();
    if overdue.is_empty() {
        return Vec::new();
    }
    let root = run.inputs.host_root.clone();
    let find = move || {
        let identity = |process: &Process| match process.role {
            Role::OciRuntime | Role::Shim => of_runtime_command(&root, process),
            _ => of_plugin(&proc.join(process.pid.to_string())),
        };
        overdue.iter().filter_map(|process| Some((process.pid, identity(process)?))).collect()
    };
    offload::value(FILES_TIME_LIMIT.min(run.budget.left()), find).await.unwrap_or_default()
}

/// Returns the container of an OCI runtime process or a conmon. Its id is the last word of the command line that has the form of an id;
/// the names of its pod and of the container are in the bundle.
fn of_runtime_command(root: &Path, process: &Process) -> Option<OutsideId> {
    let id = process.command.iter().filter_map(|word| container_id(word)).next_back()?;
    let bundle = process.flag("bundle").or_else(|| process.flag("b"));
    let identity = bundle.and_then(|bundle| bundle_identity(&under_root(root, Path::new(bundle)), id));
    Some(identity.unwrap_or_else(|| OutsideId::bare(id)))
}

/// Returns the sandbox of a network plugin. The runtime passes its id in the environment (CNI specification, "Parameters");
/// both containerd and CRI-O also pass the pod, in `CNI_ARGS`.
fn of_plugin(dir: &Path) -> Option<OutsideId> {
    // Reading the environment reads the memory of the process, which can block while the process is blocked.
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
