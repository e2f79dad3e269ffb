//! Computes the namespace and the name of the running pod that belongs to a static pod file. The running pod's name is
//! the name in the file, a dash and the node's name.

use std::collections::HashSet;

use super::running::RunningStaticPods;
use crate::{FileReport, FileVerdict, Kubelet, PodField, PodIdentity};

/// Returns the namespace and name under which the pod of a file would run. For a file that does not load, the result is
/// a guess.
pub fn expected_pod(file: &FileReport, node_name: &str) -> Option<PodIdentity> {
    let (namespace, name) = written_names(file)?;
    Some(PodIdentity { namespace, name: format!("{name}-{node_name}") })
}

/// Returns the namespace and the name that a file gives its pod, without the node's name.
fn written_names(file: &FileReport) -> Option<(String, String)> {
    let document = file.document.as_ref();
    let decoded = document.and_then(|document| document.pod.as_ref()).map(|decoded| &decoded.pod);
    let root = decoded.or_else(|| document?.root.as_ref());
    let metadata = root.map(|root| PodField::root(root).get("metadata"));
    let metadata_field = |field: &str| {
        let found = metadata.as_ref().map(|metadata| metadata.get(field).str().to_owned());
        found.filter(|text| !text.is_empty())
    };
    if let Some(name) = metadata_field("name") {
        return Some((metadata_field("namespace").unwrap_or_else(|| "default".to_owned()), name));
    }
    // If the file cannot be parsed, the file's name is probably the pod's name.
    let stem = file.path.file_stem()?.to_string_lossy().into_owned();
    let content = document.map(|document| &*document.text).unwrap_or_default();
    let namespace = if content.contains("namespace: kube-system") { "kube-system" } else { "default" };
    Some((namespace.to_owned(), stem))
}

/// Returns the node name that is the last part of the names of the running pods.
///
/// If the name of a running pod is a loaded file's pod name, a dash and `kubelet.node_name`, the result is
/// `kubelet.node_name`. Otherwise, the function collects the other suffixes that follow the files' pod names. If it
/// finds exactly one suffix, this suffix is the result. If it finds none or several, the result is `kubelet.node_name`.
pub fn node_name(files: &[&FileReport], running: &RunningStaticPods, kubelet: &Kubelet) -> String {
    let assumed = kubelet.node_name.to_lowercase();
    let mut others = HashSet::new();
    for file in files.iter().filter(|file| file.verdict == FileVerdict::Loaded) {
        let Some((namespace, name)) = written_names(file) else { continue };
        let on_assumed_node = PodIdentity { namespace: namespace.clone(), name: format!("{name}-{assumed}") };
        if !running.sandboxes_of(&on_assumed_node).is_empty() {
            return assumed;
        }
        let suffix = |pod: &PodIdentity| {
            let suffix = pod.name.strip_prefix(&name)?.strip_prefix('-')?;
            (pod.namespace == namespace && !suffix.is_empty()).then(|| suffix.to_owned())
        };
        let mut suffixes: Vec<String> = running.pods().filter_map(|(pod, _)| suffix(pod)).collect();
        // Both `etcd-n1` and `etcd-backup-n1` start with `etcd-`; the shortest suffix (`n1`) is the node name.
        suffixes.sort_by_key(String::len);
        others.extend(suffixes.into_iter().next());
    }
    let mut others = others.into_iter();
    match (others.next(), others.next()) {
        (Some(only), None) => only,
        _ => assumed,
    }
}
