//! Finds containers that the runtime lists as exited although their first process still runs.
//!
//! A cgroup alone does not prove that: in a container without a PID namespace of its own, other processes may outlive the
//! first one. So a process counts only if it is a child of the container's shim or conmon, and is process 1 of its PID
//! namespace or the process that conmon wrote into its PID file. If its shim or conmon was killed, it is a child of the node's
//! first process: containerd then lists the container as exited and ends only the process of its sandbox.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, StatusRecord};
use super::id_search::under_root;
use super::offload::FILES_TIME_LIMIT;
use super::proc::{Process, Role, command_line};
use super::{HealthRun, offload};
use crate::cri::ContainerState;
use crate::host::kernel_record;
use crate::report::Rename;
use crate::report::load::load;

/// The most bytes that are read of a file with a process id.
const MAX_PID_FILE: usize = 32;

/// The node's first process, the parent of each process whose own parent has ended.
const FIRST_PROCESS: u32 = 1;

/// The exit code that containerd records of a container whose shim was killed, and CRI-O after a `state` command that failed.
const UNKNOWN_EXIT_CODE: i32 = 255;

/// The first process of a container that the runtime lists as exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Id(id))]
#[serde(rename_all = "camelCase")]
pub struct LivingExit {
    /// The container's id.
    pub id: String,
    /// The process id.
    pub pid: u32,
}

impl LivingExit {
    /// Returns the process in the newest sample, if the newest list still has the container as exited.
    pub fn process<'a>(&self, evidence: &'a Evidence) -> Option<&'a Process> {
        let process = evidence.node()?.latest().processes.get(&self.pid)?;
        let is_same = process.container_id.as_deref() == Some(&self.id) && !process.is_zombie();
        (is_same && exited(evidence).contains(self.id.as_str())).then_some(process)
    }
}

/// Finds the first processes of exited containers.
pub(super) async fn find<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Vec<LivingExit> {
    let candidates: Vec<Process> = candidates(evidence).into_iter().cloned().collect();
    let Some(proc) = run.inputs.proc.clone().filter(|_| !candidates.is_empty()) else { return Vec::new() };
    let root = run.inputs.host_root.clone();
    let read = move || {
        let first = candidates.into_iter().filter(|process| is_first(&proc, &root, process));
        first.filter_map(|process| Some(LivingExit { pid: process.pid, id: process.container_id? })).collect()
    };
    offload::value(FILES_TIME_LIMIT.min(run.budget.left()), read).await.unwrap_or_default()
}

/// Returns whether a process may be the first one of an exited container.
pub fn may_exist(evidence: &Evidence) -> bool {
    !candidates(evidence).is_empty()
}

/// Returns whether the runtime does not know how a container ended, so that its first process may run on without its shim.
pub fn an_exit_is_unknown(evidence: &Evidence) -> bool {
    let code = |record: &StatusRecord| record.result.as_ref().ok().and_then(|facts| facts.exit_code);
    evidence.runtime.status_calls.iter().any(|record| code(record) == Some(UNKNOWN_EXIT_CODE))
}

/// Returns the ids of the exited containers in the newest list.
fn exited(evidence: &Evidence) -> BTreeSet<&str> {
    let listed = evidence.runtime.containers.latest().into_iter().flatten();
    let exited = listed.filter(|container| container.state == ContainerState::Exited);
    exited.map(|container| container.id.as_str()).collect()
}

/// Returns the living children of shims, conmons and the node's first process in the cgroups of exited containers. A process
/// with the name of an OCI runtime only waits for the start of its container, which has failed.
fn candidates(evidence: &Evidence) -> Vec<&Process> {
    let Some(host) = evidence.node() else { return Vec::new() };
    let exited = exited(evidence);
    let is_candidate = |process: &&Process| {
        let parent = || host.first.processes.get(&process.parent);
        process.container_id.as_deref().is_some_and(|id| exited.contains(id))
            && !process.is_zombie()
            && process.role == Role::Other
            && Role::of(&process.comm) == Role::Other
            && (process.parent == FIRST_PROCESS || parent().is_some_and(|parent| parent.role == Role::Shim))
    };
    host.first.processes.values().filter(is_candidate).collect()
}

/// Whether this is the first process of its container.
fn is_first(proc: &Path, root: &Path, process: &Process) -> bool {
    let status = kernel_record(&proc.join(process.pid.to_string()).join("status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    // A process outside of PID namespaces has one id.
    let is_first_in_namespace = ids.split_ascii_whitespace().skip(1).last() == Some("1");
    let in_pid_file = || {
        let monitor = command_line(&proc.join(process.parent.to_string()));
        let file = under_root(root, Path::new(monitor.flag("p")?));
        let text = load(&file, MAX_PID_FILE).ok()?;
        Some(String::from_utf8_lossy(&text).trim() == process.pid.to_string())
    };
    is_first_in_namespace || in_pid_file() == Some(true)
}
