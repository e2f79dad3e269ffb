//! Reads the status of a pod in the API server's JSON form, as the kubelet and the API server send it.

use std::fmt;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use plegctl_base::clock::Wall;

/// Reads a time of the API; `None` if it is absent or in another form.
pub fn moment(time: Option<&Value>) -> Option<Wall> {
    let time = humantime::parse_rfc3339(time?.as_str()?).ok()?;
    Wall::known(i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?)
}

/// Returns the entries of a status's list, such as `conditions`.
pub fn entries<'a>(status: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    status.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the time of the last transition of a condition.
pub fn transition(status: &Value, condition: &str) -> Option<Wall> {
    let mut conditions = entries(status, "conditions");
    moment(
        conditions
            .find(|one| one.get("type").is_some_and(|name| name == condition))?
            .get("lastTransitionTime"),
    )
}

/// Returns the statuses of the containers, including init containers.
pub fn container_statuses(status: &Value) -> impl Iterator<Item = &Value> {
    entries(status, "containerStatuses").chain(entries(status, "initContainerStatuses"))
}

/// The reasons of a container that waits for its pod, and not for its image, its configuration or its next start.
const WAITS_FOR_POD: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// What the kubelet says about a container that does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingContainer {
    /// The container's name.
    pub name: String,
    /// The kubelet's word, such as `ImagePullBackOff`.
    pub reason: String,
    /// The kubelet's sentence.
    pub message: String,
}

impl WaitingContainer {
    /// Returns all that a status says about a container that waits.
    pub fn from_status(status: &Value) -> Option<Self> {
        let waiting = status.pointer("/state/waiting")?;
        let text = |of: &Value, key| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self {
            name: text(status, "name"),
            reason: text(waiting, "reason"),
            message: text(waiting, "message"),
        })
    }

    /// Returns the containers of a pod's status that wait for something of their own.
    pub fn all(status: &Value) -> impl Iterator<Item = Self> {
        let waiting = container_statuses(status).filter_map(Self::from_status);
        waiting.filter(|container| !container.reason.is_empty() && !container.waits_for_pod())
    }

    /// Whether the container waits for its pod.
    pub fn waits_for_pod(&self) -> bool {
        WAITS_FOR_POD.contains(&self.reason.as_str())
    }
}

impl fmt::Display for WaitingContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, reason, message } = self;
        write!(f, "container {name} waits: {reason}")?;
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

/// Whether the pod has ended, so that the kubelet starts none of its containers again.
pub fn has_ended(status: &Value) -> bool {
    matches!(status.get("phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}
