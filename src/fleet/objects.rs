//! Reads what names the pods of one node: the API server's pods, the kubelet's own list of them, and the kubelet's log. Each
//! document that is refused or absent is one note, with the right that would allow it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use super::events::{failing_steps, lacking};
use super::journals::{self, JournalError, JournalPeriod, KubeletJournal};
use super::preflight::pods_of_node;
use super::{ListedNode, error_text};
use crate::clock::Wall;
use crate::diagnosis::failing_pods::FailingPod;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::outside::{OutsidePod, has_no_answer};
use crate::diagnosis::report::NotChecked;
use crate::kubelet::kubeconfig::Cluster;
use crate::kubelet::{KubeletApi, MeasuredContainer};

/// The number of the last lines about calls without an answer that are kept.
const MAX_LINES: usize = 200;

/// What names the pods of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// The pods that the API server or the kubelet has.
    pub pods: Vec<OutsidePod>,
    /// The steps for pods that have failed again and again until a moment ago.
    pub failing: Vec<FailingPod>,
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
    /// The time now, by the API server's clock.
    pub now: Wall,
    /// When the last successful relist began. The kubelet's log is read from ten minutes before.
    pub from: Wall,
    /// Whether the kubelet answers `/metrics`: then it answers `/metrics/resource` too.
    pub answers_metrics: bool,
    /// Whether PLEG is healthy, so that only what fails instead is of interest.
    pub is_healthy: bool,
    /// The time limit of each request.
    pub timeout: Duration,
    /// Whether what is read is to be kept.
    pub keep: bool,
}

/// Reads the documents, one after the other.
pub async fn read_objects(cluster: &Cluster, node: &ListedNode, request: ObjectsRequest) -> NodeObjects {
    let mut objects = NodeObjects::default();
    let mut session = cluster.client.session();
    match pods_of_node::<Value>(&mut session, &cluster.server, &node.name, request.timeout).await {
        Ok(pods) => objects.pods = pods.iter().filter_map(OutsidePod::of).collect(),
        Err(why) => objects.skip("the node's pods", &why, "`list` on pods"),
    }
    if !request.is_healthy {
        objects.read_kubelet(&KubeletApi::through(cluster, &node.name), request).await;
    }
    let events = failing_steps(cluster, &objects.pods, request.now, request.timeout).await;
    let has_events = events.is_ok();
    match events {
        Ok(failing) => objects.failing = failing,
        Err(why) => objects.skip("the events of pods that wait", &why, "`list` on events"),
    }
    if !(request.is_healthy && has_events) {
        objects.read_journal(cluster, node, request).await;
    }
    if let Some(pods) = serde_json::to_vec_pretty(&objects.pods).ok().filter(|_| request.keep) {
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

fn lines_without_answer(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.lines().filter(|line| has_no_answer(line)).map(str::to_owned).collect();
    lines.get(lines.len().saturating_sub(MAX_LINES)..).unwrap_or_default().to_vec()
}

impl NodeObjects {
    /// Reads what the kubelet itself knows of its pods.
    async fn read_kubelet(&mut self, kubelet: &KubeletApi, request: ObjectsRequest) {
        let has_pods = !self.pods.is_empty();
        match kubelets_pods(kubelet, request.timeout).await {
            Ok(kubelets) if has_pods => OutsidePod::add_kubelets(&mut self.pods, kubelets),
            Ok(kubelets) => self.pods = kubelets,
            Err(why) => self.skip("the kubelet's /pods", &why, "`get` on nodes/proxy"),
        }
        if request.answers_metrics {
            match measured_containers(kubelet, request.timeout).await {
                Ok(measured) => OutsidePod::compare(&mut self.pods, &measured, request.now),
                Err(why) => self.skip("the kubelet's /metrics/resource", &why, "`get` on nodes/proxy"),
            }
        }
    }

    /// Reads the kubelet's journal, which has each error, and so more than the events.
    async fn read_journal(&mut self, cluster: &Cluster, node: &ListedNode, request: ObjectsRequest) {
        let ObjectsRequest { now, from, timeout, keep, .. } = request;
        let period = JournalPeriod::around(from);
        match journals::read(cluster, &node.name, journals::unit(node), period, timeout).await {
            Ok(KubeletJournal { text, failing }) => {
                self.log = lines_without_answer(&text);
                let persists = |one: &FailingPod| one.persists(Duration::MAX) && one.is_recent(now);
                self.failing = failing.into_iter().filter(persists).collect();
                let about = "the kubelet's journal, without secrets";
                self.input_files.extend(keep.then(|| InputFile::new("journal.txt", about, text)));
            }
            Err(JournalError::NotServed(why)) => {
                let right = "`get` on nodes/proxy and the setting enableSystemLogQuery";
                self.skip("the kubelet's log", &why, right);
            }
            Err(JournalError::Empty | JournalError::NoUnit) => {}
        }
    }

    fn skip(&mut self, what: &str, why: &str, right: &str) {
        self.not_checked.push(lacking(what, why, right));
    }
}
