//! `-n`, `-l` and `--pod` of `watch`: which pods are shown. Every pod is relisted.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::cmd::flags::select::{Candidate, Selection};
use crate::cri::{Labels, ReceivedEvent};
use crate::pleg::PodRef;
use crate::pleg::pods::ListedPod;
use crate::threads::locked;

/// The maximum number of pods that are remembered although they are no longer listed.
const MAX_GONE: usize = 10_000;

/// Decides which pods are shown. Events have no labels, so with `-l` the filter remembers the UIDs of the pods that
/// match.
pub struct PodFilter {
    selection: Selection,
    /// The UIDs of the matching pods. A pod that is no longer listed stays, because its last events come later.
    matching: Mutex<HashSet<String>>,
}

impl PodFilter {
    /// Creates a filter for this selection.
    pub fn new(selection: Selection) -> Self {
        Self { selection, matching: Mutex::default() }
    }

    /// Describes the filter, such as ` in namespace shop`; empty if every pod is shown.
    pub fn in_words(&self) -> String {
        self.selection.in_words()
    }

    /// Remembers which pods of a relist match.
    pub fn listed(&self, pods: &[ListedPod<'_>]) {
        if !self.selection.by_labels() {
            return;
        }
        let matches = pods.iter().filter(|pod| {
            let sandbox = pod.sandboxes.first().map(|sandbox| &sandbox.labels);
            let labels = sandbox.or(pod.containers.first().map(|container| &container.labels));
            self.matches(pod.namespace, pod.name, pod.uid, labels)
        });
        let now: HashSet<String> = matches.map(|pod| pod.uid.to_owned()).collect();
        let mut matching = locked(&self.matching);
        if matching.len() > MAX_GONE {
            matching.clear();
        }
        for pod in pods {
            matching.remove(pod.uid);
        }
        matching.extend(now);
    }

    /// Remembers the pod of a stream event if the pod matches.
    pub fn received(&self, received: &ReceivedEvent) {
        let Some(sandbox) = received.event.sandbox.as_ref().filter(|_| self.selection.by_labels()) else {
            return;
        };
        let Some(pod) = &sandbox.metadata else { return };
        if self.matches(&pod.namespace, &pod.name, &pod.uid, Some(&sandbox.labels)) {
            locked(&self.matching).insert(pod.uid.clone());
        }
    }

    /// Whether this pod is shown.
    pub fn shows(&self, pod: &PodRef) -> bool {
        if self.selection.by_labels() {
            return locked(&self.matching).contains(&pod.uid);
        }
        self.matches(&pod.namespace, &pod.name, &pod.uid, None)
    }

    fn matches(&self, namespace: &str, name: &str, uid: &str, labels: Option<&Labels>) -> bool {
        let label = |key: &str| labels.and_then(|labels| labels.get(key));
        self.selection.shows(Candidate { namespace, name, uid, label: &label })
    }
}
