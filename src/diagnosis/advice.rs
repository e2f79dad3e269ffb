//! Suggests commands that the user can run, with the names of the detected runtime and with the process ids that were
//! found. plegctl prints these commands and does not run them.

use std::path::PathBuf;

use super::evidence::Evidence;
use super::evidence::container_parts::{self, ContainerParts};
use super::proc::cgroup::container_id;
use super::proc::{Ownership, Process, Role, sub_command};
use super::rules::steps::{Place, steps_of};
use super::words::short;
use crate::cri::{Rpc, program_of};
use crate::host::CNI_DIRECTORY;
use crate::report::{Command, Step};

/// The runtime family, which decides whose commands are suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonFamily {
    /// containerd and its shims.
    Containerd,
    /// CRI-O and its conmon.
    Crio,
    /// Another runtime, or an unknown one.
    Other,
}

impl Evidence {
    /// Returns the runtime's family, by the name in its Version answer, otherwise by the name of the process that listens on
    /// the socket, otherwise by the name of the socket: nobody but CRI-O has a `crio.sock`.
    pub fn family(&self) -> DaemonFamily {
        let by_name = self.runtime.version_answer().map(|version| version.runtime_name.as_str());
        let by_process = || self.daemon().map(|daemon| daemon.comm.as_str());
        let by_socket = || self.endpoint.ends_with("/crio.sock").then_some("crio");
        match by_name.or_else(by_process).or_else(by_socket).map(program_of) {
            Some("containerd") => DaemonFamily::Containerd,
            Some("cri-o" | "crio") => DaemonFamily::Crio,
            _ => DaemonFamily::Other,
        }
    }

    /// Returns the process that listens on the runtime's socket.
    pub fn daemon(&self) -> Option<&Process> {
        let host = self.node()?;
        let Ownership::OfRuntime { daemon: Some(pid) } = host.ownership else { return None };
        host.latest().processes.get(&pid)
    }

    /// Returns the step that shows what blocks the runtime inside, if the runtime can write its goroutine stacks.
    pub fn show_holder(&self) -> Option<Step> {
        self.stacks("")?;
        self.steps("showHolder", &[]).pop()
    }

    /// Returns the step that ends a hang of the whole runtime when nothing else does.
    pub fn restart_runtime(&self) -> Step {
        let step = Step::change("last resort: restart the runtime; pods run on");
        match self.runtime_units() {
            [unit] if self.has_systemd() => step.with(Command::new("systemctl restart {}").arg(unit)),
            _ => step,
        }
    }

    /// Returns the directory in which the runtime looks for the configuration of network plugins.
    pub fn cni_directory(&self) -> &str {
        self.cni_directory.as_deref().unwrap_or(CNI_DIRECTORY)
    }

    /// Returns the node's name for a command; a placeholder if it is not known.
    pub fn node_or_placeholder(&self) -> &str {
        if self.node.is_empty() { "NODE" } else { &self.node }
    }

    /// Returns whether the cgroup of a process, or one above it, is frozen.
    fn is_frozen(&self, process: &Process) -> bool {
        let frozen = self.node().map(|host| host.latest().frozen.as_slice()).unwrap_or_default();
        frozen.iter().any(|freeze| container_parts::is_frozen_by(process, freeze))
    }

    /// Returns the units that the runtime may have.
    pub fn runtime_units(&self) -> &'static [&'static str] {
        match self.family() {
            DaemonFamily::Containerd => &["containerd"],
            DaemonFamily::Crio => &["crio"],
            DaemonFamily::Other => &["containerd", "crio"],
        }
    }

    /// Returns whether the commands of systemd can be suggested: process 1 is systemd, or is not known.
    pub fn has_systemd(&self) -> bool {
        let init = self.node().and_then(|host| host.latest().processes.get(&1));
        init.is_none_or(|init| init.comm == "systemd")
    }

    /// Returns the step that reads the stacks which [`Self::save_stacks`] saves, if their files are known.
    pub fn read_stacks(&self, purpose: &str) -> Option<Step> {
        self.stacks(purpose)?.into_iter().nth(1)
    }

    /// Returns the step that saves the runtime's goroutine stacks, if it can write them.
    pub fn save_stacks(&self) -> Option<Step> {
        self.stacks("")?.into_iter().next()
    }

    /// Returns the steps that save and read the runtime's goroutine stacks; `None` for a stopped or frozen process, which cannot
    /// write them. containerd writes each dump to the same file, and to its log (`dumpStacks` in cmd/containerd/command/main.go).
    fn stacks(&self, purpose: &str) -> Option<Vec<Step>> {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        if daemon.is_some_and(|daemon| daemon.is_stopped() || self.is_frozen(daemon)) {
            return None;
        }
        let path = |path: &PathBuf| Place::word(path.display());
        let (id, place) = match (self.family(), &self.debug_socket, daemon) {
            (DaemonFamily::Containerd, Some(socket), _) => ("stacksOfSocket", path(socket)),
            (DaemonFamily::Containerd, None, Some(daemon)) => ("stacksOfPid", Place::Process(daemon.pid)),
            (DaemonFamily::Containerd, None, None) => ("stacksInLog", Place::words::<&str>([])),
            (DaemonFamily::Crio, ..) => {
                ("stacksOfCrio", self.socket.as_ref().map_or(Place::word("/run/crio/crio.sock"), path))
            }
            (DaemonFamily::Other, ..) => return None,
        };
        Some(steps_of(id, &[("daemon", place), ("purpose", Place::word(purpose))]))
    }
}

impl DaemonFamily {
    /// Returns the name of the process that watches a container.
    pub const fn monitor(self) -> &'static str {
        match self {
            Self::Containerd => "shim",
            Self::Crio => "conmon",
            Self::Other => "shim or conmon",
        }
    }
}

/// Says what CRI-O does if a `state` process of the OCI runtime ends without an answer, so that nobody ends the process
/// unwarned: it takes the container for exited (`UpdateContainerStatus` in `internal/oci/runtime_oci.go` of CRI-O). `None` for
/// any other process.
pub fn if_state_ends(evidence: &Evidence, process: &Process) -> Option<Step> {
    let is_state = sub_command(&process.command) == Some("state");
    let id = process.command.iter().find_map(|word| container_id(word))?;
    if !is_state || evidence.family() != DaemonFamily::Crio {
        return None;
    }
    let processes = &evidence.node()?.latest().processes;
    let mut processes = processes.values().filter(|other| other.role == Role::Other && !other.is_zombie());
    let alive = processes.find(|other| other.container_id.as_deref() == Some(id));
    let (label, who) = (process.label(), evidence.names.name(id));
    Some(Step::look(match alive {
        Some(alive) => format!(
            "do not end {label}: CRI-O would record that {who} exited with code 255, although {} runs, and the kubelet \
             would start a second copy",
            alive.label()
        ),
        None => format!(
            "if {label} is ended, CRI-O records that {who} exited, with the code that conmon wrote, else with 255"
        ),
    })
    .about_process())
}

/// Returns the step that continues a stopped process.
pub fn continue_process(pid: u32) -> Step {
    let no_debugger = format!("if TracerPid in /proc/{pid}/status is 0, so that no debugger has it");
    Step::change(format!("continue process {pid}, {no_debugger}"))
        .with(Command::new("kill -CONT {}").pid(pid))
}

/// Returns the step that shows where a process waits in the kernel.
pub fn kernel_stack(purpose: &str, pid: u32) -> Step {
    Step::look(format!("{purpose} (as root)")).with(Command::new("cat /proc/{}/stack").pid(pid))
}

/// The most silent calls for which commands are suggested.
const MAX_SUGGESTED: usize = 3;

/// Returns the commands for status calls that get no answer: first those that only look, then the mildest change, then
/// the last resort.
pub fn for_culprits(evidence: &Evidence, culprits: &[(Rpc, &str)]) -> Vec<Step> {
    let culprits = culprits.get(..MAX_SUGGESTED).unwrap_or(culprits);
    let family = evidence.family();
    let mut steps = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    let mut shims: Vec<(&Process, String)> = Vec::new();
    let mut pods: Vec<(String, Vec<String>)> = Vec::new();
    for (_, id) in culprits {
        let parts = container_parts::parts_of(evidence, id);
        match look_at(&parts, family) {
            Some(step) => steps.push(step),
            None => unknown.push(id),
        }
        let pod = evidence.names.pod(id).filter(|pod| !pod.name.is_empty());
        if let Some(shim) = parts.shim.filter(|shim| !shims.iter().any(|(other, _)| other.pid == shim.pid)) {
            shims.push((shim, pod.as_ref().map(|pod| format!(" of {pod}")).unwrap_or_default()));
        }
        let Some(pod) = pod else { continue };
        match pods.iter_mut().find(|(namespace, _)| *namespace == pod.namespace) {
            Some((_, names)) if names.contains(&pod.name) => {}
            Some((_, names)) => names.push(pod.name),
            None => pods.push((pod.namespace, vec![pod.name])),
        }
    }
    steps.extend(look_for(evidence, &unknown));
    steps.extend(pods.iter().flat_map(|(namespace, names)| {
        steps_of("replacePods", &[("namespace", Place::word(namespace)), ("pods", Place::words(names))])
    }));
    // A conmon that ends does not end its container, and nothing records the exit of the container any more.
    if family == DaemonFamily::Crio {
        return steps;
    }
    steps.extend(shims.into_iter().flat_map(|(shim, of_pod)| {
        steps_of("endShim", &[("pid", Place::Process(shim.pid)), ("of", Place::word(of_pod))])
    }));
    if !unknown.is_empty() {
        steps.extend(steps_of("endUnknownShim", &[]));
    }
    steps
}

/// Returns the steps that find the processes of these containers or sandboxes, of which no process is known.
fn look_for(evidence: &Evidence, unknown: &[&str]) -> Vec<Step> {
    if unknown.is_empty() {
        return Vec::new();
    }
    let family = evidence.family();
    // The shim of a container has the id of the sandbox on its command line.
    let sandboxes = unknown.iter().filter_map(|id| evidence.names.sandbox_of(id));
    let mut ids: Vec<&str> = Vec::new();
    for id in unknown.iter().copied().chain(sandboxes.filter(|_| family != DaemonFamily::Crio)).map(short) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    // The processes of a container have its id only in their cgroup, and the others only on their command line.
    let list = if ids.len() == 1 { "processesOfId" } else { "processesOfIds" };
    let (these, monitor) =
        if unknown.len() == 1 { ("this container and its", "") } else { ("these containers and their", "s") };
    let monitor = format!("{}{monitor}", family.monitor());
    let places =
        [("ids", Place::words(ids)), ("these", Place::word(these)), ("monitor", Place::word(monitor))];
    // CRI-O takes a `state` that was ended for an exit of its container.
    let mut steps = evidence.steps(list, &places);
    steps.extend(evidence.read_stacks("other STAT or no process: what the runtime waits for (saved above)"));
    steps
}

/// Returns the command that shows what blocks the call, by the first known part of the container; `None` if no part is known.
fn look_at(parts: &ContainerParts<'_>, family: DaemonFamily) -> Option<Step> {
    if let Some((process, task)) = parts.blocked.first() {
        return Some(task_stack(&process.comm, process.pid, task.tid));
    }
    if let Some(process) = parts.oci.first() {
        let purpose = format!("where {} waits, which works on this container", process.comm);
        return Some(kernel_stack(&purpose, process.pid));
    }
    let shim = parts.shim?;
    Some(match family {
        _ if shim.is_stopped() => continue_process(shim.pid),
        DaemonFamily::Containerd => shim_stacks(shim.pid),
        _ => kernel_stack(&format!("where its {} waits", shim.comm), shim.pid),
    })
}

/// Returns the step that shows where a task waits in the kernel.
pub fn task_stack(name: &str, pid: u32, tid: u32) -> Step {
    let stack = Command::new("cat /proc/{}/task/{}/stack").pid(pid).pid(tid);
    Step::look(format!("where {name} waits in the kernel (as root)")).with(stack)
}

/// Returns the step that shows the goroutines of a shim.
pub fn shim_stacks(pid: u32) -> Step {
    Step::signal(format!("the stacks of the shim {pid}, into containerd's log"))
        .with(Command::new("kill -USR1 {}").pid(pid))
}
