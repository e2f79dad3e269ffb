//! The manifests of a simulated node: one for each group of static pods, from which its kubelet computes the pods' UID.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::NODE_NAME;
use super::messages::image_called;
use super::scenario::{Owner, PodGroup};
use crate::manifests::{Kubelet, KubeletVersion, inspect_bytes};

/// The directory from which every simulated kubelet reads its manifests.
pub const DIRECTORY: &str = "/etc/kubernetes/manifests";

/// The manifest of a group of static pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticManifest {
    /// Its path on the simulated node.
    pub path: PathBuf,
    /// Its content, in JSON.
    pub text: String,
    /// The UID that the kubelet gives the pod; `None` if the kubelet does not load the manifest.
    pub uid: Option<String>,
}

impl StaticManifest {
    /// Writes the manifest of a group; `None` for pods that come from the API server.
    pub(super) fn of(group: &PodGroup) -> Option<Self> {
        if group.owner != Owner::Static {
            return None;
        }
        let name = group.pod_name.as_ref().unwrap_or(&group.name);
        let containers = group.containers.iter().map(|name| {
            let (image, _) = image_called(name);
            json!({"name": name, "image": image.user_specified})
        });
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": group.namespace, "labels": {"app": group.name}},
            "spec": {"hostNetwork": true, "containers": containers.collect::<Vec<_>>()},
        });
        let path = Path::new(DIRECTORY).join(format!("{name}.json"));
        let text = format!("{pod:#}\n");
        let kubelet = Kubelet::new(KubeletVersion::CONFIRMED, NODE_NAME);
        let uid = inspect_bytes(&path, text.as_bytes(), &kubelet).uid.and_then(Result::ok);
        Some(Self { path, text, uid })
    }
}
