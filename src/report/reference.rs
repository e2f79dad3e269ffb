//! References to pods, containers and runtimes in documents.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reference to a pod. Events have all three names, which are empty if the runtime has no label for them. A document
/// that omits unknown names uses [`optional_pod`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// Its UID; empty for containers without a UID label.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "pod {}", self.uid)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// For `#[serde(with = "…")]` of an optional pod: an empty name is omitted.
pub mod optional_pod {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::PodRef;

    #[derive(Serialize)]
    struct NonEmptyNames<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        uid: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        namespace: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        name: &'a str,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PodNames {
        uid: String,
        namespace: String,
        name: String,
    }

    /// Writes the names that are not empty.
    pub fn serialize<S: Serializer>(pod: &Option<PodRef>, serializer: S) -> Result<S::Ok, S::Error> {
        pod.as_ref()
            .map(|pod| NonEmptyNames { uid: &pod.uid, namespace: &pod.namespace, name: &pod.name })
            .serialize(serializer)
    }

    /// Reads the names that are present.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PodRef>, D::Error> {
        let read = Option::<PodNames>::deserialize(deserializer)?;
        Ok(read.map(|PodNames { uid, namespace, name }| PodRef { uid, namespace, name }))
    }
}

/// A reference to a container by id and, if known, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRef {
    /// Full id.
    pub id: String,
    /// Name in the pod spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A reference to a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeRef {
    /// The endpoint.
    pub endpoint: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of its API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sparse {
        #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_pod")]
        pod: Option<PodRef>,
    }

    #[test]
    fn unknown_names_of_a_pod_are_omitted_only_with_optional_pod() {
        let pod = PodRef { uid: "u".to_owned(), ..PodRef::default() };
        assert_eq!(serde_json::to_string(&pod).unwrap(), r#"{"uid":"u","namespace":"","name":""}"#);
        for (pod, text) in [(Some(pod), r#"{"pod":{"uid":"u"}}"#), (None, "{}")] {
            let sparse = Sparse { pod };
            assert_eq!(serde_json::to_string(&sparse).unwrap(), text);
            assert_eq!(serde_json::from_str::<Sparse>(text).unwrap(), sparse);
        }
    }
}
