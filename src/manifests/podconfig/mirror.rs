//! What the API server shows of a static pod: its mirror, which the kubelet makes and of which the API's UID is another.
//!
//! A mirror is joined by its annotation `kubernetes.io/config.mirror`, never by its UID. Its hash and its status are two
//! reports of two moments, and a mirror is up to a minute behind: what is younger says nothing.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::runtime_pods::RuntimePod;
use super::standing::{GRACE, Known};
use super::{Source, Wanted};
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

/// What is to be said of a running static pod's mirror, where the API server's pods are known; words only where something
/// is not as it should be.
pub(super) fn mirror(
    known: &Known<'_>,
    source: Source,
    pod: &Wanted,
    own: &RuntimePod,
) -> Option<(Mirror, Option<String>)> {
    if source == Source::Api {
        return None;
    }
    // Not heard is not the same as empty.
    let all = known.question.sources.get(&Source::Api)?.pods.as_ref()?;
    let young = known.is_young(pod.changed) || known.is_young(own.since());
    let of_the_api = known.wanted_as(&pod.identity).iter().filter(|(source, _)| *source == Source::Api);
    let shown: Vec<&Wanted> = of_the_api.map(|(_, pod)| *pod).collect();
    Some(judged(pod, &shown, all, Some(own), young))
}

/// `shown` are the API server's pods of the name, `all` those of the node; `own` is what runs, if that is known.
fn judged(
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::cri::{
        Container, ContainerMetadata, ContainerState, Labels, Sandbox, SandboxMetadata, SandboxState,
    };
    use crate::manifests::podconfig::standing::Standing;
    use crate::manifests::podconfig::{Content, Part, Question, SourceState, standings};

    const NOW: Wall = Wall::from_nanos(1_000_000_000_000_000_000);
    const HOUR: i64 = 3_600_000_000_000;

    fn named(namespace: &str, uid: &str) -> Wanted {
        Wanted {
            identity: PodIdentity { namespace: namespace.into(), name: "etcd-n1".into() },
            uid: uid.into(),
            content: Content::default(),
            status: Part::default(),
            mirror_of: None,
            changed: None,
            unmirrored: None,
            object: None,
        }
    }

    fn mirror_of(hash: &str, status: Value) -> Wanted {
        let mirror_of = Some(hash.to_owned());
        Wanted { mirror_of, status: status.into(), ..named("shop", "api-uid") }
    }

    /// The static pod `1`, running for so long, beside what the API server shows.
    fn said_of(wanted: Wanted, age: i64, api: Vec<Wanted>) -> (Mirror, String) {
        let sandbox = Sandbox {
            id: "s".into(),
            metadata: Some(SandboxMetadata {
                name: "etcd-n1".into(),
                uid: "1".into(),
                namespace: wanted.identity.namespace.clone(),
                attempt: 0,
            }),
            state: SandboxState::Ready,
            created_at: NOW.nanos() - age,
            labels: Labels::default(),
            annotations: [("kubernetes.io/config.source", "file")].into_iter().collect(),
        };
        let container = Container {
            id: "c1".into(),
            sandbox_id: "s".into(),
            metadata: Some(ContainerMetadata { name: "etcd".into(), attempt: 0 }),
            image: None,
            image_ref: String::new(),
            state: ContainerState::Running,
            created_at: NOW.nanos() - age,
            labels: Labels::default(),
            annotations: Labels::default(),
        };
        let runtime = RuntimePod::group(vec![sandbox], vec![container]);
        let state = |pods: Vec<Wanted>| SourceState {
            pods: Some(pods.into_iter().map(Arc::new).collect()),
            refused: Vec::new(),
        };
        let sources = BTreeMap::from([(Source::File, state(vec![wanted])), (Source::Api, state(api))]);
        let rows =
            standings(&Question { sources: &sources, runtime: Some(&runtime), kubelet: None, now: NOW });
        let row = rows.into_iter().find(|row| row.source == Some(Source::File)).unwrap();
        assert_eq!(row.verdict, Standing::Running, "a mirror is no reason to say that a pod does not run");
        (row.mirror.unwrap(), row.why)
    }

    fn said(age: i64, api: Vec<Wanted>) -> (&'static str, String) {
        let (mirror, why) = said_of(named("shop", "1"), age, api);
        (mirror.state, why)
    }

    fn containers(id: &str) -> Value {
        json!({"phase": "Running", "containerStatuses": [{"name": "etcd", "containerID": format!("containerd://{id}")}]})
    }

    #[test]
    fn the_join_is_by_hash_and_never_by_the_apis_uid() {
        let (mirror, why) = said_of(named("shop", "1"), HOUR, vec![mirror_of("1", containers("c1"))]);
        let expected = Mirror { state: "current", uid: Some("api-uid".into()), hash: Some("1".into()) };
        assert_eq!((mirror, why.as_str()), (expected, "runs exactly this version, 1 of 1 containers"));
    }

    #[test]
    fn hash_and_status_may_be_of_two_generations() {
        let (state, why) = said(HOUR, vec![mirror_of("0", containers("c0"))]);
        assert!(state == "old" && why.contains("not what runs"), "{why}");
        let (state, why) = said(HOUR, vec![mirror_of("0", containers("c1"))]);
        assert!(state == "old" && why.contains("the status of this one"), "{why}");
        let (state, why) = said(HOUR, vec![mirror_of("1", containers("c0"))]);
        assert!(state == "current" && why.contains("it is behind"), "{why}");
    }

    #[test]
    fn a_mirror_that_was_made_anew_shows_pending() {
        let (state, why) = said(HOUR, vec![mirror_of("1", json!({"phase": "Pending"}))]);
        assert!(state == "current" && why.contains("Pending"), "{why}");
    }

    #[test]
    fn one_name_may_be_two_pods() {
        let (mirror, why) = said_of(named("shop", "1"), HOUR, vec![named("shop", "x")]);
        assert!(
            mirror.state == "taken" && mirror.uid.as_deref() == Some("x") && why.contains("another pod"),
            "{why}"
        );
    }

    #[test]
    fn for_a_minute_nothing_is_missed() {
        for api in [vec![], vec![mirror_of("0", containers("c0"))], vec![mirror_of("1", containers("c0"))]] {
            let (_, why) = said(HOUR / 120, api);
            assert_eq!(why, "runs exactly this version, 1 of 1 containers");
        }
        assert_eq!(said(HOUR / 120, vec![]).0, "young");
        let touched = Wanted { changed: Some(NOW), ..named("shop", "1") };
        assert_eq!(said_of(touched, HOUR, vec![]).0.state, "young");
    }

    #[test]
    fn of_the_causes_of_absence_those_that_cannot_be_are_left_out() {
        let (state, why) = said(HOUR, vec![]);
        assert!(state == "absent" && why.contains("no namespace shop") && why.contains("admission"), "{why}");
        let neighbour = Wanted {
            identity: PodIdentity { namespace: "shop".into(), name: "web".into() },
            ..named("shop", "2")
        };
        let (_, why) = said(HOUR, vec![neighbour]);
        assert!(!why.contains("no namespace") && why.contains("does not get through"), "{why}");
        let (_, why) = said_of(named("kube-system", "1"), HOUR, vec![]);
        assert!(!why.contains("no namespace"), "{why}");
        let refers = Wanted { unmirrored: Some("spec.serviceAccountName …".into()), ..named("shop", "1") };
        let (_, why) = said_of(refers, HOUR, vec![]);
        assert!(why.ends_with("serviceAccountName …"), "{why}");
    }
}
