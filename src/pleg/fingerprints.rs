//! Finds what changed on a node without grouping it into pods.
//!
//! A runtime lists in an order of its own, so comparing pods means chasing ids all over the memory. Instead each
//! member that PLEG knows is held as a fingerprint of its pod's UID and its id, with its state: a relist of a node on
//! which nothing happened is one look-up a member in a table that fits a processor cache. A fingerprint has 96 bits
//! and seeds of its own in each process, so that two members never share one, not even by design.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use super::pods::{self, KubeletState, PlegState};
use super::records::Members;
use super::stream::Subject;
use crate::cri::{Container, Sandbox};

/// So many members are hashed before they are looked up: look-ups side by side do not wait for each other's memory.
const BATCH: usize = 64;

/// Packed, because how many entries of the table share a cache line decides how fast a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint([u32; 3]);

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self([high, low, _]) = *self;
        state.write_u64(u64::from(high) << 32 | u64::from(low));
    }
}

/// For keys that are hashes already.
#[derive(Debug, Default)]
struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type HashedMap<K, V> = HashMap<K, V, BuildHasherDefault<Already>>;

/// Two running hashes, to become a [`Fingerprint`].
#[derive(Clone, Copy, Debug)]
struct Lanes(u64, u64);

/// The members that PLEG knows.
#[derive(Debug)]
pub(super) struct Fingerprints {
    seeds: Lanes,
    slots: HashedMap<Fingerprint, u32>,
    /// By slot.
    states: Vec<PlegState>,
    /// By slot: whether the last scan met the member.
    met: Vec<bool>,
    /// Slots that are free again.
    free: Vec<u32>,
    /// How many pods a listing has that is exactly what is known, once that was counted.
    known_pods: Option<PodCounts>,
}

/// A listed member, hashed.
struct Probe<'a> {
    uid: &'a str,
    /// `None` if the kubelet cannot convert it.
    member: Option<(Fingerprint, KubeletState)>,
}

/// Listed members on their way through the table.
#[derive(Default)]
struct Batch<'a> {
    probes: Vec<Probe<'a>>,
    slots: Vec<Option<usize>>,
}

impl Batch<'_> {
    fn listed(&self) -> usize {
        self.probes.iter().filter(|probe| probe.member.is_some()).count()
    }

    fn listed_in(&self, state: KubeletState) -> usize {
        let is_in = |probe: &&Probe<'_>| probe.member.is_some_and(|(_, listed)| listed == state);
        self.probes.iter().filter(is_in).count()
    }
}

/// How many pods there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    /// All of them.
    pub all: usize,
    /// Those with a ready sandbox.
    pub running: usize,
}

/// A set of pods that can be asked about once an item: much cheaper than a set of texts. That it may contain a pod too
/// many, by a coincidence of 64 bits, does no harm where it is used to leave out what need not be looked at.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    fingerprints: &'a Fingerprints,
    owners: HashSet<u64, BuildHasherDefault<Already>>,
}

impl Chosen<'_> {
    /// Whether the pod with this UID is in the set.
    pub fn has(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.owners.contains(&self.fingerprints.owner(uid).0))
    }
}

/// What a scan of both lists found.
#[derive(Debug, Default)]
pub(super) struct Scan<'a> {
    /// UIDs of pods with a member that is new, in another state, there twice, or not convertible.
    pub changed: HashSet<&'a str>,
    /// Whether members that are known were not listed.
    pub misses_some: bool,
    /// The pods.
    pub pods: PodCounts,
    /// How many sandboxes there are.
    pub sandboxes: usize,
    /// How many containers there are in each state, in the order of [`KubeletState::ALL`].
    pub containers: [usize; KubeletState::ALL.len()],
}

impl Fingerprints {
    pub fn new() -> Self {
        let state = RandomState::new();
        Self {
            seeds: Lanes(state.hash_one(0), state.hash_one(1)),
            slots: HashedMap::default(),
            states: Vec::new(),
            met: Vec::new(),
            free: Vec::new(),
            known_pods: None,
        }
    }

    /// Compares both lists with what is known.
    pub fn scan<'a>(&mut self, sandboxes: &'a [Sandbox], containers: &'a [Container]) -> Scan<'a> {
        self.met.fill(false);
        let mut found = Scan::default();
        let mut met = 0;
        let mut batch = Batch::default();
        for some in sandboxes.chunks(BATCH) {
            batch.probes.extend(some.iter().filter_map(|sandbox| self.sandbox(sandbox)));
            found.sandboxes += batch.listed();
            met += self.settle(&mut batch, &mut found.changed);
        }
        for some in containers.chunks(BATCH) {
            batch.probes.extend(some.iter().filter_map(|container| self.container(container)));
            for (count, state) in found.containers.iter_mut().zip(KubeletState::ALL) {
                *count += batch.listed_in(state);
            }
            met += self.settle(&mut batch, &mut found.changed);
        }
        found.misses_some = met < self.slots.len();
        // Exactly what is known is listed: its pods need no counting twice.
        let quiet = found.changed.is_empty() && !found.misses_some;
        let counted = self.known_pods.filter(|_| quiet);
        found.pods = counted.unwrap_or_else(|| self.count_pods(sandboxes, containers));
        if quiet {
            self.known_pods = Some(found.pods);
        }
        found
    }

    fn count_pods(&self, sandboxes: &[Sandbox], containers: &[Container]) -> PodCounts {
        let mut runs_by_pod: HashedMap<u64, bool> =
            HashedMap::with_capacity_and_hasher(sandboxes.len(), BuildHasherDefault::default());
        for sandbox in sandboxes {
            if let Some(uid) = pods::uid_of_sandbox(sandbox) {
                let state = KubeletState::from(sandbox.state);
                let runs = state == KubeletState::Running && pods::is_sandbox_kept(sandbox);
                *runs_by_pod.entry(self.owner(uid).0).or_default() |= runs;
            }
        }
        for uid in containers.iter().filter_map(pods::uid_of_container) {
            runs_by_pod.entry(self.owner(uid).0).or_default();
        }
        PodCounts { all: runs_by_pod.len(), running: runs_by_pod.values().filter(|runs| **runs).count() }
    }

    fn sandbox<'a>(&self, sandbox: &'a Sandbox) -> Option<Probe<'a>> {
        let uid = pods::uid_of_sandbox(sandbox)?;
        let state = pods::is_sandbox_kept(sandbox).then(|| KubeletState::from(sandbox.state));
        Some(self.probe(uid, Subject::Sandbox, &sandbox.id, state))
    }

    fn container<'a>(&self, container: &'a Container) -> Option<Probe<'a>> {
        let uid = pods::uid_of_container(container)?;
        let state = pods::is_container_kept(container).then(|| KubeletState::from(container.state));
        Some(self.probe(uid, Subject::Container, &container.id, state))
    }

    fn probe<'a>(&self, uid: &'a str, subject: Subject, id: &str, state: Option<KubeletState>) -> Probe<'a> {
        let member = state.map(|state| (self.member(self.owner(uid), subject, id), state));
        Probe { uid, member }
    }

    /// Looks listed members up and adds the pods of those that are not as they were; returns how many are known.
    fn settle<'a>(&mut self, batch: &mut Batch<'a>, changed: &mut HashSet<&'a str>) -> usize {
        let slot_of = |probe: &Probe<'_>| Some(index(*self.slots.get(&probe.member?.0)?));
        batch.slots.extend(batch.probes.iter().map(slot_of));
        let mut met = 0;
        for (probe, slot) in batch.probes.drain(..).zip(batch.slots.drain(..)) {
            let unchanged = slot.zip(probe.member).is_some_and(|(slot, (_, state))| {
                let again = self.met.get_mut(slot).is_none_or(|met| std::mem::replace(met, true));
                met += usize::from(!again);
                !again && self.states.get(slot).is_some_and(|known| *known == state.pleg())
            });
            if !unchanged {
                changed.insert(probe.uid);
            }
        }
        met
    }

    /// The set of the pods with these UIDs.
    pub fn choose<'a>(&self, uids: impl IntoIterator<Item = &'a String>) -> Chosen<'_> {
        Chosen { fingerprints: self, owners: uids.into_iter().map(|uid| self.owner(uid).0).collect() }
    }

    /// Whether a member of the pod is known that the last scan did not meet.
    pub fn misses(&self, uid: &str, members: &Members) -> bool {
        let owner = self.owner(uid);
        members.each().any(|(subject, item)| {
            let slot = self.slots.get(&self.member(owner, subject, &item.id));
            slot.and_then(|slot| self.met.get(index(*slot))).is_some_and(|met| !met)
        })
    }

    /// From now on the new members of the pod are known and the old ones are not.
    pub fn replace(&mut self, uid: &str, old: Option<&Members>, new: Option<&Members>) {
        self.known_pods = None;
        let owner = self.owner(uid);
        for (subject, item) in old.into_iter().flat_map(Members::each) {
            self.free.extend(self.slots.remove(&self.member(owner, subject, &item.id)));
        }
        for (subject, item) in new.into_iter().flat_map(Members::each) {
            self.learn(self.member(owner, subject, &item.id), item.state);
        }
    }

    fn learn(&mut self, member: Fingerprint, state: PlegState) {
        // Of two members of a pod with one id the first counts.
        let Entry::Vacant(entry) = self.slots.entry(member) else {
            return;
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.states.push(state);
            self.met.push(true);
            // More members than that do not fit any message of the runtime.
            u32::try_from(self.states.len() - 1).unwrap_or(u32::MAX)
        });
        entry.insert(slot);
        if let Some((known, met)) = self.states.get_mut(index(slot)).zip(self.met.get_mut(index(slot))) {
            (*known, *met) = (state, true);
        }
    }

    fn owner(&self, uid: &str) -> Lanes {
        self.absorb(self.seeds, uid)
    }

    fn member(&self, owner: Lanes, subject: Subject, id: &str) -> Fingerprint {
        let kind = u64::from(subject == Subject::Sandbox);
        let Lanes(one, other) = self.absorb(Lanes(owner.0 ^ kind, owner.1), id);
        let (high, low) = halves(one);
        Fingerprint([high, low, halves(other).0])
    }

    /// Mixes a text into both lanes, its length included.
    fn absorb(&self, start: Lanes, text: &str) -> Lanes {
        let mut lanes = start;
        let (blocks, rest) = text.as_bytes().as_chunks::<16>();
        for block in blocks {
            lanes = self.mix(lanes, *block);
        }
        let mut tail = [0; 16];
        for (slot, byte) in tail.iter_mut().zip(rest) {
            *slot = *byte;
        }
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.mix(Lanes(lanes.0 ^ length, lanes.1 ^ length.rotate_left(32)), tail)
    }

    /// Each lane sees all sixteen bytes. The seeds are secret, so that nobody can make a factor zero.
    fn mix(&self, lanes: Lanes, block: [u8; 16]) -> Lanes {
        let both = u128::from_le_bytes(block);
        let (high, low) = (half(both >> 64), half(both));
        Lanes(fold(lanes.0 ^ low, self.seeds.1 ^ high), fold(lanes.1 ^ high, self.seeds.0 ^ low))
    }
}

fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

fn halves(word: u64) -> (u32, u32) {
    let half = |part: u64| u32::try_from(part & u64::from(u32::MAX)).unwrap_or(0);
    (half(word >> 32), half(word))
}

/// The lower half.
fn half(double: u128) -> u64 {
    u64::try_from(double & u128::from(u64::MAX)).unwrap_or(0)
}

/// Both halves of a product, one on top of the other.
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    half(product) ^ half(product >> 64)
}

#[cfg(test)]
mod tests {
    use super::super::records::Member;
    use super::*;
    use crate::cri::{ContainerMetadata, ContainerState, Image, Labels, label};

    fn container(id: &str, uid: &str, state: ContainerState) -> Container {
        Container {
            id: id.into(),
            sandbox_id: String::new(),
            metadata: Some(ContainerMetadata::default()),
            image: Some(Image::default()),
            image_ref: String::new(),
            state,
            created_at: 0,
            labels: [(label::POD_UID, uid)].into_iter().collect(),
            annotations: Labels::default(),
        }
    }

    fn running(ids: &[&str]) -> Members {
        let member = |id: &&str| Member { id: (*id).into(), name: Box::default(), state: PlegState::Running };
        Members { containers: ids.iter().map(member).collect(), sandboxes: Vec::new() }
    }

    #[test]
    fn only_what_is_known_in_its_state_is_unchanged() {
        let mut known = Fingerprints::new();
        known.replace("a", None, Some(&running(&["c1", "c2"])));
        let cases = [
            (vec![("c1", "a", ContainerState::Running), ("c2", "a", ContainerState::Running)], vec![], false),
            (vec![("c2", "a", ContainerState::Running), ("c1", "a", ContainerState::Running)], vec![], false),
            (vec![("c1", "a", ContainerState::Running)], vec![], true),
            (
                vec![("c1", "a", ContainerState::Exited), ("c2", "a", ContainerState::Running)],
                vec!["a"],
                false,
            ),
            (
                vec![("c1", "b", ContainerState::Running), ("c2", "a", ContainerState::Running)],
                vec!["b"],
                true,
            ),
        ];
        for (listed, changed, misses_some) in cases {
            let containers: Vec<Container> =
                listed.iter().map(|(id, uid, state)| container(id, uid, *state)).collect();
            let scan = known.scan(&[], &containers);
            assert_eq!(scan.changed.into_iter().collect::<Vec<_>>(), changed, "{listed:?}");
            assert_eq!(scan.misses_some, misses_some, "{listed:?}");
            assert_eq!(known.misses("a", &running(&["c1", "c2"])), misses_some, "{listed:?}");
        }
    }

    #[test]
    fn a_member_listed_twice_is_a_change() {
        let mut known = Fingerprints::new();
        known.replace("a", None, Some(&running(&["c"])));
        let twice =
            [container("c", "a", ContainerState::Running), container("c", "a", ContainerState::Running)];
        assert!(known.scan(&[], &twice).changed.contains("a"));
    }

    #[test]
    fn what_is_forgotten_is_new_again_and_its_place_is_used_again() {
        let mut known = Fingerprints::new();
        let (old, new) = (running(&["c1"]), running(&["c2"]));
        known.replace("a", None, Some(&old));
        known.replace("a", Some(&old), Some(&new));
        assert!(known.scan(&[], &[container("c1", "a", ContainerState::Running)]).changed.contains("a"));
        assert!(known.scan(&[], &[container("c2", "a", ContainerState::Running)]).changed.is_empty());
        assert_eq!(known.states.len(), 1);
    }

    #[test]
    fn a_uid_and_an_id_do_not_run_into_each_other() {
        let known = Fingerprints::new();
        let of = |uid: &str, id: &str| known.member(known.owner(uid), Subject::Container, id);
        let pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("ab", "c\0"), ("ab\0", "c")];
        for (number, (uid, id)) in pairs.iter().enumerate() {
            for (other_uid, other_id) in pairs.iter().skip(number + 1) {
                assert_ne!(of(uid, id), of(other_uid, other_id), "{uid:?} {id:?} {other_uid:?} {other_id:?}");
            }
        }
    }
}
