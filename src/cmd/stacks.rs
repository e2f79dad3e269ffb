//! `plegctl stacks`: who waits for whom inside the runtime, by name.
//!
//! ```text
//! $ plegctl stacks /tmp/containerd.812.stacks.log
//! 9 calls (6 ListContainers) wait for shop/db-0's status lock, held by an UpdateContainerResources that waits 3 min
//! for its shim (pid 977, stopped) (ST01, certain)
//! ```
//!
//! Reads dumps and, of a process that still runs here, a few strings of its memory and its file descriptors. It sends no
//! signal and stops nothing; where a dump needs one, the command is printed for a person.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::context::{Context, block_on};
use super::kubelet_access::KubeletAccess;
use super::output::Output;
use super::render::stacks as text;
use super::{Error, Exit};
use crate::host;
use crate::kubelet::{KubeletApi, http};
use crate::report::document;
use crate::report::load::{self, LARGEST_SETTING};
use crate::stacks::judge::{Source, Told, conclude, judge};
use crate::stacks::read::{Bounds, read};
use crate::stacks::report::StackReport;
use crate::stacks::signatures::{Signature, signatures};
use crate::stacks::sources::{self, Passive, Place};
use crate::stacks::{live, own};

/// A kubelet answers with its goroutines in milliseconds, or not.
const URL_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub struct StacksArgs {
    /// A file in any form (packed too), `-`, `unix://SOCKET` (CRI-O's, or containerd's debug socket), or an http URL
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,

    /// Take names, children and files from the process itself, though the dump does not say that it is of this node
    #[arg(long, conflicts_with = "no_live")]
    live: bool,

    /// Take nothing from a process, only from the dump
    #[arg(long)]
    no_live: bool,

    /// More signatures, in a file: see docs/stacks.md
    #[arg(long, value_name = "FILE")]
    signatures: Option<PathBuf>,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl]))]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &StacksArgs, context: &Context) -> Result<Exit, Error> {
    let known = all_signatures(arguments.signatures.as_deref())?;
    let mut cuts = Vec::new();
    let mut dumps = Vec::new();
    for source in &arguments.sources {
        dumps.extend(named(source, context, &mut cuts)?);
    }
    if let Some(kubelet) = arguments.kubelet.api(context)? {
        dumps.extend(of_kubelet(&kubelet, context, &mut cuts)?);
    }
    if arguments.sources.is_empty() {
        match passive(context, &mut cuts) {
            Ok(found) => dumps.extend(found),
            // The kubelet alone is an answer too.
            Err(Error::NoStacks) if !dumps.is_empty() => {}
            Err(why) => return Err(why),
        }
    }
    let mut report = judge(&dumps, &known, &Told::default());
    report.limits.extend(cuts);
    enrich(arguments, &dumps, &mut report);
    let wide = arguments.output == Output::Wide;
    arguments.output.print(&document(&report), |out| text::screen(&report, wide, context.style(), out))?;
    Ok(if report.is_held_up() { Exit::Bad } else { Exit::Good })
}

/// The catalogue, and what a file adds to it in front: who writes a signature means it.
fn all_signatures(path: Option<&Path>) -> Result<Vec<Signature>, Error> {
    let mut all = match path {
        None => Vec::new(),
        Some(path) => {
            let name = path.display().to_string();
            let text = load::load(path, LARGEST_SETTING).and_then(|text| {
                String::from_utf8(text).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
            });
            let text = text.map_err(|source| Error::Read { name: name.clone(), source })?;
            own::parse(&text).map_err(|why| Error::Signatures { name, why })?
        }
    };
    all.extend(signatures());
    Ok(all)
}

/// What is known of a dump beside its text.
#[derive(Default)]
struct Origin {
    pid: Option<u32>,
    taken_at: Option<String>,
    fresh: bool,
}

impl Origin {
    /// Taken for us, now.
    fn now(pid: Option<u32>, context: &Context) -> Self {
        Self { pid, taken_at: Some(context.clock.wall().to_string()), fresh: true }
    }
}

fn named(source: &str, context: &Context, cuts: &mut Vec<String>) -> Result<Vec<Source>, Error> {
    match Place::parse(source) {
        Place::Stdin => dumps("stdin", io::stdin().lock(), &Origin::default(), cuts),
        Place::File(path) => file(&path, cuts),
        Place::Socket(path) => socket(&path, source, context, cuts),
        Place::Url(url) => {
            let url = sources::with_path(&url);
            let answer = block_on(http::get(&url, URL_PATIENCE))?.map_err(Error::Kubelet)?;
            if answer.status != 200 {
                return Err(no_dump(source, &sources::Error::Status(answer.status)));
            }
            dumps(source, answer.body.as_slice(), &Origin::now(None, context), cuts)
        }
    }
}

/// A kubelet's own, by the credential that was given. A URL that is typed as a source is never shown one.
fn of_kubelet(kubelet: &KubeletApi, context: &Context, cuts: &mut Vec<String>) -> Result<Vec<Source>, Error> {
    let name = kubelet.url(sources::GOROUTINES);
    let answer = block_on(kubelet.get(sources::GOROUTINES, URL_PATIENCE))?.map_err(Error::Kubelet)?;
    if answer.status != 200 {
        return Err(no_dump(&name, &sources::Error::Status(answer.status)));
    }
    dumps(&name, answer.body.as_slice(), &Origin::now(None, context), cuts)
}

fn no_dump(source: &str, why: &sources::Error) -> Error {
    Error::Stacks { name: source.to_owned(), why: why.to_string(), hint: why.hint().map(str::to_owned) }
}

fn file(path: &Path, cuts: &mut Vec<String>) -> Result<Vec<Source>, Error> {
    let name = path.display().to_string();
    let unreadable = |source| Error::Read { name: name.clone(), source };
    let opened = load::patient(path).map_err(unreadable)?;
    let taken = path.metadata().and_then(|about| about.modified()).ok();
    let origin =
        Origin { pid: sources::pid_in_name(path), taken_at: taken.and_then(sources::stamp), fresh: false };
    dumps(&name, opened, &origin, cuts)
}

fn socket(path: &Path, name: &str, context: &Context, cuts: &mut Vec<String>) -> Result<Vec<Source>, Error> {
    let answer = block_on(sources::socket(path))?.map_err(|why| no_dump(name, &why))?;
    dumps(name, answer.body.as_slice(), &Origin::now(answer.pid, context), cuts)
}

fn dumps(name: &str, from: impl Read, origin: &Origin, cuts: &mut Vec<String>) -> Result<Vec<Source>, Error> {
    let reading = read(from, Bounds::default()).map_err(|why| {
        let hint = why.hint().map(str::to_owned);
        Error::Stacks { name: name.to_owned(), why: why.to_string(), hint }
    })?;
    cuts.extend(reading.cut.map(|cut| format!("{name}: {cut}")));
    Ok(reading
        .dumps
        .into_iter()
        .map(|dump| Source {
            name: name.to_owned(),
            dump,
            pid: origin.pid,
            taken_at: origin.taken_at.clone(),
            fresh: origin.fresh,
        })
        .collect())
}

/// What the node gives by itself. A source that fails is said; none at all is no answer.
fn passive(context: &Context, cuts: &mut Vec<String>) -> Result<Vec<Source>, Error> {
    let places = sources::passive(&context.host, &host::proc(), None);
    let mut found = Vec::new();
    for place in &places {
        let answer = match place {
            Passive::Socket(path) => socket(path, &format!("unix://{}", path.display()), context, cuts),
            Passive::File(path) => file(path, cuts),
        };
        match answer {
            Ok(dumps) => found.extend(dumps),
            Err(why) => context.note(0, &format!("note: {why}")),
        }
    }
    if found.is_empty() {
        return Err(Error::NoStacks);
    }
    Ok(found)
}

fn enrich(arguments: &StacksArgs, dumps: &[Source], report: &mut StackReport) {
    if arguments.no_live {
        report.limits.push("names are not looked for: --no-live".to_owned());
        return;
    }
    let node = live::Node { told: arguments.live, ..live::Node::at(&host::proc()) };
    let unnamed = live::name(report, dumps, &node);
    report.limits.extend(unnamed);
    conclude(report);
}
