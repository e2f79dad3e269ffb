//! `plegctl nodes`: judges the PLEG of many nodes from outside. Lists the nodes from the API server, reads `/configz`
//! and `/metrics` of each kubelet through the API server's node proxy, and decides a verdict for each node.
//!
//! Before an upgrade (`preflight`), reads `/configz` and the list of the node's pods, and decides whether another release
//! starts.
//!
//! Where a node has a recorder's pod, also reads its verdict through the pod proxy (`recorder`), or its incidents, which
//! `incidents` joins over all nodes.
//!
//! Nothing else is requested. Every request has a timeout, so a silent node does not delay the other nodes. The
//! verdict names no cause; `plegctl health` on the node does.

mod captures;
mod events;
mod histogram;
mod incidents;
mod journals;
mod node;
mod objects;
mod outside;
mod preflight;
mod recorder;
mod recorders;
mod report;
mod verdict;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::task::LocalSet;

use crate::clock::{Clock, Wall};
use crate::kubelet::http::{self, HttpSession, encoded};
use crate::kubelet::kubeconfig::Cluster;

pub use self::captures::{FetchedFile, FleetCaptures, WorstIncident, worst_incidents};
pub use self::events::read_events;
pub use self::incidents::{
    FleetIncidents, IncidentGroup, SharedFact, join as join_incidents, read_images, read_incidents,
};
pub use self::node::{FleetReading, NodeReading};
pub use self::objects::{NodeObjects, ObjectsRequest, read_objects};
pub use self::outside::{KubeletDumps, read_dumps};
pub use self::preflight::{
    FleetPreflight, NodePreflight, StartVerdict, judge as judge_settings, read_settings,
};
pub use self::recorder::{NAMESPACE, RecorderError, RecorderPod};
pub use self::recorders::{
    RecorderPods, RecorderReport, check_document, clock_ahead, find as find_recorders,
    find_on as find_recorders_on,
};
#[cfg(test)]
pub use self::report::NodeCounts;
pub use self::report::{NodeReport, NodeRuntime, NodeVerdict, NodesReport, RelistSeconds};
pub use self::verdict::{error_text, judge};

/// The number of nodes in one page of the list. A node object with its list of images can have 100 KB.
const PAGE: usize = 200;

/// The maximum number of pages. 40 000 nodes are more than Kubernetes supports.
const MAX_PAGES: usize = 200;

/// Which nodes are read, how many at a time, and with which timeout.
#[derive(Clone, Debug)]
pub struct FleetRequest {
    /// The label selector, in kubectl's syntax.
    pub selector: Option<String>,
    /// The number of nodes that are read at a time.
    pub concurrency: usize,
    /// The timeout of one request.
    pub timeout: Duration,
}

/// A node from the API server's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedNode {
    /// The node's name.
    pub name: String,
    /// The version of the node's kubelet.
    pub kubelet_version: Option<String>,
    /// The container runtime.
    pub runtime: Option<NodeRuntime>,
    /// The node's condition `Ready`.
    pub ready: Option<NodeReady>,
    /// When the condition `Ready` last changed.
    pub ready_since: Option<Wall>,
    /// The name of its operating system.
    pub system: Option<String>,
    /// The release of its kernel.
    pub kernel: Option<String>,
    /// The node pool.
    pub pool: Option<String>,
    /// The machine's id in its cloud.
    pub provider_id: Option<String>,
    /// When the kubelet last reported the condition `Ready`.
    pub reported_at: Option<Wall>,
    /// When the API server sent it, if it was requested alone.
    pub sent_at: Option<Wall>,
}

/// The labels that name a node's pool, the most specific first: those of the clouds and of Karpenter, and then the type of
/// the machine, which every cloud sets.
const POOL_LABELS: [&str; 10] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "doks.digitalocean.com/node-pool",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "node.kubernetes.io/instance-type",
];

/// A node's condition `Ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReady {
    /// The kubelet reports that the node is ready.
    Yes,
    /// The kubelet reports that the node is not ready, with this message.
    No(String),
    /// The kubelet has not reported for too long, as the API server's message explains.
    Unknown(String),
}

impl NodeReady {
    /// Whether the kubelet reports that PLEG is not healthy, or that it has no answer of its runtime.
    pub fn is_about_pleg(&self) -> bool {
        let Self::No(message) = self else { return false };
        ["PLEG is not healthy", "container runtime is down"].iter().any(|part| message.contains(part))
    }
}

impl From<NodeCondition> for NodeReady {
    fn from(condition: NodeCondition) -> Self {
        match condition.status.as_str() {
            "True" => Self::Yes,
            "False" => Self::No(condition.message),
            _ => Self::Unknown(condition.message),
        }
    }
}

#[derive(Deserialize)]
struct NodePage {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<NodeItem>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct NodeItem {
    metadata: ItemMetadata,
    #[serde(default)]
    spec: ItemSpec,
    #[serde(default)]
    status: ItemStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemSpec {
    #[serde(rename = "providerID")]
    provider_id: String,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ItemStatus {
    conditions: Vec<NodeCondition>,
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeCondition {
    r#type: String,
    status: String,
    message: String,
    last_transition_time: String,
    last_heartbeat_time: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
    container_runtime_version: String,
    os_image: String,
    kernel_version: String,
}

/// Why the nodes cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not answer, or answers with an error.
    #[error("cannot list the nodes: {0}")]
    Http(#[from] http::Error),
    /// The API server does not answer a request for one node, or answers with an error.
    #[error("cannot read the node `{name}`: {why}")]
    Node {
        /// The node.
        name: String,
        /// The error.
        why: http::Error,
    },
    /// The answer is not a node.
    #[error("the answer of `{url}` is not a node: {why}")]
    NoNode {
        url: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The answer is not a list of nodes.
    #[error("cannot list the nodes: the answer of `{url}` is not a list of nodes: {why}")]
    NoList {
        url: String,
        /// What is wrong with the answer.
        why: String,
    },
}

/// Lists the nodes from the API server, page by page.
pub async fn list(cluster: &Cluster, request: &FleetRequest) -> Result<Vec<ListedNode>, Error> {
    let mut session = cluster.client.session();
    let mut nodes = Vec::new();
    let mut next = String::new();
    for _ in 0..MAX_PAGES {
        let mut url = format!("{}/api/v1/nodes?limit={PAGE}", cluster.server);
        if let Some(selector) = &request.selector {
            url.extend(["&labelSelector=", &encoded(selector)]);
        }
        if !next.is_empty() {
            url.extend(["&continue=", &encoded(&next)]);
        }
        let text = session.get(&url, request.timeout).await?.document(&url)?;
        let page: NodePage =
            serde_json::from_str(&text).map_err(|why| Error::NoList { url, why: why.to_string() })?;
        nodes.extend(page.items.into_iter().map(ListedNode::from));
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    Ok(nodes)
}

/// Reads one node from the API server.
pub async fn node(cluster: &Cluster, name: &str, timeout: Duration) -> Result<ListedNode, Error> {
    let url = format!("{}/api/v1/nodes/{}", cluster.server, encoded(name));
    let refused = |why| Error::Node { name: name.to_owned(), why };
    let answer = cluster.client.get(&url, timeout).await.map_err(refused)?;
    let sent_at = answer.date.map(wall);
    let text = answer.document(&url).map_err(refused)?;
    let item: NodeItem =
        serde_json::from_str(&text).map_err(|why| Error::NoNode { url, why: why.to_string() })?;
    Ok(ListedNode { sent_at, ..item.into() })
}

/// Returns the time that is this many seconds after the epoch.
pub fn wall(seconds: f64) -> Wall {
    Wall::from_nanos(0).plus(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

impl From<NodeItem> for ListedNode {
    fn from(item: NodeItem) -> Self {
        let ready = item.status.conditions.into_iter().find(|condition| condition.r#type == "Ready");
        let NodeInfo { kubelet_version, container_runtime_version, os_image, kernel_version } =
            item.status.node_info;
        let filled = |text: String| (!text.is_empty()).then_some(text);
        let mut labels = item.metadata.labels;
        Self {
            name: item.metadata.name,
            kubelet_version: filled(kubelet_version),
            runtime: NodeRuntime::parse(&container_runtime_version),
            system: filled(os_image),
            kernel: filled(kernel_version),
            pool: POOL_LABELS.iter().find_map(|label| labels.remove(*label).filter(|pool| !pool.is_empty())),
            provider_id: filled(item.spec.provider_id),
            reported_at: ready.as_ref().and_then(|ready| ready.last_heartbeat_time.parse().ok()),
            ready_since: ready.as_ref().and_then(|ready| ready.last_transition_time.parse().ok()),
            ready: ready.map(NodeReady::from),
            sent_at: None,
        }
    }
}

/// Reads the recorder's verdict, the metrics and the configuration of every node, several nodes at a time, and calls
/// `done` after each node.
pub async fn read_nodes(
    cluster: &Arc<Cluster>,
    nodes: Vec<ListedNode>,
    recorders: RecorderPods,
    request: &FleetRequest,
    clock: &Arc<dyn Clock>,
    done: impl Fn(&NodeReading),
) -> FleetReading {
    let (timeout, node_clock) = (request.timeout, Arc::clone(clock));
    let readings = read_each(cluster, nodes, request, done, async move |session, server, listed| {
        node::read(session, server, listed, &recorders, timeout, &*node_clock).await
    })
    .await;
    FleetReading { taken_at: clock.wall(), readings }
}

/// Reads every target, in most cases a node, with `request.concurrency` targets at a time, and calls `done` after each.
/// `read` reads the documents of one target; it gets a connection to the API server, and the server's URL.
async fn read_each<T: 'static, R: 'static>(
    cluster: &Arc<Cluster>,
    targets: Vec<T>,
    request: &FleetRequest,
    done: impl Fn(&R),
    read: impl AsyncFn(&mut HttpSession<'_>, &str, T) -> R + 'static,
) -> Vec<R> {
    let workers = request.concurrency.min(targets.len());
    let (queue, read) = (Rc::new(RefCell::new(targets.into_iter())), Rc::new(read));
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let tasks = LocalSet::new();
    for _ in 0..workers {
        let (cluster, sender) = (Arc::clone(cluster), sender.clone());
        let (queue, read) = (Rc::clone(&queue), Rc::clone(&read));
        tasks.spawn_local(async move {
            let next = || queue.borrow_mut().next();
            let mut session = cluster.client.session();
            while let Some(target) = next() {
                let reading = read(&mut session, &cluster.server, target).await;
                if sender.send(reading).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut readings = Vec::new();
    let collected = async {
        while let Some(reading) = answers.recv().await {
            done(&reading);
            readings.push(reading);
        }
    };
    tasks.run_until(collected).await;
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_label_names_the_pool() {
        let pool = |labels: &str| {
            let item = format!(r#"{{"metadata":{{"name":"n1","labels":{labels}}}}}"#);
            ListedNode::from(serde_json::from_str::<NodeItem>(&item).unwrap()).pool
        };
        let machine = r#""node.kubernetes.io/instance-type":"m7i.large""#;
        assert_eq!(pool(&format!(r#"{{{machine},"karpenter.sh/nodepool":"gpu"}}"#)).as_deref(), Some("gpu"));
        assert_eq!(pool(&format!(r#"{{{machine},"agentpool":""}}"#)).as_deref(), Some("m7i.large"));
        assert_eq!(pool("{}"), None);
    }

    #[test]
    fn a_node_without_a_status_is_listed() {
        let page: NodePage = serde_json::from_str(r#"{"items":[{"metadata":{"name":"n1"}}]}"#).unwrap();
        let nodes: Vec<ListedNode> = page.items.into_iter().map(ListedNode::from).collect();
        assert_eq!(nodes, [ListedNode { name: "n1".to_owned(), ..ListedNode::default() }]);
    }
}
