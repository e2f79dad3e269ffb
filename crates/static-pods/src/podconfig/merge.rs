//! Finds out what changes for the sync loop when a source of pods (files, a URL or the API server) sends its pods. A source
//! always sends all of its pods, its *set*. [`PodConfig`] compares each new set with the set before, and returns the updates,
//! as `podStorage.Merge` in pkg/kubelet/config/config.go does.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{Op, PodSource, Update, WantedPod};

/// The last set of each source.
#[derive(Debug)]
pub struct PodConfig {
    /// The sources that this kubelet has.
    configured: BTreeSet<PodSource>,
    /// The pods by source and UID. A source that has not sent a set is missing.
    pods: BTreeMap<PodSource, BTreeMap<String, Arc<WantedPod>>>,
    /// The sources from which the sync loop has received an update.
    consumed: BTreeSet<PodSource>,
}

/// The changes between two sets of a source.
#[derive(Default)]
struct Changes {
    /// Pods that the new set does not have.
    removed: Vec<Arc<WantedPod>>,
    /// Pods that only the new set has.
    added: Vec<Arc<WantedPod>>,
    /// Pods with other content.
    updated: Vec<Arc<WantedPod>>,
    /// Pods with other content that the API server deletes.
    deleted: Vec<Arc<WantedPod>>,
    /// Pods of which only the status is different.
    reconciled: Vec<Arc<WantedPod>>,
}

impl PodConfig {
    /// Creates a `PodConfig` for the sources that this kubelet has; none of them has sent a set.
    pub fn new(configured: impl IntoIterator<Item = PodSource>) -> Self {
        Self {
            configured: configured.into_iter().collect(),
            pods: BTreeMap::new(),
            consumed: BTreeSet::new(),
        }
    }

    /// Returns the pods that `source` wants, by UID.
    pub fn wanted(&self, source: PodSource) -> impl Iterator<Item = &Arc<WantedPod>> {
        self.pods.get(&source).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether `source` has sent a set.
    pub fn is_ready(&self, source: PodSource) -> bool {
        self.pods.contains_key(&source)
    }

    /// Whether the sync loop has received an update from every configured source.
    pub fn all_ready(&self) -> bool {
        self.configured.iter().all(|source| self.is_ready(*source) && self.consumed.contains(source))
    }

    /// Replaces the pods of `source` by `pods`. Returns the resulting updates in the kubelet's order.
    pub fn set(&mut self, source: PodSource, pods: Vec<Arc<WantedPod>>) -> Vec<Update> {
        let first = !self.is_ready(source);
        let before = self.pods.remove(&source).unwrap_or_default();
        let (now, changes) = compare(before, pods);
        self.pods.insert(source, now);
        // The first set of a source makes an update even if it is empty, because the update makes the source ready.
        let sends_empty_add =
            first && changes.added.is_empty() && changes.updated.is_empty() && changes.deleted.is_empty();
        let parts = [
            (Op::Remove, changes.removed, false),
            (Op::Add, changes.added, sends_empty_add),
            (Op::Update, changes.updated, false),
            (Op::Delete, changes.deleted, false),
            (Op::Reconcile, changes.reconciled, false),
        ];
        let mut updates = Vec::new();
        for (op, mut pods, even_if_empty) in parts {
            if pods.is_empty() && !even_if_empty {
                continue;
            }
            // The kubelet's order within an update is the order of a Go map, which is not defined. Here the order is fixed.
            pods.sort_by(|left, right| (&left.identity, &left.uid).cmp(&(&right.identity, &right.uid)));
            self.consumed.insert(source);
            updates.push(Update { op, source, ready: self.all_ready(), pods });
        }
        updates
    }
}

/// Compares a new set of pods with the set before. Returns the pods that the kubelet stores, by UID, and the changes.
fn compare(
    mut before: BTreeMap<String, Arc<WantedPod>>,
    pods: Vec<Arc<WantedPod>>,
) -> (BTreeMap<String, Arc<WantedPod>>, Changes) {
    let mut now: BTreeMap<String, Arc<WantedPod>> = BTreeMap::new();
    let mut changes = Changes::default();
    let mut names = HashSet::new();
    // If two pods in the new set have the same UID, both count as new or both count as known.
    let known: HashSet<String> = before.keys().cloned().collect();
    for pod in pods {
        // The kubelet drops a second pod with the same namespace and name.
        if !names.insert(pod.identity.clone()) {
            continue;
        }
        let uid = pod.uid.clone();
        if !known.contains(&uid) {
            now.insert(uid, Arc::clone(&pod));
            changes.added.push(pod);
            continue;
        }
        let Some(old) = before.remove(&uid).or_else(|| now.get(&uid).cloned()) else { continue };
        let same_object = Arc::ptr_eq(&pod, &old) || pod.object.is_some() && pod.object == old.object;
        let same_content = same_object || old.content == pod.content;
        if same_object || same_content && old.status == pod.status {
            now.insert(uid, old);
            continue;
        }
        let terminating = pod.is_terminating();
        // The kubelet changes the object that it has stored, so a pod with a fixed UID keeps its first name.
        let pod = Arc::new(WantedPod {
            identity: old.identity.clone(),
            object: old.object,
            ..Arc::unwrap_or_clone(pod)
        });
        now.insert(uid, Arc::clone(&pod));
        if same_content {
            changes.reconciled.push(pod);
        } else if terminating {
            changes.deleted.push(pod);
        } else {
            changes.updated.push(pod);
        }
    }
    changes.removed = before.into_values().collect();
    (now, changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::PodIdentity;
    use crate::podconfig::{CompactJson, PodContent};

    fn pod(name: &str, uid: &str, image: &str) -> Arc<WantedPod> {
        Arc::new(WantedPod {
            identity: PodIdentity { namespace: "shop".into(), name: name.into() },
            uid: uid.into(),
            content: PodContent { spec: json!({ "image": image }).into(), ..PodContent::default() },
            status: CompactJson::default(),
            finalizers: CompactJson::default(),
            mirror_of: None,
            changed: None,
            mirror_refusal: None,
            object: None,
        })
    }

    fn summary_of(updates: &[Update]) -> Vec<(Op, bool, Vec<String>)> {
        let uids = |update: &Update| update.pods.iter().map(|pod| pod.uid.clone()).collect();
        updates.iter().map(|update| (update.op, update.ready, uids(update))).collect()
    }

    fn uids<const N: usize>(uids: [&str; N]) -> Vec<String> {
        uids.map(str::to_owned).to_vec()
    }

    #[test]
    fn an_empty_first_set_makes_one_update() {
        let mut config = PodConfig::new([PodSource::File, PodSource::Api]);
        assert_eq!(summary_of(&config.set(PodSource::File, vec![])), [(Op::Add, false, uids([]))]);
        assert_eq!(summary_of(&config.set(PodSource::File, vec![])), []);
        assert_eq!(summary_of(&config.set(PodSource::Api, vec![])), [(Op::Add, true, uids([]))]);
    }

    #[test]
    fn removal_comes_before_addition() {
        let mut config = PodConfig::new([PodSource::File]);
        config.set(PodSource::File, vec![pod("a", "1", "x")]);
        let updates = config.set(PodSource::File, vec![pod("a", "2", "y")]);
        assert_eq!(summary_of(&updates), [(Op::Remove, true, uids(["1"])), (Op::Add, true, uids(["2"]))]);
    }

    #[test]
    fn a_fixed_uid_is_updated_and_keeps_its_first_name() {
        let mut config = PodConfig::new([PodSource::File]);
        config.set(PodSource::File, vec![pod("a", "1", "x")]);
        let updates = config.set(PodSource::File, vec![pod("b", "1", "y")]);
        assert_eq!(summary_of(&updates), [(Op::Update, true, uids(["1"]))]);
        assert_eq!(updates[0].pods[0].identity.name, "a");
        assert_eq!(config.set(PodSource::File, vec![pod("b", "1", "y")]), []);
    }

    #[test]
    fn two_files_with_one_uid_are_one_object_in_the_merge() {
        let of_file = |name: &str, image: &str, object| {
            Arc::new(WantedPod { object: Some(object), ..(*pod(name, "1", image)).clone() })
        };
        let mut config = PodConfig::new([PodSource::File]);
        config.set(PodSource::File, vec![of_file("a", "x", 1)]);
        let both = vec![of_file("a", "x", 1), of_file("b", "y", 2)];
        assert_eq!(summary_of(&config.set(PodSource::File, both.clone())), [(Op::Update, true, uids(["1"]))]);
        assert_eq!(
            config.set(PodSource::File, both),
            [],
            "the merge has changed the first object into the second"
        );
        let read_again = vec![of_file("a", "x", 3), of_file("b", "y", 4)];
        assert_eq!(config.set(PodSource::File, read_again).len(), 1);
    }

    #[test]
    fn a_changed_status_is_a_reconcile_and_a_deletion_timestamp_is_a_delete() {
        let mut config = PodConfig::new([PodSource::Api]);
        config.set(PodSource::Api, vec![pod("a", "1", "x")]);
        let mut changed = (*pod("a", "1", "x")).clone();
        changed.status = json!({ "phase": "Running" }).into();
        assert_eq!(
            summary_of(&config.set(PodSource::Api, vec![Arc::new(changed.clone())])),
            [(Op::Reconcile, true, uids(["1"]))]
        );
        changed.content.deleted = json!("2026-11-21T00:00:00Z").into();
        assert_eq!(
            summary_of(&config.set(PodSource::Api, vec![Arc::new(changed)])),
            [(Op::Delete, true, uids(["1"]))]
        );
    }

    #[test]
    fn a_second_pod_with_the_same_name_is_dropped_but_not_with_the_same_uid() {
        let mut config = PodConfig::new([PodSource::Api]);
        let updates = config.set(PodSource::Api, vec![pod("a", "1", "x"), pod("a", "2", "y")]);
        assert_eq!(summary_of(&updates), [(Op::Add, true, uids(["1"]))]);
        let mut config = PodConfig::new([PodSource::Api]);
        let updates = config.set(PodSource::Api, vec![pod("a", "1", "x"), pod("b", "1", "y")]);
        assert_eq!(summary_of(&updates), [(Op::Add, true, uids(["1", "1"]))]);
        assert_eq!(config.wanted(PodSource::Api).count(), 1);
    }

    #[test]
    fn sources_are_merged_separately() {
        let mut config = PodConfig::new([PodSource::File, PodSource::Http]);
        config.set(PodSource::File, vec![pod("a", "1", "x")]);
        let updates = config.set(PodSource::Http, vec![pod("a", "1", "x")]);
        assert_eq!(summary_of(&updates), [(Op::Add, true, uids(["1"]))]);
    }
}
