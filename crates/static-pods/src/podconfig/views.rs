//! [`PodViews`]: what four places say about a pod: the sources that want it, the kubelet, the runtime and the API server.
//!
//! Each view has the time at which it was read and, if its source names a time, the age of the state. These are different
//! times: a kubelet may answer now with a status that is an hour old.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::kubelet_pods::newest_change;
use super::verdict::{PodRow, VerdictInput};
use super::{PodSource, WantedPod};
use crate::PodIdentity;
use plegctl_base::clock::Wall;
use plegctl_base::report::Seconds;
use plegctl_node::kubelet::pod_status::moment;

/// The state of a pod in a view that was read and does not have the pod.
pub const ABSENT: &str = "absent";
/// The state of a pod that its source wants to stop.
const DELETED: &str = "deleted";
/// The state of a pod that was deleted and still exists.
pub const TERMINATING: &str = "Terminating";

/// What one place says about a pod.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodView {
    /// In `wanted`: `wanted`, `deleted` or `unwanted`. In `kubelet` and `api`: the pod's phase, `Terminating` or `absent`.
    /// In `runtime`: `running`, `starting`, `exited` or `absent`.
    pub state: String,
    /// When this was read: the time of the answer, or the time of the file that has it. Not the time at which the state
    /// began.
    pub observed_at: Wall,
    /// How old the state was at `observedAt`: the time since the newest change that the source itself names. Absent if the
    /// source names no time.
    pub age_seconds: Option<Seconds>,
}

/// The four views of a pod. A view is absent if its source was not read.
#[plegctl_base::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PodViews {
    /// What the sources of the kubelet want.
    pub wanted: Option<PodView>,
    /// The kubelet's own status, from its Pods API or its `/pods`.
    pub kubelet: Option<PodView>,
    /// The runtime's lists.
    pub runtime: Option<PodView>,
    /// The API server's status; of a static pod, that of its mirror pod.
    pub api: Option<PodView>,
}

impl PodViews {
    /// Whether two views contradict each other. During a change they do so for some seconds.
    pub fn disagree(&self) -> bool {
        let state = |view: &Option<PodView>| view.as_ref().map(|view| view.state.clone());
        let (kubelet, runtime, api) = (state(&self.kubelet), state(&self.runtime), state(&self.api));
        let is = |state: &Option<String>, word: &str| state.as_deref() == Some(word);
        let runs = is(&runtime, "running");
        (is(&kubelet, "Running") && runtime.is_some() && !runs)
            || (runs && (is(&kubelet, ABSENT) || is(&kubelet, "Pending")))
            || (kubelet.is_some() && api.is_some() && kubelet != api)
    }

    /// Whether the source of the pod wants it to stop.
    pub fn wants_end(&self) -> bool {
        self.wanted.as_ref().is_some_and(|view| view.state == DELETED)
    }

    /// Returns the views in the order of the columns of the wide table.
    pub const fn columns(&self) -> [(&'static str, Option<&PodView>); 4] {
        [
            ("wanted", self.wanted.as_ref()),
            ("kubelet", self.kubelet.as_ref()),
            ("runtime", self.runtime.as_ref()),
            ("api", self.api.as_ref()),
        ]
    }
}

/// When each source was read. A source without a time was read at the time of the report.
#[derive(Clone, Debug, Default)]
pub struct ReadTimes {
    /// The sources of the kubelet.
    pub sources: HashMap<PodSource, Wall>,
    /// The runtime.
    pub runtime: Option<Wall>,
}

/// The pods of each view by UID and name.
struct Index<'a> {
    input: &'a VerdictInput<'a>,
    wanted: HashMap<&'a str, (PodSource, &'a WantedPod)>,
    mirrors: HashMap<&'a PodIdentity, &'a WantedPod>,
    /// Whether every source was read.
    complete: bool,
}

/// Fills in the views of each row.
pub fn add_views(rows: &mut [PodRow], input: &VerdictInput<'_>) {
    let mut index = Index { input, wanted: HashMap::new(), mirrors: HashMap::new(), complete: true };
    for (source, state) in input.sources {
        index.complete &= state.pods.is_some();
        for pod in state.pods.iter().flatten() {
            if pod.mirror_of.is_some() {
                index.mirrors.insert(&pod.identity, pod);
            } else {
                index.wanted.insert(&pod.uid, (*source, pod));
            }
        }
    }
    for row in rows.iter_mut().filter(|row| !row.namespace.is_empty()) {
        row.views = index.views(row);
    }
}

impl Index<'_> {
    fn views(&self, row: &PodRow) -> PodViews {
        let identity = PodIdentity { namespace: row.namespace.clone(), name: row.name.clone() };
        let mirror = self.mirrors.get(&identity).copied();
        // A row of a mirror pod is about the static pod whose UID the mirror pod names.
        let static_uid = mirror.filter(|pod| pod.uid == row.uid).and_then(|pod| pod.mirror_of.as_deref());
        let uid = static_uid.unwrap_or(&row.uid);
        let wanted = self.wanted.get(row.uid.as_str()).copied();
        PodViews {
            wanted: self.wanted(row, wanted),
            kubelet: self.kubelet(uid, &identity),
            runtime: self.runtime(uid, &identity),
            api: self.api(row, wanted.map(|(_, pod)| pod), mirror),
        }
    }

    fn read_at(&self, source: PodSource) -> Wall {
        self.input.times.sources.get(&source).copied().unwrap_or(self.input.now)
    }

    fn wanted(&self, row: &PodRow, wanted: Option<(PodSource, &WantedPod)>) -> Option<PodView> {
        let Some((source, pod)) = wanted else {
            let source = row.source.filter(|_| self.complete)?;
            return Some(view("unwanted", self.read_at(source), None));
        };
        let (state, since) = if pod.is_terminating() {
            (DELETED, deleted_at(&pod.content.deleted.read(), &pod.content.grace.read()))
        } else {
            ("wanted", pod.changed)
        };
        Some(view(state, self.read_at(source), since))
    }

    fn kubelet(&self, uid: &str, identity: &PodIdentity) -> Option<PodView> {
        let kubelet = self.input.kubelet?;
        let at = kubelet.observed_at;
        let pod = kubelet.pods.get(uid).or_else(|| {
            // Without a known UID, a pod is found by its name.
            let is_unknown = !uid.contains(|letter: char| letter.is_ascii_alphanumeric());
            kubelet.pods.values().find(|pod| is_unknown && pod.identity == *identity)
        });
        let Some(pod) = pod else { return Some(view(ABSENT, at, None)) };
        let pod = pod.json.read();
        let none = Value::Null;
        let metadata = pod.get("metadata").unwrap_or(&none);
        let deleted = metadata.get("deletionTimestamp").unwrap_or(&none);
        let grace = metadata.get("deletionGracePeriodSeconds").unwrap_or(&none);
        Some(phase_view(pod.get("status").unwrap_or(&none), deleted, grace, at))
    }

    fn runtime(&self, uid: &str, identity: &PodIdentity) -> Option<PodView> {
        let pods = self.input.runtime?;
        let at = self.input.times.runtime.unwrap_or(self.input.now);
        let found =
            if uid.is_empty() { pods.values().find(|pod| pod.identity == *identity) } else { pods.get(uid) };
        Some(match found {
            // The lists do not say when something ended.
            Some(pod) => view(pod.state().state, at, pod.newest().filter(|_| pod.is_alive())),
            None => view(ABSENT, at, None),
        })
    }

    /// Returns the view of the API server: its pod with the row's UID, or the mirror pod of a static pod.
    fn api(&self, row: &PodRow, wanted: Option<&WantedPod>, mirror: Option<&WantedPod>) -> Option<PodView> {
        self.input.sources.get(&PodSource::Api)?.pods.as_ref()?;
        let at = self.read_at(PodSource::Api);
        let pod = if row.source == Some(PodSource::Api) {
            wanted.or_else(|| mirror.filter(|mirror| mirror.uid == row.uid))
        } else {
            mirror
        };
        Some(match pod {
            Some(pod) => {
                let (deleted, grace) = (pod.content.deleted.read(), pod.content.grace.read());
                phase_view(&pod.status.read(), &deleted, &grace, at)
            }
            None => view(ABSENT, at, None),
        })
    }
}

fn view(state: &str, observed_at: Wall, since: Option<Wall>) -> PodView {
    let age_seconds =
        since.filter(|since| *since <= observed_at).map(|since| observed_at.duration_since(since).into());
    PodView { state: state.to_owned(), observed_at, age_seconds }
}

/// Returns the view of a pod with a status of the kubelet or the API server.
fn phase_view(status: &Value, deleted: &Value, grace: &Value, at: Wall) -> PodView {
    if !deleted.is_null() {
        return view(TERMINATING, at, deleted_at(deleted, grace));
    }
    let phase = status.get("phase").and_then(Value::as_str).unwrap_or("Unknown");
    view(phase, at, newest_change(status, at))
}

/// Returns when a pod was deleted. Its deletionTimestamp is the end of its grace period.
fn deleted_at(deleted: &Value, grace: &Value) -> Option<Wall> {
    let grace = std::time::Duration::from_secs(grace.as_u64().unwrap_or(0));
    moment(Some(deleted)).map(|end| end.minus(grace))
}
