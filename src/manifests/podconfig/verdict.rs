//! Decides the verdict on each pod that a source wants or the runtime has.
//!
//! The verdict is a pure function of the sources, the runtime's two lists, the kubelet's own pods and the time. Each
//! verdict has a reason. If a source that was not read may explain a pod, the verdict stays open and says so.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::mirror::{self, MirrorPod};
use super::runtime_pods::{RuntimePod, RuntimeState};
use super::{CompactJson, GRACE, PodSource, RefusedFile, WantedPod};
use crate::clock::Wall;
use crate::manifests::PodIdentity;

/// The verdict on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodVerdict {
    /// The wanted version runs.
    Running,
    /// The pod is being started.
    Starting,
    /// Another version of the pod runs.
    Stale,
    /// Nothing of the pod runs.
    Missing,
    /// The pod runs and no source wants it.
    Orphan,
    /// The pod is ending, because it was deleted or because its source dropped it.
    Terminating,
    /// Another source has a pod with the same name, and only one of them can run.
    Duplicate,
    /// The kubelet refuses the pod.
    Refused,
}

impl PodVerdict {
    /// The name in JSON and in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Stale => "stale",
            Self::Missing => "missing",
            Self::Orphan => "orphan",
            Self::Terminating => "terminating",
            Self::Duplicate => "duplicate",
            Self::Refused => "refused",
        }
    }

    /// Whether the verdict is good.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Running | Self::Terminating)
    }
}

/// One pod and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name, including the node name.
    pub name: String,
    /// The wanted UID, or the running UID if no source wants the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The source that wants the pod or, according to the pod's annotation, wanted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<PodSource>,
    /// The verdict.
    pub verdict: PodVerdict,
    /// The reason in one sentence.
    pub why: String,
    /// The pod in the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RuntimeState>,
    /// The mirror pod, if this is a static pod and the API server's pods are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MirrorPod>,
    /// Its labels, for label selectors.
    #[serde(skip)]
    pub labels: RowLabels,
}

/// The labels of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowLabels {
    /// No labels.
    #[default]
    None,
    /// The labels of a wanted pod.
    WantedPod(CompactJson),
    /// The labels of a pod that only the runtime has.
    Runs(BTreeMap<String, String>),
}

impl RowLabels {
    /// Returns the labels as a map.
    pub fn read(&self) -> BTreeMap<String, String> {
        match self {
            Self::None => BTreeMap::new(),
            Self::WantedPod(labels) => serde_json::from_value(labels.read()).unwrap_or_default(),
            Self::Runs(labels) => labels.clone(),
        }
    }
}

/// The pods of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// Its pods; `None` if the kubelet has this source and it could not be read.
    pub pods: Option<Vec<Arc<WantedPod>>>,
    /// Files and list items that the kubelet refuses.
    pub refused: Vec<RefusedFile>,
}

/// The input of the verdicts.
#[derive(Debug)]
pub struct VerdictInput<'a> {
    /// The sources that this kubelet has.
    pub sources: &'a BTreeMap<PodSource, SourceState>,
    /// The runtime's pods by UID; `None` if the runtime was not called.
    pub runtime: Option<&'a BTreeMap<String, RuntimePod>>,
    /// The kubelet's own pods with their status, by UID; `None` if the kubelet was not called.
    pub kubelet: Option<&'a HashMap<String, CompactJson>>,
    /// The current time.
    pub now: Wall,
}

/// Returns a row for each pod that a source wants or the runtime runs, by namespace and name.
pub fn pod_rows(input: &VerdictInput<'_>) -> Vec<PodRow> {
    let known = PodIndex::of(input);
    let mut rows = Vec::new();
    for (source, state) in input.sources {
        let pods = state.pods.iter().flatten().filter(|pod| pod.mirror_of.is_none());
        rows.extend(pods.map(|pod| known.wanted(*source, pod)));
        rows.extend(state.refused.iter().map(|refused| refused_file(*source, refused)));
    }
    rows.extend(known.mirrors_without_pod());
    rows.extend(known.unwanted_pods());
    rows.sort_by(|left, right| {
        (&left.namespace, &left.name, left.verdict, &left.uid).cmp(&(
            &right.namespace,
            &right.name,
            right.verdict,
            &right.uid,
        ))
    });
    rows
}

/// The input with its pods indexed by name.
struct PodIndex<'a> {
    input: &'a VerdictInput<'a>,
    running: HashMap<&'a PodIdentity, Vec<&'a RuntimePod>>,
    /// The wanted pods by name, including mirror pods.
    wanted: HashMap<&'a PodIdentity, Vec<(PodSource, &'a WantedPod)>>,
    /// UIDs of the wanted pods that are not mirror pods.
    uids: HashMap<&'a str, PodSource>,
    /// Sources that were not read.
    unread: Vec<PodSource>,
}

fn row(
    identity: &PodIdentity,
    uid: &str,
    source: Option<PodSource>,
    verdict: PodVerdict,
    why: String,
) -> PodRow {
    let PodIdentity { namespace, name } = identity.clone();
    PodRow {
        namespace,
        name,
        uid: uid.to_owned(),
        source,
        verdict,
        why,
        running: None,
        mirror: None,
        labels: RowLabels::None,
    }
}

impl<'a> PodIndex<'a> {
    fn of(input: &'a VerdictInput<'a>) -> Self {
        let mut known = Self {
            input,
            running: HashMap::new(),
            wanted: HashMap::new(),
            uids: HashMap::new(),
            unread: Vec::new(),
        };
        for pod in input.runtime.into_iter().flat_map(BTreeMap::values) {
            known.running.entry(&pod.identity).or_default().push(pod);
        }
        for (source, state) in input.sources {
            if state.pods.is_none() {
                known.unread.push(*source);
            }
            for pod in state.pods.iter().flatten() {
                known.wanted.entry(&pod.identity).or_default().push((*source, pod));
                if pod.mirror_of.is_none() {
                    known.uids.insert(&pod.uid, *source);
                }
            }
        }
        known
    }

    /// Returns the pods that any source wants under this name, including mirror pods.
    fn wanted_as(&self, identity: &PodIdentity) -> &[(PodSource, &'a WantedPod)] {
        self.wanted.get(identity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a time is within the grace period.
    fn is_young(&self, time: Option<Wall>) -> bool {
        time.is_some_and(|time| self.input.now.duration_since(time) <= GRACE)
    }

    /// Returns the state of a running static pod's mirror, if the API server's pods are known.
    fn mirror(
        &self,
        source: PodSource,
        pod: &WantedPod,
        own: &RuntimePod,
    ) -> Option<(MirrorPod, Option<String>)> {
        if source == PodSource::Api {
            return None;
        }
        // A source that was not read is not an empty source.
        let all = self.input.sources.get(&PodSource::Api)?.pods.as_ref()?;
        let young = self.is_young(pod.changed) || self.is_young(own.since());
        let of_the_api = self.wanted_as(&pod.identity).iter().filter(|(source, _)| *source == PodSource::Api);
        let shown: Vec<&WantedPod> = of_the_api.map(|(_, pod)| *pod).collect();
        Some(mirror::mirror_state(pod, &shown, all, Some(own), young))
    }

    /// Returns the kubelet's own status of a pod, or else the status from the source.
    fn status(&self, pod: &WantedPod) -> Value {
        self.input.kubelet.and_then(|kubelet| kubelet.get(&pod.uid)).unwrap_or(&pod.status).read()
    }

    fn wanted(&self, source: PodSource, pod: &WantedPod) -> PodRow {
        let row = self.wanted_row(source, pod);
        PodRow { labels: RowLabels::WantedPod(pod.content.labels.clone()), ..row }
    }

    fn wanted_row(&self, source: PodSource, pod: &WantedPod) -> PodRow {
        let uid = pod.known_uid().unwrap_or_default();
        let say = |verdict, why: String| row(&pod.identity, uid, Some(source), verdict, why);
        let status = self.status(pod);
        let Some(runtime) = self.input.runtime else {
            return match refusal(&status) {
                Some(reason) => say(PodVerdict::Refused, reason),
                None => say(PodVerdict::Missing, "wanted; not compared with the runtime".to_owned()),
            };
        };
        let others = self.running.get(&pod.identity).map(Vec::as_slice).unwrap_or_default();
        let own = match pod.known_uid() {
            Some(uid) => runtime.get(uid),
            // The running version is not known, but the pod runs.
            None => others.iter().copied().find(|other| other.source == Some(source)),
        };
        let shown = own.map(RuntimePod::state);
        let with = |row: PodRow| PodRow { running: shown.clone(), ..row };
        if pod.is_terminating() {
            let why = match own {
                Some(own) if own.is_alive() => "it has to stop and still runs",
                _ => "it has to stop; none of its containers runs",
            };
            return with(say(PodVerdict::Terminating, why.to_owned()));
        }
        if let Some(reason) = refusal(&status) {
            return with(say(PodVerdict::Refused, reason));
        }
        match own {
            Some(own) if own.runs() => {
                let (mirror, word) = self.mirror(source, pod, own).unzip();
                let mut why = running(source, pod, own);
                if let Some(word) = word.flatten() {
                    why.push_str("; ");
                    why.push_str(&word);
                }
                return with(PodRow { mirror, ..say(PodVerdict::Running, why) });
            }
            Some(own) if own.is_alive() => return with(self.not_all(say, own)),
            Some(own) if finished(pod, &status) => {
                let why = format!(
                    "has finished; restartPolicy does not start it again ({} containers ended)",
                    own.containers()
                );
                return with(say(PodVerdict::Running, why));
            }
            _ => {}
        }
        if let Some(other) = others.iter().find(|other| other.uid != pod.uid && other.is_alive()) {
            let row = self.name_in_use(source, pod, other);
            return PodRow { running: Some(other.state()), ..row };
        }
        let (verdict, why) = self.absent(pod, own, &status);
        with(say(verdict, why.to_owned()))
    }

    /// Returns why nothing of the pod runs.
    fn absent(
        &self,
        pod: &WantedPod,
        own: Option<&RuntimePod>,
        status: &Value,
    ) -> (PodVerdict, &'static str) {
        if self.is_young(pod.changed) {
            return (PodVerdict::Starting, "its file is younger than a minute; nothing runs of it yet");
        }
        let to_the_kubelet =
            pod.known_uid().and_then(|uid| self.input.kubelet.map(|kubelet| kubelet.contains_key(uid)));
        if status.get("phase").and_then(Value::as_str) == Some("Pending") && own.is_none() {
            return (PodVerdict::Starting, "Pending: the kubelet has not made a sandbox for it");
        }
        let why = match (own, to_the_kubelet) {
            (Some(_), _) => "its sandboxes have ended and no new one was made",
            (None, Some(false)) => {
                "wanted, and the kubelet does not have it among its pods: it has not read this text, or runs another source"
            }
            (None, Some(true)) => {
                "the kubelet has it, but the runtime has no part of it: its pod worker waits or hangs"
            }
            (None, None) => {
                "wanted, but the runtime has no part of it: the kubelet did not admit it, or its pod worker \
                 waits; the kubelet's log and its /pods say which"
            }
        };
        (PodVerdict::Missing, why)
    }

    fn not_all(&self, say: impl Fn(PodVerdict, String) -> PodRow, own: &RuntimePod) -> PodRow {
        let (verdict, age) = if self.is_young(own.since()) {
            (PodVerdict::Starting, "young")
        } else {
            (PodVerdict::Missing, "older than a minute")
        };
        let why = match (own.ready(), own.containers()) {
            (0, _) => "containers run without a ready sandbox".to_owned(),
            (_, 0) => format!("it has a sandbox, {age}, and no container yet"),
            (_, all) => format!("it has a sandbox, and none of its {all} containers runs"),
        };
        say(verdict, why)
    }

    /// Returns the row of a pod under whose name another pod runs.
    fn name_in_use(&self, source: PodSource, pod: &WantedPod, other: &RuntimePod) -> PodRow {
        let say = |verdict, why: String| {
            row(&pod.identity, pod.known_uid().unwrap_or_default(), Some(source), verdict, why)
        };
        let rival = self
            .wanted_as(&pod.identity)
            .iter()
            .find(|(_, wanted)| wanted.uid == other.uid && wanted.mirror_of.is_none());
        if let Some((rival, _)) = rival {
            return say(
                PodVerdict::Duplicate,
                format!(
                    "source {rival} has a pod of the same name, and that one runs: the kubelet starts the other only when it is gone"
                ),
            );
        }
        say(
            PodVerdict::Stale,
            format!(
                "another version runs (uid {}): the kubelet has not applied this version yet, or the old pod \
                 is still stopping",
                other.uid
            ),
        )
    }

    /// Returns rows for mirror pods whose static pod no source wants any more.
    fn mirrors_without_pod(&self) -> Vec<PodRow> {
        let sources = self.input.sources;
        let Some(api) = sources.get(&PodSource::Api).and_then(|state| state.pods.as_ref()) else {
            return Vec::new();
        };
        // Without all static sources, one of them may want the pod.
        let mut of_the_node = sources.iter().filter(|(source, _)| **source != PodSource::Api).peekable();
        if of_the_node.peek().is_none() || of_the_node.any(|(_, state)| state.pods.is_none()) {
            return Vec::new();
        }
        let is_wanted = |mirror: &WantedPod| {
            self.wanted_as(&mirror.identity).iter().any(|(source, _)| *source != PodSource::Api)
        };
        let lonely = api.iter().filter(|pod| pod.mirror_of.is_some() && !is_wanted(pod));
        lonely
            .map(|pod| {
                let alive = pod.mirror_of.as_ref().and_then(|hash| self.input.runtime?.get(hash));
                let (verdict, why) = match alive.filter(|pod| pod.is_alive()) {
                    _ if pod.is_terminating() => (
                        PodVerdict::Terminating,
                        "the mirror of a static pod that no source has; the API server is deleting it",
                    ),
                    Some(_) => (
                        PodVerdict::Stale,
                        "the mirror of a static pod that no source has and that still runs; the kubelet deletes it when that has ended",
                    ),
                    None => (
                        PodVerdict::Stale,
                        "the API server still shows the mirror of a static pod that no source has and that does not run; the kubelet deletes it within a minute once it has read every source",
                    ),
                };
                let row = row(&pod.identity, &pod.uid, Some(PodSource::Api), verdict, why.to_owned());
                PodRow { labels: RowLabels::WantedPod(pod.content.labels.clone()), ..row }
            })
            .collect()
    }

    /// Returns rows for running pods that no source wants.
    fn unwanted_pods(&self) -> Vec<PodRow> {
        let runtime = self.input.runtime.into_iter().flat_map(BTreeMap::values);
        let was_read =
            |source: PodSource| self.input.sources.get(&source).is_some_and(|state| state.pods.is_some());
        runtime
            .filter(|pod| pod.is_alive() && !self.uids.contains_key(pod.uid.as_str()))
            // A pod of a source that was not read may be wanted there, so it is no finding.
            .filter(|pod| pod.source.is_some_and(was_read))
            .filter_map(|pod| self.unwanted_pod(pod))
            .collect()
    }

    fn unwanted_pod(&self, pod: &RuntimePod) -> Option<PodRow> {
        let wanted = self.wanted_as(&pod.identity);
        if wanted.iter().any(|(_, wanted)| wanted.known_uid().is_none()) {
            return None;
        }
        let (verdict, why) = if wanted.iter().any(|(_, wanted)| wanted.mirror_of.is_none()) {
            let why = "the old version of a pod that is wanted; it ends before the new one starts";
            (PodVerdict::Terminating, why.to_owned())
        } else if self.unread.is_empty() {
            let why = "it runs, and no source wants it: the kubelet stops it within seconds, unless its pod \
                       worker hangs";
            (PodVerdict::Orphan, why.to_owned())
        } else {
            let unread: Vec<&str> = self.unread.iter().map(|source| source.as_str()).collect();
            let why = format!(
                "it runs, and no source wants it; the kubelet may not stop it until source {} is ready",
                unread.join(" and ")
            );
            (PodVerdict::Orphan, why)
        };
        let row = row(&pod.identity, &pod.uid, pod.source, verdict, why);
        Some(PodRow { running: Some(pod.state()), labels: RowLabels::Runs(pod.labels.clone()), ..row })
    }
}

/// Describes a running pod.
fn running(source: PodSource, pod: &WantedPod, own: &RuntimePod) -> String {
    let (running, all) = (own.running(), own.containers());
    if source == PodSource::Api {
        format!("{running} of {all} containers run")
    } else if pod.known_uid().is_none() {
        format!(
            "{running} of {all} containers run; the version is not known, because its UID cannot be computed"
        )
    } else if running == all {
        format!("runs exactly this version, {running} of {all} containers")
    } else {
        format!("runs this version, {running} of {all} containers run")
    }
}

fn refused_file(source: PodSource, refused: &RefusedFile) -> PodRow {
    let identity =
        PodIdentity { namespace: String::new(), name: refused.path.to_string_lossy().into_owned() };
    row(&identity, "", Some(source), PodVerdict::Refused, refused.reason.clone())
}

/// Returns why the kubelet did not admit a pod, from the status that it reported.
fn refusal(status: &Value) -> Option<String> {
    let text = |key: &str| status.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let reason = text("reason").filter(|_| text("phase") == Some("Failed"))?;
    Some(match text("message") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    })
}

/// Whether a pod that has ended must not be restarted.
fn finished(pod: &WantedPod, status: &Value) -> bool {
    let phase = status.get("phase").and_then(Value::as_str);
    let spec = pod.content.spec.read();
    let policy = spec.get("restartPolicy").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed")) || matches!(policy, Some("Never" | "OnFailure"))
}
