//! Reads what names the pods of one node: the API server's pods, the kubelet's own list of them, and the kubelet's log. Each
//! document that is refused or absent is one note, with the right that would allow it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use super::journals::{self, JournalError, JournalPeriod};
use super::preflight::pods_of_node;
use super::{ListedNode, error_text};
use crate::clock::Wall;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::outside::{OutsidePod, has_no_answer};
use crate::diagnosis::report::{NotChecked, SuspectReport};
use crate::kubelet::http::encoded;
use crate::kubelet::kubeconfig::Cluster;
use crate::kubelet::pod_status::moment;
use crate::kubelet::{KubeletApi, MeasuredContainer};

/// For how long before the hang the kubelet's events count.
const BEFORE: Duration = Duration::from_secs(10 * 60);

/// The number of the last lines about calls without an answer that are kept.
const MAX_LINES: usize = 200;

/// What names the pods of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// The pods that the API server or the kubelet has.
    pub pods: Vec<OutsidePod>,
    /// The lines of the kubelet's log about calls that had no answer.
    pub log: Vec<String>,
    /// What could not be read.
    pub not_checked: Vec<NotChecked>,
    /// What was read, without secrets, if it is to be kept.
    pub input_files: Vec<InputFile>,
}

/// Which documents are read.
#[derive(Clone, Copy, Debug)]
pub struct ObjectsRequest {
    /// When the last successful relist began. The kubelet's log is read from ten minutes before.
    pub from: Wall,
    /// The time now, if the kubelet answers `/metrics`: then it answers `/metrics/resource` too.
    pub measured_at: Option<Wall>,
    /// The time limit of each request.
    pub timeout: Duration,
    /// Whether what is read is to be kept.
    pub keep: bool,
}

/// Reads the documents, one after the other.
pub async fn read_objects(cluster: &Cluster, node: &ListedNode, request: ObjectsRequest) -> NodeObjects {
    let ObjectsRequest { from, measured_at, timeout, keep } = request;
    let kubelet = KubeletApi::through(cluster, &node.name);
    let mut objects = NodeObjects::default();
    let mut session = cluster.client.session();
    match pods_of_node::<Value>(&mut session, &cluster.server, &node.name, timeout).await {
        Ok(pods) => objects.pods = pods.iter().filter_map(OutsidePod::of).collect(),
        Err(why) => objects.skip("the node's pods", &why, "`list` on pods"),
    }
    let has_pods = !objects.pods.is_empty();
    match kubelets_pods(&kubelet, timeout).await {
        Ok(kubelets) if has_pods => OutsidePod::add_kubelets(&mut objects.pods, kubelets),
        Ok(kubelets) => objects.pods = kubelets,
        Err(why) => objects.skip("the kubelet's /pods", &why, "`get` on nodes/proxy"),
    }
    if let Some(now) = measured_at {
        match measured_containers(&kubelet, timeout).await {
            Ok(measured) => OutsidePod::compare(&mut objects.pods, &measured, now),
            Err(why) => objects.skip("the kubelet's /metrics/resource", &why, "`get` on nodes/proxy"),
        }
    }
    let period = JournalPeriod::around(from);
    match journals::read(cluster, &node.name, journals::unit(node), period, timeout).await {
        Ok(text) => {
            objects.log = lines_without_answer(&text);
            let about = "the kubelet's journal, without secrets";
            objects.input_files.extend(keep.then(|| InputFile::new("journal.txt", about, text)));
        }
        Err(JournalError::NotServed(why)) => {
            objects.skip(
                "the kubelet's log",
                &why,
                "`get` on nodes/proxy and the setting enableSystemLogQuery",
            );
        }
        Err(JournalError::Empty | JournalError::NoUnit) => {}
    }
    if let Some(pods) = serde_json::to_vec_pretty(&objects.pods).ok().filter(|_| keep) {
        let about = "the node's pods: names, containers and times of changes, and nothing else of them";
        objects.input_files.push(InputFile::whole("pods.json", about, pods));
    }
    objects
}

/// Reads the kubelet's own list of its pods.
async fn kubelets_pods(kubelet: &KubeletApi, timeout: Duration) -> Result<Vec<OutsidePod>, String> {
    let answer = kubelet.get("/pods", timeout).await;
    let text = answer.and_then(|answer| answer.document("/pods")).map_err(|why| error_text(&why))?;
    let list: Value =
        serde_json::from_str(&text).map_err(|why| format!("the answer is not a list of pods: {why}"))?;
    Ok(OutsidePod::all_of(&list))
}

/// Reads which containers the kubelet measures.
async fn measured_containers(
    kubelet: &KubeletApi,
    timeout: Duration,
) -> Result<HashSet<MeasuredContainer>, String> {
    let answer = kubelet.get("/metrics/resource", timeout).await;
    let page = answer.and_then(|answer| answer.document("/metrics/resource"));
    page.map(|page| MeasuredContainer::all(&page)).map_err(|why| error_text(&why))
}

/// Adds to the pods of suspects what the kubelet reported of calls without an answer, in events since ten minutes before `from`.
/// Returns why the events of a pod cannot be read; those of the next pods are not requested then.
pub async fn read_events(
    cluster: &Cluster,
    pods: &mut [OutsidePod],
    suspects: &[SuspectReport],
    from: Wall,
    timeout: Duration,
) -> Option<NotChecked> {
    let mut session = cluster.client.session();
    let is_suspect = |pod: &&mut OutsidePod| suspects.iter().any(|suspect| suspect.pod == pod.pod);
    for pod in pods.iter_mut().filter(is_suspect) {
        let selector = encoded(&format!("type=Warning,involvedObject.uid={}", pod.pod.uid));
        let namespace = encoded(&pod.pod.namespace);
        let server = &cluster.server;
        let url = format!("{server}/api/v1/namespaces/{namespace}/events?limit=100&fieldSelector={selector}");
        let answer = session.get_as(&url, "*/*", timeout).await;
        let text = match answer.and_then(|answer| answer.document(&url)) {
            Ok(text) => text,
            Err(why) => return Some(lacking("the suspects' events", &error_text(&why), "`list` on events")),
        };
        // An answer that is no list of events shows nothing.
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        pod.no_answer.extend(reports(&list, from.minus(BEFORE)));
    }
    None
}

/// Returns the messages of events about calls without an answer, the last one last.
fn reports(list: &Value, since: Wall) -> Vec<String> {
    let events = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let mut reports: Vec<(Wall, String)> = events
        .filter_map(|event| {
            let at = moment(event.get("lastTimestamp")).or_else(|| moment(event.get("eventTime")))?;
            let message = event.get("message")?.as_str()?;
            (at >= since && has_no_answer(message)).then(|| (at, message.to_owned()))
        })
        .collect();
    reports.sort();
    reports.into_iter().map(|(_, message)| message).collect()
}

fn lines_without_answer(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.lines().filter(|line| has_no_answer(line)).map(str::to_owned).collect();
    lines.get(lines.len().saturating_sub(MAX_LINES)..).unwrap_or_default().to_vec()
}

fn lacking(what: &str, why: &str, right: &str) -> NotChecked {
    NotChecked { what: what.to_owned(), why: format!("{why}; it needs {right}") }
}

impl NodeObjects {
    fn skip(&mut self, what: &str, why: &str, right: &str) {
        self.not_checked.push(lacking(what, why, right));
    }
}
