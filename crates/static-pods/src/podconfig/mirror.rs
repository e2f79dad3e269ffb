//! Checks the mirror pod of a static pod: whether the API server has it and shows the static pod's present version.
//!
//! The annotation `kubernetes.io/config.mirror` connects a mirror pod with its static pod by a hash; the UIDs differ. The
//! kubelet updates hash and status at two different times, and may be up to a minute late, so that no problem is reported
//! for a pod that is younger than a minute.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::runtime_pods::RuntimePod;
use super::{GRACE, WantedPod};
use crate::checks::runtime::RuntimeFinding;
use crate::{Check, FileVerdict, PodIdentity, Severity, SourceReport};
use plegctl_base::clock::Wall;

/// Namespaces that exist in every cluster.
const STANDARD_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What is wrong if a mirror pod is lost.
pub(super) const LOST: &str = "its mirror pod is lost: the kubelet runs the pod, and the API server has no mirror pod of it, so an \
     admission rule (Pod Security, a webhook) refuses it, its namespace does not exist, or the kubelet cannot reach the API server";

/// The mirror pod of a static pod in the API server.
#[plegctl_base::report::omit_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct MirrorPod {
    /// `current`, `old` (of another version), `absent`, `lost` (absent, although the kubelet itself reports that it runs
    /// the pod), `taken` (another pod has the name) or `young` (too early to decide).
    pub state: &'static str,
    /// The UID in the API server: of the mirror pod or, if the name is taken, of the other pod.
    pub uid: Option<String>,
    /// The hash of the static pod's version from which the kubelet made the mirror pod.
    pub hash: Option<String>,
}

/// Returns the state of a static pod's mirror pod, and a text if something is wrong.
///
/// `with_name` are the API server's pods with this name, `api_pods` are all its pods of the node, and `own` is the static
/// pod in the runtime, if it is known. `is_young` means that it is too early to report a problem.
pub(super) fn mirror_state(
    pod: &WantedPod,
    with_name: &[&WantedPod],
    api_pods: &[Arc<WantedPod>],
    own: Option<&RuntimePod>,
    is_young: bool,
) -> (MirrorPod, Option<String>) {
    let found = with_name.iter().find_map(|other| Some((other, other.mirror_of.as_deref()?)));
    let Some((mirror, hash)) = found else {
        return match with_name.first() {
            Some(other) => (
                MirrorPod { state: "taken", uid: Some(other.uid.clone()), hash: None },
                Some(
                    "the API server has another pod with this name, so it cannot have the static pod's mirror pod"
                        .to_owned(),
                ),
            ),
            None if is_young => (MirrorPod { state: "young", uid: None, hash: None }, None),
            None => (
                MirrorPod { state: "absent", uid: None, hash: None },
                Some(causes_of_absence(pod, api_pods)),
            ),
        };
    };
    let with_state = |state| MirrorPod { state, uid: Some(mirror.uid.clone()), hash: Some(hash.to_owned()) };
    let status = mirror.status.read();
    let has_status_of_own = own.and_then(|own| status_is_of(own, &status));
    // Without a known UID, the versions cannot be compared.
    if pod.known_uid().is_some_and(|uid| uid != hash) {
        if is_young {
            return (with_state("young"), None);
        }
        let problem = if has_status_of_own == Some(true) {
            "its mirror pod in the API server has the hash of another version but the status of this one; the \
             kubelet replaces the mirror pod when the API server answers"
        } else {
            "its mirror pod in the API server has another version, so the API server does not show what \
             runs; the kubelet replaces the mirror pod when the API server answers"
        };
        return (with_state("old"), Some(problem.to_owned()));
    }
    let problem = match has_status_of_own {
        _ if is_young || own.is_none() => None,
        Some(false) => Some("the API server's status shows containers that no longer run: it is out of date"),
        None if status.get("phase").and_then(Value::as_str) == Some("Pending") => Some(
            "its mirror pod is Pending: it is new, or the kubelet cannot send the pod's status to the API server",
        ),
        _ => None,
    };
    (with_state("current"), problem.map(str::to_owned))
}

/// Returns a finding for each loaded manifest whose mirror pod is missing or old, or whose name another pod has.
pub fn mirror_findings(sources: &[SourceReport], api: &[Arc<WantedPod>], now: Wall) -> Vec<RuntimeFinding> {
    let mut by_name: HashMap<&PodIdentity, Vec<&WantedPod>> = HashMap::new();
    for pod in api {
        by_name.entry(&pod.identity).or_default().push(pod);
    }
    let files = sources.iter().flat_map(|source| &source.files);
    let loaded = files.filter(|file| file.verdict == FileVerdict::Loaded);
    let findings = loaded.filter_map(|file| {
        let pod = WantedPod::of_file(file)?;
        let with_name = by_name.get(&pod.identity).map(Vec::as_slice).unwrap_or_default();
        let is_young = pod.changed.is_some_and(|changed| now.duration_since(changed) <= GRACE);
        let (mirror, problem) = mirror_state(&pod, with_name, api, None, is_young);
        let (check, severity) = match mirror.state {
            "absent" => (Check::NoMirror, Severity::Warning),
            "old" => (Check::OldMirror, Severity::Warning),
            "taken" => (Check::NameTaken, Severity::Error),
            _ => return None,
        };
        let file = file.path.to_string_lossy().into_owned();
        Some(RuntimeFinding::of_file(check, severity, &pod.identity, problem?, file))
    });
    findings.collect()
}

/// Whether a status has the id of a container that the pod has in the runtime. `None` if the status has no container id.
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

/// Returns the possible causes of a missing mirror pod. A cause that the manifest shows is certain; the other causes can
/// only be confirmed in the kubelet's log.
fn causes_of_absence(pod: &WantedPod, api_pods: &[Arc<WantedPod>]) -> String {
    if let Some(why) = &pod.mirror_refusal {
        return format!("it has no mirror pod in the API server: {why}");
    }
    let namespace = &pod.identity.namespace;
    let has_namespace = STANDARD_NAMESPACES.contains(&namespace.as_str())
        || api_pods.iter().any(|other| other.identity.namespace == *namespace);
    let no_namespace =
        if has_namespace { String::new() } else { format!("there is no namespace {namespace}, ") };
    format!(
        "it has no mirror pod in the API server: {no_namespace}an admission rule (Pod Security, a webhook) \
         refuses it, the kubelet did not admit the pod, or the kubelet cannot reach the API server; the \
         kubelet's log shows the cause"
    )
}
