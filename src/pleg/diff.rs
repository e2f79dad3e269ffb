//! Computes the events that the kubelet's PLEG would emit between two [`RelistReport`]s, and the changes that PLEG
//! would not notice.
//!
//! PLEG compares only ids and its own three states. If a container or sandbox is in both reports, PLEG does not notice
//! any other change of it. These changes are *unnoticed*:
//!
//! - The state changes from created to unknown or back: to PLEG, both are unknown.
//! - The name, the namespace, the attempt, the image, the sandbox id, the creation time or the exit code changes.
//! - A pod appears or disappears, but has neither containers nor sandboxes.
//! - The runtime's name or version changes.
//!
//! A change that was undone between the two reports is in neither report, so PLEG would not see it either.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::records::{Member, Members, transitions};
use super::report::{ListCallsReport, RelistReport, ReportedContainer, ReportedPod, ReportedSandbox};
use super::stream::{Event, EventSubject};
use crate::clock::Wall;
use crate::report::{PodRef, RuntimeRef};

/// The difference of two relists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct DiffReport {
    /// The earlier report.
    pub before: ReportOrigin,
    /// The later report.
    pub after: ReportOrigin,
    /// The events that PLEG would emit, including `ContainerChanged`, which the kubelet then drops.
    pub events: Vec<Event>,
    /// The changes that PLEG would not notice.
    pub unnoticed: Vec<Unnoticed>,
}

impl DiffReport {
    /// Whether the reports are equal.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.unnoticed.is_empty()
    }
}

/// The time, node and runtime of a report.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReportOrigin {
    /// When the list calls of the relist were made.
    pub taken_at: Wall,
    /// The node's name.
    pub node: Option<String>,
    /// The runtime.
    pub runtime: RuntimeRef,
    /// The list calls, and why they were made.
    pub list_calls: Option<ListCallsReport>,
}

impl From<&RelistReport> for ReportOrigin {
    fn from(report: &RelistReport) -> Self {
        Self {
            taken_at: report.taken_at,
            node: report.node.clone(),
            runtime: report.runtime.clone(),
            list_calls: report.list_calls.clone(),
        }
    }
}

/// A change that PLEG does not notice.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Unnoticed {
    /// The pod; absent for a change of the runtime itself.
    pub pod: Option<PodRef>,
    /// The kind of item that changed; absent for a change of the runtime itself.
    pub subject: Option<EventSubject>,
    /// Container or sandbox id.
    pub id: Option<String>,
    /// Container name.
    pub name: Option<String>,
    /// The name of the changed field in the report.
    pub field: String,
    /// The old value; absent if the field had no value.
    pub before: Option<String>,
    /// The new value; absent if the field has no value any more.
    pub after: Option<String>,
}

/// The error for two reports that are from different nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reports are of different nodes, `{before}` and `{after}`")]
pub struct DifferentNodes {
    /// The node of the earlier report.
    pub before: String,
    /// The node of the later report.
    pub after: String,
}

/// Rejects two reports whose nodes are known and different.
pub fn same_node(before: &RelistReport, after: &RelistReport) -> Result<(), DifferentNodes> {
    match (&before.node, &after.node) {
        (Some(before), Some(after)) if before != after => {
            Err(DifferentNodes { before: before.clone(), after: after.clone() })
        }
        _ => Ok(()),
    }
}

/// Compares two reports.
pub fn diff(before: &RelistReport, after: &RelistReport) -> DiffReport {
    let mut report =
        DiffReport { before: before.into(), after: after.into(), events: Vec::new(), unnoticed: Vec::new() };
    runtime_changes(&before.runtime, &after.runtime, &mut report.unnoticed);
    let old = first_by_key(&before.pods, |pod| &pod.uid);
    let new = first_by_key(&after.pods, |pod| &pod.uid);
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

/// Maps each key to the first item with this key, as PLEG does.
fn first_by_key<T>(items: &[T], key: fn(&T) -> &str) -> HashMap<&str, &T> {
    let mut found = HashMap::with_capacity(items.len());
    for item in items {
        found.entry(key(item)).or_insert(item);
    }
    found
}

/// Pairs the items that both lists have, by id.
fn pairs<'a, T>(old: &'a [T], new: &'a [T], id: fn(&T) -> &str) -> Vec<(&'a T, &'a T)> {
    let mut old = first_by_key(old, id);
    let both = new.iter().filter_map(|new| old.remove(id(new)).map(|old| (old, new)));
    both.collect()
}

/// Adds the events and the unnoticed changes of one pod.
fn compare(old: Option<&ReportedPod>, new: Option<&ReportedPod>, time: Wall, report: &mut DiffReport) {
    let Some(pod) = new.or(old).map(PodRef::from) else {
        return;
    };
    let (old_members, new_members) = (old.map(members), new.map(members));
    let events_so_far = report.events.len();
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
    let noticed = report.events.len() > events_so_far;
    let mut unnoticed = UnnoticedFinder { pod: &pod, found: &mut report.unnoticed };
    match (old, new) {
        (Some(old), Some(new)) => unnoticed.in_both(old, new),
        (Some(_), None) if !noticed => unnoticed.changed(ChangedItem::POD, "pod", Some("listed"), None),
        (None, Some(_)) if !noticed => unnoticed.changed(ChangedItem::POD, "pod", None, Some("listed")),
        _ => {}
    }
}

/// Returns the members of a pod as PLEG records them.
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

/// Adds the changes of the runtime's name and versions.
fn runtime_changes(before: &RuntimeRef, after: &RuntimeRef, found: &mut Vec<Unnoticed>) {
    let fields = [
        ("runtime.name", &before.name, &after.name),
        ("runtime.version", &before.version, &after.version),
        ("runtime.apiVersion", &before.api_version, &after.api_version),
    ];
    // A value that only one report has is no change.
    for (field, before, after) in fields {
        if before.is_some() && after.is_some() && before != after {
            found.push(Unnoticed {
                field: field.to_owned(),
                before: before.clone(),
                after: after.clone(),
                ..Unnoticed::default()
            });
        }
    }
}

/// Collects the changes of one pod that PLEG does not notice.
struct UnnoticedFinder<'a> {
    pod: &'a PodRef,
    found: &'a mut Vec<Unnoticed>,
}

/// The item that changed: the pod, a sandbox or a container.
#[derive(Clone, Copy)]
struct ChangedItem<'a> {
    subject: EventSubject,
    id: Option<&'a str>,
    name: Option<&'a str>,
}

impl ChangedItem<'_> {
    const POD: Self = ChangedItem { subject: EventSubject::Pod, id: None, name: None };
}

impl UnnoticedFinder<'_> {
    /// Compares a pod that both reports have.
    fn in_both(&mut self, old: &ReportedPod, new: &ReportedPod) {
        self.changed(ChangedItem::POD, "name", Some(&old.name), Some(&new.name));
        self.changed(ChangedItem::POD, "namespace", Some(&old.namespace), Some(&new.namespace));
        for (old, new) in pairs(&old.sandboxes, &new.sandboxes, |sandbox| &sandbox.id) {
            self.in_sandbox(old, new);
        }
        for (old, new) in pairs(&old.containers, &new.containers, |container| &container.id) {
            self.in_container(old, new);
        }
    }

    /// Compares a sandbox that both reports have.
    fn in_sandbox(&mut self, old: &ReportedSandbox, new: &ReportedSandbox) {
        let item = ChangedItem { subject: EventSubject::Sandbox, id: Some(&new.id), name: None };
        self.changed(item, "attempt", Some(old.attempt), Some(new.attempt));
        self.changed(item, "createdAt", old.created_at, new.created_at);
    }

    /// Compares a container that both reports have.
    fn in_container(&mut self, old: &ReportedContainer, new: &ReportedContainer) {
        let item = ChangedItem { subject: EventSubject::Container, id: Some(&new.id), name: Some(&new.name) };
        if old.state.pleg() == new.state.pleg() {
            self.changed(item, "state", Some(old.state.as_str()), Some(new.state.as_str()));
        }
        self.changed(item, "name", Some(&old.name), Some(&new.name));
        self.changed(item, "attempt", Some(old.attempt), Some(new.attempt));
        self.changed(item, "image", old.image.as_ref(), new.image.as_ref());
        self.changed(item, "createdAt", old.created_at, new.created_at);
        self.changed(item, "sandboxId", old.sandbox_id.as_ref(), new.sandbox_id.as_ref());
        // If the state has changed too, the exit code belongs to the event of that change.
        if let (Some(before), Some(after)) = (&old.status, &new.status)
            && old.state == new.state
        {
            self.changed(item, "exitCode", before.exit_code, after.exit_code);
        }
    }

    /// Adds a change if the two values differ.
    fn changed<T: fmt::Display + PartialEq>(
        &mut self,
        item: ChangedItem<'_>,
        field: &str,
        before: Option<T>,
        after: Option<T>,
    ) {
        if before == after {
            return;
        }
        self.found.push(Unnoticed {
            pod: Some(self.pod.clone()),
            subject: Some(item.subject),
            id: item.id.map(str::to_owned),
            name: item.name.map(str::to_owned),
            field: field.to_owned(),
            before: before.map(|value| value.to_string()),
            after: after.map(|value| value.to_string()),
        });
    }
}
