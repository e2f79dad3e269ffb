//! Parses the JSON list of pods that the API server or kubectl prints, and leaves out the pods that are bound to another
//! node. A pod without a node stays in the list, because the list of one node may omit `nodeName`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{CompactJson, PodContent, WantedPod};
use crate::PodIdentity;

/// Annotations that the kubelet sets itself. A change of them is not a change of the pod
/// (`pkg/kubelet/types/pod_update.go`).
const OWN_ANNOTATIONS: [&str; 3] =
    ["kubernetes.io/config.source", "kubernetes.io/config.mirror", "kubernetes.io/config.seen"];
/// The annotation of a mirror pod with the hash of its static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a text is not a list of pods.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodListError {
    /// The text is not JSON, or it ends too early.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// The text is JSON without the structure of a list.
    #[error("it is not a list of pods: {0}")]
    Shape(String),
    /// The text is JSON of another kind.
    #[error("it is a `{0}`, not a PodList")]
    Kind(String),
    /// A pod of the list has no UID or no name, so the list cannot come from an API server.
    #[error("pod number {0} has no name or no uid, but each pod of an API server has both")]
    Unnamed(usize),
}

/// A parsed list of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiPods {
    /// The pods that are not bound to another node.
    pub pods: Vec<Arc<WantedPod>>,
    /// The number of pods in the list that belong to other nodes. They are left out.
    pub elsewhere: usize,
    /// The resource version of the list.
    pub version: String,
}

/// A JSON document that may be a list of pods.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct PodListDocument {
    kind: String,
    metadata: ListMetadata,
    items: Option<Vec<ApiPod>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
}

/// A pod in the API server's JSON form.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiPod {
    kind: Option<String>,
    pub(super) metadata: ApiMetadata,
    spec: ApiSpec,
    status: CompactJson,
}

/// The spec of a pod.
#[derive(Default, Deserialize)]
#[serde(from = "Value")]
struct ApiSpec {
    /// `nodeName`
    node: Option<String>,
    /// The whole spec.
    json: CompactJson,
}

impl From<Value> for ApiSpec {
    fn from(spec: Value) -> Self {
        let node = spec.get("nodeName").and_then(Value::as_str).map(str::to_owned);
        Self { node, json: spec.into() }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ApiMetadata {
    name: String,
    namespace: String,
    uid: String,
    labels: Option<Map<String, Value>>,
    annotations: Option<Map<String, Value>>,
    deletion_timestamp: CompactJson,
    deletion_grace_period_seconds: CompactJson,
    finalizers: CompactJson,
    pub(super) resource_version: String,
}

impl ApiPods {
    /// Parses `text`, a `PodList` as `kubectl get pods -o json` prints it, and returns the pods that are not
    /// bound to another node than `node`.
    pub fn parse(text: &[u8], node: &str) -> Result<Self, PodListError> {
        Self::from_list(serde_json::from_slice(text)?, node)
    }

    /// Returns the pods of a parsed document that are not bound to another node than `node`.
    pub fn from_list(list: PodListDocument, node: &str) -> Result<Self, PodListError> {
        if !matches!(list.kind.as_str(), "PodList" | "List") {
            return Err(PodListError::Kind(list.kind));
        }
        let mut found = Self { version: list.metadata.resource_version, ..Self::default() };
        for (number, pod) in list.items.unwrap_or_default().into_iter().enumerate() {
            if let Some(kind) = pod.kind.as_deref().filter(|kind| !matches!(*kind, "Pod" | "")) {
                return Err(PodListError::Kind(kind.to_owned()));
            }
            if pod.spec.node.as_ref().is_some_and(|bound| bound != node) {
                found.elsewhere += 1;
                continue;
            }
            let pod = wanted(pod).ok_or(PodListError::Unnamed(number + 1))?;
            found.pods.push(Arc::new(pod));
        }
        Ok(found)
    }
}

impl From<serde_json::Error> for PodListError {
    fn from(why: serde_json::Error) -> Self {
        if why.is_data() { Self::Shape(why.to_string()) } else { Self::Json(why.to_string()) }
    }
}

/// Converts a pod to the form that all sources of pods share. Returns `None` if the pod has no name or no UID.
pub(super) fn wanted(pod: ApiPod) -> Option<WantedPod> {
    let ApiMetadata { name, namespace, uid, labels, annotations, .. } = pod.metadata;
    if name.is_empty() || uid.is_empty() {
        return None;
    }
    let mut annotations = annotations.unwrap_or_default();
    let mirror_of = annotations.get(MIRROR).and_then(Value::as_str).map(str::to_owned);
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    Some(WantedPod {
        identity: PodIdentity {
            namespace: if namespace.is_empty() { "default".to_owned() } else { namespace },
            name,
        },
        uid,
        content: PodContent {
            spec: pod.spec.json,
            labels: Value::Object(labels.unwrap_or_default()).into(),
            annotations: Value::Object(annotations).into(),
            deleted: pod.metadata.deletion_timestamp,
            grace: pod.metadata.deletion_grace_period_seconds,
        },
        status: pod.status,
        finalizers: pod.metadata.finalizers,
        mirror_of,
        changed: None,
        mirror_refusal: None,
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

    fn parse(text: &str) -> Result<ApiPods, PodListError> {
        ApiPods::parse(text.as_bytes(), "n1")
    }

    #[test]
    fn pods_of_other_nodes_are_counted_and_omitted() {
        let list = parse(LIST).unwrap();
        assert_eq!((list.pods.len(), list.elsewhere), (1, 1));
        assert_eq!(list.pods[0].mirror_of.as_deref(), Some("abc"));
        assert_eq!(list.pods[0].content.annotations, serde_json::json!({"mine": "y"}).into());
    }

    #[test]
    fn a_text_that_is_not_a_list_of_pods_is_rejected() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert!(matches!(refused(&LIST[..LIST.len() / 2]), PodListError::Json(_)));
        assert_eq!(refused(r#"{"kind": "Pod"}"#), PodListError::Kind("Pod".into()));
        assert_eq!(
            refused(r#"{"kind": "List", "items": [{"kind": "Node"}]}"#),
            PodListError::Kind("Node".into())
        );
        assert_eq!(refused(r#"{"kind": "PodList", "items": [{}]}"#), PodListError::Unnamed(1));
    }
}
