//! References to pods, containers and runtimes in documents.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rename::Rename;

/// A reference to a pod. A name is empty if the runtime's labels do not contain it. JSON has all three names, unless
/// the field uses [`optional_pod`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Rename)]
#[names(Id(uid), Namespace(namespace), Pod(name))]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PodRef {
    /// The UID.
    pub uid: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
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

/// Serializes an optional [`PodRef`] without its empty names, for `#[serde(with = "optional_pod")]`.
pub mod optional_pod {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::PodRef;

    /// A reference to a pod. An unknown name is absent.
    #[derive(Debug, Serialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    pub struct KnownNames<'a> {
        /// The UID.
        #[serde(skip_serializing_if = "str::is_empty")]
        uid: &'a str,
        /// The namespace.
        #[serde(skip_serializing_if = "str::is_empty")]
        namespace: &'a str,
        /// The name.
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
            .map(|pod| KnownNames { uid: &pod.uid, namespace: &pod.namespace, name: &pod.name })
            .serialize(serializer)
    }

    /// Reads the names that are present.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PodRef>, D::Error> {
        let read = Option::<PodNames>::deserialize(deserializer)?;
        Ok(read.map(|PodNames { uid, namespace, name }| PodRef { uid, namespace, name }))
    }
}

/// A reference to a container by id and, if known, by name.
#[crate::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Id(id), Container(name))]
pub struct ContainerRef {
    /// Full id.
    pub id: String,
    /// Name in the pod spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A reference to a runtime.
#[crate::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Endpoint(endpoint), Runtime(name), Version(version, api_version))]
pub struct RuntimeRef {
    /// The endpoint.
    pub endpoint: String,
    /// The runtime's name.
    pub name: Option<String>,
    /// The runtime's version.
    pub version: Option<String>,
    /// The version of the CRI API that the runtime serves.
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
