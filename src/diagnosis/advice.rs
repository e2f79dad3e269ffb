//! Suggests commands that the user can run, with the names of the detected runtime and with the process ids that were
//! found. plegctl prints these commands and does not run them.

use std::path::Path;

use super::evidence::Evidence;
use super::evidence::container_parts::{self, ContainerParts};
use super::proc::cgroup::container_id;
use super::proc::{Blocked, Ownership, Process, Role, sub_command};
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
        self.save_stacks()?;
        let purpose = match self.family() {
            DaemonFamily::Containerd => "who waits for what in the runtime (finds the stacks itself)",
            DaemonFamily::Crio | DaemonFamily::Other => "who waits for what in the runtime",
        };
        Some(Step::look(purpose).with(Command::new("plegctl stacks")))
    }

    /// Returns the command that makes containerd write its stacks.
    fn write_stacks(&self) -> Command {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        let by_pid = |daemon: &Process| Command::new("kill -USR1 {}").pid(daemon.pid);
        daemon.map_or_else(|| Command::new("pkill -USR1 -x containerd"), by_pid)
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

    /// Returns the command that shows the state of these units and their journal; without systemd, what to do instead.
    pub fn show_units(&self, units: &[&str]) -> Step {
        if self.has_systemd() {
            let state = Command::new("systemctl --no-pager status {}").args(units);
            Step::look("why it does not run").with(state.then(self.journal()))
        } else {
            Step::look("see how the runtime is started on this node, and its log")
        }
    }

    fn journal(&self) -> Command {
        let units = self.runtime_units().iter().flat_map(|unit| ["-u", unit]);
        Command::new("journalctl --no-pager -S -15min {}").options(units)
    }

    /// Returns the command that shows the runtime's journal; without systemd, what to do instead.
    pub fn show_journal(&self) -> Step {
        let step = Step::look("see the runtime's log");
        if self.has_systemd() { step.with(self.journal()) } else { step }
    }

    /// Returns the step that reads the stacks which [`Self::save_stacks`] saves, if their files are known.
    pub fn read_stacks(&self, purpose: &str) -> Option<Step> {
        let command = match (self.save_stacks()?, self.family(), self.daemon()) {
            (_, DaemonFamily::Crio, _) => Command::new("plegctl stacks crio-1.txt crio-2.txt"),
            _ if self.debug_socket.is_some() => {
                Command::new("plegctl stacks containerd-1.txt containerd-2.txt")
            }
            (_, DaemonFamily::Containerd, Some(daemon)) if daemon.role == Role::Daemon => {
                Command::new("plegctl stacks stacks-1.txt /tmp/containerd.{}.stacks.log").pid(daemon.pid)
            }
            _ => return None,
        };
        Some(Step::look(purpose).with(command))
    }

    /// Returns the command that saves the runtime's goroutine stacks; `None` for a stopped or frozen process, which cannot
    /// write them.
    pub fn save_stacks(&self) -> Option<Step> {
        let daemon = self.daemon().filter(|daemon| daemon.role == Role::Daemon);
        if daemon.is_some_and(|daemon| daemon.is_stopped() || self.is_frozen(daemon)) {
            return None;
        }
        match (self.family(), &self.debug_socket) {
            (DaemonFamily::Containerd, Some(socket)) => {
                let twice = Command::new(
                    "for i in 1 2; do [ $i = 1 ] || sleep 60; curl -s -m 10 --unix-socket {} \
                     'http://localhost/debug/pprof/goroutine?debug=2' > containerd-$i.txt; done",
                );
                Some(Step::look("containerd's stacks").with(twice.arg(socket.display())))
            }
            // containerd writes each dump to the same file, and to its log (`dumpStacks` in cmd/containerd/command/main.go).
            (DaemonFamily::Containerd, None) => {
                let first = self.write_stacks().then(Command::new("sleep 60"));
                let (purpose, twice) = match daemon {
                    Some(daemon) => {
                        let copy = Command::new("cp /tmp/containerd.{}.stacks.log stacks-1.txt");
                        ("containerd's stacks, the second in /tmp", first.then(copy.pid(daemon.pid)))
                    }
                    None => ("containerd's stacks, into its log; the second also in /tmp", first),
                };
                Some(Step::signal(purpose).with(twice.then(self.write_stacks())))
            }
            (DaemonFamily::Crio, _) => {
                let socket = self.socket.as_deref().unwrap_or_else(|| Path::new("/run/crio/crio.sock"));
                let twice = Command::new(
                    "for i in 1 2; do [ $i = 1 ] || sleep 60; curl -s -m 10 --unix-socket {} \
                     http://localhost/debug/goroutines > crio-$i.txt; done",
                );
                Some(Step::look("CRI-O's stacks").with(twice.arg(socket.display())))
            }
            (DaemonFamily::Other, _) => None,
        }
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

/// Returns the step that shows which resource of the node is short.
pub fn node_pressure(purpose: impl Into<String>) -> Step {
    Step::look(purpose).with(Command::new("iostat -x 1 5; grep . /proc/pressure/*"))
}

/// Returns the step that waits until a call is slow again.
pub fn until_slow() -> Step {
    Step::look("to catch the next time (waits, then says why)")
        .with(Command::new("plegctl watch --until-slow 2s"))
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
    steps.extend(pods.iter().map(|(namespace, names)| {
        let delete = Command::new("kubectl -n {} delete pod {} --wait=false").arg(namespace).args(names);
        Step::change("if none of this shows a cause, replace the pod").with(delete)
    }));
    // A conmon that ends does not end its container, and nothing records the exit of the container any more.
    if family == DaemonFamily::Crio {
        return steps;
    }
    steps.extend(shims.into_iter().map(|(shim, of_pod)| {
        let purpose = format!("last resort: end the shim{of_pod} and its containers");
        Step::change(purpose).with(Command::new("kill -9 {}").pid(shim.pid))
    }));
    steps.extend(
        (!unknown.is_empty())
            .then(|| Step::change("last resort, ends a pod: kill -9 PID of its shim in the list")),
    );
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
    let list = match ids.as_slice() {
        [id] => {
            let list = "ps -eo pid,stat,wchan:20,etime,comm,cgroup:512,args | grep -e {} | cut -c-61";
            Command::new(list).arg(id)
        }
        ids => {
            let lists = "for i in {}; do echo \"$i\"; ps -eo pid,stat,wchan:20,etime,comm,cgroup:512,args | grep -e \"$i\" | cut -c-61; done";
            Command::new(lists).args(ids)
        }
    };
    let (these, monitor) =
        if unknown.len() == 1 { ("this container and its", "") } else { ("these containers and their", "s") };
    let mut steps = vec![
        Step::look(format!("the processes of {these} {}{monitor}", family.monitor())).with(list),
        Step::look("STAT D: repair what WCHAN names: nfs_*, rpc_*: server; xfs_*, blk_*: disk"),
        Step::change(match family {
            // CRI-O takes a `state` that was ended for an exit of its container.
            DaemonFamily::Crio => "STAT T: kill -CONT PID",
            _ => "STAT T: kill -CONT PID; a runc that is minutes old: kill PID",
        }),
    ];
    steps.extend(evidence.read_stacks("other STAT or no process: what the runtime waits for (saved above)"));
    steps
}

/// Returns the command that shows what blocks the call, by the first known part of the container; `None` if no part is known.
fn look_at(parts: &ContainerParts<'_>, family: DaemonFamily) -> Option<Step> {
    if let Some((process, task)) = parts.blocked.first() {
        return Some(task_stack(process, task));
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
pub fn task_stack(process: &Process, task: &Blocked) -> Step {
    let stack = Command::new("cat /proc/{}/task/{}/stack").pid(process.pid).pid(task.tid);
    Step::look(format!("where {} waits in the kernel (as root)", process.comm)).with(stack)
}

/// Returns the step that shows the goroutines of a shim.
pub fn shim_stacks(pid: u32) -> Step {
    Step::signal(format!("the stacks of the shim {pid}, into containerd's log"))
        .with(Command::new("kill -USR1 {}").pid(pid))
}
