//! `plegctl stacks`: shows which goroutines of the runtime wait for which other goroutine, process or file, from one
//! or more goroutine dumps.
//!
//! ```text
//! $ plegctl stacks /tmp/containerd.812.stacks.log
//! 9 calls (6 ListContainers) wait for shop/db-0's status lock, held by an UpdateContainerResources that waits about 3 min
//! for its shim (pid 977, stopped) (ST01, certain)
//! ```
//!
//! The command reads dumps. If the process of a dump still runs on this node, it also reads a few strings of the
//! process's memory and its file descriptors. It sends no signal; if a dump needs a signal, it prints the command for
//! the user.

mod text;

use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::args::GlobalArgs;
use super::event_loop::block_on;
use super::flags::kubelet_access::KubeletAccess;
use super::flags::remote_node::RemoteNodeArgs;
use super::node::Node;
use super::render::health::ScreenStyle;
use super::term::output::Output;
use super::{Error, Exit};
use crate::clock::Wall;
use crate::cmd::term::streams;
use crate::cri::Endpoint;
use crate::host;
use crate::kubelet::{KubeletApi, http};
use crate::report::document;
use crate::report::load;
use crate::stacks::Daemon;
use crate::stacks::judge::{BETWEEN_DUMPS, DumpSource, KnownHangs, judge, rebuild_summary};
use crate::stacks::live::{self, NodeView};
use crate::stacks::read::{Bounds, read};
use crate::stacks::report::{PastDump, StackReport};
use crate::stacks::signatures::{Signature, signatures};
use crate::stacks::sources::{self, DumpLocation, NodeSource, NodeSources};

/// The time limit for a kubelet's goroutine dump.
const URL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause before the second dump. A goroutine at the same place in two dumps with at least [`BETWEEN_DUMPS`]
/// between them is stuck. The pause is a little longer, because the wall clock that stamps the dumps may be adjusted.
const SECOND_DUMP_PAUSE: Duration = BETWEEN_DUMPS.saturating_add(Duration::from_millis(100));

#[derive(Debug, Args)]
pub struct StacksArgs {
    /// A file in any form (packed too), `-`, `unix://SOCKET` (CRI-O's, or containerd's debug socket), or an http URL
    #[arg(value_name = "SOURCE", conflicts_with = "node")]
    sources: Vec<String>,

    #[command(flatten)]
    remote: RemoteNodeArgs,

    /// Read names, children and files from the process itself, even if the dump does not say that it is from this
    /// node
    #[arg(long, conflicts_with = "no_live")]
    live: bool,

    /// Use only the dump, and read nothing from the process
    #[arg(long)]
    no_live: bool,

    /// Take only one dump; without this option, a second one follows after 10s if the first leaves a doubt
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl]))]
    output: Output,
}

impl StacksArgs {
    /// Returns the node whose processes may be read; `None` if the user forbids it or named another node.
    fn node(&self, proc: &Path) -> Option<NodeView> {
        let node = NodeView { user_says_same_node: self.live, ..NodeView::at(proc) };
        (!self.no_live && !self.remote.is_given()).then_some(node)
    }
}

/// Runs the command.
pub fn run(arguments: &StacksArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let node = &Node::named_by(global);
    // Everything that waits is inside one event loop, because a timer can only be created there.
    let report = block_on(report(arguments, node, &host::proc(), tokio::time::sleep))??;
    let wide = arguments.output == Output::Wide;
    let style = ScreenStyle { wide, terminal: streams::terminal_size(), ..ScreenStyle::default() };
    arguments.output.print(&document(&report), global.style(), |out| text::screen(&report, style, out))?;
    Ok(if report.has_problem() { Exit::Bad } else { Exit::Good })
}

/// Judges the first dumps; if doubt remains, takes a second dump of each process that can give one. `pause` waits; in a
/// test it only records for how long.
async fn report(
    arguments: &StacksArgs,
    node: &Node,
    proc: &Path,
    pause: impl AsyncFn(Duration),
) -> Result<StackReport, Error> {
    let known = signatures();
    let mut taken = TakenDumps { node: arguments.node(proc), ..TakenDumps::default() };
    let remote = arguments.remote.connect(&node.global)?;
    if let Some(remote) = &remote {
        taken.take_repeatable(RepeatableDump::Kubelet(remote.kubelet()), node).await?;
    }
    for source in &arguments.sources {
        taken.take_named(source, node, proc).await?;
    }
    if let Some(kubelet) = arguments.kubelet.api(node)? {
        taken.take_repeatable(RepeatableDump::Kubelet(kubelet), node).await?;
    }
    if arguments.sources.is_empty() && remote.is_none() {
        match taken.take_nodes_dumps(node, proc).await {
            // The user requested the kubelet's dump, so the runtime's dump may be missing.
            Err(Error::NoStacks { .. }) if !taken.dumps.is_empty() => {}
            answer => answer?,
        }
    }
    let first = judge_dumps(arguments, &taken, &known);
    if arguments.once || taken.repeatable.is_empty() || !first.second_dump_may_help() {
        return Ok(first);
    }
    node.note(0, "note: a single dump proves nothing; a second one follows in 10s (--once prevents it)");
    pause(SECOND_DUMP_PAUSE).await;
    let repeatable = std::mem::take(&mut taken.repeatable);
    for place in &repeatable {
        if let Err(why) = taken.take(place, node).await {
            node.note(0, &format!("note: no second dump: {why}"));
        }
    }
    Ok(judge_dumps(arguments, &taken, &known))
}

/// Judges the dumps, and names the pods and containers if the processes of the dumps run on this node.
fn judge_dumps(arguments: &StacksArgs, taken: &TakenDumps, known: &[Signature]) -> StackReport {
    let mut report = judge(&taken.dumps, known, &KnownHangs::default());
    report.limits.extend(taken.cuts.iter().cloned());
    if let Some(node) = &taken.node {
        let unnamed = live::add_names(&mut report, &taken.dumps, node);
        report.limits.extend(unnamed);
        rebuild_summary(&mut report);
    } else {
        let why = if arguments.no_live { "--no-live" } else { "the process runs on another node" };
        report.limits.push(format!("no names are read: {why}"));
    }
    report
}

/// The process and the time of a dump.
#[derive(Default)]
struct DumpOrigin {
    pid: Option<u32>,
    taken_at: Option<String>,
    /// Whether this run took the dump.
    is_requested_here: bool,
    /// Set if the dump does not show the present state.
    past: Option<PastDump>,
}

impl DumpOrigin {
    /// Returns the origin of a dump that is taken now.
    fn now(pid: Option<u32>, node: &Node) -> Self {
        Self { pid, taken_at: Some(node.clock.wall().to_string()), is_requested_here: true, past: None }
    }

    /// Returns the origin of the dump in a file that the user named, which may be a copy from another node. The process
    /// is used only if the dump shows its present state.
    fn of_named_file(path: &Path, written: Wall, now: Wall, proc: &Path) -> Self {
        let writer = sources::pid_in_name(path);
        let pid = writer.filter(|_| PastDump::of(now.duration_since(written), writer, proc).is_none());
        Self { pid, taken_at: Some(written.to_string()), ..Self::default() }
    }

    /// Returns the origin of the dump in a file that plegctl found on this node.
    fn of_found_file(path: &Path, written: Wall, now: Wall, proc: &Path) -> Self {
        // CRI-O leaves its process id out of the name.
        let writer = sources::pid_in_name(path).or_else(|| live::only_process(Daemon::Crio, proc));
        let past = PastDump::of(now.duration_since(written), writer, proc);
        Self { pid: writer, taken_at: Some(written.to_string()), is_requested_here: false, past }
    }
}

/// A source that gives a new dump for each request.
enum RepeatableDump {
    /// A socket's path, and its name for messages.
    Socket(PathBuf, String),
    Url(String),
    Kubelet(KubeletApi),
}

/// The dumps that were taken so far.
#[derive(Default)]
struct TakenDumps {
    /// The node of the dumps' processes, if plegctl may read these processes.
    node: Option<NodeView>,
    dumps: Vec<DumpSource>,
    /// Notes about dumps that were too long.
    cuts: Vec<String>,
    /// The sources that can give another dump.
    repeatable: Vec<RepeatableDump>,
}

impl TakenDumps {
    /// Adds dumps, with what the processes show that wrote them.
    fn add(&mut self, mut found: Vec<DumpSource>) {
        if let Some(node) = &self.node {
            for dump in &mut found {
                live::add_child_ages(dump, node);
            }
        }
        self.dumps.extend(found);
    }

    /// Takes the dumps of a source on the command line.
    async fn take_named(&mut self, source: &str, node: &Node, proc: &Path) -> Result<(), Error> {
        let found = match DumpLocation::parse(source) {
            DumpLocation::Stdin => {
                dumps("stdin", io::stdin().lock(), &DumpOrigin::default(), &mut self.cuts)?
            }
            DumpLocation::File(path) => {
                let opened = load::open_with_timeout(&path).map(|file| (path.metadata(), file));
                let origin = |written| DumpOrigin::of_named_file(&path, written, node.clock.wall(), proc);
                read_file(&path, opened, origin, &mut self.cuts)?
            }
            DumpLocation::Socket(path) => {
                return self.take_repeatable(RepeatableDump::Socket(path, source.to_owned()), node).await;
            }
            DumpLocation::Url(url) => return self.take_repeatable(RepeatableDump::Url(url), node).await,
        };
        self.add(found);
        Ok(())
    }

    /// Takes a first dump, and remembers its source for a second dump.
    async fn take_repeatable(&mut self, place: RepeatableDump, node: &Node) -> Result<(), Error> {
        self.take(&place, node).await?;
        self.repeatable.push(place);
        Ok(())
    }

    /// Takes a dump from a source. Only a kubelet gets the user's credential; a URL on the command line does not.
    async fn take(&mut self, place: &RepeatableDump, node: &Node) -> Result<(), Error> {
        let timeout = node.global.timeout.unwrap_or(URL_TIMEOUT);
        let (name, pid, body) = match place {
            RepeatableDump::Socket(path, name) => {
                let answer = sources::request_dump(path).await.map_err(|why| no_dump(name, &why))?;
                (name.clone(), answer.pid, answer.body)
            }
            RepeatableDump::Url(source) => {
                let answer = http::get(&sources::with_path(source), timeout).await;
                (source.clone(), None, body_of(answer, source)?)
            }
            RepeatableDump::Kubelet(kubelet) => {
                let name = kubelet.url(sources::GOROUTINES);
                let answer = kubelet.get(sources::GOROUTINES, timeout).await;
                let body = body_of(answer, &name)?;
                (name, None, body)
            }
        };
        let found = dumps(&name, body.as_slice(), &DumpOrigin::now(pid, node), &mut self.cuts)?;
        self.add(found);
        Ok(())
    }

    /// Takes the dumps that this node, or the runtime that the user named, gives without a signal. Prints a note for
    /// a source that fails; fails if no source gives a dump.
    async fn take_nodes_dumps(&mut self, node: &Node, proc: &Path) -> Result<(), Error> {
        let before = self.dumps.len();
        let (found, daemon) = nodes_sources(node, proc).await?;
        for why in &found.refused {
            node.note(0, &format!("note: {why}"));
        }
        for place in found.usable {
            let answer = match place {
                NodeSource::Socket(path) => {
                    let name = format!("unix://{}", path.display());
                    self.take_repeatable(RepeatableDump::Socket(path, name), node).await
                }
                // A file that plegctl found on the node must have a safe owner and type.
                NodeSource::File(path) => {
                    let opened = sources::open_dump_file(&path).map(|file| (file.metadata(), file));
                    let origin = |written| DumpOrigin::of_found_file(&path, written, node.clock.wall(), proc);
                    read_file(&path, opened, origin, &mut self.cuts).map(|found| self.add(found))
                }
            };
            if let Err(why) = answer {
                node.note(0, &format!("note: {why}"));
            }
        }
        // If another process answered, the dumps do not belong to the runtime that the user named.
        let is_other = |dump: &DumpSource| daemon.is_some() && dump.pid.is_some() && dump.pid != daemon;
        if self.dumps.iter().skip(before).any(is_other) {
            self.dumps.truncate(before);
            self.repeatable.clear();
        }
        if self.dumps.len() == before { Err(Error::NoStacks { of_crio: found.is_crio }) } else { Ok(()) }
    }
}

/// Returns this node's sources of dumps. If the user named a runtime, returns that runtime's sources and its process.
async fn nodes_sources(node: &Node, proc: &Path) -> Result<(NodeSources, Option<u32>), Error> {
    if !node.names_a_runtime() {
        return Ok((sources::sources_of_node(&node.host, proc, None), None));
    }
    match node.endpoint()? {
        Endpoint::Unix { path, .. } => {
            let daemon = sources::listening_pid(&path).await;
            Ok((sources::sources_of_runtime(&node.host, proc, &path, daemon), daemon))
        }
        other => Err(Error::NoRuntimeStacks(other.to_string())),
    }
}

fn body_of(answer: Result<http::HttpAnswer, http::Error>, name: &str) -> Result<Vec<u8>, Error> {
    let answer = answer.map_err(Error::Kubelet)?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    Err(no_dump(name, &sources::Error::Status(answer.status)))
}

fn no_dump(source: &str, why: &sources::Error) -> Error {
    Error::Stacks { name: source.to_owned(), why: why.to_string(), hint: why.hint().map(str::to_owned) }
}

/// Reads a dump file. `opened` is its metadata and its content, or why it could not be opened; `origin` returns the
/// origin of a dump that was written at a time.
fn read_file(
    path: &Path,
    opened: io::Result<(io::Result<Metadata>, impl Read)>,
    origin: impl FnOnce(Wall) -> DumpOrigin,
    cuts: &mut Vec<String>,
) -> Result<Vec<DumpSource>, Error> {
    let name = path.display().to_string();
    let if_missing =
        Some("without a SOURCE, plegctl reads this node's dumps; `plegctl docs stacks` says what makes one");
    let unreadable = |source| Error::Read { name: name.clone(), source, if_missing };
    let (about, opened) = opened.map_err(unreadable)?;
    let written = about.and_then(|about| about.modified()).map_err(unreadable)?;
    dumps(&name, opened, &origin(sources::wall(written)), cuts)
}

fn dumps(
    name: &str,
    from: impl Read,
    origin: &DumpOrigin,
    cuts: &mut Vec<String>,
) -> Result<Vec<DumpSource>, Error> {
    let reading = read(from, Bounds::default()).map_err(|why| {
        let hint = why.hint().map(str::to_owned);
        Error::Stacks { name: name.to_owned(), why: why.to_string(), hint }
    })?;
    cuts.extend(reading.cut.map(|cut| format!("{name}: {cut}")));
    Ok(reading
        .dumps
        .into_iter()
        .map(|dump| DumpSource {
            name: name.to_owned(),
            dump,
            pid: origin.pid,
            taken_at: origin.taken_at.clone(),
            is_requested_here: origin.is_requested_here,
            past: origin.past,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::rc::Rc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use clap::Parser;
    use flate2::read::GzDecoder;

    use super::*;
    use crate::clock::ManualClock;
    use crate::cmd::GlobalArgs;
    use crate::report::Confidence;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        global: GlobalArgs,
        #[command(flatten)]
        stacks: StacksArgs,
    }

    /// A node's root directory, deleted on drop, and the present time of that node.
    struct Root(PathBuf, Wall);

    impl Root {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-cmd-stacks-{}-{test}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path, Wall::default())
        }

        /// Writes the file of a recorded dump in the node's /tmp, and sets the node's time to `age` later.
        fn leave_dump(&mut self, name: &str, recording: &str, age: Duration) {
            let path = self.0.join("tmp").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::copy(recorded(recording), &path).unwrap();
            self.1 = sources::wall(fs::metadata(path).unwrap().modified().unwrap()).plus(age);
        }

        /// Adds a process that has run for `age`.
        fn add_process(&self, pid: u32, comm: &str, age: Duration) {
            let (proc, up) = (self.0.join("proc"), 90_000);
            let dir = proc.join(pid.to_string());
            fs::create_dir_all(&dir).unwrap();
            let started = (up - age.as_secs()) * 100;
            let stat = format!("{pid} ({comm}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 {started} 0 0\n");
            fs::write(dir.join("stat"), stat).unwrap();
            fs::write(proc.join("uptime"), format!("{up}.00 0.00\n")).unwrap();
        }

        /// Serves these dumps on a socket, one for each request, then nothing; returns the number of
        /// requests.
        fn serve(&self, socket: &str, dumps: &[&str]) -> Arc<AtomicUsize> {
            let path = self.0.join(socket);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let listener = UnixListener::bind(path).unwrap();
            let mut answers: Vec<Vec<u8>> = dumps.iter().map(|name| answer(name)).collect();
            answers.reverse();
            let (requests, answers) = (Arc::new(AtomicUsize::new(0)), Mutex::new(answers));
            let count = Arc::clone(&requests);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let mut request = Vec::new();
                    let mut byte = [0; 1];
                    // A connection that only checks who listens sends nothing.
                    while !request.ends_with(b"\r\n\r\n")
                        && stream.read(&mut byte).is_ok_and(|read| read == 1)
                    {
                        request.push(byte[0]);
                    }
                    if !request.is_empty() {
                        count.fetch_add(1, Ordering::SeqCst);
                        let answer = answers.lock().unwrap().pop();
                        let none = b"HTTP/1.0 404 Not Found\r\n\r\n".to_vec();
                        let _ = stream.write_all(&answer.unwrap_or(none));
                    }
                }
            });
            requests
        }

        /// Returns the report of the command, and the pauses that it made.
        fn report(&self, words: &[&str]) -> (StackReport, Vec<Duration>) {
            let root = self.0.display().to_string();
            let front = ["stacks", "-q", "--host-root", &root];
            let typed = Typed::parse_from(front.iter().chain(words));
            let clock = Arc::new(ManualClock::at(self.1));
            let mut node = Node::named_by(&typed.global);
            Rc::get_mut(&mut node).unwrap().clock = Arc::<ManualClock>::clone(&clock);
            let pauses = RefCell::new(Vec::new());
            let pause = async |time| {
                pauses.borrow_mut().push(time);
                clock.advance(time);
            };
            let proc = self.0.join("proc");
            let report = block_on(report(&typed.stacks, &node, &proc, pause)).unwrap().unwrap();
            (report, pauses.into_inner())
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn recorded(recording: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/stacks").join(recording)
    }

    fn answer(recording: &str) -> Vec<u8> {
        let mut answer = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
        GzDecoder::new(File::open(recorded(recording)).unwrap()).read_to_end(&mut answer).unwrap();
        answer
    }

    /// A dump of a lock that has been held for 5 s, which is too short to be certain.
    const YOUNG: &str = "c2-lock.t5.usr1.gz";
    /// A dump of the same lock after 75 s.
    const LATER: &str = "c2-lock.t75.debug2.gz";

    #[test]
    fn a_possible_finding_leads_to_a_second_dump() {
        let root = Root::new("second");
        let requests = root.serve("debug.sock", &[YOUNG, LATER]);
        let socket = format!("unix://{}", root.0.join("debug.sock").display());
        let (report, pauses) = root.report(&[&socket]);
        assert_eq!((requests.load(Ordering::SeqCst), pauses.as_slice()), (2, [SECOND_DUMP_PAUSE].as_slice()));
        assert_eq!(report.findings[0].confidence, Confidence::Certain, "{report:#?}");
        assert_eq!(report.dumps.len(), 2);
        assert!(report.has_problem());
    }

    #[test]
    fn with_once_only_one_dump_is_taken() {
        let root = Root::new("once");
        let requests = root.serve("debug.sock", &[YOUNG, LATER]);
        let socket = format!("unix://{}", root.0.join("debug.sock").display());
        let (report, pauses) = root.report(&["--once", &socket]);
        assert_eq!((requests.load(Ordering::SeqCst), pauses.len()), (1, 0));
        assert_eq!(report.findings[0].confidence, Confidence::Possible);
    }

    #[test]
    fn a_certain_finding_or_none_needs_no_second_dump() {
        for recording in ["c2-lock.t200.usr1.gz", "c2-base.idle.usr1.gz", "c2-pull.t5.usr1.gz"] {
            let root = Root::new(&format!("sure-{recording}"));
            let requests = root.serve("debug.sock", &[recording, recording]);
            let socket = format!("unix://{}", root.0.join("debug.sock").display());
            let (_, pauses) = root.report(&[&socket]);
            assert_eq!((requests.load(Ordering::SeqCst), pauses.len()), (1, 0), "{recording}");
        }
    }

    #[test]
    fn a_second_dump_that_fails_leaves_the_first() {
        let root = Root::new("fails");
        let requests = root.serve("debug.sock", &[YOUNG]);
        let socket = format!("unix://{}", root.0.join("debug.sock").display());
        let (report, pauses) = root.report(&[&socket]);
        assert_eq!((requests.load(Ordering::SeqCst), pauses.len()), (2, 1));
        assert_eq!((report.dumps.len(), report.findings[0].confidence), (1, Confidence::Possible));
    }

    #[test]
    fn a_saved_dump_leads_to_no_pause() {
        let root = Root::new("saved");
        let (report, pauses) = root.report(&[&recorded(YOUNG).display().to_string()]);
        assert_eq!((report.findings[0].confidence, pauses.len()), (Confidence::Possible, 0));
    }

    #[test]
    fn a_dump_file_counts_as_the_present_only_if_it_is_new_and_its_process_still_runs() {
        const HANG: &str = "c2-lock.t200.usr1.gz";
        let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
        let new = Duration::from_secs(50);
        let dump = "containerd.812.stacks.log";
        let hang = "9 calls (6 ListContainers) wait for a container's status lock";
        for (file, age, process, prefix) in [
            (dump, new, Some(("containerd", hour)), ""),
            (dump, 16 * minute, Some(("containerd", hour)), "as of 16m ago: "),
            (dump, new, None, "as of 50s ago (the process has ended since): "),
            // Another process has received the process id.
            (dump, new, Some(("containerd", new / 2)), "as of 50s ago (the process has ended since): "),
            (dump, 16 * minute, None, "as of 16m ago (the process has ended since): "),
            // Several processes may have written it, or none that runs.
            ("crio-goroutine-stacks-2026-01-01T000000Z.log", new, None, "as of 50s ago: "),
        ] {
            let mut root = Root::new("past");
            root.leave_dump(file, HANG, age);
            if let Some((comm, age)) = process {
                root.add_process(812, comm, age);
            }
            let (report, _) = root.report(&[]);
            assert!(report.summary.starts_with(&format!("{prefix}{hang}")), "{prefix}: {}", report.summary);
            assert_eq!(report.has_problem(), prefix.is_empty(), "{prefix}: {report:#?}");
            assert_eq!(report.dumps[0].past.is_none(), prefix.is_empty());
            // The memory of a process may have changed since an old dump.
            assert_eq!(
                report.limits.iter().any(|limit| limit.contains("the present state")),
                !prefix.is_empty()
            );
        }
    }

    #[test]
    fn a_named_dump_file_is_judged_without_a_process_that_has_changed_since() {
        let mut root = Root::new("younger");
        let path = root.0.join("tmp/containerd.812.stacks.log").display().to_string();
        let seconds = Duration::from_secs;
        for (age, ran, expected) in [(50, 3600, Some(812)), (50, 25, None), (70, 3600, None)] {
            root.leave_dump("containerd.812.stacks.log", "c2-lock.t200.usr1.gz", seconds(age));
            root.add_process(812, "containerd", seconds(ran));
            let (report, _) = root.report(&[&path]);
            assert_eq!((report.dumps[0].pid, report.has_problem()), (expected, true), "{age} {ran}");
        }
    }

    #[test]
    fn only_the_named_runtime_gives_a_dump() {
        let root = Root::new("named");
        let crio = root.serve("run/crio/crio.sock", &["o-base.idle.http.gz"]);
        let debug = root.serve("run/containerd/debug.sock", &["c2-base.idle.debug2.gz"]);
        root.serve("run/containerd/containerd.sock", &[]);
        let requests = || (crio.load(Ordering::SeqCst), debug.load(Ordering::SeqCst));
        let (report, _) = root.report(&["-r", "unix:///run/crio/crio.sock"]);
        assert_eq!((report.dumps[0].daemon.as_str(), requests()), ("crio", (1, 0)));
        let (report, _) = root.report(&["-r", "unix:///run/containerd/containerd.sock"]);
        assert_eq!((report.dumps[0].daemon.as_str(), requests()), ("containerd", (1, 1)));
    }
}
