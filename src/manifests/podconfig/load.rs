//! Converts a validated manifest into a wanted pod.

use serde_json::{Map, Number, Value};

use super::{CompactJson, PodContent, UNKNOWN_UID, WantedPod};
use crate::clock::Wall;
use crate::manifests::{Check, FileReport, FileVerdict, ManifestNode, tree};

impl WantedPod {
    /// Returns the pod of a file, if the kubelet loads it.
    pub(super) fn of_file(file: &FileReport) -> Option<Self> {
        let taken = matches!(file.verdict, FileVerdict::Loaded | FileVerdict::Shadowed);
        let identity = file.pod.clone().filter(|_| taken)?;
        let pod = &file.document.as_ref()?.pod.as_ref()?.pod;
        let metadata = pod.get("metadata");
        let part = |of: Option<&ManifestNode>, key: &str| {
            CompactJson::from(of.and_then(|of| of.get(key)).map_or(Value::Null, value))
        };
        let refers = file.findings.iter().find(|finding| finding.id == Check::ApiReference);
        let modified = file.meta.as_ref().and_then(|meta| meta.modified_nanos);
        let stand_in = || format!("{UNKNOWN_UID}{}/{}", identity.namespace, identity.name);
        let uid = file.uid.clone()?.unwrap_or_else(|_| stand_in());
        Some(Self {
            identity,
            uid,
            content: PodContent {
                spec: part(Some(pod), "spec"),
                labels: part(metadata, "labels"),
                annotations: part(metadata, "annotations"),
                deleted: part(metadata, "deletionTimestamp"),
                grace: part(metadata, "deletionGracePeriodSeconds"),
            },
            status: part(Some(pod), "status"),
            mirror_of: None,
            changed: modified.map(Wall::from_nanos),
            mirror_refusal: refers.map(|finding| finding.message.as_str().into()),
            object: None,
        })
    }
}

/// Converts a node into JSON, without positions.
fn value(node: &ManifestNode) -> Value {
    match &node.value {
        tree::Value::Null => Value::Null,
        tree::Value::Bool(truth) => Value::Bool(*truth),
        tree::Value::Int(number) => i64::try_from(*number)
            .map(Number::from)
            .or_else(|_| u64::try_from(*number).map(Number::from))
            .map_or_else(|_| Value::String(number.to_string()), Value::Number),
        tree::Value::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        tree::Value::Quantity(amount) => Value::String(format!("{amount:?}")),
        tree::Value::Str(text) => Value::String(text.to_string()),
        tree::Value::List(items) => Value::Array(items.iter().map(value).collect()),
        tree::Value::Map(map) => Value::Object(
            map.entries()
                .iter()
                .map(|entry| (entry.key.to_string(), value(&entry.value)))
                .collect::<Map<_, _>>(),
        ),
    }
}
