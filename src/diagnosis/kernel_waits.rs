//! Finds out for what tasks wait in the kernel: looks at them twice, compares both looks, and searches the owner of what
//! they wait for. A task that ran between the looks is left out, because one look proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::evidence::Evidence;
use super::proc::waits::{self, DiskCounters, TaskLook, WaitLook};
use super::proc::{ProcPaths, ProcSample, Process, Role};
use super::{HealthRun, limits, offload, old_commands};
use crate::clock::Mono;
use crate::report::Rule;

/// The rows of the table of reasons.
const TABLE: &str = include_str!("rules/reasons.txt");
/// The time limit for the search of owners, which reads the descriptors of all processes.
const OWNER_TIME_LIMIT: Duration = Duration::from_secs(2);

/// One row of the table of reasons.
#[derive(Debug)]
pub struct Reason {
    /// Its texts.
    pub rule: &'static Rule,
    /// Beginnings of kernel functions, one of which is in the stack.
    functions: Vec<&'static str>,
    /// Beginnings of kernel functions, one of which is in the stack too.
    with: Vec<&'static str>,
    /// The words before the owner's name.
    owner: &'static str,
    /// What the task waits for if the owner is not known.
    unknown: &'static str,
}

impl Reason {
    /// All rows.
    pub fn all() -> &'static [Self] {
        static ROWS: LazyLock<Vec<Reason>> = LazyLock::new(|| {
            let rules: &'static [Rule] = Rule::table(TABLE).leak();
            let row = |rule: &'static Rule| {
                let block = TABLE.split("\n\n").find(|block| block.get(1..5) == Some(rule.id))?;
                let value = |key: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
                    line.unwrap_or_default()
                };
                let words = |key: &str| value(key).split_ascii_whitespace().collect();
                Some(Reason {
                    rule,
                    functions: words("functions"),
                    with: words("with"),
                    owner: value("owner"),
                    unknown: value("unknown"),
                })
            };
            rules.iter().filter_map(row).collect()
        });
        &ROWS
    }

    /// The row with this id.
    pub fn of(id: &str) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.rule.id == id)
    }

    /// Returns the function of a look that this row names.
    fn function_in<'a>(&self, look: &'a TaskLook) -> Option<&'a str> {
        let places = || look.stack.iter().chain([&look.wchan]);
        let find = |beginnings: &[&str]| {
            let begins = |word: &str| beginnings.iter().any(|beginning| word.starts_with(beginning));
            places().find(|place| place.split(' ').any(begins)).map(String::as_str)
        };
        let found = find(&self.functions)?;
        (self.with.is_empty() || find(&self.with).is_some()).then_some(found)
    }
}

/// Whether a task in interruptible sleep in this function may wait for somebody who does not answer. Most tasks sleep in
/// other functions, because they have nothing to do.
fn matters(wchan: &str) -> bool {
    const ASLEEP: [&str; 8] = [
        "request_wait_answer",
        "fuse_",
        "locks_lock_inode_wait",
        "flock_lock_inode_wait",
        "posix_lock_inode_wait",
        "do_freezer_trap",
        // A frozen task of cgroup v2, where the compiler merged both functions.
        "get_signal",
        "rpc_wait",
    ];
    ASLEEP.iter().any(|beginning| wchan.starts_with(beginning))
}

/// A task that waits in the kernel for something with a known kind, in two looks.
#[derive(Clone, Debug)]
pub struct KernelWait {
    /// The kind.
    pub reason: &'static Reason,
    /// The process.
    pub pid: u32,
    /// The task.
    pub tid: u32,
    /// The kernel function.
    pub function: String,
    /// The innermost functions of the kernel stack; empty if it is not readable.
    pub stack: Vec<String>,
    /// The name of who or what keeps the task waiting, if known.
    pub owner: Option<String>,
    /// What proves the owner.
    pub facts: Vec<String>,
    /// The number of programs with a task in the same wait.
    pub programs: usize,
}

impl KernelWait {
    /// Describes the wait: `waits for the security agent falcon-sensor[812]`.
    pub fn words(&self) -> String {
        match &self.owner {
            Some(owner) => format!("waits for {} {owner}", self.reason.owner),
            None => format!("waits for {}", self.reason.unknown),
        }
    }

    /// Creates a simulated wait of the process `pid`; `None` if there is no such reason.
    pub(super) fn simulated(pid: u32, reason: &str, owner: Option<String>) -> Option<Self> {
        let reason = Reason::of(reason)?;
        let is_function = |name: &&&str| !name.starts_with('[') && !name.ends_with('_');
        let function = (*reason.functions.iter().find(is_function)?).to_owned();
        let stack = vec![function.clone()];
        Some(Self { reason, pid, tid: pid, function, stack, owner, facts: Vec::new(), programs: 1 })
    }

    /// Whether the stack was readable and the owner is known, so that the wait is proven.
    pub fn is_proven(&self) -> bool {
        !self.stack.is_empty() && self.owner.is_some()
    }
}

/// The first look, and its time.
pub(super) struct FirstLook {
    look: WaitLook,
    pub(super) at: Mono,
}

fn paths<R>(run: HealthRun<'_, R>) -> Option<ProcPaths> {
    let inputs = run.inputs;
    Some(ProcPaths { proc: inputs.proc.clone()?, cgroup: inputs.cgroup.clone(), socket: None })
}

/// Looks for the first time at the tasks of the runtime, its shims, OCI runtimes and network plugins, and at blocked tasks
/// of containers, if something is suspicious.
pub(super) async fn first_look<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Option<FirstLook> {
    let host = evidence.node()?;
    let sample = &host.first;
    let concerned = |process: &&Process| match process.role {
        Role::Other => {
            old_commands::is_old(evidence, sample, process)
                || (!process.blocked.is_empty() && evidence.concerns(process))
        }
        _ => evidence.concerns(process),
    };
    let pids: Vec<u32> = sample.processes.values().filter(concerned).map(|process| process.pid).collect();
    let at = run.inputs.clock.mono();
    Some(FirstLook { look: look(run, pids).await?, at })
}

async fn look<R>(run: HealthRun<'_, R>, pids: Vec<u32>) -> Option<WaitLook> {
    let paths = paths(run)?;
    let limit = run.inputs.deadlines().proc.min(run.budget.left());
    offload::value(limit, move || waits::look(&paths.proc, &pids, matters)).await
}

/// Looks for the second time, and returns the tasks that have not run since, with the owners of what they wait for.
pub(super) async fn second_look<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
    first: FirstLook,
) -> Vec<KernelWait> {
    let pids: BTreeSet<u32> = first.look.tasks.iter().map(|task| task.pid).collect();
    if pids.is_empty() {
        return Vec::new();
    }
    let Some(second) = look(run, pids.into_iter().collect()).await else { return Vec::new() };
    let (Some(paths), Some(host)) = (paths(run), evidence.node()) else { return Vec::new() };
    let tasks = unchanged(&first.look, second.tasks);
    if tasks.is_empty() {
        return Vec::new();
    }
    let search = OwnerSearch {
        connections: paths.cgroup.with_file_name("fuse").join("connections"),
        paths,
        sample: host.latest().clone(),
        stalled: stalled_disks(&first.look.disks, &second.disks),
    };
    let limit = OWNER_TIME_LIMIT.min(run.budget.left());
    offload::value(limit, move || search.classify(&tasks)).await.unwrap_or_default()
}

/// Returns the tasks that are unchanged since the first look.
fn unchanged(first: &WaitLook, second: Vec<TaskLook>) -> Vec<TaskLook> {
    second.into_iter().filter(|task| first.tasks.iter().any(|earlier| earlier.is_same_wait(task))).collect()
}

/// Returns the disks that have requests and completed none between two looks, by device number.
fn stalled_disks(
    first: &BTreeMap<String, DiskCounters>,
    second: &BTreeMap<String, DiskCounters>,
) -> BTreeMap<String, DiskCounters> {
    let is_stalled = |(device, now): &(&String, &DiskCounters)| {
        first.get(*device).is_some_and(|before| {
            before.in_flight > 0 && now.in_flight > 0 && before.completed == now.completed
        })
    };
    second.iter().filter(is_stalled).map(|(device, disk)| (device.clone(), disk.clone())).collect()
}

/// Programs that freeze file systems for backups and snapshots.
const FREEZERS: [&str; 6] = ["fsfreeze", "xfs_freeze", "qemu-ga", "vmtoolsd", "lvcreate", "dmsetup"];

/// What the search of owners reads.
struct OwnerSearch {
    paths: ProcPaths,
    connections: PathBuf,
    sample: ProcSample,
    stalled: BTreeMap<String, DiskCounters>,
}

/// An owner and what proves it. Without a proof of the kind itself there is no such value.
type Owner = (Option<String>, Vec<String>);

impl OwnerSearch {
    fn classify(&self, tasks: &[TaskLook]) -> Vec<KernelWait> {
        let mut waits: Vec<KernelWait> = tasks.iter().filter_map(|task| self.wait_of(task)).collect();
        let programs = |id: &str| {
            let row = Reason::of(id);
            let waiting = self.sample.processes.values().filter(|process| {
                process.blocked.iter().any(|task| {
                    let look =
                        TaskLook { wchan: task.wchan.clone(), stack: Vec::new(), ..TaskLook::default() };
                    row.is_some_and(|row| row.function_in(&look).is_some())
                })
            });
            waiting.map(|process| process.comm.as_str()).collect::<BTreeSet<_>>().len()
        };
        for wait in &mut waits {
            wait.programs = programs(wait.reason.rule.id);
        }
        waits
    }

    /// Returns the first row that fits a task and whose proof is found.
    fn wait_of(&self, task: &TaskLook) -> Option<KernelWait> {
        let process = self.sample.processes.get(&task.pid)?;
        let frozen = waits::frozen_around(&self.paths.cgroup, &process.cgroup);
        let (reason, function, (owner, facts)) = if let Some(freeze) = frozen {
            let facts = vec![format!("{} is frozen", freeze.path)];
            (Reason::of("KR08")?, task.wchan.as_str(), (Some(freeze.path), facts))
        } else {
            Reason::all().iter().find_map(|row| {
                let function = row.function_in(task)?;
                Some((row, function, self.owner(row.rule.id, task, process, function)?))
            })?
        };
        Some(KernelWait {
            reason,
            pid: task.pid,
            tid: task.tid,
            function: function.to_owned(),
            stack: task.stack.iter().take(6).cloned().collect(),
            owner,
            facts,
            programs: 0,
        })
    }

    fn label(&self, pid: u32) -> String {
        let stopped = |process: &Process| if process.is_stopped() { ", which is stopped" } else { "" };
        self.sample.processes.get(&pid).map_or_else(
            || format!("process {pid}"),
            |process| format!("{}{}", process.label(), stopped(process)),
        )
    }

    /// Searches the owner; `None` if a proof of the kind is required and not found.
    fn owner(&self, id: &str, task: &TaskLook, process: &Process, function: &str) -> Option<Owner> {
        match id {
            "KR01" => Some(self.agent()),
            "KR02" => Some(self.network_cleaner()),
            "KR03" => Some((module_of(task).map(str::to_owned), Vec::new())),
            "KR04" => Some(self.server(process, function)),
            "KR05" => Some((None, self.freezers())),
            "KR06" => self.disk(),
            "KR09" => Some(self.lock_holder(task)),
            "KR10" => {
                let pressure = self.sample.pressure.memory?.all_waited();
                let fact = format!("memory pressure: all tasks waited {pressure:.0} % of the last 10 s");
                (pressure >= limits::MEMORY_FULL).then(|| (None, vec![fact]))
            }
            "KR08" => None,
            _ => Some((None, Vec::new())),
        }
    }

    /// The agent with fanotify permission events. Of several agents, none is chosen.
    fn agent(&self) -> Owner {
        let agents = waits::permission_agents(&self.paths.proc);
        let facts = agents.iter().map(|pid| {
            format!("{} has a fanotify group with permission events (/proc/{pid}/fdinfo)", self.label(*pid))
        });
        let facts = facts.collect();
        (if let [only] = agents.as_slice() { Some(self.label(*only)) } else { None }, facts)
    }

    /// The kernel thread that removes network namespaces.
    fn network_cleaner(&self) -> Owner {
        let cleans = |process: &&Process| process.is_kernel_thread && process.comm.ends_with("netns");
        let thread = self.sample.processes.values().filter(|process| process.state == 'D').find(cleans);
        let fact = |thread: &Process| format!("{} removes network namespaces", thread.label());
        (None, thread.map(fact).into_iter().collect())
    }

    /// The server or the FUSE daemon of the only mount that fits.
    fn server(&self, process: &Process, function: &str) -> Owner {
        // The name of a kernel module may follow the function.
        let is_fuse =
            function.starts_with("fuse") || function.split(' ').next() == Some("request_wait_answer");
        let waiting = |minor: &str| waits::fuse_waiting(&self.connections, minor);
        let minor =
            |device: &str| device.split_once(':').map(|(_, minor)| minor.to_owned()).unwrap_or_default();
        let fits = |mount: &&super::proc::NodeMount| {
            let begins =
                |kind: &str| function.starts_with(kind) || (kind == "nfs" && function.starts_with("rpc"));
            let kind = mount.kind.split('.').next().unwrap_or_default();
            match kind {
                "fuse" => is_fuse && waiting(&minor(&mount.device)) != Some(0),
                "nfs4" | "nfs" => begins("nfs"),
                "smb3" | "cifs" => begins("cifs") || begins("smb2"),
                "lustre" => ["ptlrpc", "ldlm", "osc", "mdc"].iter().any(|part| begins(part)),
                "9p" => begins("p9"),
                kind => begins(kind),
            }
        };
        let mounts: Vec<_> = self.sample.remote_mounts().filter(fits).collect();
        let uid = process.pod_uid.as_deref();
        let own = mounts.iter().copied().filter(|mount| uid.is_some() && mount.pod_uid() == uid);
        let own: Vec<_> = own.collect();
        let candidates = if own.is_empty() { mounts } else { own };
        let devices: BTreeSet<&str> = candidates.iter().map(|mount| mount.device.as_str()).collect();
        let Some(mount) = candidates.first().filter(|_| devices.len() == 1) else {
            let facts = candidates.iter().take(3).map(|mount| format!("{} ({})", mount.source, mount.kind));
            return (None, facts.collect());
        };
        let mut facts = vec![format!("{} ({}) is mounted at {}", mount.source, mount.kind, mount.target)];
        let source = format!("{} ({})", mount.source, mount.kind);
        if !is_fuse {
            return (Some(source), facts);
        }
        let connection = minor(&mount.device);
        if let Some(count) = waiting(&connection) {
            facts.push(format!("{count} requests wait in FUSE connection {connection}"));
        }
        let servers = waits::fuse_servers(&self.paths.proc, &connection);
        let Some(server) = servers.first() else { return (Some(source), facts) };
        (Some(format!("{source} of {}", self.label(*server))), facts)
    }

    /// Running programs that may have frozen the file system.
    fn freezers(&self) -> Vec<String> {
        let may_freeze = |process: &&Process| FREEZERS.contains(&process.comm.as_str());
        let running = self.sample.processes.values().filter(may_freeze);
        running.map(|process| format!("{} runs here and may have frozen it", process.label())).collect()
    }

    /// The disk that has requests and completes none. Devices that are built on other devices are named only without a
    /// physical one.
    fn disk(&self) -> Option<Owner> {
        let is_built = |name: &str| ["dm-", "md", "loop"].iter().any(|kind| name.starts_with(kind));
        let (_, disk) =
            self.stalled.iter().min_by_key(|(device, disk)| (is_built(&disk.name), (*device).clone()))?;
        let facts = self.stalled.iter().flat_map(|(device, disk)| {
            let mounts = self.sample.mounts.iter().filter(move |mount| mount.device == *device);
            let mounted =
                mounts.map(|mount| format!("{} is mounted at {}", mount.source, mount.target)).take(2);
            let stalls = format!(
                "{}: {} requests in flight, none completed between two looks",
                disk.name, disk.in_flight
            );
            std::iter::once(stalls).chain(mounted)
        });
        Some((Some(disk.name.clone()), facts.collect()))
    }

    fn lock_holder(&self, task: &TaskLook) -> Owner {
        // The kernel lists the process, or the task that asked.
        let found = waits::lock_holder(&self.paths.proc, task.pid)
            .or_else(|| waits::lock_holder(&self.paths.proc, task.tid));
        let Some(holder) = found else { return (None, Vec::new()) };
        let what = holder.path.as_deref().unwrap_or("the file");
        (Some(self.label(holder.pid)), vec![format!("{} has locked {what}", self.label(holder.pid))])
    }
}

/// Returns the kernel module of the innermost function that is in a module.
fn module_of(task: &TaskLook) -> Option<&str> {
    task.stack.iter().find_map(|line| line.split_once(" [")?.1.strip_suffix(']'))
}
