//! From whole sets to updates (pkg/kubelet/config/config.go, `podStorage.Merge`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{Op, Source, Update, Wanted};

/// What each source wanted last.
#[derive(Debug)]
pub struct PodConfig {
    configured: BTreeSet<Source>,
    /// By UID. A source that is not in here has not been heard yet.
    pods: BTreeMap<Source, BTreeMap<String, Arc<Wanted>>>,
    /// Sources of which the sync loop has had an update.
    consumed: BTreeSet<Source>,
}

/// What one set changes.
#[derive(Default)]
struct Changes {
    removed: Vec<Arc<Wanted>>,
    added: Vec<Arc<Wanted>>,
    updated: Vec<Arc<Wanted>>,
    deleted: Vec<Arc<Wanted>>,
    reconciled: Vec<Arc<Wanted>>,
}

impl PodConfig {
    /// Nothing heard yet from the sources that this kubelet has.
    pub fn new(configured: impl IntoIterator<Item = Source>) -> Self {
        Self {
            configured: configured.into_iter().collect(),
            pods: BTreeMap::new(),
            consumed: BTreeSet::new(),
        }
    }

    /// The pods that `source` wants, by UID.
    pub fn wanted(&self, source: Source) -> impl Iterator<Item = &Arc<Wanted>> {
        self.pods.get(&source).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether `source` has sent a set.
    pub fn is_ready(&self, source: Source) -> bool {
        self.pods.contains_key(&source)
    }

    /// Whether the sync loop has heard every configured source.
    pub fn all_ready(&self) -> bool {
        self.configured.iter().all(|source| self.is_ready(*source) && self.consumed.contains(source))
    }

    /// `source` now wants exactly `pods`: the updates that follow, in the kubelet's order.
    pub fn set(&mut self, source: Source, pods: Vec<Arc<Wanted>>) -> Vec<Update> {
        let first = !self.is_ready(source);
        let before = self.pods.remove(&source).unwrap_or_default();
        let (now, changes) = compared(before, pods);
        self.pods.insert(source, now);
        // The first set of a source is announced even if there is nothing in it: it is how the source becomes ready.
        let announce =
            first && changes.added.is_empty() && changes.updated.is_empty() && changes.deleted.is_empty();
        let parts = [
            (Op::Remove, changes.removed, false),
            (Op::Add, changes.added, announce),
            (Op::Update, changes.updated, false),
            (Op::Delete, changes.deleted, false),
            (Op::Reconcile, changes.reconciled, false),
        ];
        let mut updates = Vec::new();
        for (op, mut pods, even_if_empty) in parts {
            if pods.is_empty() && !even_if_empty {
                continue;
            }
            // The kubelet's order within an update is that of a Go map: none. Ours is fixed.
            pods.sort_unstable_by(|left, right| {
                (&left.identity, &left.uid).cmp(&(&right.identity, &right.uid))
            });
            self.consumed.insert(source);
            updates.push(Update { op, source, ready: self.all_ready(), pods });
        }
        updates
    }
}

fn compared(
    mut before: BTreeMap<String, Arc<Wanted>>,
    pods: Vec<Arc<Wanted>>,
) -> (BTreeMap<String, Arc<Wanted>>, Changes) {
    let mut now: BTreeMap<String, Arc<Wanted>> = BTreeMap::new();
    let mut changes = Changes::default();
    let mut names = HashSet::new();
    // Two pods of one UID in one set are each compared with what was there before the set.
    let known: HashSet<String> = before.keys().cloned().collect();
    for pod in pods {
        // A second pod of the same full name is dropped with an event.
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
        // The kubelet changes the pod it has: a fixed UID keeps the name it came with first.
        let pod = Arc::new(Wanted {
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
    use crate::manifests::PodIdentity;
    use crate::manifests::podconfig::{Content, Part};

    fn pod(name: &str, uid: &str, image: &str) -> Arc<Wanted> {
        Arc::new(Wanted {
            identity: PodIdentity { namespace: "shop".into(), name: name.into() },
            uid: uid.into(),
            content: Content { spec: json!({ "image": image }).into(), ..Content::default() },
            status: Part::default(),
            mirror_of: None,
            changed: None,
            unmirrored: None,
            object: None,
        })
    }

    fn told(updates: &[Update]) -> Vec<(Op, bool, Vec<String>)> {
        let uids = |update: &Update| update.pods.iter().map(|pod| pod.uid.clone()).collect();
        updates.iter().map(|update| (update.op, update.ready, uids(update))).collect()
    }

    fn uids<const N: usize>(uids: [&str; N]) -> Vec<String> {
        uids.map(str::to_owned).to_vec()
    }

    #[test]
    fn an_empty_first_set_is_announced_once() {
        let mut config = PodConfig::new([Source::File, Source::Api]);
        assert_eq!(told(&config.set(Source::File, vec![])), [(Op::Add, false, uids([]))]);
        assert_eq!(told(&config.set(Source::File, vec![])), []);
        assert_eq!(told(&config.set(Source::Api, vec![])), [(Op::Add, true, uids([]))]);
    }

    #[test]
    fn removal_comes_before_addition() {
        let mut config = PodConfig::new([Source::File]);
        config.set(Source::File, vec![pod("a", "1", "x")]);
        let updates = config.set(Source::File, vec![pod("a", "2", "y")]);
        assert_eq!(told(&updates), [(Op::Remove, true, uids(["1"])), (Op::Add, true, uids(["2"]))]);
    }

    #[test]
    fn a_fixed_uid_is_updated_and_keeps_its_first_name() {
        let mut config = PodConfig::new([Source::File]);
        config.set(Source::File, vec![pod("a", "1", "x")]);
        let updates = config.set(Source::File, vec![pod("b", "1", "y")]);
        assert_eq!(told(&updates), [(Op::Update, true, uids(["1"]))]);
        assert_eq!(updates[0].pods[0].identity.name, "a");
        assert_eq!(config.set(Source::File, vec![pod("b", "1", "y")]), []);
    }

    #[test]
    fn two_files_of_one_uid_are_one_object_to_the_merge() {
        let held = |name: &str, image: &str, object| {
            Arc::new(Wanted { object: Some(object), ..(*pod(name, "1", image)).clone() })
        };
        let mut config = PodConfig::new([Source::File]);
        config.set(Source::File, vec![held("a", "x", 1)]);
        let both = vec![held("a", "x", 1), held("b", "y", 2)];
        assert_eq!(told(&config.set(Source::File, both.clone())), [(Op::Update, true, uids(["1"]))]);
        assert_eq!(config.set(Source::File, both), [], "the first was changed into the second");
        let read_again = vec![held("a", "x", 3), held("b", "y", 4)];
        assert_eq!(config.set(Source::File, read_again).len(), 1);
    }

    #[test]
    fn another_status_alone_is_reconciled_and_an_ordered_end_is_a_delete() {
        let mut config = PodConfig::new([Source::Api]);
        config.set(Source::Api, vec![pod("a", "1", "x")]);
        let mut changed = (*pod("a", "1", "x")).clone();
        changed.status = json!({ "phase": "Running" }).into();
        assert_eq!(
            told(&config.set(Source::Api, vec![Arc::new(changed.clone())])),
            [(Op::Reconcile, true, uids(["1"]))]
        );
        changed.content.deleted = json!("2026-11-21T00:00:00Z").into();
        assert_eq!(
            told(&config.set(Source::Api, vec![Arc::new(changed)])),
            [(Op::Delete, true, uids(["1"]))]
        );
    }

    #[test]
    fn the_second_pod_of_a_name_is_dropped_and_two_of_one_uid_are_both_added() {
        let mut config = PodConfig::new([Source::Api]);
        let updates = config.set(Source::Api, vec![pod("a", "1", "x"), pod("a", "2", "y")]);
        assert_eq!(told(&updates), [(Op::Add, true, uids(["1"]))]);
        let mut config = PodConfig::new([Source::Api]);
        let updates = config.set(Source::Api, vec![pod("a", "1", "x"), pod("b", "1", "y")]);
        assert_eq!(told(&updates), [(Op::Add, true, uids(["1", "1"]))]);
        assert_eq!(config.wanted(Source::Api).count(), 1);
    }

    #[test]
    fn sources_know_nothing_of_each_other() {
        let mut config = PodConfig::new([Source::File, Source::Http]);
        config.set(Source::File, vec![pod("a", "1", "x")]);
        let updates = config.set(Source::Http, vec![pod("a", "1", "x")]);
        assert_eq!(told(&updates), [(Op::Add, true, uids(["1"]))]);
    }
}
