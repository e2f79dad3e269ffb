//! Finds the pods, containers and processes behind the addresses in a dump while the dump's process still waits.
//!
//! A dump contains no id, but it contains the address of the id: 64 bytes of `/proc/PID/mem`. This module only reads,
//! with limits, and traces and stops nothing. It uses what it read only if the text looks like an id *and* a second
//! source knows that id: the runtime's own lists, a cgroup of this node, or the name next to the id in the CRI's
//! format. For a hanging network plugin, it reads the plugin's environment, which names the pod.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::children::{self, Conmon, OciProcess, is_oci_runtime};
use super::conmon;
use super::daemon::Daemon;
use super::dump::Goroutine;
use super::judge::DumpSource;
use super::report::{Finding, Holder, StackReport, WaitKind, WaitsFor};
use super::wait::{self, ExternalWait, ID_LENGTH};
use crate::host::proc::{
    Disqualification, ProcessStat, ProcessTrust, Role, cgroup, command_line, is_conmon, waits_uninterruptibly,
};
use crate::host::{CriName, KernelDir, kernel_bytes, kernel_text};
use crate::report::{Confidence, ContainerRef, PodRef};

/// The longest string of the CRI.
const LONGEST_STRING: u64 = 512;

/// How many findings are looked up, and how many goroutines of each.
const FINDINGS: usize = 8;
const ROOTS: usize = 4;

/// The node on which names are looked up, and what is already known about it.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// The path of the process table.
    pub proc: PathBuf,
    /// Whether the user stated that the dump is of this node, although nothing in the dump shows it.
    pub user_says_same_node: bool,
    /// Ids of containers and sandboxes that the runtime lists, if it answered.
    pub listed: BTreeSet<String>,
}

impl NodeView {
    /// The node with this process table; the runtime was not called.
    pub fn at(proc: &Path) -> Self {
        Self { proc: proc.to_owned(), ..Self::default() }
    }
}

/// Names the pod, container and process of every finding in `report`, and returns what could not be named.
pub fn name(report: &mut StackReport, sources: &[DumpSource], node: &NodeView) -> Vec<String> {
    let mut limits = Vec::new();
    let trust = ProcessTrust::of_table(&node.proc);
    let mut lives: HashMap<usize, Option<DaemonProcess>> = HashMap::new();
    let mut table = None;
    for finding in report.findings.iter_mut().take(FINDINGS) {
        let at = finding.chain.dump;
        let (Some(source), Some(info)) = (sources.get(at), report.dumps.get_mut(at)) else { continue };
        let live =
            lives.entry(at).or_insert_with(|| match DaemonProcess::of(source, info.daemon, node, &trust) {
                Ok(found) => Some(found),
                Err(why) => {
                    let why = why.unwrap_or_else(|| {
                        "a saved dump has no names; to get names while the process still runs here, use a \
                     source on this node or --live"
                            .to_owned()
                    });
                    limits.push(format!("{}: {why}", source.name));
                    None
                }
            });
        let Some(process) = live else { continue };
        info.pid = Some(process.pid);
        let table = table.get_or_insert_with(|| ProcessTable::read(node, &trust));
        process.name(finding, source, table);
    }
    limits
}

/// The processes of this node, from their cgroups and parents.
struct ProcessTable {
    proc: PathBuf,
    /// Container ids that some process has, each with one of its processes.
    ids: BTreeMap<String, u32>,
    /// Ids that the runtime lists.
    listed: BTreeSet<String>,
    shims: Vec<u32>,
    parents: HashMap<u32, u32>,
    /// OCI runtimes and conmons. Their command lines are read on first use.
    oci: Vec<u32>,
    conmons: Vec<u32>,
    working: OnceCell<Vec<OciProcess>>,
    watching: OnceCell<Vec<Conmon>>,
}

impl ProcessTable {
    fn read(node: &NodeView, trust: &ProcessTrust) -> Self {
        let proc = &node.proc;
        let mut table = Self {
            proc: proc.clone(),
            ids: BTreeMap::new(),
            listed: node.listed.clone(),
            shims: Vec::new(),
            parents: HashMap::new(),
            oci: Vec::new(),
            conmons: Vec::new(),
            working: OnceCell::new(),
            watching: OnceCell::new(),
        };
        let pids = KernelDir::open(proc).map(|dir| dir.numbered()).unwrap_or_default();
        for pid in pids {
            let dir = proc.join(pid.to_string());
            let Some(stat) = ProcessStat::read(&dir) else { continue };
            table.parents.insert(pid, stat.parent);
            if stat.comm.starts_with("containerd-shim") && counts(trust, &dir, Role::Shim).is_ok() {
                table.shims.push(pid);
            }
            if is_oci_runtime(&stat.comm) && counts(trust, &dir, Role::OciRuntime).is_ok() {
                table.oci.push(pid);
            }
            if is_conmon(&stat.comm) && counts(trust, &dir, Role::Shim).is_ok() {
                table.conmons.push(pid);
            }
            if let Ok(cgroup) = kernel_text(&dir.join("cgroup"))
                && let Some(id) = cgroup::id_of(&cgroup)
            {
                table.ids.entry(id).or_insert(pid);
            }
        }
        table
    }

    fn stat(&self, pid: u32) -> Option<ProcessStat> {
        ProcessStat::read(&self.proc.join(pid.to_string()))
    }

    /// The shim that is an ancestor of a process, or that was started for a sandbox.
    fn shim(&self, member: Option<u32>, sandbox: Option<&str>) -> Option<u32> {
        let mut at = member;
        for _ in 0..8 {
            let Some(pid) = at else { break };
            if self.shims.contains(&pid) {
                return Some(pid);
            }
            at = self.parents.get(&pid).copied();
        }
        let sandbox = sandbox?;
        self.shims
            .iter()
            .copied()
            .find(|pid| command_line(&self.proc.join(pid.to_string())).mentions(sandbox))
    }

    /// The oldest child that is a network plugin, if all such children work for one sandbox.
    fn network_plugin(&self, of: u32) -> Option<u32> {
        let children = self.parents.iter().filter(|(_, parent)| **parent == of).map(|(pid, _)| *pid);
        let plugins: BTreeMap<u32, String> =
            children.filter_map(|pid| Some((pid, self.plugin_is_for(pid)?.id))).collect();
        let (first, sandbox) = plugins.iter().next()?;
        plugins.values().all(|other| other == sandbox).then_some(*first)
    }

    /// The sandbox and the pod of a network plugin, from two variables of its environment and no others.
    fn plugin_is_for(&self, pid: u32) -> Option<FoundContainer> {
        // This read could block for a process in uninterruptible sleep.
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
        let of = |name: &str| {
            let mut pairs = arguments.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let pod =
            PodRef { uid: of("K8S_POD_UID"), namespace: of("K8S_POD_NAMESPACE"), name: of("K8S_POD_NAME") };
        let how = format!("the network plugin (pid {pid}) was started for {pod}");
        let named = FoundContainer {
            name: Some(CriName { container: None, pod: pod.clone() }),
            id,
            how,
            ..FoundContainer::default()
        };
        (!pod.name.is_empty()).then_some(named)
    }

    /// The oldest child of a process that is an OCI runtime.
    fn oci_runtime(&self, of: u32) -> Option<u32> {
        let children = self.oci.iter().copied().filter(|pid| self.parents.get(pid) == Some(&of));
        children.min()
    }

    /// The OCI runtime for which a shim waits.
    fn oci_below(&self, shim: u32) -> Option<&OciProcess> {
        let oldest = self.oci_runtime(shim)?;
        self.oci_processes().iter().find(|process| process.pid == oldest)
    }

    /// All conmons whose command line names a container.
    fn conmons(&self) -> &[Conmon] {
        self.watching
            .get_or_init(|| self.conmons.iter().filter_map(|pid| Conmon::of(&self.proc, *pid)).collect())
    }

    fn conmon_of(&self, id: &str) -> Option<&Conmon> {
        self.conmons().iter().find(|conmon| conmon.id == id)
    }

    /// All OCI runtimes that work on a container now.
    fn oci_processes(&self) -> &[OciProcess] {
        self.working
            .get_or_init(|| self.oci.iter().filter_map(|pid| OciProcess::of(&self.proc, *pid)).collect())
    }

    /// The OCI runtime with this id on its command line, for a container without a cgroup.
    fn works_on(&self, id: &str) -> Option<String> {
        let oci = self.oci_processes().iter().find(|process| process.id.as_deref() == Some(id));
        let conmon = || self.conmon_of(id).map(|conmon| format!("conmon (pid {})", conmon.pid));
        oci.map(OciProcess::words).or_else(conmon)
    }

    /// The only running create below a conmon or a shim; `None` if there are several.
    fn only_create(&self, below_conmon: bool) -> Option<&OciProcess> {
        let below = |process: &&OciProcess| {
            let above = if below_conmon { &self.conmons } else { &self.shims };
            process.verb.as_deref() == Some("create") && above.contains(&process.parent)
        };
        let mut creates = self.oci_processes().iter().filter(below);
        creates.next().filter(|_| creates.next().is_none())
    }

    /// The create for which a goroutine waits. CRI-O lets conmon run it, containerd the shim. It is known if only one
    /// create is running and only one goroutine waits for one.
    fn create_behind(&self, root: &Goroutine, roots: u64) -> Option<&OciProcess> {
        let innermost = root.frames.get(wait::innermost_frame(root)).map_or("", |frame| &*frame.function);
        let below_conmon = innermost.ends_with("oci.(*runtimeOCI).CreateContainer");
        let by_shim = wait::shim_call(root) == Some("Create");
        (roots == 1 && (below_conmon || by_shim)).then(|| self.only_create(below_conmon))?
    }

    /// The container of an OCI runtime, with the pod that its conmon or shim names.
    fn worked_on(&self, process: &OciProcess) -> Option<FoundContainer> {
        let id = process.id.clone()?;
        let name = self.conmon_of(&id).and_then(|conmon| conmon.name.clone());
        let of_pod = || {
            let shim = command_line(&self.proc.join(process.parent.to_string()));
            let sandbox = self.ids.get(shim.flag("id")?)?;
            let cgroups = kernel_text(&self.proc.join(sandbox.to_string()).join("cgroup")).ok()?;
            cgroup::pod_uid_of(cgroup::path_of(&cgroups).0)
        };
        let uid = if name.is_none() { of_pod() } else { None };
        let short = id.get(..13).unwrap_or(&id).to_owned();
        let mut how = format!("{short} is in the command line of {}", process.words());
        if self.conmons.contains(&process.parent) {
            how = format!("{how}, which conmon (pid {}) started", process.parent);
        }
        Some(FoundContainer { id, name, uid, how, ..FoundContainer::default() })
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

/// A daemon whose memory can be read.
struct DaemonProcess {
    pid: u32,
    daemon: Daemon,
    dir: PathBuf,
    memory: Option<File>,
}

impl DaemonProcess {
    /// The process of a dump, if it runs here; otherwise the reason, if there is one to report. The memory of a
    /// process that only has the daemon's name is not read.
    fn of(
        source: &DumpSource,
        daemon: Daemon,
        node: &NodeView,
        trust: &ProcessTrust,
    ) -> Result<Self, Option<String>> {
        let pid = match source.pid {
            Some(pid) => pid,
            None if node.user_says_same_node => only_one(daemon, &node.proc, trust).ok_or(None)?,
            None => return Err(None),
        };
        let dir = node.proc.join(pid.to_string());
        let opened = KernelDir::open(&dir).map_err(|_| None)?;
        let stat = ProcessStat::read(&dir).ok_or(None)?;
        // Another program may have received the process id.
        let role = role_of(daemon).filter(|_| comm_fits(daemon, &stat.comm)).ok_or(None)?;
        let awake = !waits_uninterruptibly(&dir);
        trust.judge(&opened, role, awake).map_err(|why| {
            Some(format!("no names are read: {}[{pid}] does not count as the daemon: {why}", stat.comm))
        })?;
        let memory = opened.file("mem").ok();
        Ok(Self { pid, daemon, dir, memory })
    }

    /// Reads a string of the process.
    fn string(&self, pointer: u64, length: u64) -> Option<String> {
        if pointer < 4096 || length == 0 || length > LONGEST_STRING {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.memory.as_ref()?.read_exact_at(&mut bytes, pointer).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        text.bytes().all(|byte| byte.is_ascii_graphic()).then_some(text)
    }

    fn id(&self, pointer: u64) -> Option<String> {
        self.string(pointer, ID_LENGTH).filter(|id| is_id(id))
    }

    fn name(&self, finding: &mut Finding, source: &DumpSource, table: &ProcessTable) {
        let roots: Vec<&Goroutine> =
            finding.chain.roots.iter().take(ROOTS).filter_map(|at| source.dump.goroutines.get(*at)).collect();
        let Some(first) = roots.first() else { return };
        let Some(holder) = finding.holder.as_mut() else { return };
        let child = matches!(wait::external_wait(first), Some(ExternalWait::Child(_)))
            .then(|| self.child(first, &finding.id, table))
            .flatten();
        let plugin = child.and_then(|pid| table.plugin_is_for(pid));
        let oci = match child {
            Some(pid) => table.oci_processes().iter().find(|process| process.pid == pid),
            None => table.create_behind(first, finding.chain.root_count),
        };
        // Another goroutine may work for another container, unless it waits for the same shim.
        let shim = wait::shim(first);
        let alike = |root: &&&Goroutine| shim.is_some() && wait::shim(root) == shim;
        let named = plugin
            .or_else(|| oci.and_then(|process| table.worked_on(process)))
            .or_else(|| self.identify(first, table))
            .or_else(|| roots.iter().skip(1).filter(alike).find_map(|root| self.identify(root, table)));
        if let Some(named) = &named {
            named.give(holder);
            finding.evidence.push(named.how.clone());
        }
        // Other goroutines that wait for the same thing work for containers too.
        for other in roots.iter().skip(1) {
            if let Some(also) = self.identify(other, table)
                && named.as_ref().is_none_or(|named| named.id != also.id)
            {
                // Each container has its own stop and its own conmon.
                let what = if finding.id == conmon::SIGNATURE { "too" } else { "for the same" };
                finding.evidence.push(format!("{} waits {what}: {}", also.description(), also.how));
            }
        }
        let waits = WaitContext { root: first, named: named.as_ref(), signature: &finding.id, oci };
        let on = &mut holder.waits_for;
        let stopped = self.what_it_waits_for(on, &waits, table);
        if on.kind == WaitKind::Shim
            && let Some(shim) = on.pid
            && let Some(process) = oci.or_else(|| table.oci_below(shim))
        {
            finding.evidence.push(format!("that shim waits for {}", process.words()));
        }
        if stopped {
            raise_confidence(finding);
        }
    }

    /// The container or the pod for which a goroutine works.
    fn identify(&self, goroutine: &Goroutine, table: &ProcessTable) -> Option<FoundContainer> {
        if self.daemon == Daemon::Kubelet {
            return self.pod_uid(goroutine);
        }
        let by_value = wait::by_value(goroutine).and_then(|by_value| {
            let id = self.id(by_value.id.0)?;
            let name = self.string(by_value.name.0, by_value.name.1).and_then(|name| CriName::parse(&name));
            let sandbox = by_value.sandbox.and_then(|sandbox| self.id(sandbox.0));
            Some(FoundContainer { id, name, sandbox, ..FoundContainer::default() })
        });
        if let Some(named) = by_value {
            return named.verified(table, "read from the memory of the process");
        }
        if let Some(init) = wait::update_pid(goroutine)
            && let Ok(cgroup) = kernel_text(&table.proc.join(init.to_string()).join("cgroup"))
            && let Some(id) = cgroup::id_of(&cgroup)
        {
            return FoundContainer { id, ..FoundContainer::default() }
                .verified(table, "the cgroup of the container's first process");
        }
        if let Some(named) = self.by_request(goroutine, table) {
            return Some(named);
        }
        wait::id_strings(goroutine).into_iter().find_map(|pointer| {
            let id = self.id(pointer)?;
            FoundContainer { id, ..FoundContainer::default() }
                .verified(table, "read from the memory of the process")
        })
    }

    /// The id in the request that a goroutine serves: the first field, in both forms of CRI messages in Go.
    fn by_request(&self, goroutine: &Goroutine, table: &ProcessTable) -> Option<FoundContainer> {
        const FIRST_FIELD: [u64; 2] = [0, 8];
        let call = wait::call(goroutine)?;
        let request = wait::request(goroutine, call.rpc)?;
        let id = FIRST_FIELD.iter().find_map(|offset| {
            let (pointer, length) = self.string_header(request.checked_add(*offset)?)?;
            (length == ID_LENGTH).then(|| self.id(pointer))?
        })?;
        let named = FoundContainer { id, ..FoundContainer::default() }
            .verified(table, "read from the request that it serves")?;
        // These calls name a sandbox; only its name shows the pod.
        let is_sandbox = call.rpc.contains("PodSandbox") || call.rpc == "CreateContainer";
        let says_so = || named.name.as_ref().is_some_and(|name| name.container.is_none());
        (!is_sandbox || says_so()).then_some(named)
    }

    /// Reads the address and the length of a string from a string header.
    fn string_header(&self, at: u64) -> Option<(u64, u64)> {
        let mut bytes = [0; 16];
        self.memory.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
        let (pointer, length) = bytes.split_at_checked(8)?;
        Some((u64::from_le_bytes(pointer.try_into().ok()?), u64::from_le_bytes(length.try_into().ok()?)))
    }

    /// The pod UID in the arguments of a kubelet's pod worker.
    fn pod_uid(&self, goroutine: &Goroutine) -> Option<FoundContainer> {
        const UID: [u64; 2] = [36, 32];
        let worker = goroutine.frames.iter().find(|frame| frame.function.contains("podWorkerLoop"))?;
        let words: Vec<(u64, bool)> = worker.words().collect();
        let uid = words.windows(2).find_map(|pair| match pair {
            [(pointer, true), (length, true)] if UID.contains(length) => self.string(*pointer, *length),
            _ => None,
        })?;
        let looks = uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        looks.then(|| FoundContainer {
            uid: Some(uid),
            how: "pod UID read from the memory of the process".to_owned(),
            ..FoundContainer::default()
        })
    }

    /// The child for which a goroutine waits: by its pidfd, or as the only child that fits the signature.
    fn child(&self, root: &Goroutine, signature: &str, table: &ProcessTable) -> Option<u32> {
        match (wait::pidfd(root), signature) {
            (Some(fd), _) => self.pidfd(fd),
            (None, "ST03") => table.network_plugin(self.pid),
            (None, _) => table.oci_runtime(self.pid),
        }
    }

    /// Fills in what is waited for, and returns whether that is certainly stopped.
    fn what_it_waits_for(&self, on: &mut WaitsFor, waits: &WaitContext<'_>, table: &ProcessTable) -> bool {
        let WaitContext { root, named, signature, oci } = *waits;
        let outside = wait::external_wait(root);
        let asks_conmon = signature == conmon::SIGNATURE
            && matches!(
                conmon::ConmonWait::of(root),
                Some(conmon::ConmonWait::Log | conmon::ConmonWait::Exit(_))
            );
        let conmon = named.filter(|_| asks_conmon).and_then(|named| table.conmon_of(&named.id));
        let conmon = conmon.map(|conmon| conmon.pid);
        let pid = match outside {
            Some(ExternalWait::Child(_)) => self.child(root, signature, table),
            Some(ExternalWait::Shim(_)) if on.kind == WaitKind::Shim => {
                let sandbox = named.and_then(|named| named.sandbox.as_deref().or(Some(&named.id)));
                let member = wait::update_pid(root)
                    .or_else(|| named.and_then(|named| table.ids.get(&named.id).copied()));
                table.shim(member, sandbox).or_else(|| oci.map(|process| process.parent))
            }
            Some(ExternalWait::File(_, Some(fd))) => {
                on.path = fs::read_link(self.dir.join("fd").join(fd.to_string()))
                    .ok()
                    .map(|path| path.display().to_string());
                None
            }
            _ if conmon.is_some() => conmon,
            _ => match named.filter(|_| signature == conmon::SIGNATURE) {
                Some(named) => table.ids.get(&named.id).copied(),
                None => oci.map(|process| process.pid),
            },
        };
        let Some(pid) = pid else { return false };
        let Some(stat) = table.stat(pid) else { return false };
        on.pid = Some(pid);
        on.state = Some(children::state_words(stat.state).to_owned());
        if on.kind != WaitKind::Shim {
            on.path = Some(stat.comm);
        }
        let is_sure =
            conmon.is_some() || matches!(outside, Some(ExternalWait::Shim(_) | ExternalWait::Child(Some(_))));
        stat.state == 'T' && is_sure
    }

    /// The process behind a pidfd.
    fn pidfd(&self, fd: u64) -> Option<u32> {
        let text = kernel_text(&self.dir.join("fdinfo").join(fd.to_string())).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok()).filter(|pid| *pid > 0)
    }
}

/// A goroutine to look up, with what is already known.
struct WaitContext<'a> {
    root: &'a Goroutine,
    named: Option<&'a FoundContainer>,
    signature: &'a str,
    oci: Option<&'a OciProcess>,
}

/// Raises the confidence if the process that is waited for is stopped, however short the wait is: to certain if the
/// waiters lead there by address, otherwise to likely.
fn raise_confidence(finding: &mut Finding) {
    let sure = if finding.chain.by_address { Confidence::Certain } else { Confidence::Likely };
    finding.confidence = finding.confidence.min(sure);
    if let Some(severity) = finding.chain.severity {
        finding.severity = finding.severity.max(severity);
    }
    finding.evidence.push("what it waits for is stopped (state T)".to_owned());
}

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

/// The role that the process of a dump must have.
const fn role_of(daemon: Daemon) -> Option<Role> {
    match daemon {
        Daemon::Containerd | Daemon::Crio => Some(Role::Daemon),
        Daemon::ContainerdShim => Some(Role::Shim),
        Daemon::Kubelet => Some(Role::Kubelet),
        Daemon::Unknown => None,
    }
}

/// Whether the process in `dir` qualifies for `role`.
fn counts(trust: &ProcessTrust, dir: &Path, role: Role) -> Result<(), Disqualification> {
    let opened = KernelDir::open(dir).map_err(|_| Disqualification::Unknown)?;
    trust.judge(&opened, role, !waits_uninterruptibly(dir)).map(drop)
}

/// The only process of a daemon, if there is exactly one.
fn only_one(daemon: Daemon, proc: &Path, trust: &ProcessTrust) -> Option<u32> {
    let role = role_of(daemon)?;
    let pids = KernelDir::open(proc).ok()?.numbered();
    let mut fitting = pids.into_iter().filter(|pid| {
        let dir = proc.join(pid.to_string());
        ProcessStat::read(&dir).is_some_and(|stat| comm_fits(daemon, &stat.comm))
            && counts(trust, &dir, role).is_ok()
    });
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

/// A container that was found.
#[derive(Debug, Default)]
struct FoundContainer {
    id: String,
    name: Option<CriName>,
    sandbox: Option<String>,
    uid: Option<String>,
    how: String,
}

impl FoundContainer {
    /// Keeps the container only if the runtime lists it, a cgroup of this node has its id, or the name next to the id
    /// has the CRI's format.
    fn verified(mut self, table: &ProcessTable, how: &str) -> Option<Self> {
        let named_beside = self.name.is_some();
        if !named_beside {
            self.name = table.conmon_of(&self.id).and_then(|conmon| conmon.name.clone());
        }
        let sandbox_listed = || self.sandbox.as_ref().is_some_and(|sandbox| table.listed.contains(sandbox));
        let by = if table.listed.contains(&self.id) {
            "the runtime lists that id".to_owned()
        } else if table.ids.contains_key(&self.id) {
            "a cgroup of this node has that id".to_owned()
        } else if sandbox_listed() {
            "the runtime lists its sandbox".to_owned()
        } else if let Some(process) = table.works_on(&self.id) {
            format!("{process} has that id in its command line")
        } else if named_beside {
            "its name has the form of the CRI".to_owned()
        } else {
            return None;
        };
        self.how = format!("{} {how}; {by}", self.id.get(..13).unwrap_or(&self.id));
        Some(self)
    }

    /// `namespace/pod/container`, as far as known.
    fn description(&self) -> String {
        match &self.name {
            Some(CriName { container: Some(container), pod }) => format!("{pod}/{container}"),
            Some(CriName { container: None, pod }) => pod.to_string(),
            None => self.uid.as_ref().unwrap_or(&self.id).clone(),
        }
    }

    fn give(&self, holder: &mut Holder) {
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

    use crate::host::proc::copies::{self, Copied, KUBELET};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn oci_runtime_that_does_not_count_names_no_container() {
        let copy = copies::Table::new("oci");
        let line = format!("runc create {ID}");
        let runc = Copied { comm: "runc", line: &line, cgroup: "/system.slice", ..KUBELET };
        copy.process(7, &Copied { uids: [4_000_000; 4], ..runc });
        copy.process(8, &Copied { pids: "8 1", pid_namespace: "pid:[2]", ..runc });
        let read = || ProcessTable::read(&NodeView::at(&copy.proc()), &ProcessTrust::of_table(&copy.proc()));
        assert_eq!(read().works_on(ID), None);
        copy.process(9, &runc);
        assert!(read().works_on(ID).is_some_and(|who| who.starts_with("runc create (pid 9")));
    }

    #[test]
    fn an_id_is_sixty_four_small_hexadecimal_digits() {
        assert!(is_id(ID));
        assert!(!is_id(&ID.to_uppercase()));
        assert!(!is_id(&ID[1..]));
    }

    #[test]
    fn id_without_a_second_source_is_not_used() {
        let table = |ids: &[&str]| ProcessTable {
            proc: "/nowhere".into(),
            ids: ids.iter().map(|id| ((*id).to_owned(), 7)).collect(),
            listed: BTreeSet::new(),
            shims: Vec::new(),
            parents: HashMap::new(),
            oci: Vec::new(),
            conmons: Vec::new(),
            working: OnceCell::new(),
            watching: OnceCell::new(),
        };
        let named = || FoundContainer { id: ID.to_owned(), ..FoundContainer::default() };
        assert!(named().verified(&table(&[]), "here").is_none());
        assert!(named().verified(&table(&[ID]), "here").is_some());
        let listed = ProcessTable { listed: BTreeSet::from([ID.to_owned()]), ..table(&[]) };
        assert!(named().verified(&listed, "here").unwrap().how.contains("the runtime lists that id"));
        let sandbox = FoundContainer {
            id: ID.replace('0', "f"),
            sandbox: Some(ID.to_owned()),
            ..FoundContainer::default()
        };
        assert!(sandbox.verified(&listed, "here").unwrap().how.contains("lists its sandbox"));
        let with_name = FoundContainer { name: CriName::parse("a_b_c_d_0"), ..named() };
        assert!(with_name.verified(&table(&[]), "here").is_some());
    }

    #[test]
    fn the_memory_of_a_process_gives_strings_and_only_those() {
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
        assert_eq!(process.string(pointer, LONGEST_STRING + 1), None);
        assert_eq!(process.string(8, 4), None);
    }
}
