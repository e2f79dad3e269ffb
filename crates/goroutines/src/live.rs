//! Adds the pod, the container and the blocking process to each finding. This works only while the program that wrote
//! the dump still runs.
//!
//! A dump contains no id of a container, but the address at which the process stores the id. So this module reads 64
//! bytes of `/proc/PID/mem` at that address. It uses the text only if it looks like an id *and* a second source confirms
//! the id: a list of the runtime, a cgroup of this node, a command line, or a name in the CRI's format next to the id.
//! For a hanging network plugin, it reads the plugin's environment, which names the pod. It only reads, with limits, and
//! neither traces nor stops a process.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::children::{self, Conmon, OciProcess, is_oci_runtime};
use super::conmon;
use super::daemon::{Daemon, identify};
use super::dump::Goroutine;
use super::judge::DumpSource;
use super::report::{Finding, Holder, StackReport, WaitKind, WaitsFor};
use super::wait::{self, ExternalWait, ID_LENGTH};
use plegctl_base::report::{Confidence, ContainerRef, PodRef};
use plegctl_node::host::proc::{
    Disqualification, ProcessStat, ProcessTrust, Role, cgroup, command_line, is_conmon, process_age,
    waits_uninterruptibly,
};
use plegctl_node::host::{CriName, KernelDir, kernel_bytes, kernel_text};

/// The longest string that is read from the memory of a process.
const MAX_STRING: u64 = 512;

/// The number of findings for which names are looked up.
const MAX_FINDINGS: usize = 8;

/// The number of roots of each finding for which names are looked up.
const MAX_ROOTS: usize = 4;

/// The node on which names are looked up, and what the caller already knows about it.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// The path of the process table.
    pub proc: PathBuf,
    /// Whether the user stated with `--live` that the process of the dump runs on this node.
    pub user_says_same_node: bool,
    /// Ids of containers and sandboxes that the runtime lists, if it answered.
    pub listed: BTreeSet<String>,
}

impl NodeView {
    /// Creates a node with the process table at `proc`, without the lists of the runtime.
    pub fn at(proc: &Path) -> Self {
        Self { proc: proc.to_owned(), ..Self::default() }
    }
}

/// Adds the pod, the container and the process to each finding in `report`. Returns a sentence for each dump without
/// names.
pub fn add_names(report: &mut StackReport, sources: &[DumpSource], node: &NodeView) -> Vec<String> {
    let mut limits = Vec::new();
    let trust = ProcessTrust::of_table(&node.proc);
    let mut processes: HashMap<usize, Option<DaemonProcess>> = HashMap::new();
    let mut table = None;
    for finding in report.findings.iter_mut().take(MAX_FINDINGS) {
        let at = finding.chain.dump;
        let (Some(source), Some(info)) = (sources.get(at), report.dumps.get_mut(at)) else { continue };
        let process = processes.entry(at).or_insert_with(|| {
            match DaemonProcess::of(source, info.daemon, node, &trust) {
                Ok(found) => Some(found),
                Err(why) => {
                    let why = why.unwrap_or_else(|| {
                        "a saved dump has no names of pods; while the process still runs here, take a new dump from \
                         it, or use --live"
                            .to_owned()
                    });
                    limits.push(format!("{}: {why}", source.name));
                    None
                }
            }
        });
        let Some(process) = process else { continue };
        info.pid = Some(process.pid);
        let table = table.get_or_insert_with(|| ProcessTable::read(node, &trust));
        process.add_names(finding, source, table);
    }
    limits
}

/// Adds to each goroutine that waits for a child process the age of that child, if the process of the dump runs on this
/// node. A dump whose process is not known, or which does not show the present state, stays unchanged: since the dump was
/// taken, its file descriptors may have been used for other children.
pub fn add_child_ages(source: &mut DumpSource, node: &NodeView) {
    if source.pid.is_none() {
        return;
    }
    let daemon = identify(&source.dump).daemon;
    let trust = ProcessTrust::of_table(&node.proc);
    let Ok(process) = DaemonProcess::of(source, daemon, node, &trust) else { return };
    for goroutine in &mut source.dump.goroutines {
        if let Some(ExternalWait::Child(Some(fd))) = wait::external_wait(goroutine) {
            goroutine.child_age = process.process_of_pidfd(fd).and_then(|pid| process_age(&node.proc, pid));
        }
    }
}

/// The processes of this node that can belong to a container: shims, OCI runtimes, conmons and the containers' own
/// processes.
#[derive(Default)]
struct ProcessTable {
    /// The path of `/proc`.
    proc: PathBuf,
    /// The ids of containers and sandboxes in the cgroups of processes, each with one process.
    pid_by_id: BTreeMap<String, u32>,
    /// The ids that the runtime lists.
    listed: BTreeSet<String>,
    /// The parent of each process.
    parents: HashMap<u32, u32>,
    shim_pids: Vec<u32>,
    oci_runtime_pids: Vec<u32>,
    conmon_pids: Vec<u32>,
    /// The OCI runtimes with their command lines, which are read on first use.
    oci_runtimes: OnceCell<Vec<OciProcess>>,
    /// The conmons with their command lines, which are read on first use.
    conmons: OnceCell<Vec<Conmon>>,
}

impl ProcessTable {
    /// Reads all processes of the node, and finds the shims, conmons and OCI runtimes among them.
    fn read(node: &NodeView, trust: &ProcessTrust) -> Self {
        let proc = &node.proc;
        let mut table = Self { proc: proc.clone(), listed: node.listed.clone(), ..Self::default() };
        let pids = KernelDir::open(proc).map(|dir| dir.numbered()).unwrap_or_default();
        for pid in pids {
            let dir = proc.join(pid.to_string());
            let Some(stat) = ProcessStat::read(&dir) else { continue };
            table.parents.insert(pid, stat.parent);
            if stat.comm.starts_with("containerd-shim") && has_role(trust, &dir, Role::Shim).is_ok() {
                table.shim_pids.push(pid);
            }
            if is_oci_runtime(&stat.comm) && has_role(trust, &dir, Role::OciRuntime).is_ok() {
                table.oci_runtime_pids.push(pid);
            }
            if is_conmon(&stat.comm) && has_role(trust, &dir, Role::Shim).is_ok() {
                table.conmon_pids.push(pid);
            }
            if let Ok(cgroup) = kernel_text(&dir.join("cgroup"))
                && let Some(id) = cgroup::id_of(&cgroup)
            {
                table.pid_by_id.entry(id).or_insert(pid);
            }
        }
        table
    }

    /// Reads the `stat` file of a process.
    fn stat(&self, pid: u32) -> Option<ProcessStat> {
        ProcessStat::read(&self.proc.join(pid.to_string()))
    }

    /// Returns the shim that is an ancestor of the process `descendant`, otherwise the shim that has the id `sandbox` on
    /// its command line.
    fn shim(&self, descendant: Option<u32>, sandbox: Option<&str>) -> Option<u32> {
        let mut ancestor = descendant;
        for _ in 0..8 {
            let Some(pid) = ancestor else { break };
            if self.shim_pids.contains(&pid) {
                return Some(pid);
            }
            ancestor = self.parents.get(&pid).copied();
        }
        let sandbox = sandbox?;
        self.shim_pids
            .iter()
            .copied()
            .find(|pid| command_line(&self.proc.join(pid.to_string())).mentions(sandbox))
    }

    /// Returns the child of `parent` with the smallest process id that is a network plugin, if all network plugins among
    /// the children work for the same sandbox.
    fn network_plugin(&self, parent: u32) -> Option<u32> {
        let children = self.parents.iter().filter(|(_, other)| **other == parent).map(|(pid, _)| *pid);
        let plugins: BTreeMap<u32, String> =
            children.filter_map(|pid| Some((pid, self.sandbox_of_plugin(pid)?.id))).collect();
        let (first, sandbox) = plugins.iter().next()?;
        plugins.values().all(|other| other == sandbox).then_some(*first)
    }

    /// Returns the sandbox and the pod for which a network plugin works, from two variables of its environment. No other
    /// variable is used.
    fn sandbox_of_plugin(&self, pid: u32) -> Option<FoundContainer> {
        // Reading the environment of a process in uninterruptible sleep could block.
        self.stat(pid).filter(|stat| stat.state != 'D')?;
        let bytes = kernel_bytes(&self.proc.join(pid.to_string()).join("environ")).ok()?;
        let value = |name: &str| {
            bytes.split(|byte| *byte == 0).find_map(|entry| {
                let (key, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
                (key == name).then(|| value.to_owned())
            })
        };
        let id = value("CNI_CONTAINERID").filter(|id| is_id(id))?;
        let arguments = value("CNI_ARGS")?;
        let argument = |name: &str| {
            let mut pairs = arguments.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let pod = PodRef {
            uid: argument("K8S_POD_UID"),
            namespace: argument("K8S_POD_NAMESPACE"),
            name: argument("K8S_POD_NAME"),
        };
        let evidence = format!("the network plugin (pid {pid}) was started for {pod}");
        let found = FoundContainer {
            name: Some(CriName { container: None, pod: pod.clone() }),
            id,
            evidence,
            ..FoundContainer::default()
        };
        (!pod.name.is_empty()).then_some(found)
    }

    /// Returns the child of `parent` with the smallest process id that is an OCI runtime.
    fn oci_runtime_pid(&self, parent: u32) -> Option<u32> {
        let children =
            self.oci_runtime_pids.iter().copied().filter(|pid| self.parents.get(pid) == Some(&parent));
        children.min()
    }

    /// Returns the OCI runtime that a shim started and for which it waits.
    fn oci_runtime_of_shim(&self, shim: u32) -> Option<&OciProcess> {
        let oldest = self.oci_runtime_pid(shim)?;
        self.oci_runtimes().iter().find(|process| process.pid == oldest)
    }

    /// Returns all conmons whose command line names a container.
    fn conmons(&self) -> &[Conmon] {
        self.conmons
            .get_or_init(|| self.conmon_pids.iter().filter_map(|pid| Conmon::of(&self.proc, *pid)).collect())
    }

    /// Returns the conmon of a container.
    fn conmon_of(&self, id: &str) -> Option<&Conmon> {
        self.conmons().iter().find(|conmon| conmon.id == id)
    }

    /// Returns all running OCI runtimes.
    fn oci_runtimes(&self) -> &[OciProcess] {
        self.oci_runtimes.get_or_init(|| {
            self.oci_runtime_pids.iter().filter_map(|pid| OciProcess::of(&self.proc, *pid)).collect()
        })
    }

    /// Describes the OCI runtime or the conmon with this id on its command line. This confirms the id of a container
    /// that has no cgroup yet.
    fn process_with_id(&self, id: &str) -> Option<String> {
        let oci_runtime = self.oci_runtimes().iter().find(|process| process.id.as_deref() == Some(id));
        let conmon = || self.conmon_of(id).map(|conmon| format!("conmon (pid {})", conmon.pid));
        oci_runtime.map(OciProcess::description).or_else(conmon)
    }

    /// Returns the OCI runtime that creates a container below a conmon or a shim; `None` if there are several.
    fn only_create(&self, below_conmon: bool) -> Option<&OciProcess> {
        let parents = if below_conmon { &self.conmon_pids } else { &self.shim_pids };
        let is_create = |process: &&OciProcess| {
            process.sub_command.as_deref() == Some("create") && parents.contains(&process.parent)
        };
        let mut creates = self.oci_runtimes().iter().filter(is_create);
        creates.next().filter(|_| creates.next().is_none())
    }

    /// Returns the OCI runtime's create command for which a goroutine waits. With CRI-O, conmon runs it; with
    /// containerd, the shim. It is known only if exactly one create command runs and exactly one goroutine waits for a
    /// create.
    fn awaited_create(&self, root: &Goroutine, roots: u64) -> Option<&OciProcess> {
        let innermost = root.frames.get(wait::innermost_frame(root)).map_or("", |frame| &*frame.function);
        let below_conmon = innermost.ends_with("oci.(*runtimeOCI).CreateContainer");
        let below_shim = wait::shim_call(root) == Some("Create");
        (roots == 1 && (below_conmon || below_shim)).then(|| self.only_create(below_conmon))?
    }

    /// Returns the container on which an OCI runtime works, with the pod that its conmon or shim names.
    fn container_of(&self, process: &OciProcess) -> Option<FoundContainer> {
        let id = process.id.clone()?;
        let name = self.conmon_of(&id).and_then(|conmon| conmon.name.clone());
        let pod_of_shim = || {
            let shim = command_line(&self.proc.join(process.parent.to_string()));
            let sandbox = self.pid_by_id.get(shim.flag("id")?)?;
            let cgroups = kernel_text(&self.proc.join(sandbox.to_string()).join("cgroup")).ok()?;
            cgroup::pod_uid_of(cgroup::path_of(&cgroups).0)
        };
        let uid = if name.is_none() { pod_of_shim() } else { None };
        let short = id.get(..13).unwrap_or(&id).to_owned();
        let mut evidence = format!("{short} is in the command line of {}", process.description());
        if self.conmon_pids.contains(&process.parent) {
            evidence = format!("{evidence}, which conmon (pid {}) started", process.parent);
        }
        Some(FoundContainer { id, name, uid, evidence, ..FoundContainer::default() })
    }
}

/// Returns whether a text has the form of an id of a container or sandbox: 64 lower-case hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

/// The running process that wrote a dump.
struct DaemonProcess {
    pid: u32,
    daemon: Daemon,
    /// `/proc/PID`
    dir: PathBuf,
    /// `/proc/PID/mem`, if it could be opened.
    memory: Option<File>,
}

impl DaemonProcess {
    /// Finds the process of a dump, if it runs on this node. An error has a reason only if the user should read it.
    /// Refuses a process that has the daemon's name but is not trusted to be the daemon.
    fn of(
        source: &DumpSource,
        daemon: Daemon,
        node: &NodeView,
        trust: &ProcessTrust,
    ) -> Result<Self, Option<String>> {
        if source.past.is_some() {
            return Err(Some(
                "no names are read, because the dump does not show the present state".to_owned(),
            ));
        }
        let pid = match source.pid {
            Some(pid) => pid,
            None if node.user_says_same_node => {
                only_trusted_process(daemon, &node.proc, trust).ok_or(None)?
            }
            None => return Err(None),
        };
        let dir = node.proc.join(pid.to_string());
        let opened = KernelDir::open(&dir).map_err(|_| None)?;
        let stat = ProcessStat::read(&dir).ok_or(None)?;
        // Since the dump was taken, another program may have received the process id.
        let role = role_of(daemon).filter(|_| comm_fits(daemon, &stat.comm)).ok_or(None)?;
        let awake = !waits_uninterruptibly(&dir);
        trust.judge(&opened, role, awake).map_err(|why| {
            Some(format!("no names are read: {}[{pid}] does not count as the daemon: {why}", stat.comm))
        })?;
        let memory = opened.file("mem").ok();
        Ok(Self { pid, daemon, dir, memory })
    }

    /// Reads a string from the memory of the process. Refuses strings with spaces or control characters.
    fn string(&self, pointer: u64, length: u64) -> Option<String> {
        if pointer < 4096 || length == 0 || length > MAX_STRING {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.memory.as_ref()?.read_exact_at(&mut bytes, pointer).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        text.bytes().all(|byte| byte.is_ascii_graphic()).then_some(text)
    }

    /// Reads a container id from memory.
    fn id(&self, pointer: u64) -> Option<String> {
        self.string(pointer, ID_LENGTH).filter(|id| is_id(id))
    }

    /// Adds the pod, the container and the process to one finding, with the evidence for them.
    fn add_names(&self, finding: &mut Finding, source: &DumpSource, table: &ProcessTable) {
        let first_roots = finding.chain.roots.iter().take(MAX_ROOTS);
        let roots: Vec<&Goroutine> = first_roots.filter_map(|at| source.dump.goroutines.get(*at)).collect();
        let Some(first) = roots.first() else { return };
        let Some(holder) = finding.holder.as_mut() else { return };
        let child = matches!(wait::external_wait(first), Some(ExternalWait::Child(_)))
            .then(|| self.child(first, &finding.id, table))
            .flatten();
        let plugin = child.and_then(|pid| table.sandbox_of_plugin(pid));
        let oci_runtime = match child {
            Some(pid) => table.oci_runtimes().iter().find(|process| process.pid == pid),
            None => table.awaited_create(first, finding.chain.root_count),
        };
        // Another root may work for another container, unless it waits for the same shim.
        let shim = wait::shim_client(first);
        let has_same_shim = |root: &&&Goroutine| shim.is_some() && wait::shim_client(root) == shim;
        let container = plugin
            .or_else(|| oci_runtime.and_then(|process| table.container_of(process)))
            .or_else(|| self.identify(first, table))
            .or_else(|| {
                roots.iter().skip(1).filter(has_same_shim).find_map(|root| self.identify(root, table))
            });
        if let Some(container) = &container {
            container.add_to(holder);
            finding.evidence.push(container.evidence.clone());
        }
        for other_root in roots.iter().skip(1) {
            if let Some(other) = self.identify(other_root, table)
                && container.as_ref().is_none_or(|container| container.id != other.id)
            {
                // With ST12, each container has its own stop or its own conmon.
                let what = if finding.id == conmon::SIGNATURE { "too" } else { "for the same" };
                finding.evidence.push(format!("{} waits {what}: {}", other.description(), other.evidence));
            }
        }
        let context =
            WaitContext { root: first, container: container.as_ref(), signature: &finding.id, oci_runtime };
        let waits_for = &mut holder.waits_for;
        let stopped = self.add_process(waits_for, &context, table);
        if waits_for.kind == WaitKind::Shim
            && let Some(shim) = waits_for.pid
            && let Some(process) = oci_runtime.or_else(|| table.oci_runtime_of_shim(shim))
        {
            finding.evidence.push(format!("that shim waits for {}", process.description()));
        }
        if stopped {
            raise_confidence(finding);
        }
    }

    /// Finds the container or the pod for which a goroutine works.
    fn identify(&self, goroutine: &Goroutine, table: &ProcessTable) -> Option<FoundContainer> {
        if self.daemon == Daemon::Kubelet {
            return self.pod_uid(goroutine);
        }
        let from_argument = wait::container_strings(goroutine).and_then(|strings| {
            let id = self.id(strings.id.0)?;
            let name = self.string(strings.name.0, strings.name.1).and_then(|name| CriName::parse(&name));
            let sandbox = strings.sandbox.and_then(|sandbox| self.id(sandbox.0));
            Some(FoundContainer { id, name, sandbox, ..FoundContainer::default() })
        });
        if let Some(container) = from_argument {
            return container.verified(table, "read from the memory of the process");
        }
        if let Some(init) = wait::updated_init_pid(goroutine)
            && let Ok(cgroup) = kernel_text(&table.proc.join(init.to_string()).join("cgroup"))
            && let Some(id) = cgroup::id_of(&cgroup)
        {
            return FoundContainer { id, ..FoundContainer::default() }
                .verified(table, "the cgroup of the container's first process");
        }
        if let Some(container) = self.container_in_request(goroutine, table) {
            return Some(container);
        }
        wait::id_addresses(goroutine).into_iter().find_map(|pointer| {
            let id = self.id(pointer)?;
            FoundContainer { id, ..FoundContainer::default() }
                .verified(table, "read from the memory of the process")
        })
    }

    /// Finds the container whose id is the first field of the request message that a goroutine serves.
    fn container_in_request(&self, goroutine: &Goroutine, table: &ProcessTable) -> Option<FoundContainer> {
        // The offset of the first field in the two layouts that Go code for CRI messages has.
        const FIRST_FIELD: [u64; 2] = [0, 8];
        let call = wait::cri_call(goroutine)?;
        let request = wait::request_address(goroutine, call.rpc)?;
        let id = FIRST_FIELD.iter().find_map(|offset| {
            let (pointer, length) = self.string_header(request.checked_add(*offset)?)?;
            (length == ID_LENGTH).then(|| self.id(pointer))?
        })?;
        let container = FoundContainer { id, ..FoundContainer::default() }
            .verified(table, "read from the request that it serves")?;
        // These calls name a sandbox, so the id must not be reported as that of a container. Only a sandbox whose name
        // is known is reported.
        let is_sandbox = call.rpc.contains("PodSandbox") || call.rpc == "CreateContainer";
        let is_named_sandbox = || container.name.as_ref().is_some_and(|name| name.container.is_none());
        (!is_sandbox || is_named_sandbox()).then_some(container)
    }

    /// Reads a Go string header, which has the address and the length of a string, at `at`.
    fn string_header(&self, at: u64) -> Option<(u64, u64)> {
        let mut bytes = [0; 16];
        self.memory.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
        let (pointer, length) = bytes.split_at_checked(8)?;
        Some((u64::from_le_bytes(pointer.try_into().ok()?), u64::from_le_bytes(length.try_into().ok()?)))
    }

    /// Finds the pod of a kubelet's pod worker by the pod UID among its arguments.
    fn pod_uid(&self, goroutine: &Goroutine) -> Option<FoundContainer> {
        // UIDs from the API server have dashes; those of static pods do not.
        const UID_LENGTHS: [u64; 2] = [36, 32];
        let worker = goroutine.frames.iter().find(|frame| frame.function.contains("podWorkerLoop"))?;
        let words: Vec<(u64, bool)> = worker.words().collect();
        let uid = words.windows(2).find_map(|pair| match pair {
            [(pointer, true), (length, true)] if UID_LENGTHS.contains(length) => {
                self.string(*pointer, *length)
            }
            _ => None,
        })?;
        let is_uid = uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        is_uid.then(|| FoundContainer {
            uid: Some(uid),
            evidence: "pod UID read from the memory of the process".to_owned(),
            ..FoundContainer::default()
        })
    }

    /// Returns the child process for which a goroutine waits: the process of its pidfd, otherwise the child that fits
    /// the signature.
    fn child(&self, root: &Goroutine, signature: &str, table: &ProcessTable) -> Option<u32> {
        match (wait::child_pidfd(root), signature) {
            (Some(fd), _) => self.process_of_pidfd(fd),
            (None, "ST03") => table.network_plugin(self.pid),
            (None, _) => table.oci_runtime_pid(self.pid),
        }
    }

    /// Adds the process or the file for which a root waits to `waits_for`. Returns whether it is certainly the right
    /// process and is stopped.
    fn add_process(&self, waits_for: &mut WaitsFor, context: &WaitContext<'_>, table: &ProcessTable) -> bool {
        let WaitContext { root, container, signature, oci_runtime } = *context;
        let outside = wait::external_wait(root);
        let waits_for_conmon = signature == conmon::SIGNATURE
            && matches!(
                conmon::ConmonWait::of(root),
                Some(conmon::ConmonWait::LogReopen | conmon::ConmonWait::Exit(_))
            );
        let conmon =
            container.filter(|_| waits_for_conmon).and_then(|container| table.conmon_of(&container.id));
        let conmon = conmon.map(|conmon| conmon.pid);
        let pid = match outside {
            Some(ExternalWait::Child(_)) => self.child(root, signature, table),
            Some(ExternalWait::Shim(_)) if waits_for.kind == WaitKind::Shim => {
                let sandbox =
                    container.and_then(|container| container.sandbox.as_deref().or(Some(&container.id)));
                let init_or_member = wait::updated_init_pid(root)
                    .or_else(|| container.and_then(|container| table.pid_by_id.get(&container.id).copied()));
                table.shim(init_or_member, sandbox).or_else(|| oci_runtime.map(|process| process.parent))
            }
            Some(ExternalWait::File(_, Some(fd))) => {
                waits_for.path = fs::read_link(self.dir.join("fd").join(fd.to_string()))
                    .ok()
                    .map(|path| path.display().to_string());
                None
            }
            _ if conmon.is_some() => conmon,
            _ => match container.filter(|_| signature == conmon::SIGNATURE) {
                Some(container) => table.pid_by_id.get(&container.id).copied(),
                None => oci_runtime.map(|process| process.pid),
            },
        };
        let Some(pid) = pid else { return false };
        let Some(stat) = table.stat(pid) else { return false };
        waits_for.pid = Some(pid);
        waits_for.state = Some(children::state_name(stat.state).to_owned());
        if waits_for.kind != WaitKind::Shim {
            waits_for.path = Some(stat.comm);
        }
        let is_sure =
            conmon.is_some() || matches!(outside, Some(ExternalWait::Shim(_) | ExternalWait::Child(Some(_))));
        stat.state == 'T' && is_sure
    }

    /// Returns the process to which a pidfd of the daemon refers.
    fn process_of_pidfd(&self, fd: u64) -> Option<u32> {
        let text = kernel_text(&self.dir.join("fdinfo").join(fd.to_string())).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok()).filter(|pid| *pid > 0)
    }
}

/// A root whose target is searched, with what is already known.
struct WaitContext<'a> {
    root: &'a Goroutine,
    container: Option<&'a FoundContainer>,
    signature: &'a str,
    oci_runtime: Option<&'a OciProcess>,
}

/// Raises the confidence of a finding whose root waits for a stopped process: to certain if addresses lead from the
/// waiters to the root, otherwise to likely. The length of the wait does not matter.
fn raise_confidence(finding: &mut Finding) {
    let sure = if finding.chain.by_address { Confidence::Certain } else { Confidence::Likely };
    finding.confidence = finding.confidence.min(sure);
    finding.chain.is_proven = true;
    if let Some(severity) = finding.chain.full_severity {
        finding.severity = finding.severity.max(severity);
    }
    finding.evidence.push("the process that it waits for is stopped (state T)".to_owned());
}

/// Returns whether the kernel's name of a process fits the program of a dump.
fn comm_fits(daemon: Daemon, comm: &str) -> bool {
    match daemon {
        Daemon::Containerd => comm == "containerd" || comm == "k3s-server" || comm == "k3s-agent",
        // The kernel keeps fifteen characters of a name.
        Daemon::ContainerdShim => comm.starts_with("containerd-shim"),
        Daemon::Crio => comm == "crio",
        Daemon::Kubelet => comm == "kubelet" || comm.starts_with("k3s-") || comm == "kubelite",
        Daemon::Unknown => false,
    }
}

/// Returns the role for which the process of a dump must be trusted.
const fn role_of(daemon: Daemon) -> Option<Role> {
    match daemon {
        Daemon::Containerd | Daemon::Crio => Some(Role::Daemon),
        Daemon::ContainerdShim => Some(Role::Shim),
        Daemon::Kubelet => Some(Role::Kubelet),
        Daemon::Unknown => None,
    }
}

/// Checks that the process in `dir` is trusted to have `role`.
fn has_role(trust: &ProcessTrust, dir: &Path, role: Role) -> Result<(), Disqualification> {
    let opened = KernelDir::open(dir).map_err(|_| Disqualification::Unknown)?;
    trust.judge(&opened, role, !waits_uninterruptibly(dir)).map(drop)
}

/// Returns the process of a daemon, if exactly one trusted process has the daemon's name.
pub fn only_process(daemon: Daemon, proc: &Path) -> Option<u32> {
    only_trusted_process(daemon, proc, &ProcessTrust::of_table(proc))
}

fn only_trusted_process(daemon: Daemon, proc: &Path, trust: &ProcessTrust) -> Option<u32> {
    let role = role_of(daemon)?;
    let pids = KernelDir::open(proc).ok()?.numbered();
    let mut fitting = pids.into_iter().filter(|pid| {
        let dir = proc.join(pid.to_string());
        ProcessStat::read(&dir).is_some_and(|stat| comm_fits(daemon, &stat.comm))
            && has_role(trust, &dir, role).is_ok()
    });
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

/// A container or sandbox for which a goroutine works, or only its pod.
#[derive(Debug, Default)]
struct FoundContainer {
    /// The id of the container or sandbox; empty if only the pod is known.
    id: String,
    name: Option<CriName>,
    /// The id of the container's sandbox.
    sandbox: Option<String>,
    /// The pod's UID, if the name is not known.
    uid: Option<String>,
    /// How the container was found, as evidence for the finding.
    evidence: String,
}

impl FoundContainer {
    /// Keeps the container only if a second source confirms its id: the runtime's lists, a cgroup, a command line, or a
    /// name in the CRI's format next to the id.
    fn verified(mut self, table: &ProcessTable, how: &str) -> Option<Self> {
        let has_name_in_memory = self.name.is_some();
        if !has_name_in_memory {
            self.name = table.conmon_of(&self.id).and_then(|conmon| conmon.name.clone());
        }
        let sandbox_listed = || self.sandbox.as_ref().is_some_and(|sandbox| table.listed.contains(sandbox));
        let confirmation = if table.listed.contains(&self.id) {
            "the runtime lists that id".to_owned()
        } else if table.pid_by_id.contains_key(&self.id) {
            "a cgroup of this node has that id".to_owned()
        } else if sandbox_listed() {
            "the runtime lists its sandbox".to_owned()
        } else if let Some(process) = table.process_with_id(&self.id) {
            format!("{process} has that id in its command line")
        } else if has_name_in_memory {
            "its name has the form of the CRI".to_owned()
        } else {
            return None;
        };
        self.evidence = format!("{} {how}; {confirmation}", self.id.get(..13).unwrap_or(&self.id));
        Some(self)
    }

    /// Returns `namespace/pod/container`, as far as it is known, otherwise the pod UID or the id.
    fn description(&self) -> String {
        match &self.name {
            Some(CriName { container: Some(container), pod }) => format!("{pod}/{container}"),
            Some(CriName { container: None, pod }) => pod.to_string(),
            None => self.uid.as_ref().unwrap_or(&self.id).clone(),
        }
    }

    /// Sets the pod and the container of a holder.
    fn add_to(&self, holder: &mut Holder) {
        let container = self.name.as_ref().and_then(|name| name.container.clone()).unwrap_or_default();
        // A sandbox belongs to a pod, not to a container.
        let is_sandbox = self.name.as_ref().is_some_and(|name| name.container.is_none());
        let is_container = !is_sandbox && !self.id.is_empty();
        holder.container = is_container.then(|| ContainerRef { id: self.id.clone(), name: container });
        let by_uid = || self.uid.clone().map(|uid| PodRef { uid, ..PodRef::default() });
        holder.pod = self.name.as_ref().map(|name| name.pod.clone()).or_else(by_uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use plegctl_node::host::proc::copies::{self, KUBELET, TableProcess};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn an_untrusted_oci_runtime_names_no_container() {
        let copy = copies::ProcTable::new("oci").unwrap();
        let line = format!("runc create {ID}");
        let runc = TableProcess { comm: "runc", line: &line, cgroup: "/system.slice", ..KUBELET };
        copy.process(7, &TableProcess { uids: [4_000_000; 4], ..runc }).unwrap();
        copy.process(8, &TableProcess { namespace_pids: "8 1", pid_namespace: "pid:[2]", ..runc }).unwrap();
        let read = || ProcessTable::read(&NodeView::at(&copy.proc()), &ProcessTrust::of_table(&copy.proc()));
        assert_eq!(read().process_with_id(ID), None);
        copy.process(9, &runc).unwrap();
        assert!(read().process_with_id(ID).is_some_and(|who| who.starts_with("runc create (pid 9")));
    }

    #[test]
    fn an_id_has_sixty_four_lower_case_hexadecimal_digits() {
        assert!(is_id(ID));
        assert!(!is_id(&ID.to_uppercase()));
        assert!(!is_id(&ID[1..]));
    }

    #[test]
    fn an_id_that_no_second_source_confirms_is_not_used() {
        let table = |ids: &[&str]| ProcessTable {
            proc: "/nowhere".into(),
            pid_by_id: ids.iter().map(|id| ((*id).to_owned(), 7)).collect(),
            listed: BTreeSet::new(),
            parents: HashMap::new(),
            shim_pids: Vec::new(),
            oci_runtime_pids: Vec::new(),
            conmon_pids: Vec::new(),
            oci_runtimes: OnceCell::new(),
            conmons: OnceCell::new(),
        };
        let found = || FoundContainer { id: ID.to_owned(), ..FoundContainer::default() };
        assert!(found().verified(&table(&[]), "here").is_none());
        assert!(found().verified(&table(&[ID]), "here").is_some());
        let listed = ProcessTable { listed: BTreeSet::from([ID.to_owned()]), ..table(&[]) };
        assert!(found().verified(&listed, "here").unwrap().evidence.contains("the runtime lists that id"));
        let sandbox = FoundContainer {
            id: ID.replace('0', "f"),
            sandbox: Some(ID.to_owned()),
            ..FoundContainer::default()
        };
        assert!(sandbox.verified(&listed, "here").unwrap().evidence.contains("lists its sandbox"));
        let with_name = FoundContainer { name: CriName::parse("a_b_c_d_0"), ..found() };
        assert!(with_name.verified(&table(&[]), "here").is_some());
    }

    #[test]
    fn only_texts_of_the_right_form_are_read_from_the_memory_of_a_process() {
        // The test's own memory, at a known address.
        let text = format!("{ID}/");
        let process = DaemonProcess {
            pid: std::process::id(),
            daemon: Daemon::Containerd,
            dir: "/proc/self".into(),
            memory: File::open("/proc/self/mem").ok(),
        };
        let pointer = text.as_ptr().addr() as u64;
        assert_eq!(process.id(pointer).as_deref(), Some(ID));
        assert_eq!(process.id(pointer + 1), None);
        assert_eq!(process.string(pointer, MAX_STRING + 1), None);
        assert_eq!(process.string(8, 4), None);
    }
}
