//! Explains a silent call from the runtime's own goroutine dump. A dump is fetched once, only while a call
//! has no answer, and only from a source that gives it without a signal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::evidence::Evidence;
use super::input_file::InputFile;
use super::proc::Ownership;
use super::report::NotChecked;
use super::{HealthRun, Inputs};
use crate::host::{self, HostRoot};
use crate::report::load::{LARGEST_REPORT, load};
use crate::stacks::judge::{DumpSource, KnownHangs, judge, rebuild_summary};
use crate::stacks::live;
use crate::stacks::read::{Bounds, read};
use crate::stacks::report::{Finding, StackReport};
use crate::stacks::signatures::signatures;
use crate::stacks::sources::{self, DumpLocation, NodeSource};
use crate::stacks::words::sentence;

/// The time limit for fetching and parsing the dump.
const LIMIT: Duration = Duration::from_secs(4);

/// Where a goroutine dump may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// From a source on this node that needs no signal, if a call is silent.
    Auto,
    /// No dump is fetched.
    #[default]
    Never,
    /// From this source, which the user named.
    From(String),
    /// This one, which was judged when the moment of a capture was recorded.
    Kept(Box<StackReport>),
}

/// The runtime's goroutine dump, as far as it is needed.
#[derive(Default)]
pub(super) struct GoroutineDump {
    /// Who waits for whom, if a call is silent.
    pub(super) report: Option<StackReport>,
    /// The dump itself, if a bundle is written.
    pub(super) input_file: Option<InputFile>,
    pub(super) not_checked: Option<NotChecked>,
}

impl GoroutineDump {
    fn missing(why: impl Into<String>) -> Self {
        let what = "who waits for whom in the runtime (stacks)".to_owned();
        Self { not_checked: Some(NotChecked { what, why: why.into() }), ..Self::default() }
    }
}

/// Fetches and judges the dump, if a call is silent.
pub(super) async fn explain<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> GoroutineDump {
    let inputs = run.inputs;
    let hanging = silent_calls(evidence);
    let is_quiet = hanging.is_empty();
    if inputs.stacks == Wanted::Never || (is_quiet && !inputs.keeps_input_files()) {
        return GoroutineDump::default();
    }
    if let Wanted::Kept(report) = &inputs.stacks {
        return GoroutineDump { report: Some((**report).clone()), ..GoroutineDump::default() };
    }
    let Some(limit) = run.budget.allow(LIMIT) else {
        return GoroutineDump::missing("no budget left");
    };
    (run.progress)("the runtime's goroutines");
    // The daemon counts only if the process table is this runtime's: the dump of another daemon would blame
    // the wrong container.
    let daemon = match evidence.node().map(|host| &host.ownership) {
        Some(Ownership::Ours { daemon }) => *daemon,
        _ => None,
    };
    let is_crio = evidence.daemon().is_some_and(|daemon| daemon.comm == "crio");
    let own = inputs.socket_here.clone().filter(|_| is_crio);
    let listed = evidence.runtime.listed_ids().map(str::to_owned).collect();
    match tokio::time::timeout(limit, report(inputs, (daemon, own), hanging, listed)).await {
        Ok(Ok((report, dump))) => GoroutineDump {
            report: Some(report).filter(|_| !is_quiet),
            input_file: dump.filter(|_| inputs.keeps_input_files()),
            not_checked: None,
        },
        Ok(Err(why)) => GoroutineDump::missing(why),
        Err(_) => GoroutineDump::missing("the source did not answer in time"),
    }
}

/// Returns the names of the silent calls.
fn silent_calls(evidence: &Evidence) -> BTreeSet<String> {
    let runtime = &evidence.runtime;
    let lists = [runtime.sandboxes.silent(), runtime.containers.silent()];
    let lists = lists.into_iter().flatten().map(|(rpc, _)| rpc);
    let status_calls =
        runtime.status_calls.iter().filter(|record| record.is_silent()).map(|record| record.rpc);
    lists.chain(status_calls).map(|rpc| rpc.name().to_owned()).collect()
}

async fn report<R>(
    inputs: &Inputs<R>,
    runtime: (Option<u32>, Option<PathBuf>),
    hanging: BTreeSet<String>,
    listed: BTreeSet<String>,
) -> Result<(StackReport, Option<InputFile>), String> {
    let proc = inputs.proc.clone();
    let keep = inputs.keeps_input_files();
    let (name, bytes, pid) = match &inputs.stacks {
        Wanted::Never | Wanted::Kept(_) => return Err("left out".to_owned()),
        Wanted::From(source) => given(source).await?,
        Wanted::Auto => passive(inputs, runtime).await?,
    };
    // Parsing and reading process memory take CPU time and file access, so they do not run on the event loop.
    let work = move || {
        let dump = keep.then(|| InputFile::new("stacks.txt", "the runtime's goroutines", bytes.clone()));
        let reading = read(bytes.as_slice(), Bounds::default()).map_err(|why| format!("{name}: {why}"))?;
        let source =
            |dump| DumpSource { name: name.clone(), dump, pid, taken_at: None, fresh: pid.is_some() };
        let dumps: Vec<DumpSource> = reading.dumps.into_iter().map(source).collect();
        let mut report = judge(&dumps, &signatures(), &KnownHangs { hanging });
        if let Some(proc) = proc.filter(|_| pid.is_some()) {
            live::name(&mut report, &dumps, &live::NodeView { proc, user_says_same_node: false, listed });
            rebuild_summary(&mut report);
        }
        Ok((report, dump))
    };
    super::offload::value(LIMIT, work).await.unwrap_or_else(|| Err(super::offload::why_nothing()))
}

async fn given(source: &str) -> Result<(String, Vec<u8>, Option<u32>), String> {
    let name = source.to_owned();
    match DumpLocation::parse(source) {
        DumpLocation::Socket(path) => {
            let answer = sources::socket(&path).await.map_err(|why| format!("{source}: {why}"))?;
            Ok((name, answer.body, answer.pid))
        }
        DumpLocation::File(path) => {
            let pid = sources::pid_in_name(&path);
            let read = super::offload::value(LIMIT, move || {
                load(&path, LARGEST_REPORT).map_err(|why| why.to_string())
            });
            let bytes = read.await.unwrap_or_else(|| Err(super::offload::why_nothing()));
            let bytes = bytes.map_err(|why| format!("{source}: {why}"))?;
            Ok((name, bytes, pid))
        }
        DumpLocation::Stdin | DumpLocation::Url(_) => {
            Err(format!("{source}: give a file or `unix://SOCKET`"))
        }
    }
}

/// Finds a passive source of a dump, if it belongs to the process that listens on the CRI socket. CRI-O
/// serves its dump on that socket, wherever it is.
async fn passive<R>(
    inputs: &Inputs<R>,
    (daemon, own): (Option<u32>, Option<PathBuf>),
) -> Result<(String, Vec<u8>, Option<u32>), String> {
    let pid = daemon.ok_or("plegctl cannot see which process is the runtime")?;
    let host = HostRoot::resolve(Some(&inputs.host_root));
    let proc = inputs.proc.clone().unwrap_or_else(host::proc);
    // The daemon's settings name the source; they may be on a disk that does not answer.
    let offer = super::offload::value(LIMIT, move || sources::passive(&host, &proc, Some(pid)));
    let places = offer.await.unwrap_or_default().places;
    for place in own.map(NodeSource::Socket).into_iter().chain(places) {
        let NodeSource::Socket(path) = place else { continue };
        if let Ok(answer) = sources::socket(&path).await
            && answer.pid == Some(pid)
        {
            return Ok((format!("unix://{}", path.display()), answer.body, answer.pid));
        }
    }
    Err("this runtime provides no goroutine dump without a signal; `plegctl stacks --help` says how to get one"
        .to_owned())
}

impl Evidence {
    /// Returns the finding of the runtime's dump about a hung call.
    pub fn chain_of(&self, rpc: &str) -> Option<&Finding> {
        let findings = self.stacks.iter().flat_map(|report| &report.findings);
        findings
            .into_iter()
            .find(|finding| finding.rpcs.iter().any(|name| name == rpc) && finding.holder.is_some())
    }

    /// Formats the chain of waiters of a hung call in one sentence.
    pub fn chain_words(&self, rpc: &str) -> Option<String> {
        let finding = self.chain_of(rpc)?;
        Some(format!("{} ({})", sentence(finding), finding.id))
    }

    /// Returns the chain of waiters that ends at this process, if the dump shows one.
    pub fn chain_at(&self, pid: u32) -> Option<String> {
        let findings = self.stacks.iter().flat_map(|report| &report.findings);
        findings
            .into_iter()
            .find(|finding| {
                let holder = finding.holder.as_ref();
                holder.is_some_and(|holder| holder.waits_for.pid == Some(pid)) && !finding.rpcs.is_empty()
            })
            .map(|finding| format!("{} ({})", sentence(finding), finding.id))
    }

    /// Returns the chain that names this container as the one whose lock is held, if there is one.
    pub fn dump_blames(&self, id: &str) -> Option<String> {
        let findings = self.stacks.iter().flat_map(|report| &report.findings);
        findings
            .filter(|finding| finding.waiters > 0)
            .find(|finding| {
                let container = finding.holder.as_ref().and_then(|holder| holder.container.as_ref());
                container.is_some_and(|container| container.id == id)
            })
            .map(|finding| format!("the runtime's goroutines confirm it: {}", sentence(finding)))
    }
}
