//! What became of what the kubelet is told to run: each wanted pod beside the runtime, and what nobody wants.
//!
//! A pure function of the sources, the runtime's two lists and the time. It says what it knows and why; what a source
//! that was not read may explain is left open and said to be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Refused, Source, Wanted};
use crate::clock::Wall;
use crate::cri::{Container, ContainerState, Sandbox, SandboxState, label};
use crate::manifests::PodIdentity;

/// For so long nothing of a change need show: one scan of the files, a worker's pause, and the pull of an image begun.
pub const GRACE: Duration = Duration::from_secs(60);

const SOURCE: &str = "kubernetes.io/config.source";

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

/// What the runtime has of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InRuntime {
    /// `running`, `starting` or `exited`.
    pub state: &'static str,
    /// When its newest sandbox was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    /// The UID that it runs under.
    pub uid: String,
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
}

/// A source and what it said.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// Its pods; `None` if the kubelet has this source and it could not be read.
    pub pods: Option<Vec<Arc<Wanted>>>,
    /// Files and items that the kubelet does not take.
    pub refused: Vec<Refused>,
}

/// A pod of the runtime: its sandboxes and the newest container of each name.
#[derive(Clone, Debug)]
pub struct RuntimePod {
    identity: PodIdentity,
    uid: String,
    source: Option<Source>,
    ready: usize,
    newest: i64,
    containers: BTreeMap<String, Container>,
}

impl RuntimePod {
    /// The runtime's lists, by pod UID.
    pub fn group(sandboxes: &[Sandbox], containers: &[Container]) -> BTreeMap<String, Self> {
        let mut pods: BTreeMap<String, Self> = BTreeMap::new();
        for sandbox in sandboxes {
            let Some(metadata) = &sandbox.metadata else { continue };
            let pod = pods.entry(metadata.uid.clone()).or_insert_with(|| Self {
                identity: PodIdentity { namespace: metadata.namespace.clone(), name: metadata.name.clone() },
                uid: metadata.uid.clone(),
                source: None,
                ready: 0,
                newest: i64::MIN,
                containers: BTreeMap::new(),
            });
            pod.source = pod.source.or(match sandbox.annotations.get(SOURCE) {
                Some("file") => Some(Source::File),
                Some("http") => Some(Source::Http),
                Some("api") => Some(Source::Api),
                _ => None,
            });
            pod.ready += usize::from(sandbox.state == SandboxState::Ready);
            pod.newest = pod.newest.max(sandbox.created_at);
        }
        for container in containers {
            let uid = container.labels.get(label::POD_UID).unwrap_or_default();
            let (Some(pod), Some(metadata)) = (pods.get_mut(uid), &container.metadata) else { continue };
            let newer = |known: &Container| container.created_at > known.created_at;
            if pod.containers.get(&metadata.name).is_none_or(newer) {
                pod.containers.insert(metadata.name.clone(), container.clone());
            }
        }
        pods
    }

    fn running(&self) -> usize {
        self.containers.values().filter(|container| container.state == ContainerState::Running).count()
    }

    /// Whether anything of it is alive.
    pub fn lives(&self) -> bool {
        self.ready > 0 || self.running() > 0
    }

    /// Whether a container of it runs in a ready sandbox.
    pub fn runs(&self) -> bool {
        self.ready > 0 && self.running() > 0
    }

    fn since(&self) -> Option<Wall> {
        (self.newest > 0).then(|| Wall::from_nanos(self.newest))
    }

    fn shown(&self) -> InRuntime {
        let state = if self.runs() {
            "running"
        } else if self.lives() {
            "starting"
        } else {
            "exited"
        };
        InRuntime { state, since: self.since(), uid: self.uid.clone() }
    }
}

/// What is judged.
#[derive(Debug)]
pub struct Question<'a> {
    /// The sources that this kubelet has.
    pub sources: &'a BTreeMap<Source, SourceState>,
    /// The runtime's pods by UID; `None` if it was not asked.
    pub runtime: Option<&'a BTreeMap<String, RuntimePod>>,
    /// The time.
    pub now: Wall,
}

/// A row for each pod that a source wants or the runtime runs, by namespace and name.
pub fn standings(question: &Question<'_>) -> Vec<PodRow> {
    let by_name = names(question.runtime);
    let mut rows = Vec::new();
    for (source, state) in question.sources {
        let pods = state.pods.iter().flatten().filter(|pod| pod.mirror_of.is_none());
        rows.extend(pods.map(|pod| wanted(question, *source, pod, &by_name)));
        rows.extend(state.refused.iter().map(|refused| refused_file(*source, refused)));
    }
    rows.extend(lonely_mirrors(question));
    rows.extend(unwanted(question));
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

type ByName<'a> = HashMap<&'a PodIdentity, Vec<&'a RuntimePod>>;

fn names(runtime: Option<&BTreeMap<String, RuntimePod>>) -> ByName<'_> {
    let mut by_name: ByName<'_> = HashMap::new();
    for pod in runtime.into_iter().flat_map(BTreeMap::values) {
        by_name.entry(&pod.identity).or_default().push(pod);
    }
    by_name
}

fn row(identity: &PodIdentity, uid: &str, source: Option<Source>, verdict: Standing, why: String) -> PodRow {
    let PodIdentity { namespace, name } = identity.clone();
    PodRow { namespace, name, uid: uid.to_owned(), source, verdict, why, runtime: None }
}

fn wanted(question: &Question<'_>, source: Source, pod: &Wanted, by_name: &ByName<'_>) -> PodRow {
    let uid = pod.told_uid().unwrap_or_default();
    let say = |verdict, why: String| row(&pod.identity, uid, Some(source), verdict, why);
    let Some(runtime) = question.runtime else {
        return say(Standing::Missing, "wanted; the runtime was not asked".to_owned());
    };
    let others = by_name.get(&pod.identity).map(Vec::as_slice).unwrap_or_default();
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
    if let Some(reason) = refusal(&pod.status) {
        return with(say(Standing::Refused, reason));
    }
    match own {
        Some(own) if own.runs() => return with(say(Standing::Running, running(question, source, pod, own))),
        Some(own) if own.lives() => return with(not_all(question, say, own)),
        Some(own) if finished(pod) => {
            let why = format!(
                "has finished; restartPolicy does not start it again ({} containers ended)",
                own.containers.len()
            );
            return with(say(Standing::Running, why));
        }
        _ => {}
    }
    if let Some(other) = others.iter().find(|other| other.uid != pod.uid && other.lives()) {
        let row = beside(question, source, pod, other);
        return PodRow { runtime: Some(other.shown()), ..row };
    }
    let fresh = pod.changed.is_some_and(|changed| question.now.duration_since(changed) <= GRACE);
    let pending = pod.status.get("phase").and_then(Value::as_str) == Some("Pending");
    if fresh {
        return with(say(
            Standing::Starting,
            "its file is younger than a minute; nothing runs of it yet".to_owned(),
        ));
    }
    if pending && own.is_none() {
        return with(say(
            Standing::Starting,
            "Pending: the kubelet has not made a sandbox for it".to_owned(),
        ));
    }
    let why = match own {
        Some(_) => "its sandboxes have ended and no new one was made",
        None => {
            "wanted, and the runtime has nothing of it: the kubelet did not admit it, or its worker waits; the kubelet's log and its /pods say which"
        }
    };
    with(say(Standing::Missing, why.to_owned()))
}

/// What runs, and what the API server shows of it.
fn running(question: &Question<'_>, source: Source, pod: &Wanted, own: &RuntimePod) -> String {
    let (running, all) = (own.running(), own.containers.len());
    let mut why = if pod.told_uid().is_none() {
        format!(
            "{running} of {all} containers run; of which version cannot be told, because the file gives times"
        )
    } else if running == all {
        format!("runs exactly this version, {running} of {all} containers")
    } else {
        format!("runs this version, {running} of {all} containers run")
    };
    if source == Source::Api {
        why = format!("{running} of {all} containers run");
    }
    if let Some(word) = mirror(question, source, pod) {
        why.push_str("; ");
        why.push_str(&word);
    }
    why
}

/// What is to be said of a static pod's mirror, where the API server's pods are known.
fn mirror(question: &Question<'_>, source: Source, pod: &Wanted) -> Option<String> {
    if source == Source::Api {
        return None;
    }
    let shown = question.sources.get(&Source::Api)?.pods.as_ref()?;
    let same_name = || shown.iter().filter(|other| other.identity == pod.identity);
    let mirror = same_name().find_map(|other| other.mirror_of.as_deref());
    match mirror {
        Some(hash) if hash == pod.uid => None,
        Some(_) => Some("its mirror in the API server is of another version (it follows within a minute while the API server answers)".to_owned()),
        None if same_name().next().is_some() => {
            Some("the API server has another pod of this name, which is no mirror of it".to_owned())
        }
        None => Some("it has no mirror in the API server (no namespace, refused there, not reachable, or younger than a minute)".to_owned()),
    }
}

fn not_all(question: &Question<'_>, say: impl Fn(Standing, String) -> PodRow, own: &RuntimePod) -> PodRow {
    let young = own.since().is_some_and(|since| question.now.duration_since(since) <= GRACE);
    let (verdict, age) =
        if young { (Standing::Starting, "young") } else { (Standing::Missing, "older than a minute") };
    let why = match (own.ready, own.containers.len()) {
        (0, _) => "containers run without a ready sandbox".to_owned(),
        (_, 0) => format!("it has a sandbox, {age}, and no container yet"),
        (_, all) => format!("it has a sandbox, and none of its {all} containers runs"),
    };
    say(verdict, why)
}

/// Another pod runs under this name.
fn beside(question: &Question<'_>, source: Source, pod: &Wanted, other: &RuntimePod) -> PodRow {
    let say = |verdict, why: String| row(&pod.identity, &pod.uid, Some(source), verdict, why);
    let rival = question.sources.iter().find(|(_, state)| {
        state.pods.iter().flatten().any(|wanted| wanted.uid == other.uid && wanted.identity == pod.identity)
    });
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
fn finished(pod: &Wanted) -> bool {
    let phase = pod.status.get("phase").and_then(Value::as_str);
    let policy = pod.content.spec.get("restartPolicy").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed")) || matches!(policy, Some("Never" | "OnFailure"))
}

/// Mirrors whose static pod no source wants any more.
fn lonely_mirrors(question: &Question<'_>) -> Vec<PodRow> {
    let Some(api) = question.sources.get(&Source::Api).and_then(|state| state.pods.as_ref()) else {
        return Vec::new();
    };
    let static_sources = || question.sources.iter().filter(|(source, _)| **source != Source::Api);
    // Without the static sources nobody knows whether one of them has it.
    if static_sources().any(|(_, state)| state.pods.is_none()) || static_sources().next().is_none() {
        return Vec::new();
    }
    let wanted = |mirror: &Wanted| {
        static_sources()
            .any(|(_, state)| state.pods.iter().flatten().any(|pod| pod.identity == mirror.identity))
    };
    let lonely = api.iter().filter(|pod| pod.mirror_of.is_some() && !wanted(pod));
    lonely
        .map(|pod| {
            let why = "the API server still shows the mirror of a static pod that no source has; the kubelet deletes it once it has heard every source";
            row(&pod.identity, &pod.uid, Some(Source::Api), Standing::Stale, why.to_owned())
        })
        .collect()
}

/// Pods that live and that no source wants.
fn unwanted(question: &Question<'_>) -> Vec<PodRow> {
    let sources = question.sources;
    let is_wanted = |uid: &str| {
        let mut all = sources.values().flat_map(|state| state.pods.iter().flatten());
        all.any(|pod| pod.uid == uid && pod.mirror_of.is_none())
    };
    let untold = |identity: &PodIdentity| {
        let mut all = sources.values().flat_map(|state| state.pods.iter().flatten());
        all.any(|pod| pod.told_uid().is_none() && pod.identity == *identity)
    };
    let same_name = |identity: &PodIdentity| {
        let mut all = sources.values().flat_map(|state| state.pods.iter().flatten());
        all.any(|pod| pod.identity == *identity && pod.mirror_of.is_none())
    };
    let deaf: Vec<&str> =
        sources.iter().filter(|(_, state)| state.pods.is_none()).map(|(source, _)| source.as_str()).collect();
    let runtime = question.runtime.into_iter().flat_map(BTreeMap::values);
    runtime
        .filter(|pod| pod.lives() && !is_wanted(&pod.uid) && !untold(&pod.identity))
        // Whose source was not read may well be wanted there; that is no finding.
        .filter(|pod| {
            pod.source.is_some_and(|source| sources.get(&source).is_some_and(|state| state.pods.is_some()))
        })
        .map(|pod| {
            let (verdict, why) = if same_name(&pod.identity) {
                (
                    Standing::Terminating,
                    "the old version of a pod that is wanted; it ends before the new one starts".to_owned(),
                )
            } else if deaf.is_empty() {
                (
                    Standing::Orphan,
                    "it runs and no source wants it: it ends within seconds, or its worker hangs".to_owned(),
                )
            } else {
                (
                    Standing::Orphan,
                    format!(
                        "it runs and no source wants it; until source {} is heard the kubelet may not end it",
                        deaf.join(" and ")
                    ),
                )
            };
            let row = row(&pod.identity, &pod.uid, pod.source, verdict, why);
            PodRow { runtime: Some(pod.shown()), ..row }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cri::{ContainerMetadata, Labels, SandboxMetadata};
    use crate::manifests::podconfig::Content;

    const NOW: Wall = Wall::from_nanos(1_000_000_000_000_000_000);
    const HOUR: i64 = 3_600_000_000_000;

    fn pod(name: &str, uid: &str) -> Arc<Wanted> {
        Arc::new(Wanted {
            identity: PodIdentity { namespace: "kube-system".into(), name: name.into() },
            uid: uid.into(),
            content: Content::default(),
            status: Value::Null,
            mirror_of: None,
            changed: None,
            object: None,
        })
    }

    fn with(pod: &Arc<Wanted>, change: impl FnOnce(&mut Wanted)) -> Arc<Wanted> {
        let mut pod = Wanted::clone(pod);
        change(&mut pod);
        Arc::new(pod)
    }

    fn sandbox(name: &str, uid: &str, source: &str, state: SandboxState, age: i64) -> Sandbox {
        Sandbox {
            id: format!("s-{uid}"),
            metadata: Some(SandboxMetadata {
                name: name.into(),
                uid: uid.into(),
                namespace: "kube-system".into(),
                attempt: 0,
            }),
            state,
            created_at: NOW.nanos() - age,
            labels: Labels::default(),
            annotations: [(SOURCE, source)].into_iter().collect(),
        }
    }

    fn container(uid: &str, state: ContainerState) -> Container {
        Container {
            id: format!("c-{uid}"),
            sandbox_id: format!("s-{uid}"),
            metadata: Some(ContainerMetadata { name: "main".into(), attempt: 0 }),
            image: None,
            image_ref: String::new(),
            state,
            created_at: NOW.nanos(),
            labels: [(label::POD_UID, uid)].into_iter().collect(),
            annotations: Labels::default(),
        }
    }

    /// One living pod.
    fn living(name: &str, uid: &str, source: &str) -> (Sandbox, Container) {
        (sandbox(name, uid, source, SandboxState::Ready, HOUR), container(uid, ContainerState::Running))
    }

    fn file(pods: Vec<Arc<Wanted>>) -> BTreeMap<Source, SourceState> {
        [(Source::File, SourceState { pods: Some(pods), refused: Vec::new() })].into()
    }

    fn judged(
        sources: &BTreeMap<Source, SourceState>,
        runtime: impl IntoIterator<Item = (Sandbox, Container)>,
    ) -> Vec<(String, Standing, String)> {
        let (sandboxes, containers): (Vec<_>, Vec<_>) = runtime.into_iter().unzip();
        let runtime = RuntimePod::group(&sandboxes, &containers);
        let rows = standings(&Question { sources, runtime: Some(&runtime), now: NOW });
        rows.into_iter().map(|row| (row.uid, row.verdict, row.why)).collect()
    }

    fn verdicts(rows: &[(String, Standing, String)]) -> Vec<(&str, Standing)> {
        rows.iter().map(|(uid, verdict, _)| (uid.as_str(), *verdict)).collect()
    }

    #[test]
    fn the_very_version_that_is_wanted_runs() {
        let rows = judged(&file(vec![pod("etcd-n1", "1")]), [living("etcd-n1", "1", "file")]);
        assert_eq!(verdicts(&rows), [("1", Standing::Running)]);
    }

    #[test]
    fn another_version_runs_under_the_name() {
        let rows = judged(&file(vec![pod("etcd-n1", "2")]), [living("etcd-n1", "1", "file")]);
        assert_eq!(verdicts(&rows), [("2", Standing::Stale), ("1", Standing::Terminating)]);
    }

    #[test]
    fn a_young_file_is_starting_and_an_old_one_is_missing() {
        let young =
            with(&pod("a", "1"), |pod| pod.changed = Some(Wall::from_nanos(NOW.nanos() - 1_000_000_000)));
        assert_eq!(verdicts(&judged(&file(vec![young]), [])), [("1", Standing::Starting)]);
        assert_eq!(verdicts(&judged(&file(vec![pod("a", "1")]), [])), [("1", Standing::Missing)]);
    }

    #[test]
    fn what_no_source_wants_is_an_orphan_and_why_it_lives_on_is_said() {
        let mut sources = file(vec![]);
        let rows = judged(&sources, [living("etcd-n1", "1", "file")]);
        assert_eq!(verdicts(&rows), [("1", Standing::Orphan)]);
        sources.insert(Source::Api, SourceState::default());
        let rows = judged(&sources, [living("etcd-n1", "1", "file"), living("web", "2", "api")]);
        assert_eq!(
            verdicts(&rows),
            [("1", Standing::Orphan)],
            "pods of a source that was not read are left alone"
        );
        assert!(rows[0].2.contains("until source api is heard"), "{}", rows[0].2);
    }

    #[test]
    fn two_sources_with_one_name_are_a_duplicate() {
        let mut sources = file(vec![pod("etcd-n1", "1")]);
        sources
            .insert(Source::Http, SourceState { pods: Some(vec![pod("etcd-n1", "2")]), refused: Vec::new() });
        let rows = judged(&sources, [living("etcd-n1", "1", "file")]);
        assert_eq!(verdicts(&rows), [("1", Standing::Running), ("2", Standing::Duplicate)]);
    }

    #[test]
    fn the_kubelets_own_word_of_a_refusal_is_handed_on() {
        let refused = with(&pod("web", "1"), |pod| {
            pod.status =
                json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no cpu"});
        });
        let sources = [(Source::Api, SourceState { pods: Some(vec![refused]), refused: Vec::new() })].into();
        let rows = judged(&sources, []);
        assert_eq!(verdicts(&rows), [("1", Standing::Refused)]);
        assert_eq!(rows[0].2, "UnexpectedAdmissionError: no cpu");
    }

    #[test]
    fn an_ordered_end_is_terminating_and_good() {
        let ending = with(&pod("web", "1"), |pod| pod.content.deleted = json!("2026-11-21T00:00:00Z"));
        let sources = [(Source::Api, SourceState { pods: Some(vec![ending]), refused: Vec::new() })].into();
        let rows = judged(&sources, [living("web", "1", "api")]);
        assert_eq!(verdicts(&rows), [("1", Standing::Terminating)]);
        assert!(rows[0].1.is_good());
    }

    #[test]
    fn a_sandbox_without_a_running_container_is_starting_only_while_it_is_young() {
        let waiting = |age| {
            let sandbox = sandbox("a", "1", "file", SandboxState::Ready, age);
            judged(&file(vec![pod("a", "1")]), [(sandbox, container("1", ContainerState::Created))])
        };
        assert_eq!(verdicts(&waiting(HOUR / 3600)), [("1", Standing::Starting)]);
        assert_eq!(verdicts(&waiting(HOUR)), [("1", Standing::Missing)]);
    }

    #[test]
    fn what_has_finished_and_may_is_as_it_should_be() {
        let once = with(&pod("job", "1"), |pod| pod.content.spec = json!({"restartPolicy": "Never"}));
        let ended = (
            sandbox("job", "1", "file", SandboxState::NotReady, HOUR),
            container("1", ContainerState::Exited),
        );
        assert_eq!(verdicts(&judged(&file(vec![once]), [ended.clone()])), [("1", Standing::Running)]);
        assert_eq!(verdicts(&judged(&file(vec![pod("job", "1")]), [ended])), [("1", Standing::Missing)]);
    }

    #[test]
    fn mirrors_are_joined_by_hash_and_name() {
        let mirror =
            |name: &str, hash: &str| with(&pod(name, "api-uid"), |pod| pod.mirror_of = Some(hash.into()));
        let why = |mirrors: Vec<Arc<Wanted>>| {
            let mut sources = file(vec![pod("etcd-n1", "1")]);
            sources.insert(Source::Api, SourceState { pods: Some(mirrors), refused: Vec::new() });
            judged(&sources, [living("etcd-n1", "1", "file")])
        };
        assert!(!why(vec![mirror("etcd-n1", "1")])[0].2.contains("mirror"));
        assert!(why(vec![mirror("etcd-n1", "0")])[0].2.contains("of another version"));
        assert!(why(vec![pod("etcd-n1", "x")])[0].2.contains("another pod of this name"));
        assert!(why(vec![])[0].2.contains("no mirror"));
        let rows = why(vec![mirror("etcd-n1", "1"), mirror("gone-n1", "9")]);
        assert_eq!(verdicts(&rows), [("1", Standing::Running), ("api-uid", Standing::Stale)]);
    }

    #[test]
    fn a_refused_file_is_a_row_of_its_own() {
        let refused = vec![Refused { path: "/m/a.yaml".into(), reason: "invalid pod".into() }];
        let sources = [(Source::File, SourceState { pods: Some(vec![]), refused })].into();
        let rows = standings(&Question { sources: &sources, runtime: None, now: NOW });
        assert_eq!((rows[0].verdict, rows[0].name.as_str()), (Standing::Refused, "/m/a.yaml"));
    }
}
