//! Reads the pods that the kubelet knows, from its Pods API, and keeps what rule D41 needs: pods that wait to start, and pods
//! that should have ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::{Clock, Wall};
use crate::cri::PodsApi;
use crate::diagnosis::report::PodRef;
use crate::kubelet::pod_status::{WaitingContainer, container_statuses, moment, transition};
use crate::report::Rename;

/// The time limit for the answer. The kubelet has the list in memory.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Where the kubelet's own pods come from.
#[derive(Clone, Debug)]
pub enum PodsSource {
    /// The socket of the Pods API of this node's kubelet.
    Socket(PathBuf),
    /// The pods of a simulated kubelet, as a `PodList`.
    Simulated(Vec<u8>),
}

/// A pod that does not progress, as the kubelet itself says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Value(owner))]
#[serde(rename_all = "camelCase")]
pub struct StuckPod {
    /// The pod.
    pub pod: PodRef,
    /// The UID of the pod's owner, or its own: pods of one owner may wait for the same thing.
    pub owner: String,
    /// Since when.
    pub since: Wall,
    /// Whether it was deleted and its grace period is over. Otherwise it waits to start.
    pub is_ending: bool,
}

/// The pods that a kubelet knows, in the API server's form.
#[derive(Deserialize)]
struct PodObjects {
    items: Vec<Value>,
}

/// Reads the pods that wait to start or should have ended. One call, with a time limit of its own.
pub async fn read(
    source: &PodsSource,
    limit: Duration,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<StuckPod>, String> {
    let text = match source {
        PodsSource::Socket(path) => {
            let api = PodsApi::new(path, limit.min(TIME_LIMIT), Arc::clone(clock));
            api.list_pods().await.map_err(|why| why.to_string())?
        }
        PodsSource::Simulated(text) => text.clone(),
    };
    let list: PodObjects = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
    Ok(list.items.iter().filter_map(stuck).collect())
}

/// Returns the pod if it waits to start or should have ended.
fn stuck(pod: &Value) -> Option<StuckPod> {
    let metadata = pod.get("metadata")?;
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (uid, none) = (text("uid"), Value::Null);
    let owner = metadata.pointer("/ownerReferences/0/uid").and_then(Value::as_str).unwrap_or(&uid).to_owned();
    let status = pod.get("status").unwrap_or(&none);
    let ends = moment(metadata.get("deletionTimestamp"));
    let since = ends.or_else(|| waits_since(status))?;
    let pod = PodRef { uid, namespace: text("namespace"), name: text("name") };
    Some(StuckPod { pod, owner, since, is_ending: ends.is_some() })
}

/// Returns since when a pod waits for its sandbox; `None` for a pod that has or had a container, or whose containers wait for
/// an image, their configuration or their next start.
fn waits_since(status: &Value) -> Option<Wall> {
    let is_untouched = |container: &Value| {
        let waiting = WaitingContainer::from_status(container);
        waiting.is_some_and(|waiting| waiting.waits_for_pod()) && container.get("containerID").is_none()
    };
    let is_pending = status.get("phase").is_some_and(|phase| phase == "Pending");
    if !is_pending || !container_statuses(status).all(is_untouched) {
        return None;
    }
    // Without a start time, the kubelet has not begun with the pod.
    let start = moment(status.get("startTime"))?;
    Some(transition(status, "PodScheduled").map_or(start, |scheduled| start.max(scheduled)))
}
