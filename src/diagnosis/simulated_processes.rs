//! The processes of a simulated node, because a simulated runtime has no process table.

use std::time::Duration;

use super::proc::{ProcSample, Process, Role};
use crate::host::proc::Tasks;

/// The processes of a simulated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedProcesses {
    /// The kubelet's process id and state letter; `None` if none runs.
    pub kubelet: Option<(u32, char)>,
    /// Whether a kubelet belongs on this node, so that it is news where none runs.
    pub has_kubelet: bool,
    /// Whether the daemon in the process table is known to be the probed runtime.
    pub owns_socket: bool,
    /// The running pods.
    pub pods: Vec<SimulatedPod>,
}

/// A pod of a simulated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedPod {
    /// The id of its sandbox.
    pub sandbox_id: String,
    /// Its UID.
    pub uid: String,
    /// The state letter of its shim.
    pub shim: char,
    /// Process id and name of its shim, where they are known.
    pub shim_process: Option<(u32, String)>,
    /// The ids and names of its running containers.
    pub containers: Vec<(String, String)>,
}

/// The daemon's process id in every simulation.
const DAEMON: u32 = 812;

/// The first process id of shims and containers.
const OTHERS: u32 = 814;

/// The age of every process.
const AGE: Duration = Duration::from_secs(40 * 86_400);

impl SimulatedProcesses {
    /// Returns one sample of the processes.
    pub(super) fn sample(&self) -> ProcSample {
        let mut sample = ProcSample {
            complete: true,
            tasks: Tasks { now: 600, pid_max: 4_194_304, threads_max: 120_000 },
            ..ProcSample::default()
        };
        let mut next = OTHERS;
        let mut add = |pid: Option<u32>, process: Process| {
            let pid = pid.unwrap_or(next);
            next += 1;
            sample.processes.insert(pid, Process { pid, age: AGE, threads: 8, ..process });
            pid
        };
        let of = |comm: &str, parent, state, command: &[&str]| Process {
            comm: comm.chars().take(15).collect(),
            role: Role::of(&comm.chars().take(15).collect::<String>()),
            parent,
            state,
            command: command.iter().copied().collect(),
            ..Process::default()
        };
        for pod in &self.pods {
            let name = pod.shim_process.as_ref().map_or("containerd-shim-runc-v2", |(_, name)| name);
            let flag = if name.starts_with("conmon") { "-c" } else { "-id" };
            let pid = pod.shim_process.as_ref().map(|(pid, _)| *pid);
            let command = [name, flag, &pod.sandbox_id];
            let words = if pod.sandbox_id.is_empty() { 1 } else { command.len() };
            let shim = add(pid, of(name, 1, pod.shim, command.split_at(words).0));
            for (id, name) in &pod.containers {
                let process = of(name, shim, 'S', &[name]);
                let (container_id, pod_uid) = (Some(id.clone()), Some(pod.uid.clone()));
                add(None, Process { container_id, pod_uid, ..process });
            }
        }
        let daemon = of("containerd", 1, 'S', &["/usr/bin/containerd"]);
        sample.processes.insert(DAEMON, Process { pid: DAEMON, age: AGE, threads: 8, ..daemon });
        if let Some((pid, state)) = self.kubelet {
            let process = of("kubelet", 1, state, &["/usr/bin/kubelet"]);
            sample.processes.insert(pid, Process { pid, age: AGE, threads: 8, ..process });
        }
        sample.socket_owner = self.owns_socket.then_some(DAEMON);
        sample
    }
}
