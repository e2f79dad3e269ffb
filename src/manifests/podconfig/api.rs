//! The API source: the pods that the API server has for this node, as a list in JSON.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Content, Part, Wanted};
use crate::manifests::PodIdentity;

/// Annotations that the kubelet itself keeps and that make no other pod (`pkg/kubelet/types/pod_update.go`).
const OWN_ANNOTATIONS: [&str; 3] =
    ["kubernetes.io/config.source", "kubernetes.io/config.mirror", "kubernetes.io/config.seen"];
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a text is no list of pods.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// It is no JSON, or it ends too early.
    #[error("it is no JSON: {0}")]
    Json(String),
    /// It is JSON, and not of this shape.
    #[error("it is no list of pods: {0}")]
    Shape(String),
    /// It is JSON of another kind.
    #[error("it is a `{0}`, not a PodList")]
    Kind(String),
    /// A pod of it has no UID or no name, so that it cannot come from an API server.
    #[error("pod number {0} has no name or no uid: an API server gives both")]
    Unnamed(usize),
}

/// A list of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiPods {
    /// Those of this node.
    pub pods: Vec<Arc<Wanted>>,
    /// How many there were of other nodes, which the kubelet never sees.
    pub elsewhere: usize,
    /// The state of the API server that it shows.
    pub version: String,
}

/// A document that may be such a list.
#[derive(Deserialize)]
pub struct List {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default)]
    items: Option<Vec<Pod>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Part,
}

/// The spec, of which one field is looked at while it is still a tree.
#[derive(Default, Deserialize)]
#[serde(from = "Value")]
struct Spec {
    node: Option<String>,
    part: Part,
}

impl From<Value> for Spec {
    fn from(spec: Value) -> Self {
        let node = spec.get("nodeName").and_then(Value::as_str).map(str::to_owned);
        Self { node, part: spec.into() }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<Map<String, Value>>,
    #[serde(default)]
    annotations: Option<Map<String, Value>>,
    #[serde(default)]
    deletion_timestamp: Part,
    #[serde(default)]
    deletion_grace_period_seconds: Part,
    #[serde(default)]
    pub(super) resource_version: String,
}

impl ApiPods {
    /// The pods of `text`, a `PodList` as `kubectl get pods -o json` prints it, that are bound to `node`.
    pub fn parse(text: &[u8], node: &str) -> Result<Self, ApiError> {
        Self::of(serde_json::from_slice(text)?, node)
    }

    /// The same of a text that has been read.
    pub fn of(list: List, node: &str) -> Result<Self, ApiError> {
        if !matches!(list.kind.as_str(), "PodList" | "List") {
            return Err(ApiError::Kind(list.kind));
        }
        let mut found = Self { version: list.metadata.resource_version, ..Self::default() };
        for (number, pod) in list.items.unwrap_or_default().into_iter().enumerate() {
            if let Some(kind) = pod.kind.as_deref().filter(|kind| !matches!(*kind, "Pod" | "")) {
                return Err(ApiError::Kind(kind.to_owned()));
            }
            if pod.spec.node.as_ref().is_some_and(|bound| bound != node) {
                found.elsewhere += 1;
                continue;
            }
            let pod = wanted(pod).ok_or(ApiError::Unnamed(number + 1))?;
            found.pods.push(Arc::new(pod));
        }
        Ok(found)
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(why: serde_json::Error) -> Self {
        if why.is_data() { Self::Shape(why.to_string()) } else { Self::Json(why.to_string()) }
    }
}

/// The pod, if it has what every pod of an API server has.
pub(super) fn wanted(pod: Pod) -> Option<Wanted> {
    let Metadata { name, namespace, uid, labels, annotations, .. } = pod.metadata;
    if name.is_empty() || uid.is_empty() {
        return None;
    }
    let mut annotations = annotations.unwrap_or_default();
    let mirror_of = annotations.get(MIRROR).and_then(Value::as_str).map(str::to_owned);
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    Some(Wanted {
        identity: PodIdentity {
            namespace: if namespace.is_empty() { "default".to_owned() } else { namespace },
            name,
        },
        uid,
        content: Content {
            spec: pod.spec.part,
            labels: Value::Object(labels.unwrap_or_default()).into(),
            annotations: Value::Object(annotations).into(),
            deleted: pod.metadata.deletion_timestamp,
            grace: pod.metadata.deletion_grace_period_seconds,
        },
        status: pod.status,
        mirror_of,
        changed: None,
        unmirrored: None,
        object: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"kind": "List", "items": [
        {"kind": "Pod", "metadata": {"name": "a", "namespace": "shop", "uid": "1",
            "annotations": {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.seen": "x", "mine": "y"}},
         "spec": {"nodeName": "n1"}},
        {"metadata": {"name": "b", "uid": "2", "annotations": null}, "spec": {"nodeName": "n2"}}]}"#;

    fn parse(text: &str) -> Result<ApiPods, ApiError> {
        ApiPods::parse(text.as_bytes(), "n1")
    }

    #[test]
    fn pods_of_other_nodes_are_counted_and_left_out() {
        let list = parse(LIST).unwrap();
        assert_eq!((list.pods.len(), list.elsewhere), (1, 1));
        assert_eq!(list.pods[0].mirror_of.as_deref(), Some("abc"));
        assert_eq!(list.pods[0].content.annotations, serde_json::json!({"mine": "y"}).into());
    }

    #[test]
    fn what_is_no_list_of_pods_is_refused() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert!(matches!(refused(&LIST[..LIST.len() / 2]), ApiError::Json(_)));
        assert_eq!(refused(r#"{"kind": "Pod"}"#), ApiError::Kind("Pod".into()));
        assert_eq!(
            refused(r#"{"kind": "List", "items": [{"kind": "Node"}]}"#),
            ApiError::Kind("Node".into())
        );
        assert_eq!(refused(r#"{"kind": "PodList", "items": [{}]}"#), ApiError::Unnamed(1));
    }
}
