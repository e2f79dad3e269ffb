//! What the API server shows of a static pod: its mirror, which the kubelet makes and of which the API's UID is another.
//!
//! A mirror is joined by its annotation `kubernetes.io/config.mirror`, never by its UID. Its hash and its status are two
//! reports of two moments, and a mirror is up to a minute behind: what is younger says nothing.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::runtime_pods::RuntimePod;
use super::{GRACE, Wanted};
use crate::clock::Wall;
use crate::manifests::checks::runtime::RuntimeFinding;
use crate::manifests::{Check, PodIdentity, Severity, SourceReport, Verdict};

/// Namespaces that every cluster has.
const ALWAYS_THERE: [&str; 3] = ["default", "kube-system", "kube-public"];

/// A static pod in the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mirror {
    /// `current`, `old` (of another version), `absent`, `taken` (another pod has the name) or `young` (too early to tell).
    pub state: &'static str,
    /// The API's UID of it, or of the pod that has its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The version that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// What is to be said of a static pod's mirror; words only where something is not as it should be.
///
/// `shown` are the API server's pods of the name, `all` those of the node; `own` is what runs, if that is known.
pub(super) fn judged(
    pod: &Wanted,
    shown: &[&Wanted],
    all: &[Arc<Wanted>],
    own: Option<&RuntimePod>,
    young: bool,
) -> (Mirror, Option<String>) {
    let found = shown.iter().find_map(|shown| Some((shown, shown.mirror_of.as_deref()?)));
    let Some((shown, hash)) = found else {
        return match shown.first() {
            Some(other) => (
                Mirror { state: "taken", uid: Some(other.uid.clone()), hash: None },
                Some(
                    "the API server has another pod of this name, which is no mirror of it and keeps it from having one"
                        .to_owned(),
                ),
            ),
            None if young => (Mirror { state: "young", uid: None, hash: None }, None),
            None => (Mirror { state: "absent", uid: None, hash: None }, Some(absent(pod, all))),
        };
    };
    let says = |state| Mirror { state, uid: Some(shown.uid.clone()), hash: Some(hash.to_owned()) };
    let status = shown.status.read();
    let is_of_this = own.and_then(|own| status_is_of(own, &status));
    // Of a UID that cannot be told there is no version to compare.
    if pod.told_uid().is_some_and(|uid| uid != hash) {
        if young {
            return (says("young"), None);
        }
        let words = if is_of_this == Some(true) {
            "its mirror in the API server has the hash of another version and the status of this one: the kubelet makes it anew when the API server answers"
        } else {
            "its mirror in the API server is of another version, so that what the API shows is not what runs: the kubelet makes it anew when the API server answers"
        };
        return (says("old"), Some(words.to_owned()));
    }
    let words = match is_of_this {
        _ if young || own.is_none() => None,
        Some(false) => {
            Some("the API server's status of it is of containers that no longer run: it is behind")
        }
        None if status.get("phase").and_then(Value::as_str) == Some("Pending") => Some(
            "its mirror shows Pending: it was made anew a moment ago, or the kubelet's status does not get through",
        ),
        _ => None,
    };
    (says("current"), words.map(str::to_owned))
}

/// A finding for each loaded manifest whose mirror is missing, old, or taken by another pod.
pub fn mirror_findings(sources: &[SourceReport], api: &[Arc<Wanted>], now: Wall) -> Vec<RuntimeFinding> {
    let mut by_name: HashMap<&PodIdentity, Vec<&Wanted>> = HashMap::new();
    for pod in api {
        by_name.entry(&pod.identity).or_default().push(pod);
    }
    let files = sources.iter().flat_map(|source| &source.files);
    let loaded = files.filter(|file| file.verdict == Verdict::Loaded);
    let findings = loaded.filter_map(|file| {
        let pod = Wanted::of_file(file)?;
        let shown = by_name.get(&pod.identity).map(Vec::as_slice).unwrap_or_default();
        let young = pod.changed.is_some_and(|changed| now.duration_since(changed) <= GRACE);
        let (mirror, words) = judged(&pod, shown, api, None, young);
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

/// Whether the containers of a status are the ones that the runtime has; nothing if it has none.
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

/// What may be the cause. One that the pod's own text shows is certain; of the others only the kubelet's log knows.
fn absent(pod: &Wanted, all: &[Arc<Wanted>]) -> String {
    if let Some(why) = &pod.unmirrored {
        return format!("it has no mirror in the API server: {why}");
    }
    let namespace = &pod.identity.namespace;
    let there = ALWAYS_THERE.contains(&namespace.as_str())
        || all.iter().any(|other| other.identity.namespace == *namespace);
    let missing = if there { String::new() } else { format!("there is no namespace {namespace}, ") };
    format!(
        "it has no mirror in the API server: {missing}an admission rule (Pod Security, a webhook) refuses it, the kubelet did not admit the pod, or it does not get through; its log says which"
    )
}
