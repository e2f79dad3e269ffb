//! The static pods that run on the node, each with its sandboxes and their newest containers.

use std::collections::BTreeMap;

use crate::{PodIdentity, PodSource, RunningContainer, RunningPod};

/// A container that was restarted at least this many times restarts often. How it ended last tells why.
pub const MANY_RESTARTS: u32 = 3;

/// The static pods of a node, by name. Each `RunningPod` is one sandbox of its pod, with the containers.
#[derive(Clone, Debug, Default)]
pub struct RunningStaticPods {
    pods: BTreeMap<PodIdentity, Vec<RunningPod>>,
}

impl RunningStaticPods {
    /// Selects the static pods from all pods of the node.
    pub fn new(all: impl IntoIterator<Item = RunningPod>) -> Self {
        let mut pods: BTreeMap<PodIdentity, Vec<RunningPod>> = BTreeMap::new();
        let is_static = |pod: &RunningPod| matches!(pod.source, Some(PodSource::File | PodSource::Http));
        for pod in all.into_iter().filter(is_static) {
            if let Some(identity) = pod.identity.clone() {
                pods.entry(identity).or_default().push(pod);
            }
        }
        for sandboxes in pods.values_mut() {
            sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        }
        Self { pods }
    }

    /// Returns the sandboxes of a pod, newest first.
    pub fn sandboxes_of(&self, pod: &PodIdentity) -> &[RunningPod] {
        self.pods.get(pod).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns all pods, each with its sandboxes, newest first.
    pub fn pods(&self) -> impl Iterator<Item = (&PodIdentity, &[RunningPod])> {
        self.pods.iter().map(|(identity, sandboxes)| (identity, sandboxes.as_slice()))
    }

    /// Returns the containers in ready sandboxes that were restarted at least [`MANY_RESTARTS`] times: the id of the
    /// sandbox, the name, and the container, to which the caller adds how it ended last.
    pub fn restarting(&mut self) -> impl Iterator<Item = (&str, &str, &mut RunningContainer)> {
        let ready = self.pods.values_mut().flatten().filter(|sandbox| sandbox.is_ready);
        ready
            .flat_map(|RunningPod { sandbox_id, containers, .. }| {
                containers.iter_mut().map(|(name, latest)| (sandbox_id.as_str(), name.as_str(), latest))
            })
            .filter(|(_, _, latest)| latest.restarts >= MANY_RESTARTS)
    }
}

/// Selects the ready sandboxes.
pub fn ready(sandboxes: &[RunningPod]) -> impl Iterator<Item = &RunningPod> {
    sandboxes.iter().filter(|sandbox| sandbox.is_ready)
}

/// Returns the ids of the ready sandboxes.
pub fn ready_sandbox_ids(sandboxes: &[RunningPod]) -> Vec<String> {
    ready(sandboxes).map(|sandbox| sandbox.sandbox_id.clone()).collect()
}
