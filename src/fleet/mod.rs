//! The PLEG of many nodes at a glance, through the API server: the list of nodes, and of each its kubelet's `/configz` and
//! `/metrics` by the API server's node proxy.
//!
//! Reads these three documents and nothing else. A node that says nothing holds nobody up: every question has its own end,
//! and silence is what is found. What is right for one node is left to `health` on that node.

mod histogram;
mod judge;
mod node;
mod report;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::kubelet::http::{self, encoded};
use crate::kubelet::kubeconfig::Cluster;

pub use self::judge::judge;
pub use self::node::{NodeReading, Readings};
pub use self::report::{NodeReport, NodeVerdict, NodesReport, QuantileReport};

/// Nodes in one page of the list: what a node says of itself can be 100 KB, with the images it has.
const PAGE: usize = 200;

/// Pages that are read; 40 000 nodes are more than Kubernetes promises to bear.
const MOST_PAGES: usize = 200;

/// What is asked, and how.
#[derive(Clone, Debug)]
pub struct Question {
    /// Labels that a node must have, as kubectl writes them.
    pub selector: Option<String>,
    /// Nodes that are asked at a time.
    pub concurrency: usize,
    /// What one answer may take.
    pub patience: Duration,
}

/// A node as the API server lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What its kubelet calls itself.
    pub kubelet_version: Option<String>,
    /// The condition Ready.
    pub ready: Option<Ready>,
}

/// What the API server says of whether a node is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Its kubelet says that it is.
    Yes,
    /// Its kubelet says that it is not, in these words.
    No(String),
    /// Its kubelet has not said anything for too long; the API server's words.
    Unknown(String),
}

impl From<Condition> for Ready {
    fn from(condition: Condition) -> Self {
        match condition.status.as_str() {
            "True" => Self::Yes,
            "False" => Self::No(condition.message),
            _ => Self::Unknown(condition.message),
        }
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<Item>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
    #[serde(default)]
    status: ItemStatus,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ItemStatus {
    conditions: Vec<Condition>,
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
}

/// Why there is no list of nodes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not answer, or not with a list.
    #[error("cannot list the nodes: {0}")]
    Http(#[from] http::Error),
    /// What it answers is something else.
    #[error("cannot list the nodes: what `{url}` answers is no list of nodes: {why}")]
    NoList {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        why: String,
    },
}

/// Lists the nodes.
pub async fn list(cluster: &Cluster, question: &Question) -> Result<Vec<Listed>, Error> {
    let mut session = cluster.client.session();
    let mut nodes = Vec::new();
    let mut next = String::new();
    for _ in 0..MOST_PAGES {
        let mut url = format!("{}/api/v1/nodes?limit={PAGE}", cluster.server);
        if let Some(selector) = &question.selector {
            url.extend(["&labelSelector=", &encoded(selector)]);
        }
        if !next.is_empty() {
            url.extend(["&continue=", &encoded(&next)]);
        }
        let text = session.get(&url, question.patience).await?.document(&url)?;
        let page: Page =
            serde_json::from_str(&text).map_err(|why| Error::NoList { url, why: why.to_string() })?;
        nodes.extend(page.items.into_iter().map(Listed::from));
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    Ok(nodes)
}

impl From<Item> for Listed {
    fn from(item: Item) -> Self {
        let ready = item.status.conditions.into_iter().find(|condition| condition.r#type == "Ready");
        let version = item.status.node_info.kubelet_version;
        Self {
            name: item.metadata.name,
            kubelet_version: (!version.is_empty()).then_some(version),
            ready: ready.map(Ready::from),
        }
    }
}

/// Asks every node, `done` after each.
pub async fn ask(
    cluster: &Arc<Cluster>,
    nodes: Vec<Listed>,
    question: &Question,
    clock: &Arc<dyn Clock>,
    done: impl Fn(&NodeReading),
) -> Readings {
    let workers = question.concurrency.min(nodes.len());
    let waiting = Arc::new(Mutex::new(VecDeque::from(nodes)));
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut asking = JoinSet::new();
    for _ in 0..workers {
        let (cluster, waiting, sender) = (Arc::clone(cluster), Arc::clone(&waiting), sender.clone());
        let (clock, patience) = (Arc::clone(clock), question.patience);
        asking.spawn(async move {
            let mut session = cluster.client.session();
            while let Some(node) = take(&waiting) {
                let reading = node::read(&mut session, &cluster.server, node, patience, clock.as_ref()).await;
                if sender.send(reading).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut readings = Vec::new();
    while let Some(reading) = answers.recv().await {
        done(&reading);
        readings.push(reading);
    }
    Readings { taken_at: clock.wall(), readings }
}

fn take(waiting: &Mutex<VecDeque<Listed>>) -> Option<Listed> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_status_is_a_node() {
        let page: Page = serde_json::from_str(r#"{"items":[{"metadata":{"name":"n1"}}]}"#).unwrap();
        let nodes: Vec<Listed> = page.items.into_iter().map(Listed::from).collect();
        assert_eq!(nodes, [Listed { name: "n1".to_owned(), ..Listed::default() }]);
    }
}
