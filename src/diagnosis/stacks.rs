//! Fetches and judges the runtime's goroutine dump, which may show why a call is silent, which call waits for a process, and
//! whether a container is being created. It fetches the dump at most once, and only while a call has no answer, if a process
//! of the runtime is overdue or seems left over, or if the user wants a bundle (`--bundle`: an archive with everything that
//! the report is based on). Unless the user names a source, it uses one that needs no signal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::evidence::Evidence;
use super::facts::{FactKind, Quoted, Word};
use super::input_file::InputFile;
use super::proc::{Ownership, Process, Role};
use super::report::NotChecked;
use super::{HealthRun, Inputs, overdue_processes};
use crate::host::{self, HostRoot};
use crate::report::Seconds;
use crate::report::duration::elapsed;
use crate::report::load::{LARGEST_REPORT, load};
use crate::stacks::judge::{DumpSource, KnownHangs, judge, rebuild_summary};
use crate::stacks::live::{self, NodeView};
use crate::stacks::read::{Bounds, read};
use crate::stacks::report::{Finding, PastDump, StackReport};
use crate::stacks::signatures::signatures;
use crate::stacks::sources::{self, DumpLocation, NodeSource};
use crate::stacks::words::sentence;

/// The time limit for fetching and parsing the dump.
const LIMIT: Duration = Duration::from_secs(4);

/// Which goroutine dump a run uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WantedDump {
    /// A dump from a source on this node that needs no signal, if a call is silent.
    Auto,
    /// No dump.
    #[default]
    Never,
    /// A dump from this file or socket, which the user named.
    From(String),
    /// The report that a capture contains.
    Recorded(Box<StackReport>),
}

/// What a run knows from the runtime's goroutine dump.
#[derive(Default)]
pub(super) struct GoroutineDump {
    /// The judged dump, if a call is silent or a capture contains the dump.
    pub(super) report: Option<StackReport>,
    /// The unparsed dump, if a bundle is written.
    pub(super) input_file: Option<InputFile>,
    pub(super) not_checked: Option<NotChecked>,
}

impl GoroutineDump {
    fn missing(why: impl Display) -> Self {
        let what = "who waits for whom in the runtime (stacks)";
        Self { not_checked: Some(NotChecked::new(what, why)), ..Self::default() }
    }

    /// Returns a missing dump; without a note if the dump could only have added to a finding.
    fn if_needed(self, is_needed: bool) -> Self {
        if is_needed { self } else { Self::default() }
    }
}

/// Finds the socket on which the probed containerd provides its dump, if it has one. Sends nothing.
pub(super) async fn debug_socket<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Option<PathBuf> {
    let HealthRun { inputs, budget, .. } = run;
    // A simulated or recorded node has no files.
    if inputs.simulated_processes.is_some() || inputs.is_recorded() {
        return None;
    }
    let is_containerd = |daemon: &&Process| daemon.role == Role::Daemon && daemon.comm == "containerd";
    let arguments = &evidence.daemon().filter(is_containerd)?.command;
    let config = arguments.flag("config").or_else(|| arguments.flag("c"));
    let config = config.filter(|file| file.starts_with('/')).map(str::to_owned);
    let root = inputs.host_root.clone();
    let find = move || {
        let host = HostRoot::resolve(Some(&root));
        let path = sources::debug_socket(&host, config.as_deref(), &mut Vec::new())?;
        Some(Path::new("/").join(path.strip_prefix(&root).unwrap_or(&path)))
    };
    super::offload::value(super::offload::FILES_TIME_LIMIT.min(budget.left()), find).await?
}

/// Fetches and judges the dump, if a call is silent, a process is overdue or seems left over, or a bundle is written; never,
/// if the user does not want a dump or the time budget is used up.
pub(super) async fn judge_dump<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> GoroutineDump {
    let inputs = run.inputs;
    let hanging = silent_calls(evidence);
    let left_over = evidence.node().is_some_and(|host| !host.left_over_shims.is_empty());
    let is_missed = !hanging.is_empty() || inputs.keeps_input_files();
    let is_judged = !hanging.is_empty() || left_over || overdue_processes::has_overdue_process(evidence);
    if inputs.stacks == WantedDump::Never || !(is_missed || is_judged) {
        return GoroutineDump::default();
    }
    if let WantedDump::Recorded(report) = &inputs.stacks {
        return GoroutineDump { report: Some((**report).clone()), ..GoroutineDump::default() };
    }
    let Some(limit) = run.budget.allow(LIMIT) else {
        return GoroutineDump::missing("no budget left").if_needed(is_missed);
    };
    (run.progress)("the runtime's goroutines");
    // The daemon is known only if the process table belongs to this runtime. The dump of another daemon would blame the
    // wrong container.
    let daemon = match evidence.node().map(|host| &host.ownership) {
        Some(Ownership::OfRuntime { daemon }) => *daemon,
        _ => None,
    };
    let is_crio = evidence.daemon().is_some_and(|daemon| daemon.comm == "crio");
    let cri_socket = inputs.socket_here.clone().filter(|_| is_crio);
    let listed = evidence.runtime.listed_ids().map(str::to_owned).collect();
    match tokio::time::timeout(limit, report(inputs, (daemon, cri_socket), hanging, listed)).await {
        Ok(Ok((report, dump))) => GoroutineDump {
            report: Some(report).filter(|_| is_judged),
            input_file: dump.filter(|_| inputs.keeps_input_files()),
            not_checked: None,
        },
        Ok(Err(why)) => GoroutineDump::missing(why).if_needed(is_missed),
        Err(_) => GoroutineDump::missing("the source did not answer in time").if_needed(is_missed),
    }
}

/// Returns the names of the silent calls, each with the longest silence.
fn silent_calls(evidence: &Evidence) -> BTreeMap<String, Duration> {
    let runtime = &evidence.runtime;
    let lists = [runtime.sandboxes.silent(), runtime.containers.silent()].into_iter().flatten();
    let status_calls = runtime.status_calls.iter().filter(|record| record.is_silent());
    let mut silent = BTreeMap::new();
    for (rpc, waited) in lists.chain(status_calls.map(|record| (record.rpc, record.duration))) {
        let longest: &mut Duration = silent.entry(rpc.name().to_owned()).or_default();
        *longest = waited.max(*longest);
    }
    silent
}

/// Fetches and judges the dump, and adds the names of pods to the report. `runtime` is the daemon's process and, for
/// CRI-O, its CRI socket; `listed` has the ids in the runtime's lists. Returns also the unparsed dump for a bundle.
async fn report<R>(
    inputs: &Inputs<R>,
    runtime: (Option<u32>, Option<PathBuf>),
    hanging: BTreeMap<String, Duration>,
    listed: BTreeSet<String>,
) -> Result<(StackReport, Option<InputFile>), String> {
    let proc = inputs.proc.clone();
    let keep = inputs.keeps_input_files();
    let (name, bytes, pid) = match &inputs.stacks {
        WantedDump::Never | WantedDump::Recorded(_) => return Err("left out".to_owned()),
        WantedDump::From(source) => dump_from(source, inputs).await?,
        WantedDump::Auto => dump_of_daemon(inputs, runtime).await?,
    };
    // Parsing and reading process memory take CPU time and file access, so they do not run on the event loop.
    let work = move || {
        let dump = keep.then(|| InputFile::new("stacks.txt", "the runtime's goroutines", bytes.clone()));
        let reading = read(bytes.as_slice(), Bounds::default()).map_err(|why| format!("{name}: {why}"))?;
        let source = |dump| DumpSource {
            name: name.clone(),
            dump,
            pid,
            is_requested_here: pid.is_some(),
            ..DumpSource::default()
        };
        let mut dumps: Vec<DumpSource> = reading.dumps.into_iter().map(source).collect();
        let node = proc.filter(|_| pid.is_some());
        let node = node.map(|proc| NodeView { proc, user_says_same_node: false, listed });
        if let Some(node) = &node {
            for dump in &mut dumps {
                live::add_child_ages(dump, node);
            }
        }
        let mut report = judge(&dumps, &signatures(), &KnownHangs { hanging });
        if let Some(node) = &node {
            live::add_names(&mut report, &dumps, node);
            rebuild_summary(&mut report);
        }
        Ok((report, dump))
    };
    super::offload::value(LIMIT, work).await.unwrap_or_else(|| Err(super::offload::why_nothing()))
}

/// Reads the dump from the source that the user named. Returns its name, its content, and the process that wrote it.
/// Refuses a file that does not show the present state, because the verdict is about the present.
async fn dump_from<R>(source: &str, inputs: &Inputs<R>) -> Result<(String, Vec<u8>, Option<u32>), String> {
    let name = source.to_owned();
    match DumpLocation::parse(source) {
        DumpLocation::Socket(path) => {
            let answer = sources::request_dump(&path).await.map_err(|why| format!("{source}: {why}"))?;
            Ok((name, answer.body, answer.pid))
        }
        DumpLocation::File(path) => {
            let pid = sources::pid_in_name(&path);
            let (now, proc) = (inputs.clock.wall(), inputs.proc.clone().unwrap_or_else(host::proc));
            let read = super::offload::value(LIMIT, move || {
                let written = fs::metadata(&path).and_then(|about| about.modified());
                let age = now.duration_since(sources::wall(written.map_err(|why| why.to_string())?));
                let past = match pid {
                    Some(_) => PastDump::of(age, pid, &proc),
                    None => PastDump::by_age(age),
                };
                match past {
                    Some(past) => Err(why_not_used(past)),
                    None => load(&path, LARGEST_REPORT).map_err(|why| why.to_string()),
                }
            });
            let bytes = read.await.unwrap_or_else(|| Err(super::offload::why_nothing()));
            let bytes = bytes.map_err(|why| format!("{source}: {why}"))?;
            Ok((name, bytes, pid))
        }
        DumpLocation::Stdin | DumpLocation::Url(_) => Err(format!("{source}: use a file or `unix://SOCKET`")),
    }
}

/// Explains why a dump that does not show the present state is not used.
fn why_not_used(past: PastDump) -> String {
    let age = elapsed(past.age_seconds.duration());
    let ended = if past.process_ended { ", and the process that wrote it has ended" } else { "" };
    format!("not used: it was written {age} ago{ended}; take a new dump")
}

/// Requests the dump from a socket of the process that listens on the CRI socket. Returns the socket's name, the dump, and
/// the process. CRI-O provides its dump on the CRI socket itself.
async fn dump_of_daemon<R>(
    inputs: &Inputs<R>,
    (daemon, cri_socket): (Option<u32>, Option<PathBuf>),
) -> Result<(String, Vec<u8>, Option<u32>), String> {
    if inputs.is_recorded() {
        // The process with this id on the machine of the replay is another one.
        return Err("not recorded".to_owned());
    }
    let pid = daemon.ok_or("plegctl does not know which process is the runtime")?;
    let host = HostRoot::resolve(Some(&inputs.host_root));
    let proc = inputs.proc.clone().unwrap_or_else(host::proc);
    // The daemon's settings name the socket, and they may be on a disk that does not answer.
    let found = super::offload::value(LIMIT, move || sources::sources_of_node(&host, &proc, Some(pid)));
    let usable = found.await.unwrap_or_default().usable;
    let mut why_not = None;
    for source in cri_socket.clone().map(NodeSource::Socket).into_iter().chain(usable) {
        let NodeSource::Socket(path) = source else { continue };
        match sources::request_dump(&path).await {
            Ok(answer) if answer.pid == Some(pid) => {
                return Ok((format!("unix://{}", path.display()), answer.body, answer.pid));
            }
            // CRI-O has no other source, and usually needs no signal.
            Err(why) if cri_socket.as_ref() == Some(&path) => {
                why_not = Some(format!("CRI-O's socket: {why}"));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Err(why_not.unwrap_or_else(|| {
        "this runtime provides no goroutine dump without a signal; `plegctl stacks --help` shows how to get one"
            .to_owned()
    }))
}

impl Evidence {
    fn dump_findings(&self) -> impl Iterator<Item = &Finding> {
        self.stacks.iter().flat_map(|report| &report.findings)
    }

    /// Returns the finding of the dump that explains a hung call: it names the call and has a holder.
    pub fn chain_of(&self, rpc: &str) -> Option<&Finding> {
        let mut findings = self.dump_findings();
        findings.find(|finding| finding.rpcs.iter().any(|name| name == rpc) && finding.holder.is_some())
    }

    /// Describes in one sentence what a hung call waits for, if the dump shows it.
    pub fn chain_fact(&self, rpc: &str) -> Option<FactKind> {
        self.chain_of(rpc).map(chain)
    }

    /// Returns how long the longest call that creates a sandbox or container has waited at most, if the dump shows such a
    /// call. A dump counts whole minutes of a wait, from the first garbage collection on, and Go collects every two minutes
    /// at least (`forcegcperiod` in runtime/proc.go).
    pub fn longest_create(&self) -> Option<Duration> {
        const HANDLERS: [&str; 2] = ["_RunPodSandbox_Handler", "_CreateContainer_Handler"];
        let groups = self.stacks.iter().flat_map(|report| &report.groups);
        let creates = groups.filter(|group| {
            group.frames.iter().any(|frame| HANDLERS.iter().any(|name| frame.ends_with(name)))
        });
        let waited = creates.map(|group| group.waited_seconds.map_or(Duration::ZERO, Seconds::duration));
        waited.max().map(|minutes| minutes + Duration::from_secs(3 * 60))
    }

    /// Describes in one sentence which calls wait for the process `pid`, if the dump shows it.
    pub fn chain_at(&self, pid: u32) -> Option<FactKind> {
        let is_holder = |finding: &&Finding| {
            let holder = finding.holder.as_ref();
            holder.is_some_and(|holder| holder.waits_for.pid == Some(pid)) && !finding.rpcs.is_empty()
        };
        self.dump_findings().find(is_holder).map(chain)
    }

    /// Describes in one sentence that goroutines wait for what this container's goroutine holds, if the dump shows it.
    pub fn dump_blames(&self, id: &str) -> Option<FactKind> {
        let is_blamed = |finding: &&Finding| {
            let container = finding.holder.as_ref().and_then(|holder| holder.container.as_ref());
            finding.waiters > 0 && container.is_some_and(|container| container.id == id)
        };
        let blamed = self.dump_findings().find(is_blamed)?;
        Some(FactKind::RuntimeStacksConfirm { chain: Quoted(sentence(blamed)) })
    }
}

/// Describes what a finding of the dump shows.
fn chain(finding: &Finding) -> FactKind {
    FactKind::RuntimeStacks { chain: Quoted(sentence(finding)), signature: Word::from(&finding.id) }
}
