//! The records in which PLEG remembers the members (sandboxes and containers) of each pod, and the kubelet's table of
//! transitions: [`transitions`] returns the events that lead from one record to the next.
//!
//! A record has only ids, names and states, not the runtime's whole answer.

use std::collections::{HashMap, HashSet};

use super::pods::{KubeletState, ListedPod, PlegState};
use super::stream::{Event, EventSource, EventSubject, EventType};
use crate::clock::Wall;
use crate::cri::{Container, Sandbox};
use crate::report::PodRef;

/// A container or sandbox in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The full id.
    pub id: Box<str>,
    /// The name of a container; empty for a sandbox.
    pub name: Box<str>,
    /// The state.
    pub state: PlegState,
}

/// The members of a pod at one moment. Both lists have the order of the kubelet's release: newest first, or as the
/// runtime listed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The containers.
    pub containers: Vec<Member>,
    /// The sandboxes.
    pub sandboxes: Vec<Member>,
}

fn container_state(container: &Container) -> PlegState {
    KubeletState::from(container.state).pleg()
}

fn sandbox_state(sandbox: &Sandbox) -> PlegState {
    KubeletState::from(sandbox.state).pleg()
}

impl Members {
    /// Returns the members of a listed pod.
    pub fn of(pod: &ListedPod<'_>) -> Self {
        let containers = pod.containers.iter().map(|container| Member {
            id: container.id.as_str().into(),
            name: container.metadata.as_ref().map_or("", |metadata| &metadata.name).into(),
            state: container_state(container),
        });
        let sandboxes = pod.sandboxes.iter().map(|sandbox| Member {
            id: sandbox.id.as_str().into(),
            name: Box::default(),
            state: sandbox_state(sandbox),
        });
        Self { containers: containers.collect(), sandboxes: sandboxes.collect() }
    }

    /// Whether a listed pod has the same members in the same order and with the same states.
    pub(super) fn has_members_of(&self, pod: &ListedPod<'_>) -> bool {
        let containers =
            pod.containers.iter().map(|container| (container.id.as_str(), container_state(container)));
        let sandboxes = pod.sandboxes.iter().map(|sandbox| (sandbox.id.as_str(), sandbox_state(sandbox)));
        self.containers.iter().map(|member| (&*member.id, member.state)).eq(containers)
            && self.sandboxes.iter().map(|member| (&*member.id, member.state)).eq(sandboxes)
    }

    /// Iterates over all members, containers first.
    pub(super) fn each(&self) -> impl Iterator<Item = (EventSubject, &Member)> {
        let containers = self.containers.iter().map(|member| (EventSubject::Container, member));
        let sandboxes = self.sandboxes.iter().map(|member| (EventSubject::Sandbox, member));
        containers.chain(sandboxes)
    }

    /// Returns the state of each id. If two members have the same id, the first one counts, containers before sandboxes.
    fn states(&self) -> HashMap<&str, PlegState> {
        let mut states = HashMap::with_capacity(self.containers.len() + self.sandboxes.len());
        for (_, member) in self.each() {
            states.entry(&*member.id).or_insert(member.state);
        }
        states
    }
}

/// A change of one member that causes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition<'a> {
    /// The type of the event.
    pub event_type: EventType,
    /// Whether the member is a container or a sandbox.
    pub subject: EventSubject,
    /// The member.
    pub member: &'a Member,
    /// The state before.
    pub from: PlegState,
    /// The state after.
    pub to: PlegState,
}

impl Transition<'_> {
    /// Whether the event is the death of a container, not of a sandbox.
    pub fn is_death_of_a_container(&self) -> bool {
        self.event_type == EventType::ContainerDied && self.subject == EventSubject::Container
    }

    /// Converts the transition into an event of a pod.
    pub fn event(&self, time: Wall, pod: &PodRef) -> Event {
        Event {
            id: Some(self.member.id.to_string()),
            name: Some(self.member.name.to_string()).filter(|name| !name.is_empty()),
            from: Some(self.from),
            to: Some(self.to),
            ..Event::new(time, EventSource::Generic, self.event_type, pod.clone(), self.subject)
        }
    }
}

/// Returns the transitions from `old` to `new` in the kubelet's order: first the old containers, then the old sandboxes,
/// then the new members.
pub fn transitions<'a>(old: Option<&'a Members>, new: Option<&'a Members>) -> Vec<Transition<'a>> {
    let (old_states, new_states) =
        (old.map(Members::states).unwrap_or_default(), new.map(Members::states).unwrap_or_default());
    let state_in = |states: &HashMap<&str, PlegState>, id: &str| {
        states.get(id).copied().unwrap_or(PlegState::NonExistent)
    };
    let mut seen = HashSet::with_capacity(old_states.len() + new_states.len());
    let mut found = Vec::new();
    for (subject, member) in [old, new].into_iter().flatten().flat_map(Members::each) {
        if !seen.insert(&*member.id) {
            continue;
        }
        let from = state_in(&old_states, &member.id);
        let to = state_in(&new_states, &member.id);
        found.extend(event_types(from, to).iter().map(|&event_type| Transition {
            event_type,
            subject,
            member,
            from,
            to,
        }));
    }
    found
}

/// Returns the events that the kubelet emits for a transition.
const fn event_types(from: PlegState, to: PlegState) -> &'static [EventType] {
    use EventType::{ContainerChanged, ContainerDied, ContainerRemoved, ContainerStarted};
    use PlegState::{Exited, NonExistent, Running, Unknown};
    match (from, to) {
        (Running, Running) | (Exited, Exited) | (Unknown, Unknown) | (NonExistent, NonExistent) => &[],
        (_, Running) => &[ContainerStarted],
        (_, Exited) => &[ContainerDied],
        (_, Unknown) => &[ContainerChanged],
        (Exited, NonExistent) => &[ContainerRemoved],
        (Running | Unknown, NonExistent) => &[ContainerDied, ContainerRemoved],
    }
}

/// The record of one pod.
#[derive(Clone, Debug)]
pub(super) struct PodRecord {
    pub pod: PodRef,
    /// The members after the last relist that updated this record; `None` before the first update. A relist does not
    /// update the record if it cannot fetch the pod's status.
    pub members: Option<Members>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(containers: &[(&str, PlegState)], sandboxes: &[(&str, PlegState)]) -> Members {
        let all = |items: &[(&str, PlegState)]| {
            let member = |(id, state): &(&str, PlegState)| Member {
                id: (*id).into(),
                name: Box::default(),
                state: *state,
            };
            items.iter().map(member).collect()
        };
        Members { containers: all(containers), sandboxes: all(sandboxes) }
    }

    #[test]
    fn each_pair_of_states_has_the_kubelets_events() {
        use PlegState::{Exited, NonExistent, Running, Unknown};
        let rows = [
            (Running, [(Running, ""), (Exited, "Died"), (Unknown, "Changed"), (NonExistent, "Died Removed")]),
            (Exited, [(Running, "Started"), (Exited, ""), (Unknown, "Changed"), (NonExistent, "Removed")]),
            (Unknown, [(Running, "Started"), (Exited, "Died"), (Unknown, ""), (NonExistent, "Died Removed")]),
            (NonExistent, [(Running, "Started"), (Exited, "Died"), (Unknown, "Changed"), (NonExistent, "")]),
        ];
        for (from, cells) in rows {
            for (to, expected) in cells {
                let types = event_types(from, to).iter();
                let names: Vec<&str> =
                    types.map(|kind| kind.as_str().trim_start_matches("Container")).collect();
                assert_eq!(names.join(" "), expected, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn old_members_come_before_new_ones_and_containers_before_sandboxes() {
        use PlegState::Running;
        let old = members(&[("c1", Running)], &[("s1", Running)]);
        let new = members(&[("c2", Running)], &[("s2", Running)]);
        let ids: Vec<&str> =
            transitions(Some(&old), Some(&new)).iter().map(|change| &*change.member.id).collect();
        assert_eq!(ids, ["c1", "c1", "s1", "s1", "c2", "s2"]);
    }

    #[test]
    fn of_two_members_with_the_same_id_the_first_counts() {
        use PlegState::{Exited, Running};
        let old = members(&[("x", Running)], &[("x", Running)]);
        let new = members(&[("x", Running)], &[("x", Exited)]);
        assert_eq!(transitions(Some(&old), Some(&new)), []);
    }
}
