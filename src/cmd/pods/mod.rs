//! `plegctl pods`: lists the pods that the kubelet should run, from every source, and compares them with the pods
//! that the runtime runs and with the kubelet's own status.
//!
//! ```text
//! $ plegctl pods
//! NAMESPACE     POD       SOURCE   VERDICT   AGE     WHY
//! kube-system   etcd-n1   file     stale     4d2h    another version runs (uid 9bfb…): the kubelet has not taken this text, …
//!
//! source file: ready, 4 pods
//! ```
//!
//! The command reads the sources as the kubelet does and changes none of them.

mod comparison;
mod kubelet_view;
mod live;
mod text;
mod why_text;
#[cfg(test)]
pub(super) use live::{PodFollow, PodSourceError, PodUpdate};
pub mod report;
mod sources;
mod why;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;

use super::args::{GlobalArgs, positive_duration};
use super::event_loop::block_on;
use super::flags::kubelet_access::KubeletAccess;
use super::flags::manifest_url::header;
use super::flags::select::{Candidate, Selection};
use super::node::Node;
use super::session::{ONE_SHOT_TIMEOUT, Session};
use super::term::output::Output;
use super::term::waiting::WaitingLine;
use super::{Error, Exit};
use crate::clock::Wall;
use crate::cri::{Client, Filter, Runtime};
use crate::kubelet::timing::{FILE_CHECK_FREQUENCY, HTTP_CHECK_FREQUENCY};
use crate::kubelet::{KubeletVersion, go_duration};
use crate::manifests::podconfig::{
    ComparisonInputs, PodRow, PodSource, PodVerdict, RuntimePod, SourceState, VerdictInput, WantedPod,
    add_comparison, contradictions, pod_rows, suspects,
};
use crate::manifests::running::running_pods;
use crate::manifests::{Kubelet, PodIdentity};
use crate::report::document;
use kubelet_view::KubeletView;
use report::PodsReport;
use sources::{Api, Configured};

#[derive(Debug, Args)]
pub struct PodsArgs {
    /// A directory or a file of manifests; if you give any source, only those you give are used [default: the running
    /// kubelet's]
    #[arg(long, value_name = "PATH")]
    manifests: Option<PathBuf>,

    /// A URL that serves a manifest or a list of them
    #[arg(long, value_name = "URL")]
    manifest_url: Option<String>,

    /// A header for --manifest-url, as KEY:VALUE; may be given more than once
    #[arg(long, value_name = "K:V", value_parser = header)]
    manifest_url_header: Vec<(String, String)>,

    /// The API server's pods of this node, as `kubectl get pods -A --field-selector spec.nodeName=N -o json` prints
    /// them; `-` for stdin, where each document is the whole state
    #[arg(long, value_name = "FILE")]
    api_pods: Option<PathBuf>,

    /// Read the node's pods from the API server of this kubeconfig; the kubelet's own kubeconfig is enough
    #[arg(long, value_name = "FILE", conflicts_with = "api_pods")]
    kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// The socket of the kubelet's Pods API, from which its own pods are read without a credential [default: this node's
    /// kubelet's, where it exists]
    #[arg(long, value_name = "SOCKET")]
    pods_api: Option<PathBuf>,

    #[command(flatten)]
    kubelet: KubeletAccess,

    /// Name of the node [default: this node's]
    #[arg(long, alias = "node", value_name = "NAME")]
    node_name: Option<String>,

    /// Release of the kubelet whose rules and UIDs count, such as 1.34 [default: this node's kubelet's, if its metrics
    /// report it, else the newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// How often to read the manifests again, in addition to inotify [default: the running kubelet's, else 20s]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    file_check_frequency: Option<Duration>,

    /// How often to request the URL [default: the running kubelet's, else 20s]
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    http_check_frequency: Option<Duration>,

    /// Make no calls to the runtime
    #[arg(long)]
    no_cri: bool,

    /// Watch: show each update as the kubelet's sync loop receives it, then what the runtime does with it
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    selection: Selection,

    /// Show only pods that are being deleted
    #[arg(long)]
    terminating: bool,

    /// Show what keeps this pod from starting or ending: its image, network, a mount, a process, the runtime, a finalizer
    #[arg(long, value_name = "NAMESPACE/POD", conflicts_with_all = ["watch", "no_cri", "terminating"])]
    why: Option<String>,

    /// How to print; `wide` has UIDs and the four views, `name` prints NAMESPACE/NAME; with --watch there is a document for each update and step
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&[Output::Table, Output::Wide, Output::Json, Output::Yaml, Output::Jsonl, Output::Name]))]
    output: Output,
}

/// Runs the command.
pub fn run(arguments: &PodsArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let node = &Node::named_by(global);
    let kubelet = arguments.kubelet(node);
    if let Some(pod) = &arguments.why {
        return why::run(arguments, node, &kubelet, pod);
    }
    let configured = sources::configured(arguments, node, &kubelet)?;
    if arguments.watch {
        return block_on(live::run(arguments, node, &kubelet, configured))?;
    }
    let line = WaitingLine::begin(node);
    let report = line.during(once(arguments, node, &kubelet, configured, &line));
    let (report, is_complete) = block_on(report)??;
    arguments.output.print(&document(&report), global.style(), |out| match arguments.output {
        Output::Name => text::names(&report, out),
        output => {
            let wide = output == Output::Wide;
            text::table(&report, wide, node.clock.wall(), out)
        }
    })?;
    let selection = arguments.selection.in_words();
    if report.pods.is_empty() && !selection.is_empty() {
        node.remark(&format!("No pods found{selection}"));
    }
    let good: Vec<Option<bool>> = report.pods.iter().map(|pod| pod.verdict.is_good()).collect();
    Ok(if good.contains(&Some(false)) {
        Exit::Bad
    } else if good.contains(&None) || !is_complete {
        Exit::NoAnswer
    } else {
        Exit::Good
    })
}

/// Reads all sources, the runtime and the kubelet once, and what contradictions between them need. Also returns whether the
/// wanted pods of every source are known, from the source or from the kubelet.
async fn once(
    arguments: &PodsArgs,
    node: &Rc<Node>,
    kubelet: &Kubelet,
    configured: Configured,
    line: &WaitingLine<'_>,
) -> Result<(PodsReport, bool), Error> {
    let node_name = kubelet.node_name.clone();
    let server = match &configured.api {
        Some(Api::Server(server)) => Some((**server).clone()),
        _ => None,
    };
    let proxy = server.as_ref().filter(|_| arguments.kubeconfig.is_some());
    let view = KubeletView::chosen_by(arguments, node, proxy)?;
    let runtimes_pods =
        async { if arguments.no_cri { Err(None) } else { runtime_pods(node).await.map_err(Some) } };
    let ((states, rows, mut times), runtime, kubelets_pods) = tokio::join!(
        line.part("the sources of pods", sources::read_once(configured, &*node.clock)),
        line.part("the runtime's lists", runtimes_pods),
        line.part("the kubelet's own pods", view.read(node)),
    );
    let (client, runtime, runtime_error) = match runtime {
        Ok((client, pods, at)) => {
            times.runtime = Some(at);
            (Some(client), Some(pods), None)
        }
        Err(None) => (None, None, Some("--no-cri".to_owned())),
        Err(Some(why)) => {
            node.remark(&format!("the runtime's pods are not known: {why}"));
            (None, None, Some(why.to_string()))
        }
    };
    let (kubelets_pods, kubelet_error) = match kubelets_pods {
        None => (None, None),
        Some(Ok(pods)) => (Some(pods), None),
        Some(Err(why)) => {
            let is_named = arguments.kubelet.is_given() || arguments.pods_api.is_some();
            node.note(u8::from(!is_named), &format!("the kubelet's own pods are not known: {why}"));
            (None, Some(why))
        }
    };
    let is_complete = kubelets_pods.is_some() || rows.iter().all(|row| row.ready);
    let now = node.clock.wall();
    let kubelet = kubelets_pods.as_ref();
    let input = VerdictInput { sources: &states, runtime: runtime.as_ref(), kubelet, times: &times, now };
    let mut pods = pod_rows(&input);
    let is_own = !arguments.names_a_source() && !arguments.kubelet.is_given();
    let started = if is_own && kubelet.is_some() { comparison::kubelet_started(node) } else { None };
    let contradictions = contradictions(&input);
    let changes = match &client {
        Some(client) => line.part("status calls", comparison::changes(client, &contradictions)).await,
        None => BTreeMap::new(),
    };
    let mut confirmed = suspects(&input, &node_name, started);
    if !confirmed.is_empty() {
        let with = (&view, server.as_ref(), &**node);
        let second = comparison::second_look(&mut confirmed, &input, &node_name, started, with);
        line.part("a second look at pods that differ", second).await;
    }
    let needs_link = !confirmed.is_empty() || pods.iter().any(comparison::has_lost_its_mirror);
    let api_server = match &server {
        Some(server) if needs_link => {
            Some(line.part("the API server", comparison::link(server, node, is_own)).await)
        }
        _ => None,
    };
    let with = ComparisonInputs { confirmed, changes, kubelet_started: started, link: api_server.as_ref() };
    add_comparison(&mut pods, &input, &contradictions, &with);
    pods.retain(|pod| arguments.shows(pod));
    let report = PodsReport {
        taken_at: now,
        node: node_name,
        sources: rows,
        pods,
        runtime_error,
        kubelet_error,
        api_server,
    };
    Ok((report, is_complete))
}

/// Returns the client of the runtime, its pods and the time of its answer.
async fn runtime_pods(node: &Rc<Node>) -> Result<(Client, BTreeMap<String, RuntimePod>, Wall), Error> {
    let client = Session::of_node(node)?.client(ONE_SHOT_TIMEOUT);
    let pods = listed(&client).await?;
    Ok((client, pods, node.clock.wall()))
}

/// Returns the runtime's pods, from its two lists.
async fn listed(runtime: &impl Runtime) -> Result<BTreeMap<String, RuntimePod>, Error> {
    let sandboxes = runtime.list_sandboxes(&Filter::default()).await.result?;
    let containers = runtime.list_containers(&Filter::default()).await.result?;
    Ok(RuntimePod::group(running_pods(&sandboxes, &containers)))
}

impl PodsArgs {
    fn kubelet(&self, node: &Node) -> Kubelet {
        let release = node.note_release(node.assumed_release(self.kubelet_version));
        let node_name = self.node_name.clone().or_else(|| node.name());
        Kubelet::new(release, node_name.unwrap_or_else(|| "localhost".to_owned()))
    }

    /// Splits `NAMESPACE/POD`. Without a namespace, that of `-n` counts.
    fn identity(&self, pod: &str) -> PodIdentity {
        let (namespace, name) =
            pod.split_once('/').unwrap_or((self.selection.namespace().unwrap_or("default"), pod));
        PodIdentity { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn names_a_source(&self) -> bool {
        self.manifests.is_some()
            || self.manifest_url.is_some()
            || self.api_pods.is_some()
            || self.kubeconfig.is_some()
    }

    /// Whether the user selects this row.
    fn shows(&self, pod: &PodRow) -> bool {
        let labels = LazyCell::new(|| pod.labels.read());
        let label = |key: &str| labels.get(key).map(String::as_str);
        let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
        let is_ending = pod.verdict == PodVerdict::Terminating
            || pod.verdict == PodVerdict::Stuck && pod.views.wants_end();
        (is_ending || !self.terminating)
            && self.selection.shows(Candidate { namespace, name, uid, label: &label })
    }

    /// Whether the user selects this pod of a source.
    fn shows_wanted(&self, pod: &WantedPod) -> bool {
        let labels = LazyCell::new(|| pod.content.labels.read());
        let label = |key: &str| labels.get(key).and_then(|value| value.as_str());
        let uid = pod.known_uid().unwrap_or_default();
        let (namespace, name) = (&pod.identity.namespace, &pod.identity.name);
        (pod.is_terminating() || !self.terminating)
            && self.selection.shows(Candidate { namespace, name, uid, label: &label })
    }

    /// Returns the intervals from the flags, else from the running kubelet's settings.
    fn periods(&self, node: &Node) -> Periods {
        let configured = |flag: &str, key: &str| {
            let running = node.kubelet().filter(|_| !self.names_a_source())?;
            let setting = running.setting(flag, key).ok()??;
            go_duration(&setting.value).filter(|period| !period.is_zero())
        };
        let file =
            || configured("file-check-frequency", "fileCheckFrequency").unwrap_or(FILE_CHECK_FREQUENCY);
        let http =
            || configured("http-check-frequency", "httpCheckFrequency").unwrap_or(HTTP_CHECK_FREQUENCY);
        Periods {
            file: self.file_check_frequency.unwrap_or_else(file),
            http: self.http_check_frequency.unwrap_or_else(http),
        }
    }
}

/// How often the sources are read.
#[derive(Clone, Copy, Debug)]
struct Periods {
    file: Duration,
    http: Duration,
}

/// The state of each source, as [`pod_rows`] needs it.
type States = BTreeMap<PodSource, SourceState>;
