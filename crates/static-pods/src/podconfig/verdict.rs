//! Decides the verdict of `plegctl pods` on each pod that a source wants or the runtime has.
//!
//! The verdict is a pure function of the sources, the runtime's two lists, the kubelet's own pods and the time. Each
//! verdict has a reason. For a source that could not be read, the pods that the kubelet has from this source count as
//! wanted. A view that is not known makes a verdict *unknown*; it never hides what the other views show.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::mirror::{self, MirrorPod};
use super::runtime_pods::{RuntimePod, RuntimeState};
use super::views::{PodViews, ReadTimes, add_views};
use super::{CompactJson, GRACE, KubeletPods, PodSource, RefusedFile, WantedPod};
use crate::ContainerState;
use crate::PodIdentity;
use plegctl_base::clock::Wall;
use plegctl_base::report::duration::elapsed;
use plegctl_base::report::{Places, TextTable, plural, word_enum};
use plegctl_node::kubelet::pod_status::{
    WaitingContainer, container_statuses, has_ended, moment, transition,
};

/// The longest time for which a pod may wait for its sandbox: volumes may have to be attached.
const LONGEST_START: Duration = Duration::from_secs(300);

word_enum! {
    /// The verdict on a pod.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum PodVerdict: as_str {
        /// The wanted version runs.
        Running = "running",
        /// The pod is being started.
        Starting = "starting",
        /// Another version of the pod runs.
        Stale = "stale",
        /// Nothing of the pod runs.
        Missing = "missing",
        /// The pod runs and no source wants it.
        Orphan = "orphan",
        /// The pod is ending, because it was deleted or because its source dropped it.
        Terminating = "terminating",
        /// The pod is being deleted, and its grace period has been over for more than a minute; or it is Pending, and a container
        /// of it has failed to start for more than a minute, or it has had no sandbox for more than five.
        Stuck = "stuck",
        /// Another source has a pod with the same name, and only one of them can run.
        Duplicate = "duplicate",
        /// The kubelet refuses the pod.
        Refused = "refused",
        /// The API server has bound the pod to the node, and the kubelet does not know it.
        Deaf = "deaf",
        /// The kubelet's status of the pod is older than a change in the runtime.
        Late = "late",
        /// The kubelet knows the pod, and the API server does not.
        Unreported = "unreported",
        /// A view that decides the verdict could not be read.
        Unknown = "unknown",
    }
}

impl PodVerdict {
    /// Returns the verdict with its reason: a row of `reasons.txt`.
    pub fn because(self, row: &str, places: &Places<'_>) -> (Self, String) {
        static REASONS: LazyLock<TextTable> = LazyLock::new(|| TextTable::read(include_str!("reasons.txt")));
        (self, REASONS.filled(row, places).message)
    }

    /// Whether the verdict is good; `None` if it is not known.
    pub const fn is_good(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Running | Self::Terminating => Some(true),
            _ => Some(false),
        }
    }
}

/// One pod and its verdict.
#[plegctl_base::report::omit_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PodRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name, including the node name.
    pub name: String,
    /// The wanted UID, or the running UID if no source wants the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The source that wants the pod. For a pod that no source wants: the source in the pod's annotation.
    pub source: Option<PodSource>,
    /// The verdict.
    pub verdict: PodVerdict,
    /// The reason in one sentence.
    pub why: String,
    /// The pod in the runtime.
    pub running: Option<RuntimeState>,
    /// The mirror pod, if this is a static pod and the API server's pods are known.
    pub mirror: Option<MirrorPod>,
    /// What the sources, the kubelet, the runtime and the API server each say about the pod.
    pub views: PodViews,
    /// Its labels, for `--selector`.
    #[serde(skip)]
    pub labels: RowLabels,
}

/// The labels of a pod in the table, from the source or from the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowLabels {
    /// No labels.
    #[default]
    None,
    /// The labels of a wanted pod.
    WantedPod(CompactJson),
    /// The labels of a pod that only the runtime has.
    RuntimePod(BTreeMap<String, String>),
}

impl RowLabels {
    /// Returns the labels as a map.
    pub fn read(&self) -> BTreeMap<String, String> {
        match self {
            Self::None => BTreeMap::new(),
            Self::WantedPod(labels) => labels.parsed().unwrap_or_default(),
            Self::RuntimePod(labels) => labels.clone(),
        }
    }
}

/// The pods of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// Its pods; `None` if the source could not be read.
    pub pods: Option<Vec<Arc<WantedPod>>>,
    /// The files that the kubelet refuses.
    pub refused: Vec<RefusedFile>,
}

/// The input of the verdicts.
#[derive(Debug)]
pub struct VerdictInput<'a> {
    /// The sources that this kubelet has.
    pub sources: &'a BTreeMap<PodSource, SourceState>,
    /// The runtime's pods by UID; `None` if the runtime was not called.
    pub runtime: Option<&'a BTreeMap<String, RuntimePod>>,
    /// The kubelet's own pods with their status; `None` if the kubelet was not called.
    pub kubelet: Option<&'a KubeletPods>,
    /// When each of these was read.
    pub times: &'a ReadTimes,
    /// The current time.
    pub now: Wall,
}

/// Returns a row for each pod that a source wants or the runtime runs, by namespace and name.
pub fn pod_rows(input: &VerdictInput<'_>) -> Vec<PodRow> {
    let of_kubelet = pods_of_unread_sources(input);
    let index = PodIndex::build(input, &of_kubelet);
    let mut rows = Vec::new();
    for (source, pod) in &of_kubelet {
        let mut row = index.wanted_pod(*source, pod);
        row.why = format!("{}; source {source} could not be read, and the kubelet has this pod", row.why);
        rows.push(row);
    }
    for (source, state) in input.sources {
        let pods = state.pods.iter().flatten().filter(|pod| pod.mirror_of.is_none());
        rows.extend(pods.map(|pod| index.wanted_pod(*source, pod)));
        rows.extend(state.refused.iter().map(|refused| refused_file(*source, refused)));
    }
    rows.extend(index.mirrors_without_pod());
    rows.extend(index.unwanted_pods());
    rows.sort_by(|left, right| sort_key(left).cmp(&sort_key(right)));
    add_views(&mut rows, input);
    rows
}

/// Returns the pods that the kubelet has from sources that could not be read.
fn pods_of_unread_sources(input: &VerdictInput<'_>) -> Vec<(PodSource, WantedPod)> {
    let known = input.kubelet.into_iter().flat_map(|kubelet| kubelet.pods.values());
    let unread = known.filter_map(|pod| {
        let source = pod.source.filter(|source| input.sources.get(source).is_some_and(is_unread))?;
        Some((source, pod.wanted().filter(|pod| pod.mirror_of.is_none())?))
    });
    unread.collect()
}

const fn is_unread(state: &SourceState) -> bool {
    state.pods.is_none()
}

fn sort_key(row: &PodRow) -> (&str, &str, PodVerdict, &str) {
    (&row.namespace, &row.name, row.verdict, &row.uid)
}

/// The input with its pods indexed by name.
struct PodIndex<'a> {
    input: &'a VerdictInput<'a>,
    running: HashMap<&'a PodIdentity, Vec<&'a RuntimePod>>,
    /// The wanted pods by name, including mirror pods.
    wanted: HashMap<&'a PodIdentity, Vec<(PodSource, &'a WantedPod)>>,
    /// The UIDs of the wanted pods that are not mirror pods.
    uids: HashMap<&'a str, PodSource>,
    /// The sources that could not be read.
    unread: Vec<PodSource>,
}

impl PodRow {
    /// Creates a row without the pod's state in the runtime, its mirror pod, its views and its labels.
    pub fn new(
        identity: &PodIdentity,
        uid: &str,
        source: Option<PodSource>,
        (verdict, why): (PodVerdict, String),
    ) -> Self {
        let PodIdentity { namespace, name } = identity.clone();
        Self {
            namespace,
            name,
            uid: uid.to_owned(),
            source,
            verdict,
            why,
            running: None,
            mirror: None,
            views: PodViews::default(),
            labels: RowLabels::None,
        }
    }
}

impl<'a> PodIndex<'a> {
    fn build(input: &'a VerdictInput<'a>, of_kubelet: &'a [(PodSource, WantedPod)]) -> Self {
        let mut index = Self {
            input,
            running: HashMap::new(),
            wanted: HashMap::new(),
            uids: HashMap::new(),
            unread: Vec::new(),
        };
        for pod in input.runtime.into_iter().flat_map(BTreeMap::values) {
            index.running.entry(&pod.identity).or_default().push(pod);
        }
        for (source, state) in input.sources {
            if is_unread(state) {
                index.unread.push(*source);
            }
            for pod in state.pods.iter().flatten() {
                index.wanted.entry(&pod.identity).or_default().push((*source, pod));
                if pod.mirror_of.is_none() {
                    index.uids.insert(&pod.uid, *source);
                }
            }
        }
        for (source, pod) in of_kubelet {
            index.wanted.entry(&pod.identity).or_default().push((*source, pod));
            index.uids.insert(&pod.uid, *source);
        }
        index
    }

    /// Returns the pods that any source wants under this name, including mirror pods.
    fn wanted_as(&self, identity: &PodIdentity) -> &[(PodSource, &'a WantedPod)] {
        self.wanted.get(identity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a time is less than [`GRACE`] ago.
    fn is_young(&self, time: Option<Wall>) -> bool {
        time.is_some_and(|time| self.input.now.duration_since(time) <= GRACE)
    }

    /// Returns the state of a static pod's mirror pod and a text about a problem with it, if the API server's pods are
    /// known. `own` is the static pod in the runtime.
    fn mirror(
        &self,
        source: PodSource,
        pod: &WantedPod,
        own: &RuntimePod,
    ) -> Option<(MirrorPod, Option<String>)> {
        if source == PodSource::Api {
            return None;
        }
        let api_pods = self.input.sources.get(&PodSource::Api)?.pods.as_ref()?;
        let is_young = self.is_young(pod.changed) || self.is_young(own.since());
        let with_name = self.wanted_as(&pod.identity).iter().filter(|(source, _)| *source == PodSource::Api);
        let with_name: Vec<&WantedPod> = with_name.map(|(_, pod)| *pod).collect();
        let runs_at_kubelet = self.input.kubelet.is_some_and(|kubelet| {
            kubelet.status(&pod.uid).get("phase").is_some_and(|phase| phase == "Running")
        });
        let (mut mirror, problem) = mirror::mirror_state(pod, &with_name, api_pods, Some(own), is_young);
        if runs_at_kubelet && mirror.state == "absent" && pod.mirror_refusal.is_none() {
            mirror.state = "lost";
            return Some((mirror, Some(mirror::LOST.to_owned())));
        }
        Some((mirror, problem))
    }

    /// Returns the kubelet's own status of a pod, or else the status from the source, and who says so.
    fn status(&self, pod: &WantedPod) -> (Value, &'static str) {
        let kubelets = self.input.kubelet.map(|kubelet| kubelet.status(&pod.uid));
        let kubelets = kubelets.filter(|status| !status.is_null()).map(|status| (status, "the kubelet"));
        kubelets.unwrap_or_else(|| (pod.status.read(), "the API server"))
    }

    /// Returns the pods that the runtime has under this pod's name.
    fn with_name(&self, pod: &WantedPod) -> &[&'a RuntimePod] {
        self.running.get(&pod.identity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the pod in the runtime.
    fn own(&self, source: PodSource, pod: &WantedPod) -> Option<&'a RuntimePod> {
        match pod.known_uid() {
            Some(uid) => self.input.runtime?.get(uid),
            // Without a UID, the pod is found by its name and source; its running version is not known.
            None => self.with_name(pod).iter().copied().find(|other| other.source == Some(source)),
        }
    }

    /// Returns the row of a pod that a source wants.
    fn wanted_pod(&self, source: PodSource, pod: &WantedPod) -> PodRow {
        let own = self.own(source, pod);
        let (status, who) = self.status(pod);
        let mut row = self.compared_pod((source, pod), own, (&status, who));
        let is_explained = has_ended(&status)
            || pod.is_terminating()
            || !matches!(
                row.verdict,
                PodVerdict::Running
                    | PodVerdict::Starting
                    | PodVerdict::Stuck
                    | PodVerdict::Missing
                    | PodVerdict::Unknown
            );
        let runs = |name: &str| {
            own.and_then(|own| own.container(name)).is_some_and(|(_, state)| state == ContainerState::Running)
        };
        let waiting = WaitingContainer::all(&status).find(|waiting| !is_explained && !runs(&waiting.name));
        if let Some(waiting) = waiting {
            row.why = format!("{waiting}; {}", row.why);
        }
        let labels = RowLabels::WantedPod(pod.content.labels.clone());
        PodRow { labels, running: row.running.or_else(|| own.map(RuntimePod::state)), ..row }
    }

    /// Compares a wanted pod with the pod in the runtime and with its status, which `who` reports.
    fn compared_pod(
        &self,
        (source, pod): (PodSource, &WantedPod),
        own: Option<&RuntimePod>,
        (status, who): (&Value, &str),
    ) -> PodRow {
        let uid = pod.known_uid().unwrap_or_default();
        let row = |verdict| PodRow::new(&pod.identity, uid, Some(source), verdict);
        if pod.is_terminating() {
            return row(self.terminating(pod, own));
        }
        if let Some(reason) = refusal(source, status, own) {
            return row((PodVerdict::Refused, reason));
        }
        if let Some(own) = own.filter(|own| own.runs()) {
            let (mirror, problem) = self.mirror(source, pod, own).unzip();
            let (verdict, mut why) = running(source, pod, own);
            if let Some(problem) = problem.flatten() {
                why.push_str("; ");
                why.push_str(&problem);
            }
            return PodRow { mirror, ..row((verdict, why)) };
        }
        if let Some(why) = how_it_ended(pod, own, status) {
            return row((PodVerdict::Running, why));
        }
        if self.input.runtime.is_none() {
            let phase = status.get("phase").and_then(Value::as_str);
            let phase = phase.map(|phase| format!("; {who} says {phase}")).unwrap_or_default();
            return row(PodVerdict::Unknown.because("not-compared", &[("phase", &phase)]));
        }
        if let Some(own) = own.filter(|own| own.is_alive()) {
            return row(self.no_container_runs(own, status));
        }
        let mut with_name = self.with_name(pod).iter();
        if let Some(other) = with_name.find(|other| other.uid != pod.uid && other.is_alive()) {
            return PodRow { running: Some(other.state()), ..row(self.name_in_use(pod, other)) };
        }
        row(self.nothing_runs(pod, own, status))
    }

    /// Returns the verdict and the reason of a pod that is being deleted.
    fn terminating(&self, pod: &WantedPod, own: Option<&RuntimePod>) -> (PodVerdict, String) {
        let alive = own.filter(|own| own.is_alive());
        let over = pod.deletion_at().map(|at| self.input.now.duration_since(at));
        let is_compared = self.input.runtime.is_some();
        let Some(over) = over.filter(|over| *over > GRACE) else {
            let row = match alive {
                Some(_) => "stopping",
                None if is_compared => "stopped",
                None => "stopping-or-stopped",
            };
            return PodVerdict::Terminating.because(row, &[]);
        };
        let over = elapsed(over);
        match (alive, pod.finalizer_names().first()) {
            _ if !is_compared => PodVerdict::Stuck.because("overdue-and-not-compared", &[("over", &over)]),
            (Some(alive), _) if alive.running() == 0 => {
                PodVerdict::Stuck.because("overdue-sandbox", &[("over", &over)])
            }
            (Some(alive), _) => {
                let (running, all) = (alive.running(), alive.containers());
                PodVerdict::Stuck
                    .because("overdue-containers", &[("running", &running), ("all", &all), ("over", &over)])
            }
            (None, Some(finalizer)) => {
                PodVerdict::Stuck.because("overdue-finalizer", &[("finalizer", finalizer), ("over", &over)])
            }
            (None, None) => PodVerdict::Stuck.because("overdue-pod", &[("over", &over)]),
        }
    }

    /// Returns the verdict and the reason if nothing of the pod runs.
    fn nothing_runs(
        &self,
        pod: &WantedPod,
        own: Option<&RuntimePod>,
        status: &Value,
    ) -> (PodVerdict, String) {
        if self.is_young(pod.changed) {
            return PodVerdict::Starting.because("young-file", &[]);
        }
        let kubelet_has_pod =
            pod.known_uid().and_then(|uid| self.input.kubelet.map(|kubelet| kubelet.pods.contains_key(uid)));
        if is_pending(status) && own.is_none() {
            let accepted = moment(status.get("startTime")).or_else(|| transition(status, "PodScheduled"));
            let waited = accepted.map(|accepted| self.input.now.duration_since(accepted));
            let is_late = waited.is_some_and(|waited| waited > LONGEST_START);
            let waited = waited.map(|waited| format!(" for {}", elapsed(waited))).unwrap_or_default();
            let verdict = if is_late { PodVerdict::Stuck } else { PodVerdict::Starting };
            let row = if is_late { "pending-for-long" } else { "pending" };
            return verdict.because(row, &[("waited", &waited)]);
        }
        let row = match (own, kubelet_has_pod) {
            (Some(_), _) => "sandboxes-ended",
            (None, Some(false)) => "not-at-kubelet",
            (None, Some(true)) => "at-kubelet-only",
            (None, None) => "no-sandbox",
        };
        PodVerdict::Missing.because(row, &[])
    }

    /// Returns the verdict on a pod with a sandbox or a container, but without a running container in a ready sandbox.
    fn no_container_runs(&self, own: &RuntimePod, status: &Value) -> (PodVerdict, String) {
        let is_young = self.is_young(own.since());
        let verdict = match (is_pending(status), WaitingContainer::all(status).next()) {
            (true, Some(_)) if !is_young => PodVerdict::Stuck,
            (is_pending, _) if is_young || is_pending => PodVerdict::Starting,
            _ => PodVerdict::Missing,
        };
        let why = match (own.ready(), own.containers()) {
            (0, _) => "containers run without a ready sandbox".to_owned(),
            (_, 0) => {
                let age = own.since().map(|since| elapsed(self.input.now.duration_since(since)));
                let since = age.map(|age| format!(" for {age}")).unwrap_or_default();
                format!("it has had a sandbox{since}, but no container yet")
            }
            (_, 1) => "it has a sandbox, but its container does not run".to_owned(),
            (_, all) => format!("it has a sandbox, but none of its {all} containers runs"),
        };
        (verdict, why)
    }

    /// Returns the verdict on a pod if another pod (`other`) runs under its name.
    fn name_in_use(&self, pod: &WantedPod, other: &RuntimePod) -> (PodVerdict, String) {
        let other_source = self
            .wanted_as(&pod.identity)
            .iter()
            .find(|(_, wanted)| wanted.uid == other.uid && wanted.mirror_of.is_none());
        match other_source {
            Some((source, _)) => PodVerdict::Duplicate.because("same-name", &[("source", source)]),
            None => PodVerdict::Stale.because("other-version", &[("uid", &other.uid)]),
        }
    }

    /// Returns rows for mirror pods whose static pod no source wants any more.
    fn mirrors_without_pod(&self) -> Vec<PodRow> {
        let sources = self.input.sources;
        let Some(api) = sources.get(&PodSource::Api).and_then(|state| state.pods.as_ref()) else {
            return Vec::new();
        };
        // A static source that could not be read may want the pod.
        let mut static_sources = sources.iter().filter(|(source, _)| **source != PodSource::Api).peekable();
        if static_sources.peek().is_none() || static_sources.any(|(_, state)| state.pods.is_none()) {
            return Vec::new();
        }
        let is_wanted = |mirror: &WantedPod| {
            self.wanted_as(&mirror.identity).iter().any(|(source, _)| *source != PodSource::Api)
        };
        let without_pod = api.iter().filter(|pod| pod.mirror_of.is_some() && !is_wanted(pod));
        without_pod
            .map(|pod| {
                let static_pod = pod.mirror_of.as_ref().and_then(|hash| self.input.runtime?.get(hash));
                let (verdict, reason) = match static_pod.filter(|pod| pod.is_alive()) {
                    _ if pod.is_terminating() => (PodVerdict::Terminating, "mirror-deleted"),
                    _ if self.input.runtime.is_none() => (PodVerdict::Stale, "mirror-not-compared"),
                    Some(_) => (PodVerdict::Stale, "mirror-of-running-pod"),
                    None => (PodVerdict::Stale, "mirror-left-over"),
                };
                let verdict = verdict.because(reason, &[]);
                let row = PodRow::new(&pod.identity, &pod.uid, Some(PodSource::Api), verdict);
                PodRow { labels: RowLabels::WantedPod(pod.content.labels.clone()), ..row }
            })
            .collect()
    }

    /// Returns rows for running pods that no source wants.
    fn unwanted_pods(&self) -> Vec<PodRow> {
        let runtime = self.input.runtime.into_iter().flat_map(BTreeMap::values);
        runtime
            .filter(|pod| pod.is_alive() && !self.uids.contains_key(pod.uid.as_str()))
            .filter_map(|pod| self.unwanted_pod(pod))
            .collect()
    }

    /// Returns the row of a running pod whose UID no source wants. Returns `None` for a pod of a source that this kubelet does
    /// not have, and if the pod may be wanted after all, because the UID of a wanted pod with its name is not known.
    fn unwanted_pod(&self, pod: &RuntimePod) -> Option<PodRow> {
        let (source, state) = self.input.sources.get_key_value(&pod.source?)?;
        let wanted = self.wanted_as(&pod.identity);
        if wanted.iter().any(|(_, wanted)| wanted.known_uid().is_none()) {
            return None;
        }
        let verdict = if wanted.iter().any(|(_, wanted)| wanted.mirror_of.is_none()) {
            PodVerdict::Terminating.because("old-version", &[])
        } else if is_unread(state) {
            let kubelet = match self.input.kubelet {
                Some(_) => ", and the kubelet does not have it",
                None => ", and the kubelet's own pods are not known either",
            };
            PodVerdict::Unknown.because("source-unread", &[("source", source), ("kubelet", &kubelet)])
        } else if self.unread.is_empty() {
            PodVerdict::Orphan.because("unwanted-pod", &[])
        } else {
            let unread: Vec<&str> = self.unread.iter().map(|source| source.as_str()).collect();
            PodVerdict::Orphan.because("unwanted-while-unread", &[("unread", &unread.join(" and "))])
        };
        let row = PodRow::new(&pod.identity, &pod.uid, pod.source, verdict);
        Some(PodRow { running: Some(pod.state()), labels: RowLabels::RuntimePod(pod.labels.clone()), ..row })
    }
}

/// Returns the verdict on a running pod, and why: its version and the number of running containers.
fn running(source: PodSource, pod: &WantedPod, own: &RuntimePod) -> (PodVerdict, String) {
    let (running, all) = (own.running(), own.containers());
    let row = match source {
        PodSource::Api => "pod-of-api",
        _ if pod.known_uid().is_none() => "version-not-known",
        _ if running == all => "whole-version",
        _ => "part-of-version",
    };
    PodVerdict::Running.because(row, &[("running", &running), ("all", &all)])
}

/// Returns the row of a file that the kubelet refuses.
fn refused_file(source: PodSource, refused: &RefusedFile) -> PodRow {
    let identity =
        PodIdentity { namespace: String::new(), name: refused.path.to_string_lossy().into_owned() };
    PodRow::new(&identity, "", Some(source), (PodVerdict::Refused, refused.reason.clone()))
}

/// Returns why the kubelet did not admit a pod, from the pod's status. A pod that the kubelet has admitted and ended later,
/// such as an evicted pod, has the same phase and a reason too; if it is a static pod, it counts as refused, because the
/// kubelet should run it and does not.
fn refusal(source: PodSource, status: &Value, own: Option<&RuntimePod>) -> Option<String> {
    let text = |key: &str| status.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let reason = text("reason").filter(|_| text("phase") == Some("Failed"))?;
    if source == PodSource::Api && (own.is_some() || was_admitted(status)) {
        return None;
    }
    Some(reason_and_message(reason, status))
}

fn reason_and_message(reason: &str, status: &Value) -> String {
    match status.get("message").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}

/// Whether a pod that has failed had been admitted: a container of it existed, or the kubelet evicted it.
fn was_admitted(status: &Value) -> bool {
    let had_container = |container: &Value| {
        container.get("containerID").is_some() || container.pointer("/state/terminated").is_some()
    };
    // The message of an eviction at admission (`nodeConditionMessageFmt` in pkg/kubelet/eviction/eviction_manager.go).
    let at_admission = |message: &str| message.contains("The node had condition");
    let is_evicted = status.get("reason").is_some_and(|reason| reason == "Evicted")
        && !status.get("message").and_then(Value::as_str).is_some_and(at_admission);
    is_evicted || container_statuses(status).any(had_container)
}

fn is_pending(status: &Value) -> bool {
    status.get("phase").is_some_and(|phase| phase == "Pending")
}

/// Returns how a pod has ended, if the kubelet does not restart its containers.
fn how_it_ended(pod: &WantedPod, own: Option<&RuntimePod>, status: &Value) -> Option<String> {
    let is_once = || {
        let spec = pod.content.spec.read();
        let policy = spec.get("restartPolicy").and_then(Value::as_str);
        own.is_some_and(|own| !own.is_alive()) && matches!(policy, Some("Never" | "OnFailure"))
    };
    if !has_ended(status) && !is_once() {
        return None;
    }
    let reason = status.get("reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
    let phase = status.get("phase").and_then(Value::as_str).filter(|_| has_ended(status));
    let how = match (reason, phase) {
        (Some(reason), Some(_)) => format!("has ended: {}", reason_and_message(reason, status)),
        (None, Some(phase)) => format!("has finished ({phase})"),
        (_, None) => "has finished".to_owned(),
    };
    let ended = match own.map_or(0, RuntimePod::containers) {
        0 => String::new(),
        count => format!(" ({} ended)", plural(count, "container")),
    };
    Some(format!("{how}; the kubelet does not start it again{ended}"))
}
