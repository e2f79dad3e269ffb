//! Converts the report about a manifest file into a wanted pod.

use serde_json::{Map, Number, Value};

use super::{CompactJson, PodContent, UNKNOWN_UID, WantedPod};
use crate::{Check, FileReport, FileVerdict, ManifestNode};
use plegctl_api_values::tree;
use plegctl_base::clock::Wall;

impl WantedPod {
    /// Returns the pod of a file, if the file is valid, even if another file shadows it.
    pub(super) fn of_file(file: &FileReport) -> Option<Self> {
        let is_valid = matches!(file.verdict, FileVerdict::Loaded | FileVerdict::Shadowed);
        let identity = file.pod.clone().filter(|_| is_valid)?;
        let pod = &file.document.as_ref()?.pod.as_ref()?.pod;
        let metadata = pod.get("metadata");
        let json_of = |parent: Option<&ManifestNode>, key: &str| {
            CompactJson::from(parent.and_then(|parent| parent.get(key)).map_or(Value::Null, json))
        };
        let api_reference = file.findings.iter().find(|finding| finding.id == Check::ApiReference);
        let modified = file.meta.as_ref().and_then(|meta| meta.modified_nanos);
        let placeholder = || format!("{UNKNOWN_UID}{}/{}", identity.namespace, identity.name);
        let uid = file.uid.clone()?.unwrap_or_else(|_| placeholder());
        Some(Self {
            identity,
            uid,
            content: PodContent {
                spec: json_of(Some(pod), "spec"),
                labels: json_of(metadata, "labels"),
                annotations: json_of(metadata, "annotations"),
                deleted: json_of(metadata, "deletionTimestamp"),
                grace: json_of(metadata, "deletionGracePeriodSeconds"),
            },
            status: json_of(Some(pod), "status"),
            finalizers: CompactJson::default(),
            mirror_of: None,
            changed: modified.map(Wall::from_nanos),
            mirror_refusal: api_reference.map(|finding| finding.message.as_str().into()),
            object: None,
        })
    }
}

/// Converts a node into JSON, without positions.
fn json(node: &ManifestNode) -> Value {
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
        tree::Value::List(items) => Value::Array(items.iter().map(json).collect()),
        tree::Value::Map(map) => {
            let mut object = Map::new();
            object.extend(map.entries().iter().map(|entry| (entry.key.to_string(), json(&entry.value))));
            Value::Object(object)
        }
    }
}
