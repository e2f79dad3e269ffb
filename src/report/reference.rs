//! How a document names a pod, a container and a runtime.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which pod. What PLEG says of a pod has all three names, empty where the runtime has no label for them; a document that
/// leaves out what is not known writes its field through [`known`].
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

/// For `#[serde(with = "…")]` of an optional pod: a name that is empty is absent.
pub mod known {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::PodRef;

    #[derive(Serialize)]
    struct Known<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        uid: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        namespace: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        name: &'a str,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Read {
        uid: String,
        namespace: String,
        name: String,
    }

    /// Writes the names that are there.
    pub fn serialize<S: Serializer>(pod: &Option<PodRef>, serializer: S) -> Result<S::Ok, S::Error> {
        pod.as_ref()
            .map(|pod| Known { uid: &pod.uid, namespace: &pod.namespace, name: &pod.name })
            .serialize(serializer)
    }

    /// Reads them back.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PodRef>, D::Error> {
        let read = Option::<Read>::deserialize(deserializer)?;
        Ok(read.map(|Read { uid, namespace, name }| PodRef { uid, namespace, name }))
    }
}

/// A container by id and, where known, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRef {
    /// Full id.
    pub id: String,
    /// Name in the pod spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Which runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeRef {
    /// Where it was dialled.
    pub endpoint: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Version of the API it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sparse {
        #[serde(default, skip_serializing_if = "Option::is_none", with = "known")]
        pod: Option<PodRef>,
    }

    #[test]
    fn what_is_not_known_of_a_pod_is_absent_only_where_a_document_says_so() {
        let pod = PodRef { uid: "u".to_owned(), ..PodRef::default() };
        assert_eq!(serde_json::to_string(&pod).unwrap(), r#"{"uid":"u","namespace":"","name":""}"#);
        for (pod, text) in [(Some(pod), r#"{"pod":{"uid":"u"}}"#), (None, "{}")] {
            let sparse = Sparse { pod };
            assert_eq!(serde_json::to_string(&sparse).unwrap(), text);
            assert_eq!(serde_json::from_str::<Sparse>(text).unwrap(), sparse);
        }
    }
}
