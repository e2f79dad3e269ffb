//! The verdicts that only a comparison of the four views of a pod gives (what is wanted, the kubelet, the runtime, the API
//! server): `deaf`, `late` and `unreported`.
//!
//! The functions read no files and no clock. A view that was not read gives no verdict, nor does a view that is much older
//! than another one, nor a kubelet that started less than [`GRACE`] before it was read. [`suspects`] and [`contradictions`] say what must be read once
//! more before a verdict; [`add_comparison`] decides with what was read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::kubelet_pods::{KubeletPod, KubeletPods};
use super::verdict::{PodRow, PodVerdict, RowLabels, VerdictInput};
use super::views::add_views;
use super::{GRACE, PodSource, WantedPod};
use crate::ContainerState;
use plegctl_base::clock::Wall;
use plegctl_base::report::Seconds;
use plegctl_base::report::duration::elapsed;
use plegctl_node::kubelet::pod_status::{container_statuses, entries, has_ended, moment, transition};

/// If a node's lease is older than this, the kubelet no longer renews it. The kubelet renews it every 10 s, and the API
/// server's controllers wait 40 s (`nodeLeaseDurationSeconds`).
const LEASE_DURATION: Duration = Duration::from_secs(40);
/// How long a relist and the pod's worker need in addition to the time in which the worker stops a container.
const RELIST_AND_SYNC: Duration = Duration::from_secs(30);

/// The UIDs of pods that one of the API server and the kubelet knows, and the other does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Pods that the API server has bound to the node and that the kubelet does not know.
    pub deaf: BTreeSet<String>,
    /// Pods that the kubelet has from the API server, and that the API server does not have.
    pub unreported: BTreeSet<String>,
}

impl Suspects {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.deaf.is_empty() && self.unreported.is_empty()
    }

    /// Keeps the pods that `again` contains too.
    pub fn confirmed_by(&mut self, again: &Self) {
        self.deaf.retain(|uid| again.deaf.contains(uid));
        self.unreported.retain(|uid| again.unreported.contains(uid));
    }
}

/// A container of which the runtime and the kubelet say different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The pod.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// The id of the newest container of this name in the runtime.
    pub id: String,
    /// Whether it runs in the runtime. If not, it has exited, and runs in the kubelet's status.
    pub runs: bool,
    /// How old the kubelet's status may be: [`GRACE`] or, if that is longer, the time in which the pod's worker stops a
    /// container.
    explained: Duration,
    /// When the container of the kubelet's status started, if that is another container.
    kubelet_started: Option<Wall>,
}

/// What is known of the kubelet's connection to the API server.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiServerLink {
    /// The API server's address in the kubelet's kubeconfig.
    pub address: Option<String>,
    /// When the kubelet last renewed the lease of its node.
    pub lease_renewed_at: Option<Wall>,
    /// The age of the lease.
    pub lease_age_seconds: Option<Seconds>,
    /// Whether the kubelet has an established connection to that address.
    pub is_connected: Option<bool>,
    /// What could not be read, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<String>,
}

impl ApiServerLink {
    /// Whether the lease or the connection proves that the kubelet does not reach the API server.
    pub fn is_broken(&self) -> bool {
        self.lease_age_seconds.is_some_and(|age| age.duration() > LEASE_DURATION)
            || self.is_connected == Some(false)
    }

    /// Returns what is known in words.
    pub fn in_words(&self) -> String {
        let lease =
            self.lease_age_seconds.map(|age| format!("the node's lease is {} old", elapsed(age.duration())));
        let address = self.address.as_deref().unwrap_or("the API server");
        let connection = self.is_connected.map(|connected| {
            let has = if connected { "an established" } else { "no" };
            format!("the kubelet has {has} connection to {address}")
        });
        let known = lease.into_iter().chain(connection).chain(self.not_checked.iter().cloned());
        known.collect::<Vec<_>>().join(", ")
    }
}

/// What was read for the comparison besides the views.
#[derive(Debug, Default)]
pub struct ComparisonInputs<'a> {
    /// Pods that were suspects in the first reading and in the second.
    pub confirmed: Suspects,
    /// When the runtime changed the contradicting containers, by container id.
    pub changes: BTreeMap<String, Wall>,
    /// When the kubelet's process started, if it runs on this node.
    pub kubelet_started: Option<Wall>,
    /// The kubelet's connection to the API server.
    pub link: Option<&'a ApiServerLink>,
}

/// Whether the kubelet has had the time to learn of every pod: it runs for longer than [`GRACE`]. Where its start is not
/// known, it has at least one pod of the API server.
fn is_settled(kubelet: &KubeletPods, started: Option<Wall>) -> bool {
    match started {
        Some(started) => kubelet.observed_at.duration_since(started) > GRACE,
        None => kubelet.pods.values().any(|pod| pod.source == Some(PodSource::Api)),
    }
}

/// Returns the pods about which the API server and the kubelet have disagreed for longer than a pod needs to reach the kubelet.
/// `node` is the name of the kubelet's node.
pub fn suspects(input: &VerdictInput<'_>, node: &str, kubelet_started: Option<Wall>) -> Suspects {
    let mut found = Suspects::default();
    let Some(kubelet) = input.kubelet.filter(|kubelet| is_settled(kubelet, kubelet_started)) else {
        return found;
    };
    let Some(pods) = input.sources.get(&PodSource::Api).and_then(|state| state.pods.as_ref()) else {
        return found;
    };
    let api_at = input.times.sources.get(&PodSource::Api).copied().unwrap_or(input.now);
    let (first, last) = (api_at.min(kubelet.observed_at), api_at.max(kubelet.observed_at));
    // Views from different times, and views of different nodes, do not contradict each other.
    let is_elsewhere = |pod: &KubeletPod| !pod.node.is_empty() && pod.node != node;
    if last.duration_since(first) > GRACE || kubelet.pods.values().any(is_elsewhere) {
        return found;
    }
    let is_old = |time: Option<Wall>| time.is_some_and(|time| first.duration_since(time) > GRACE);
    let bound = pods.iter().filter(|pod| pod.mirror_of.is_none() && !kubelet.pods.contains_key(&pod.uid));
    let bound = bound.filter(|pod| !pod.is_terminating() && is_old(bound_at(pod)));
    found.deaf.extend(bound.map(|pod| pod.uid.clone()));
    let known: BTreeSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    for (uid, pod) in &kubelet.pods {
        if pod.source != Some(PodSource::Api) || known.contains(uid.as_str()) {
            continue;
        }
        let json = pod.json.read();
        let is_ending = json.pointer("/metadata/deletionTimestamp").is_some() || has_ended(&pod.status());
        if !is_ending && is_old(moment(json.pointer("/status/startTime"))) {
            found.unreported.insert(uid.clone());
        }
    }
    found
}

/// Returns when a pod was bound to its node; `None` if its status does not say it, or if the pod has ended.
fn bound_at(pod: &WantedPod) -> Option<Wall> {
    let status = pod.status.read();
    transition(&status, "PodScheduled").filter(|_| !has_ended(&status))
}

/// Returns the containers of which the kubelet's status and the runtime's lists say different things. When the runtime
/// changed them must be read from the runtime, because its lists have no time of a start or an end.
pub fn contradictions(input: &VerdictInput<'_>) -> Vec<Contradiction> {
    let (Some(kubelet), Some(runtime)) = (input.kubelet, input.runtime) else { return Vec::new() };
    let mut found = Vec::new();
    for (uid, pod) in &kubelet.pods {
        let Some(own) = runtime.get(uid) else { continue };
        let json = pod.json.read();
        let status = pod.status();
        let has_container = |status: &Value| {
            status.get("name").and_then(Value::as_str).is_some_and(|name| own.container(name).is_some())
        };
        // While the pod's worker pulls an image, runs a postStart hook, or ends the pod, the kubelet's status of the pod
        // does not change.
        let is_busy = has_ended(&status)
            || json.pointer("/metadata/deletionTimestamp").is_some()
            || !entries(&status, "containerStatuses").all(has_container)
            || json.get("spec").is_some_and(has_post_start);
        if is_busy {
            continue;
        }
        let grace = json.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
        let grace = Duration::from_secs(grace.unwrap_or(0)) + RELIST_AND_SYNC;
        for status in container_statuses(&status) {
            let Some(container) = status.get("name").and_then(Value::as_str) else { continue };
            let Some((id, state)) = own.container(container) else { continue };
            let known = status.get("containerID").and_then(Value::as_str).unwrap_or_default();
            let is_same = known.split_once("://").is_some_and(|(_, known)| known == id);
            let running = status.pointer("/state/running");
            let contradicts = match state {
                ContainerState::Running => !is_same || running.is_none(),
                ContainerState::Exited => is_same && running.is_some(),
                _ => false,
            };
            if contradicts {
                found.push(Contradiction {
                    uid: uid.clone(),
                    container: container.to_owned(),
                    id: id.to_owned(),
                    runs: state == ContainerState::Running,
                    explained: GRACE.max(grace),
                    kubelet_started: moment(running.and_then(|running| running.get("startedAt")))
                        .filter(|_| !is_same),
                });
            }
        }
    }
    found
}

fn has_post_start(spec: &Value) -> bool {
    entries(spec, "containers").any(|container| container.pointer("/lifecycle/postStart").is_some())
}

/// Changes the verdicts of `rows` to those of the comparison, and adds rows for pods that only the kubelet knows.
pub fn add_comparison(
    rows: &mut Vec<PodRow>,
    input: &VerdictInput<'_>,
    contradictions: &[Contradiction],
    with: &ComparisonInputs<'_>,
) {
    let Some(kubelet) = input.kubelet else { return };
    let late = if is_settled(kubelet, with.kubelet_started) {
        late_pods(contradictions, kubelet, &with.changes)
    } else {
        BTreeMap::new()
    };
    let link = with.link.map(ApiServerLink::in_words).filter(|words| !words.is_empty());
    let and_link = link.map(|words| format!("; {words}")).unwrap_or_default();
    let unreported = || PodVerdict::Unreported.because("gone-at-api", &[("link", &and_link)]);
    let mut reported = BTreeSet::new();
    for row in rows.iter_mut() {
        let is_mirror_lost = row.mirror.as_ref().is_some_and(|mirror| mirror.state == "lost");
        if with.confirmed.deaf.contains(&row.uid) {
            (row.verdict, row.why) = PodVerdict::Deaf.because("bound-and-not-known", &[("link", &and_link)]);
        } else if with.confirmed.unreported.contains(&row.uid) {
            reported.insert(row.uid.clone());
            (row.verdict, row.why) = unreported();
        } else if let Some(why) = late.get(&row.uid)
            && !matches!(
                row.verdict,
                PodVerdict::Refused | PodVerdict::Duplicate | PodVerdict::Stale | PodVerdict::Terminating
            )
        {
            (row.verdict, row.why) = why.clone();
        } else if is_mirror_lost && with.link.is_some_and(ApiServerLink::is_broken) {
            row.verdict = PodVerdict::Unreported;
            row.why.push_str(&and_link);
        }
    }
    let missing = with.confirmed.unreported.iter().filter(|uid| !reported.contains(*uid));
    let mut more: Vec<PodRow> = missing
        .filter_map(|uid| kubelet.pods.get(uid))
        .map(|pod| {
            let labels = pod.json.read().pointer("/metadata/labels").cloned().unwrap_or_default();
            let labels = RowLabels::WantedPod(labels.into());
            PodRow { labels, ..PodRow::new(&pod.identity, &pod.uid, pod.source, unreported()) }
        })
        .collect();
    add_views(&mut more, input);
    rows.append(&mut more);
    rows.sort_by(|left, right| {
        (&left.namespace, &left.name, left.verdict).cmp(&(&right.namespace, &right.name, right.verdict))
    });
}

/// Returns the verdict on each pod whose status at the kubelet is older than a change in the runtime by more than
/// [`GRACE`].
fn late_pods(
    contradictions: &[Contradiction],
    kubelet: &KubeletPods,
    changes: &BTreeMap<String, Wall>,
) -> BTreeMap<String, (PodVerdict, String)> {
    let mut late = BTreeMap::new();
    for one in contradictions {
        let Some(at) = changes.get(&one.id).copied() else { continue };
        // The kubelet may have answered later than the runtime, and know a newer container.
        let is_newer = one.kubelet_started.is_some_and(|started| started >= at);
        let age = kubelet.observed_at.duration_since(at);
        if is_newer || age <= one.explained {
            continue;
        }
        let what = if one.runs { "started" } else { "ended" };
        late.entry(one.uid.clone()).or_insert_with(|| {
            let age = elapsed(age);
            PodVerdict::Late
                .because("late-status", &[("container", &one.container), ("what", &what), ("age", &age)])
        });
    }
    late
}
