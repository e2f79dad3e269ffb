//! What the kubelet's PLEG would have made of the change from one [`RelistReport`] to another, and what it would have
//! missed.
//!
//! PLEG compares ids and its own three states, nothing else. A change of anything else that a list shows, at an id
//! that both reports have, is *unnoticed*: created to unknown and back, a name, an attempt, an image, a sandbox, a
//! creation time, an exit code. So is a pod that comes or goes without any member, and another version of the runtime.
//! What happened and was undone between the two reports is in neither, as it would be for PLEG.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::records::{Member, Members, transitions};
use super::report::{RelistReport, ReportedContainer, ReportedPod, ReportedSandbox};
use super::stream::{Event, Subject};
use crate::clock::Wall;
use crate::report::{PodRef, RuntimeRef};

/// The difference of two reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct DiffReport {
    /// The first report.
    pub before: Taken,
    /// The second.
    pub after: Taken,
    /// What PLEG would have emitted, `ContainerChanged` too, which it drops.
    pub events: Vec<Event>,
    /// What PLEG would not have noticed.
    pub unnoticed: Vec<Unnoticed>,
}

impl DiffReport {
    /// Whether there is no difference at all.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.unnoticed.is_empty()
    }
}

/// Where a report comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// When its lists were made.
    pub taken_at: Wall,
    /// On which node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Of which runtime.
    pub runtime: RuntimeRef,
}

impl From<&RelistReport> for Taken {
    fn from(report: &RelistReport) -> Self {
        Self { taken_at: report.taken_at, node: report.node.clone(), runtime: report.runtime.clone() }
    }
}

/// A change that PLEG does not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unnoticed {
    /// Of which pod; absent for the runtime itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Of what in it; absent for the runtime itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Container or sandbox id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Container name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What changed, by its name in the report.
    pub field: String,
    /// What it was; absent if it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is; absent if it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The reports are of two nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reports are of two nodes, `{before}` and `{after}`")]
pub struct TwoNodes {
    /// Node of the first.
    pub before: String,
    /// Node of the second.
    pub after: String,
}

/// Refuses reports of two nodes that are both known.
pub fn same_node(before: &RelistReport, after: &RelistReport) -> Result<(), TwoNodes> {
    match (&before.node, &after.node) {
        (Some(before), Some(after)) if before != after => {
            Err(TwoNodes { before: before.clone(), after: after.clone() })
        }
        _ => Ok(()),
    }
}

/// Compares two reports.
pub fn diff(before: &RelistReport, after: &RelistReport) -> DiffReport {
    let mut report =
        DiffReport { before: before.into(), after: after.into(), events: Vec::new(), unnoticed: Vec::new() };
    runtime_changes(&before.runtime, &after.runtime, &mut report.unnoticed);
    let old = firsts(&before.pods, |pod| &pod.uid);
    let new = firsts(&after.pods, |pod| &pod.uid);
    let time = after.taken_at;
    let gone = before.pods.iter().filter(|pod| !new.contains_key(pod.uid.as_str()));
    for pod in gone {
        compare(Some(pod), None, time, &mut report);
    }
    let mut seen = HashSet::new();
    for pod in &after.pods {
        if seen.insert(pod.uid.as_str()) {
            compare(old.get(pod.uid.as_str()).copied(), Some(pod), time, &mut report);
        }
    }
    report
}

/// By key; of several with one key the first, as for PLEG.
fn firsts<T>(items: &[T], key: fn(&T) -> &str) -> HashMap<&str, &T> {
    let mut found = HashMap::with_capacity(items.len());
    for item in items {
        found.entry(key(item)).or_insert(item);
    }
    found
}

/// What both sides have.
fn pairs<'a, T>(old: &'a [T], new: &'a [T], id: fn(&T) -> &str) -> Vec<(&'a T, &'a T)> {
    let mut old = firsts(old, id);
    let both = new.iter().filter_map(|new| old.remove(id(new)).map(|old| (old, new)));
    both.collect()
}

fn compare(old: Option<&ReportedPod>, new: Option<&ReportedPod>, time: Wall, report: &mut DiffReport) {
    let Some(pod) = new.or(old).map(PodRef::from) else {
        return;
    };
    let (old_members, new_members) = (old.map(members), new.map(members));
    let before = report.events.len();
    for change in transitions(old_members.as_ref(), new_members.as_ref()) {
        let status = new
            .filter(|_| change.is_death_of_a_container())
            .and_then(|pod| pod.containers.iter().find(|container| container.id == *change.member.id))
            .and_then(|container| container.status.as_ref());
        report.events.push(Event {
            exit_code: status.and_then(|status| status.exit_code),
            reason: status.and_then(|status| status.reason.clone()),
            ..change.event(time, &pod)
        });
    }
    let noticed = report.events.len() > before;
    let mut unnoticed = Finder { pod: &pod, found: &mut report.unnoticed };
    match (old, new) {
        (Some(old), Some(new)) => unnoticed.in_both(old, new),
        (Some(_), None) if !noticed => unnoticed.changed(What::POD, "pod", Some("listed"), None),
        (None, Some(_)) if !noticed => unnoticed.changed(What::POD, "pod", None, Some("listed")),
        _ => {}
    }
}

fn members(pod: &ReportedPod) -> Members {
    let containers = pod.containers.iter().map(|container| Member {
        id: container.id.as_str().into(),
        name: container.name.as_str().into(),
        state: container.state.pleg(),
    });
    let sandboxes = pod.sandboxes.iter().map(|sandbox| Member {
        id: sandbox.id.as_str().into(),
        name: Box::default(),
        state: sandbox.state.pleg(),
    });
    Members { containers: containers.collect(), sandboxes: sandboxes.collect() }
}

fn runtime_changes(before: &RuntimeRef, after: &RuntimeRef, found: &mut Vec<Unnoticed>) {
    let fields = [
        ("runtime.name", &before.name, &after.name),
        ("runtime.version", &before.version, &after.version),
        ("runtime.apiVersion", &before.api_version, &after.api_version),
    ];
    // Not known on one side is no change.
    for (field, before, after) in fields {
        if before.is_some() && after.is_some() && before != after {
            found.push(Unnoticed {
                pod: None,
                subject: None,
                id: None,
                name: None,
                field: field.to_owned(),
                before: before.clone(),
                after: after.clone(),
            });
        }
    }
}

/// Looks for what PLEG does not compare.
struct Finder<'a> {
    pod: &'a PodRef,
    found: &'a mut Vec<Unnoticed>,
}

/// What of the pod is looked at.
#[derive(Clone, Copy)]
struct What<'a> {
    subject: Subject,
    id: Option<&'a str>,
    name: Option<&'a str>,
}

impl What<'_> {
    const POD: Self = What { subject: Subject::Pod, id: None, name: None };
}

impl Finder<'_> {
    fn in_both(&mut self, old: &ReportedPod, new: &ReportedPod) {
        self.changed(What::POD, "name", Some(&old.name), Some(&new.name));
        self.changed(What::POD, "namespace", Some(&old.namespace), Some(&new.namespace));
        for (old, new) in pairs(&old.sandboxes, &new.sandboxes, |sandbox| &sandbox.id) {
            self.in_sandbox(old, new);
        }
        for (old, new) in pairs(&old.containers, &new.containers, |container| &container.id) {
            self.in_container(old, new);
        }
    }

    fn in_sandbox(&mut self, old: &ReportedSandbox, new: &ReportedSandbox) {
        let what = What { subject: Subject::Sandbox, id: Some(&new.id), name: None };
        self.changed(what, "attempt", Some(old.attempt), Some(new.attempt));
        self.changed(what, "createdAt", old.created_at, new.created_at);
    }

    fn in_container(&mut self, old: &ReportedContainer, new: &ReportedContainer) {
        let what = What { subject: Subject::Container, id: Some(&new.id), name: Some(&new.name) };
        if old.state.pleg() == new.state.pleg() {
            self.changed(what, "state", Some(old.state.as_str()), Some(new.state.as_str()));
        }
        self.changed(what, "name", Some(&old.name), Some(&new.name));
        self.changed(what, "attempt", Some(old.attempt), Some(new.attempt));
        self.changed(what, "image", old.image.as_ref(), new.image.as_ref());
        self.changed(what, "createdAt", old.created_at, new.created_at);
        self.changed(what, "sandboxId", old.sandbox_id.as_ref(), new.sandbox_id.as_ref());
        // An exit code that comes with an exit belongs to the event.
        if let (Some(before), Some(after)) = (&old.status, &new.status)
            && old.state == new.state
        {
            self.changed(what, "exitCode", before.exit_code, after.exit_code);
        }
    }

    fn changed<T: fmt::Display + PartialEq>(
        &mut self,
        what: What<'_>,
        field: &str,
        before: Option<T>,
        after: Option<T>,
    ) {
        if before == after {
            return;
        }
        self.found.push(Unnoticed {
            pod: Some(self.pod.clone()),
            subject: Some(what.subject),
            id: what.id.map(str::to_owned),
            name: what.name.map(str::to_owned),
            field: field.to_owned(),
            before: before.map(|value| value.to_string()),
            after: after.map(|value| value.to_string()),
        });
    }
}
