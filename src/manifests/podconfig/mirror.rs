//! Checks the mirror pod of a static pod: the kubelet creates it in the API server, where it has another UID.
//!
//! A mirror pod is matched by its annotation `kubernetes.io/config.mirror`, never by its UID. Its hash and its status
//! are reported at two different times, and a mirror pod is up to a minute late, so a younger pod proves nothing.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::runtime_pods::RuntimePod;
use super::{GRACE, WantedPod};
use crate::clock::Wall;
use crate::manifests::checks::runtime::RuntimeFinding;
use crate::manifests::{Check, FileVerdict, PodIdentity, Severity, SourceReport};

/// Namespaces that exist in every cluster.
const ALWAYS_THERE: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The mirror pod of a static pod in the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorPod {
    /// `current`, `old` (of another version), `absent`, `taken` (another pod has the name) or `young` (too early to
    /// decide).
    pub state: &'static str,
    /// The UID in the API server: of the mirror pod, or of the pod that has its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The hash of the version that the mirror pod was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Returns the state of a static pod's mirror, with a text only if something is wrong.
///
/// `shown` are the API server's pods with this name, `all` are its pods of the node, and `own` is the pod in the
/// runtime, if it is known.
pub(super) fn mirror_state(
    pod: &WantedPod,
    shown: &[&WantedPod],
    all: &[Arc<WantedPod>],
    own: Option<&RuntimePod>,
    young: bool,
) -> (MirrorPod, Option<String>) {
    let found = shown.iter().find_map(|shown| Some((shown, shown.mirror_of.as_deref()?)));
    let Some((shown, hash)) = found else {
        return match shown.first() {
            Some(other) => (
                MirrorPod { state: "taken", uid: Some(other.uid.clone()), hash: None },
                Some(
                    "the API server has another pod with this name, which is not its mirror pod and prevents \
                     one"
                        .to_owned(),
                ),
            ),
            None if young => (MirrorPod { state: "young", uid: None, hash: None }, None),
            None => (MirrorPod { state: "absent", uid: None, hash: None }, Some(absent(pod, all))),
        };
    };
    let says = |state| MirrorPod { state, uid: Some(shown.uid.clone()), hash: Some(hash.to_owned()) };
    let status = shown.status.read();
    let is_of_this = own.and_then(|own| status_is_of(own, &status));
    // Without a known UID there is no version to compare.
    if pod.known_uid().is_some_and(|uid| uid != hash) {
        if young {
            return (says("young"), None);
        }
        let words = if is_of_this == Some(true) {
            "its mirror pod in the API server has the hash of another version and the status of this one; the \
             kubelet replaces the mirror pod when the API server answers"
        } else {
            "its mirror pod in the API server has another version, so the API server does not show what \
             runs; the kubelet replaces the mirror pod when the API server answers"
        };
        return (says("old"), Some(words.to_owned()));
    }
    let words = match is_of_this {
        _ if young || own.is_none() => None,
        Some(false) => Some("the API server's status shows containers that no longer run: it is out of date"),
        None if status.get("phase").and_then(Value::as_str) == Some("Pending") => Some(
            "its mirror shows Pending: it was created a moment ago, or the kubelet's status does not get through",
        ),
        _ => None,
    };
    (says("current"), words.map(str::to_owned))
}

/// Returns a finding for each loaded manifest whose mirror is missing, old, or replaced by another pod.
pub fn mirror_findings(sources: &[SourceReport], api: &[Arc<WantedPod>], now: Wall) -> Vec<RuntimeFinding> {
    let mut by_name: HashMap<&PodIdentity, Vec<&WantedPod>> = HashMap::new();
    for pod in api {
        by_name.entry(&pod.identity).or_default().push(pod);
    }
    let files = sources.iter().flat_map(|source| &source.files);
    let loaded = files.filter(|file| file.verdict == FileVerdict::Loaded);
    let findings = loaded.filter_map(|file| {
        let pod = WantedPod::of_file(file)?;
        let shown = by_name.get(&pod.identity).map(Vec::as_slice).unwrap_or_default();
        let young = pod.changed.is_some_and(|changed| now.duration_since(changed) <= GRACE);
        let (mirror, words) = mirror_state(&pod, shown, api, None, young);
        let (check, severity) = match mirror.state {
            "absent" => (Check::NoMirror, Severity::Warning),
            "old" => (Check::OldMirror, Severity::Warning),
            "taken" => (Check::NameTaken, Severity::Error),
            _ => return None,
        };
        let file = file.path.to_string_lossy().into_owned();
        Some(RuntimeFinding::of_file(check, severity, &pod.identity, words?, file))
    });
    findings.collect()
}

/// Whether the container ids in a status are those of the runtime; `None` if the status has none.
fn status_is_of(own: &RuntimePod, status: &Value) -> Option<bool> {
    let containers = status.get("containerStatuses")?.as_array()?;
    let ids = containers.iter().filter_map(|container| {
        let id = container.get("containerID")?.as_str()?;
        Some(id.split_once("://").map_or(id, |(_, id)| id))
    });
    let mut ids = ids.filter(|id| !id.is_empty()).peekable();
    ids.peek()?;
    Some(ids.any(|id| own.has(id)))
}

/// Returns the possible causes of a missing mirror. A cause that the pod's own text shows is certain; the others can
/// only be confirmed in the kubelet's log.
fn absent(pod: &WantedPod, all: &[Arc<WantedPod>]) -> String {
    if let Some(why) = &pod.mirror_refusal {
        return format!("it has no mirror in the API server: {why}");
    }
    let namespace = &pod.identity.namespace;
    let there = ALWAYS_THERE.contains(&namespace.as_str())
        || all.iter().any(|other| other.identity.namespace == *namespace);
    let missing = if there { String::new() } else { format!("there is no namespace {namespace}, ") };
    format!(
        "it has no mirror pod in the API server: {missing}an admission rule (Pod Security, a webhook) \
         refuses it, the kubelet did not admit the pod, or the kubelet cannot reach the API server; the \
         kubelet's log says which"
    )
}
