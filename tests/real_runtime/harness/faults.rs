//! Causes real faults: stopped or killed processes, frozen cgroups, a frozen disk, and a lock that containerd holds as
//! long as the test wants. Most methods return a guard; dropping the guard ends the fault.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use super::TIME_LIMIT;
use super::daemon::{RealRuntime, tool};
use super::messages::{LinuxContainerResources, UpdateContainerResourcesRequest};
use super::wait_for;

/// A call without an answer within this time is blocked; normally it takes milliseconds.
const BLOCKED: Duration = Duration::from_secs(2);

/// A process that is stopped by SIGSTOP. Dropping this continues the process.
#[must_use = "the process continues as soon as this is dropped"]
pub struct Stopped {
    pid: Pid,
}

impl Stopped {
    fn stop(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).unwrap();
        // Created before the wait, so that the process continues if the wait fails.
        let stopped = Self { pid };
        wait_for("a process to stop", || (process_state(pid) == Some('T')).then_some(()));
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::CONT);
    }
}

/// A pod whose processes are frozen by their cgroup. Dropping this thaws the processes.
#[must_use = "the pod thaws as soon as this is dropped"]
pub struct Frozen {
    control: PathBuf,
    thawed: &'static str,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = fs::write(&self.control, self.thawed);
    }
}

/// A disk that blocks writes. Dropping this unfreezes the disk.
#[must_use = "the disk thaws as soon as this is dropped"]
pub struct FrozenDisk {
    mount: PathBuf,
}

impl Drop for FrozenDisk {
    fn drop(&mut self) {
        tool("fsfreeze", &["--unfreeze", self.mount.to_str().unwrap()]);
    }
}

/// A container whose status lock containerd holds. Dropping this continues the shim, so containerd releases the lock.
#[must_use = "the lock is released as soon as this is dropped"]
pub struct HeldLock<'a> {
    runtime: &'a RealRuntime,
    shim: Option<Stopped>,
    update: Option<JoinHandle<Result<(), Status>>>,
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        drop(self.shim.take());
        if let Some(update) = self.update.take() {
            // The wait is limited, because the test may have stopped the daemon too.
            let _ = self.runtime.calls.block_on(async { tokio::time::timeout(TIME_LIMIT, update).await });
        }
    }
}

impl RealRuntime {
    /// Stops the daemon with SIGSTOP: its socket still accepts connections, but no call gets an answer.
    pub fn stop_daemon(&self) -> Stopped {
        Stopped::stop(self.daemon_pid())
    }

    /// Stops a pod's shim with SIGSTOP.
    pub fn stop_shim(&self, sandbox_id: &str) -> Stopped {
        Stopped::stop(self.shim_pid(sandbox_id))
    }

    /// Kills a pod's shim. The processes of its containers keep running without a shim.
    pub fn kill_shim(&self, sandbox_id: &str) {
        self.remember_shims();
        kill_process(self.shim_pid(sandbox_id), Signal::KILL).unwrap();
    }

    /// Kills a container's first process without the runtime.
    pub fn kill_container_process(&self, container_id: &str) {
        kill_process(self.container_pid(container_id), Signal::KILL).unwrap();
    }

    /// Freezes all processes of a pod through its cgroup.
    pub fn freeze_pod(&self, sandbox_id: &str) -> Frozen {
        let pause = self.container_pid(sandbox_id);
        let membership = fs::read_to_string(format!("/proc/{}/cgroup", pause.as_raw_nonzero())).unwrap();
        let freeze = Freezer::of_the_pod_above(&membership);
        let frozen = Frozen { control: freeze.control, thawed: freeze.thawed };
        // On cgroup v1, a process that was just being created can keep the cgroup in the state `FREEZING` for ever.
        // Only another attempt after a thaw freezes it; runc does the same.
        let mut attempts = 0;
        wait_for("the pod to freeze", || {
            if attempts % 50 == 49 {
                fs::write(&frozen.control, frozen.thawed).unwrap();
            }
            attempts += 1;
            fs::write(&frozen.control, freeze.frozen).unwrap();
            is_frozen(&frozen.control).then_some(())
        });
        frozen
    }

    /// Freezes the disk of a runtime that was started with its own disk: writes below the daemon's root wait in the
    /// kernel until the guard is dropped.
    pub fn freeze_disk(&self) -> FrozenDisk {
        let mount = self.directory().join("root");
        tool("fsfreeze", &["--freeze", mount.to_str().unwrap()]);
        FrozenDisk { mount }
    }

    /// Makes containerd hold the status lock of a running container: stops the pod's shim and requests an update of the
    /// container's resources, which holds the lock while it waits for the shim. Meanwhile every `ListContainers` hangs,
    /// and `ContainerStatus` for this container too.
    pub fn hold_status_lock(&self, container_id: &str) -> HeldLock<'_> {
        let sandbox_id = self.sandbox_of(container_id);
        let shim = self.stop_shim(&sandbox_id);
        let update = self.update_in_background(container_id);
        let held = HeldLock { runtime: self, shim: Some(shim), update: Some(update) };
        wait_for("the status lock to be held", || {
            let status = self.calls.container_status(container_id, BLOCKED);
            matches!(status, Err(status) if status.code() == Code::DeadlineExceeded).then_some(())
        });
        held
    }

    /// Requests an update of a container's resources; the call may never be answered. containerd holds the container's
    /// status lock meanwhile.
    pub fn update_in_background(&self, container_id: &str) -> JoinHandle<Result<(), Status>> {
        let client = self.calls.client();
        let request = UpdateContainerResourcesRequest {
            container_id: container_id.to_owned(),
            linux: Some(LinuxContainerResources { cpu_shares: 512 }),
        };
        // The call has no deadline, because containerd would release the lock when the deadline expires.
        self.calls.spawn(async move { client.send(request).await.map(drop) })
    }

    /// Returns the shim of a pod.
    pub fn shim_pid(&self, sandbox_id: &str) -> Pid {
        let socket = self.socket().display().to_string();
        wait_for("the pod's shim", || {
            processes().find(|&pid| {
                let arguments = arguments(pid);
                let has = |flag: &str, value: &str| arguments.windows(2).any(|pair| pair == [flag, value]);
                has("-id", sandbox_id) && has("-address", &socket)
            })
        })
    }

    /// Returns the first process of a container, or the pause process of a sandbox. Makes no call.
    pub fn container_pid(&self, id: &str) -> Pid {
        let file = self.bundles().join(id).join("init.pid");
        let pid: i32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        Pid::from_raw(pid).unwrap()
    }

    /// Returns the directory with one directory for each running container and sandbox, named by its id.
    fn bundles(&self) -> PathBuf {
        self.directory().join("state/io.containerd.runtime.v2.task/k8s.io")
    }

    /// Writes the list of shims for `reap.sh` while containerd still knows them.
    pub(crate) fn remember_shims(&self) {
        let mut list =
            fs::File::options().create(true).append(true).open(self.directory().join("shims")).unwrap();
        // The directory does not exist before the first pod.
        for bundle in fs::read_dir(self.bundles()).into_iter().flatten() {
            writeln!(list, "{}", bundle.unwrap().file_name().display()).unwrap();
        }
    }

    fn sandbox_of(&self, container_id: &str) -> String {
        let containers = self.list_containers();
        let container = containers.into_iter().find(|container| container.id == container_id);
        container.expect("the container is listed").pod_sandbox_id
    }
}

/// The files that freeze a cgroup in this machine's hierarchy.
struct Freezer {
    control: PathBuf,
    frozen: &'static str,
    thawed: &'static str,
}

impl Freezer {
    /// `membership` is the `/proc/PID/cgroup` of a process in the pod's cgroup.
    fn of_the_pod_above(membership: &str) -> Self {
        let paths = membership.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        });
        let mut unified = None;
        for (controllers, path) in paths {
            let pod = Path::new(path.trim_start_matches('/')).parent().unwrap();
            if controllers == "freezer" {
                return Self {
                    control: Path::new("/sys/fs/cgroup/freezer").join(pod).join("freezer.state"),
                    frozen: "FROZEN",
                    thawed: "THAWED",
                };
            }
            if controllers.is_empty() {
                unified = Some(pod);
            }
        }
        Self {
            control: Path::new("/sys/fs/cgroup")
                .join(unified.expect("a cgroup v2 path"))
                .join("cgroup.freeze"),
            frozen: "1",
            thawed: "0",
        }
    }
}

fn is_frozen(control: &Path) -> bool {
    // On cgroup v2, the test writes `cgroup.freeze`, and the kernel reports the state in `cgroup.events`.
    let state = match control.file_name().and_then(|name| name.to_str()) {
        Some("cgroup.freeze") => fs::read_to_string(control.with_file_name("cgroup.events")),
        _ => fs::read_to_string(control),
    };
    state.is_ok_and(|state| state.lines().any(|line| line == "FROZEN" || line == "frozen 1"))
}

/// Returns all processes of this machine.
pub fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

/// Returns the command line of a process; empty if there is none, or no such process.
pub fn arguments(pid: Pid) -> Vec<String> {
    let line = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    line.split('\0').map(str::to_owned).collect()
}

/// Returns the state letter of `/proc/PID/stat`; `None` if the process does not exist.
fn process_state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The preceding name is in parentheses and may contain any character, including parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}
