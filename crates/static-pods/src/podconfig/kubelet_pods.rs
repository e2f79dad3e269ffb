//! [`KubeletPods`]: the pods that a kubelet knows, with the kubelet's own status, from its Pods API or its `/pods`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{CompactJson, PodListError, PodSource, WantedPod, api};
use crate::PodIdentity;
use plegctl_base::clock::Wall;
use plegctl_node::kubelet::pod_status::{container_statuses, entries, moment};

/// The annotation with the kubelet's source of the pod.
const SOURCE: &str = "kubernetes.io/config.source";

/// A pod that a kubelet knows.
#[derive(Clone, Debug)]
pub struct KubeletPod {
    /// Its name.
    pub identity: PodIdentity,
    /// Its UID; of a static pod, the UID that the kubelet computed.
    pub uid: String,
    /// The source from which the kubelet has the pod.
    pub source: Option<PodSource>,
    /// The name of its node.
    pub node: String,
    /// The whole pod in the API server's form.
    pub json: CompactJson,
}

/// The pods that a kubelet knows.
#[derive(Clone, Debug, Default)]
pub struct KubeletPods {
    /// The pods by UID.
    pub pods: BTreeMap<String, KubeletPod>,
    /// When the kubelet's answer arrived.
    pub observed_at: Wall,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodsDocument {
    kind: String,
    items: Option<Vec<CompactJson>>,
}

impl KubeletPods {
    /// Parses a `PodList` in the API server's JSON form, which was read at `observed_at`.
    pub fn parse(text: &[u8], observed_at: Wall) -> Result<Self, PodListError> {
        let document: PodsDocument = serde_json::from_slice(text)?;
        if !matches!(document.kind.as_str(), "PodList" | "List") {
            return Err(PodListError::Kind(document.kind));
        }
        let mut pods = BTreeMap::new();
        for (number, json) in document.items.unwrap_or_default().into_iter().enumerate() {
            let pod = KubeletPod::from_json(json).ok_or(PodListError::Unnamed(number + 1))?;
            pods.insert(pod.uid.clone(), pod);
        }
        Ok(Self { pods, observed_at })
    }

    /// Returns the status of a pod; `null` if the kubelet does not know the pod.
    pub fn status(&self, uid: &str) -> Value {
        self.pods.get(uid).map(KubeletPod::status).unwrap_or_default()
    }
}

impl KubeletPod {
    /// Returns `None` if the pod has no name or no UID.
    fn from_json(json: CompactJson) -> Option<Self> {
        let pod = json.read();
        let metadata = pod.get("metadata")?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (name, uid) = (text("name")?.to_owned(), text("uid")?.to_owned());
        let namespace = text("namespace").unwrap_or("default").to_owned();
        let source = metadata.get("annotations").and_then(|annotations| annotations.get(SOURCE)?.as_str());
        let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self {
            identity: PodIdentity { namespace, name },
            uid,
            source: source.and_then(|name| PodSource::ALL.into_iter().find(|one| one.as_str() == name)),
            node,
            json,
        })
    }

    /// Returns the pod in the form of a source's pods.
    pub fn wanted(&self) -> Option<WantedPod> {
        api::wanted(self.json.parsed().ok()?)
    }

    /// Returns the kubelet's status of the pod.
    pub fn status(&self) -> Value {
        self.json.read().get_mut("status").map(Value::take).unwrap_or_default()
    }
}

/// Returns the newest time that a status names and that is not later than `until`: the last change that is known of it.
pub fn newest_change(status: &Value, until: Wall) -> Option<Wall> {
    let conditions = entries(status, "conditions").map(|condition| condition.get("lastTransitionTime"));
    let containers = container_statuses(status).flat_map(|container| {
        ["/state/running/startedAt", "/state/terminated/finishedAt", "/lastState/terminated/finishedAt"]
            .map(|path| container.pointer(path))
    });
    let times = conditions.chain(containers).chain([status.get("startTime")]);
    times.filter_map(moment).filter(|time| *time <= until).max()
}
