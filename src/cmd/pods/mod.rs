//! `plegctl pods`: what the kubelet is told to run, from every source, and what became of it.
//!
//! ```text
//! $ plegctl pods
//! NAMESPACE     POD       SOURCE   VERDICT   AGE     WHY
//! kube-system   etcd-n1   file     stale     4d2h    another version runs (uid 9bfb…): the kubelet has not taken this text, …
//!
//! file: ready, 4 pods; api: not read, nothing is said of its pods (give --api-pods or --kubeconfig)
//! ```
//!
//! It reads the sources as the kubelet does and changes none of them.

mod live;
mod sources;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::context::{Context, ONE_SHOT_TIMEOUT, block_on};
use super::render::{json, pods as text};
use super::{Error, Exit, positive_duration};
use crate::clock::Wall;
use crate::cri::{Filter, Runtime};
use crate::kubelet::KubeletVersion;
use crate::manifests::Kubelet;
use crate::manifests::podconfig::{PodRow, Question, RuntimePod, Source, SourceState, standings};
use crate::report::document;
use sources::Configured;

/// What the kubelet is told to run, from every source, and what became of it.
#[derive(Debug, Args)]
pub struct PodsArgs {
    /// A directory or a file of manifests; sources that are given are the only ones [default: the running kubelet's]
    #[arg(long, value_name = "PATH")]
    manifests: Option<PathBuf>,

    /// A URL that serves a manifest or a list of them
    #[arg(long, value_name = "URL")]
    manifest_url: Option<String>,

    /// A header to send there, as KEY:VALUE; may be given more than once
    #[arg(long, value_name = "K:V", value_parser = header)]
    manifest_url_header: Vec<(String, String)>,

    /// The API server's pods of this node, as `kubectl get pods -A --field-selector spec.nodeName=N -o json` prints
    /// them; `-` for stdin, where each document is the whole state
    #[arg(long, value_name = "FILE")]
    api_pods: Option<PathBuf>,

    /// Name of the node [default: this node's]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,

    /// Release of the kubelet whose rules and UIDs count, such as 1.31 [default: the newest known]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// How often the manifests are read again, besides what inotify tells
    #[arg(long, value_name = "DUR", default_value = "20s", value_parser = positive_duration)]
    file_check_frequency: Duration,

    /// How often the URL is asked
    #[arg(long, value_name = "DUR", default_value = "20s", value_parser = positive_duration)]
    http_check_frequency: Duration,

    /// Do not ask the runtime
    #[arg(long)]
    no_cri: bool,

    /// Follow: each update as the kubelet's sync loop gets it, then what the runtime makes of it
    #[arg(short, long)]
    watch: bool,

    /// Show only pods of this namespace
    #[arg(short, long)]
    namespace: Option<String>,

    /// Show the pods of all namespaces, as is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A row for each pod, then a line about the sources
    Table,
    /// With UIDs
    Wide,
    /// One document
    Json,
    /// The same on one line; with --watch a line for each update and step
    Jsonl,
    /// NAMESPACE/NAME
    Name,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once(':').ok_or("write it as KEY:VALUE")?;
    let (key, value) = (key.trim(), value.trim());
    let clean = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if key.is_empty() || key.contains(' ') || !clean(key) || !clean(value) {
        return Err("a header is printable ASCII and its key has no blank".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// One source in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceRow {
    /// Which.
    pub name: Source,
    /// Whether it has been heard.
    pub ready: bool,
    /// How many pods it wants.
    pub pods: usize,
    /// What is wrong with it, or why it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the command says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodsReport")]
pub struct PodsReport {
    /// When.
    pub taken_at: Wall,
    /// Which node.
    pub node: String,
    /// The sources.
    pub sources: Vec<SourceRow>,
    /// The pods.
    pub pods: Vec<PodRow>,
    /// Why the runtime was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_error: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &PodsArgs, context: &Context) -> Result<Exit, Error> {
    let kubelet = arguments.kubelet(context);
    let configured = sources::configured(arguments, context, &kubelet)?;
    if arguments.watch {
        return block_on(live::run(arguments, context, &kubelet, configured))?;
    }
    let (report, heard) = block_on(once(arguments, context, &kubelet, configured))??;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.output {
        Output::Table => text::table(&report, false, context.clock.wall(), context.style(), &mut out)?,
        Output::Wide => text::table(&report, true, context.clock.wall(), context.style(), &mut out)?,
        Output::Json => json::pretty(&document(&report), &mut out)?,
        Output::Jsonl => json::line(&document(&report), &mut out)?,
        Output::Name => text::names(&report, &mut out)?,
    }
    out.flush()?;
    if report.pods.is_empty()
        && arguments.namespace.is_some()
        && matches!(arguments.output, Output::Table | Output::Wide)
    {
        context.remark(&format!(
            "No pods found in namespace {}",
            arguments.namespace.as_deref().unwrap_or_default()
        ));
    }
    if !heard {
        return Ok(Exit::NoAnswer);
    }
    let good = report.pods.iter().all(|pod| pod.verdict.is_good());
    Ok(if good { Exit::Good } else { Exit::Bad })
}

/// Looks at everything once. Second is whether there is any answer at all.
async fn once(
    arguments: &PodsArgs,
    context: &Context,
    kubelet: &Kubelet,
    configured: Configured,
) -> Result<(PodsReport, bool), Error> {
    let (states, rows) = sources::read_once(configured).await?;
    let heard = rows.iter().any(|row| row.ready);
    let (runtime, runtime_error) = if arguments.no_cri {
        (None, Some("--no-cri".to_owned()))
    } else {
        match runtime_pods(context).await {
            Ok(pods) => (Some(pods), None),
            Err(why) => {
                context.remark(&format!("the runtime was not asked: {why}"));
                (None, Some(why.to_string()))
            }
        }
    };
    let now = context.clock.wall();
    let mut pods = standings(&Question { sources: &states, runtime: runtime.as_ref(), now });
    if let Some(namespace) = &arguments.namespace {
        pods.retain(|pod| pod.namespace == *namespace);
    }
    let report =
        PodsReport { taken_at: now, node: kubelet.node_name.clone(), sources: rows, pods, runtime_error };
    Ok((report, heard))
}

async fn runtime_pods(context: &Context) -> Result<BTreeMap<String, RuntimePod>, Error> {
    let endpoint = context.endpoint()?;
    let client = context.client(&endpoint, ONE_SHOT_TIMEOUT)?;
    listed(&client).await
}

/// The runtime's pods, by its two lists.
async fn listed(runtime: &impl Runtime) -> Result<BTreeMap<String, RuntimePod>, Error> {
    let sandboxes = runtime.list_sandboxes(&Filter::default()).await.result?;
    let containers = runtime.list_containers(&Filter::default()).await.result?;
    Ok(RuntimePod::group(&sandboxes, &containers))
}

impl PodsArgs {
    fn kubelet(&self, context: &Context) -> Kubelet {
        let version = self.kubelet_version.unwrap_or(KubeletVersion::NEWEST);
        let node_name = self.node_name.clone().or_else(|| context.node_name());
        Kubelet { version, node_name: node_name.unwrap_or_else(|| "localhost".to_owned()), reads: None }
    }

    fn names_a_source(&self) -> bool {
        self.manifests.is_some() || self.manifest_url.is_some() || self.api_pods.is_some()
    }
}

/// What a source has come to, as [`standings`] wants it.
type States = BTreeMap<Source, SourceState>;
