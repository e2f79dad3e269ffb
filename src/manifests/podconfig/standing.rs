//! What became of what the kubelet is told to run: each wanted pod beside the runtime, and what nobody wants.
//!
//! A pure function of the sources, the runtime's two lists, the kubelet's own word and the time. It says what it knows and
//! why; what a source that was not read may explain is left open and said to be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::mirror::{self, Mirror};
use super::runtime_pods::{InRuntime, RuntimePod};
use super::{GRACE, Part, Refused, Source, Wanted};
use crate::clock::Wall;
use crate::manifests::PodIdentity;

/// What became of a pod, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It runs as it is wanted.
    Running,
    /// It is on its way.
    Starting,
    /// Another version of it runs.
    Stale,
    /// Nothing runs of it.
    Missing,
    /// It runs and no source wants it.
    Orphan,
    /// It ends, because it was told to or because its source dropped it.
    Terminating,
    /// Another source has a pod of the same name, and only one of them can run.
    Duplicate,
    /// The kubelet does not take it.
    Refused,
}

impl Standing {
    /// The word itself.
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

    /// Whether this is as it should be.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Running | Self::Terminating)
    }
}

/// One pod and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name, node name included.
    pub name: String,
    /// The UID that it is wanted under, or that it runs under if nobody wants it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Who wants it, or by its annotation wanted it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What became of it.
    pub verdict: Standing,
    /// In a sentence.
    pub why: String,
    /// What the runtime has of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<InRuntime>,
    /// What the API server shows of it, if it is a static pod and the API server's pods are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Mirror>,
    /// Its labels, for who wants to see some pods only.
    #[serde(skip)]
    pub labels: Labels,
}

/// Where the labels of a row are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// It has none.
    #[default]
    None,
    /// Of a pod that a source wants.
    Wanted(Part),
    /// Of a pod that only the runtime has.
    Runs(BTreeMap<String, String>),
}

impl Labels {
    /// As a map.
    pub fn read(&self) -> BTreeMap<String, String> {
        match self {
            Self::None => BTreeMap::new(),
            Self::Wanted(labels) => serde_json::from_value(labels.read()).unwrap_or_default(),
            Self::Runs(labels) => labels.clone(),
        }
    }
}

/// A source and what it said.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// Its pods; `None` if the kubelet has this source and it could not be read.
    pub pods: Option<Vec<Arc<Wanted>>>,
    /// Files and items that the kubelet does not take.
    pub refused: Vec<Refused>,
}

/// What is judged.
#[derive(Debug)]
pub struct Question<'a> {
    /// The sources that this kubelet has.
    pub sources: &'a BTreeMap<Source, SourceState>,
    /// The runtime's pods by UID; `None` if it was not asked.
    pub runtime: Option<&'a BTreeMap<String, RuntimePod>>,
    /// The kubelet's own pods with their status, by UID; `None` if it was not asked.
    pub kubelet: Option<&'a HashMap<String, Part>>,
    /// The time.
    pub now: Wall,
}

/// A row for each pod that a source wants or the runtime runs, by namespace and name.
pub fn standings(question: &Question<'_>) -> Vec<PodRow> {
    let known = Known::of(question);
    let mut rows = Vec::new();
    for (source, state) in question.sources {
        let pods = state.pods.iter().flatten().filter(|pod| pod.mirror_of.is_none());
        rows.extend(pods.map(|pod| known.wanted(*source, pod)));
        rows.extend(state.refused.iter().map(|refused| refused_file(*source, refused)));
    }
    rows.extend(known.lonely_mirrors());
    rows.extend(known.unwanted());
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

/// The question with its pods by name.
struct Known<'a> {
    question: &'a Question<'a>,
    running: HashMap<&'a PodIdentity, Vec<&'a RuntimePod>>,
    /// Mirrors included.
    wanted: HashMap<&'a PodIdentity, Vec<(Source, &'a Wanted)>>,
    /// UIDs of pods that are no mirrors.
    uids: HashMap<&'a str, Source>,
    /// Sources that were not heard.
    deaf: Vec<Source>,
}

fn row(identity: &PodIdentity, uid: &str, source: Option<Source>, verdict: Standing, why: String) -> PodRow {
    let PodIdentity { namespace, name } = identity.clone();
    PodRow {
        namespace,
        name,
        uid: uid.to_owned(),
        source,
        verdict,
        why,
        runtime: None,
        mirror: None,
        labels: Labels::None,
    }
}

impl<'a> Known<'a> {
    fn of(question: &'a Question<'a>) -> Self {
        let mut known = Self {
            question,
            running: HashMap::new(),
            wanted: HashMap::new(),
            uids: HashMap::new(),
            deaf: Vec::new(),
        };
        for pod in question.runtime.into_iter().flat_map(BTreeMap::values) {
            known.running.entry(&pod.identity).or_default().push(pod);
        }
        for (source, state) in question.sources {
            if state.pods.is_none() {
                known.deaf.push(*source);
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

    /// What any source wants under this name, mirrors included.
    fn wanted_as(&self, identity: &PodIdentity) -> &[(Source, &'a Wanted)] {
        self.wanted.get(identity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether something happened less than a moment ago.
    fn is_young(&self, time: Option<Wall>) -> bool {
        time.is_some_and(|time| self.question.now.duration_since(time) <= GRACE)
    }

    /// What is to be said of a running static pod's mirror, where the API server's pods are known.
    fn mirror(&self, source: Source, pod: &Wanted, own: &RuntimePod) -> Option<(Mirror, Option<String>)> {
        if source == Source::Api {
            return None;
        }
        // Not heard is not the same as empty.
        let all = self.question.sources.get(&Source::Api)?.pods.as_ref()?;
        let young = self.is_young(pod.changed) || self.is_young(own.since());
        let of_the_api = self.wanted_as(&pod.identity).iter().filter(|(source, _)| *source == Source::Api);
        let shown: Vec<&Wanted> = of_the_api.map(|(_, pod)| *pod).collect();
        Some(mirror::judged(pod, &shown, all, Some(own), young))
    }

    /// The status that the kubelet itself gives a pod, else the one that came with it.
    fn status(&self, pod: &Wanted) -> Value {
        self.question.kubelet.and_then(|kubelet| kubelet.get(&pod.uid)).unwrap_or(&pod.status).read()
    }

    fn wanted(&self, source: Source, pod: &Wanted) -> PodRow {
        let row = self.judged(source, pod);
        PodRow { labels: Labels::Wanted(pod.content.labels.clone()), ..row }
    }

    fn judged(&self, source: Source, pod: &Wanted) -> PodRow {
        let uid = pod.told_uid().unwrap_or_default();
        let say = |verdict, why: String| row(&pod.identity, uid, Some(source), verdict, why);
        let status = self.status(pod);
        let Some(runtime) = self.question.runtime else {
            return match refusal(&status) {
                Some(reason) => say(Standing::Refused, reason),
                None => say(Standing::Missing, "wanted; the runtime was not asked".to_owned()),
            };
        };
        let others = self.running.get(&pod.identity).map(Vec::as_slice).unwrap_or_default();
        let own = match pod.told_uid() {
            Some(uid) => runtime.get(uid),
            // Which version runs cannot be told; that one runs can.
            None => others.iter().copied().find(|other| other.source == Some(source)),
        };
        let shown = own.map(RuntimePod::shown);
        let with = |row: PodRow| PodRow { runtime: shown.clone(), ..row };
        if pod.is_terminating() {
            let why = match own {
                Some(own) if own.lives() => "its end was ordered and it still runs",
                _ => "its end was ordered; nothing runs of it",
            };
            return with(say(Standing::Terminating, why.to_owned()));
        }
        if let Some(reason) = refusal(&status) {
            return with(say(Standing::Refused, reason));
        }
        match own {
            Some(own) if own.runs() => {
                let (mirror, word) = self.mirror(source, pod, own).unzip();
                let mut why = running(source, pod, own);
                if let Some(word) = word.flatten() {
                    why.push_str("; ");
                    why.push_str(&word);
                }
                return with(PodRow { mirror, ..say(Standing::Running, why) });
            }
            Some(own) if own.lives() => return with(self.not_all(say, own)),
            Some(own) if finished(pod, &status) => {
                let why = format!(
                    "has finished; restartPolicy does not start it again ({} containers ended)",
                    own.containers()
                );
                return with(say(Standing::Running, why));
            }
            _ => {}
        }
        if let Some(other) = others.iter().find(|other| other.uid != pod.uid && other.lives()) {
            let row = self.beside(source, pod, other);
            return PodRow { runtime: Some(other.shown()), ..row };
        }
        let (verdict, why) = self.absent(pod, own, &status);
        with(say(verdict, why.to_owned()))
    }

    /// Why nothing runs of it.
    fn absent(&self, pod: &Wanted, own: Option<&RuntimePod>, status: &Value) -> (Standing, &'static str) {
        if self.is_young(pod.changed) {
            return (Standing::Starting, "its file is younger than a minute; nothing runs of it yet");
        }
        let to_the_kubelet = self.question.kubelet.map(|kubelet| kubelet.contains_key(&pod.uid));
        if status.get("phase").and_then(Value::as_str) == Some("Pending") && own.is_none() {
            return (Standing::Starting, "Pending: the kubelet has not made a sandbox for it");
        }
        let why = match (own, to_the_kubelet) {
            (Some(_), _) => "its sandboxes have ended and no new one was made",
            (None, Some(false)) => {
                "wanted, and the kubelet does not have it among its pods: it has not read this text, or runs another source"
            }
            (None, Some(true)) => {
                "the kubelet has it, and the runtime has nothing of it: its worker waits or hangs"
            }
            (None, None) => {
                "wanted, and the runtime has nothing of it: the kubelet did not admit it, or its worker waits; the kubelet's log and its /pods say which"
            }
        };
        (Standing::Missing, why)
    }

    fn not_all(&self, say: impl Fn(Standing, String) -> PodRow, own: &RuntimePod) -> PodRow {
        let (verdict, age) = if self.is_young(own.since()) {
            (Standing::Starting, "young")
        } else {
            (Standing::Missing, "older than a minute")
        };
        let why = match (own.ready(), own.containers()) {
            (0, _) => "containers run without a ready sandbox".to_owned(),
            (_, 0) => format!("it has a sandbox, {age}, and no container yet"),
            (_, all) => format!("it has a sandbox, and none of its {all} containers runs"),
        };
        say(verdict, why)
    }

    /// Another pod runs under this name.
    fn beside(&self, source: Source, pod: &Wanted, other: &RuntimePod) -> PodRow {
        let say = |verdict, why: String| {
            row(&pod.identity, pod.told_uid().unwrap_or_default(), Some(source), verdict, why)
        };
        let rival = self
            .wanted_as(&pod.identity)
            .iter()
            .find(|(_, wanted)| wanted.uid == other.uid && wanted.mirror_of.is_none());
        if let Some((rival, _)) = rival {
            return say(
                Standing::Duplicate,
                format!(
                    "source {rival} has a pod of the same name, and that one runs: the kubelet starts the other only when it is gone"
                ),
            );
        }
        say(
            Standing::Stale,
            format!(
                "another version runs (uid {}): the kubelet has not taken this text, or the old pod still ends",
                other.uid
            ),
        )
    }

    /// Mirrors whose static pod no source wants any more.
    fn lonely_mirrors(&self) -> Vec<PodRow> {
        let sources = self.question.sources;
        let Some(api) = sources.get(&Source::Api).and_then(|state| state.pods.as_ref()) else {
            return Vec::new();
        };
        // Without the static sources nobody knows whether one of them has it.
        let mut of_the_node = sources.iter().filter(|(source, _)| **source != Source::Api).peekable();
        if of_the_node.peek().is_none() || of_the_node.any(|(_, state)| state.pods.is_none()) {
            return Vec::new();
        }
        let is_wanted = |mirror: &Wanted| {
            self.wanted_as(&mirror.identity).iter().any(|(source, _)| *source != Source::Api)
        };
        let lonely = api.iter().filter(|pod| pod.mirror_of.is_some() && !is_wanted(pod));
        lonely
            .map(|pod| {
                let lives = pod.mirror_of.as_ref().and_then(|hash| self.question.runtime?.get(hash));
                let (verdict, why) = match lives.filter(|pod| pod.lives()) {
                    _ if pod.is_terminating() => (
                        Standing::Terminating,
                        "the mirror of a static pod that no source has; the API server is deleting it",
                    ),
                    Some(_) => (
                        Standing::Stale,
                        "the mirror of a static pod that no source has and that still runs; the kubelet deletes it when that has ended",
                    ),
                    None => (
                        Standing::Stale,
                        "the API server still shows the mirror of a static pod that no source has and that does not run; the kubelet deletes it within a minute once it has heard every source",
                    ),
                };
                let row = row(&pod.identity, &pod.uid, Some(Source::Api), verdict, why.to_owned());
                PodRow { labels: Labels::Wanted(pod.content.labels.clone()), ..row }
            })
            .collect()
    }

    /// Pods that live and that no source wants.
    fn unwanted(&self) -> Vec<PodRow> {
        let runtime = self.question.runtime.into_iter().flat_map(BTreeMap::values);
        let heard =
            |source: Source| self.question.sources.get(&source).is_some_and(|state| state.pods.is_some());
        runtime
            .filter(|pod| pod.lives() && !self.uids.contains_key(pod.uid.as_str()))
            // Whose source was not read may well be wanted there; that is no finding.
            .filter(|pod| pod.source.is_some_and(heard))
            .filter_map(|pod| self.left_over(pod))
            .collect()
    }

    fn left_over(&self, pod: &RuntimePod) -> Option<PodRow> {
        let wanted = self.wanted_as(&pod.identity);
        if wanted.iter().any(|(_, wanted)| wanted.told_uid().is_none()) {
            return None;
        }
        let (verdict, why) = if wanted.iter().any(|(_, wanted)| wanted.mirror_of.is_none()) {
            let why = "the old version of a pod that is wanted; it ends before the new one starts";
            (Standing::Terminating, why.to_owned())
        } else if self.deaf.is_empty() {
            let why = "it runs and no source wants it: it ends within seconds, or its worker hangs";
            (Standing::Orphan, why.to_owned())
        } else {
            let deaf: Vec<&str> = self.deaf.iter().map(|source| source.as_str()).collect();
            let why = format!(
                "it runs and no source wants it; until source {} is heard the kubelet may not end it",
                deaf.join(" and ")
            );
            (Standing::Orphan, why)
        };
        let row = row(&pod.identity, &pod.uid, pod.source, verdict, why);
        Some(PodRow { runtime: Some(pod.shown()), labels: Labels::Runs(pod.labels.clone()), ..row })
    }
}

/// What runs.
fn running(source: Source, pod: &Wanted, own: &RuntimePod) -> String {
    let (running, all) = (own.running(), own.containers());
    if source == Source::Api {
        format!("{running} of {all} containers run")
    } else if pod.told_uid().is_none() {
        format!(
            "{running} of {all} containers run; of which version cannot be told, because the file gives times"
        )
    } else if running == all {
        format!("runs exactly this version, {running} of {all} containers")
    } else {
        format!("runs this version, {running} of {all} containers run")
    }
}

fn refused_file(source: Source, refused: &Refused) -> PodRow {
    let identity =
        PodIdentity { namespace: String::new(), name: refused.path.to_string_lossy().into_owned() };
    row(&identity, "", Some(source), Standing::Refused, refused.reason.clone())
}

/// Why the kubelet did not admit a pod, by the status that it reported.
fn refusal(status: &Value) -> Option<String> {
    let text = |key: &str| status.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let reason = text("reason").filter(|_| text("phase") == Some("Failed"))?;
    Some(match text("message") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    })
}

/// Whether a pod that has ended is to stay so.
fn finished(pod: &Wanted, status: &Value) -> bool {
    let phase = status.get("phase").and_then(Value::as_str);
    let spec = pod.content.spec.read();
    let policy = spec.get("restartPolicy").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed")) || matches!(policy, Some("Never" | "OnFailure"))
}
