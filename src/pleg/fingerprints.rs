//! Finds what changed on a node without grouping it into pods.
//!
//! A runtime lists in an order of its own, so comparing pods means chasing ids all over the memory. Instead each
//! member that PLEG knows is held as a fingerprint of its pod's UID and its id, with its state: a relist of a node on
//! which nothing happened is one look-up a member in a table that fits a processor cache. A fingerprint has 128 bits
//! and a seed of its own in each process, so that two members never share one, not even by design.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use super::pods::{self, KubeletState, PlegState};
use super::records::Members;
use super::stream::Subject;
use crate::cri::{Container, Sandbox};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint(u64, u64);

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
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

#[derive(Clone, Copy, Debug)]
struct Known {
    state: PlegState,
    /// Number of the last scan that met it.
    seen: u32,
}

/// The members that PLEG knows.
#[derive(Debug)]
pub(super) struct Fingerprints {
    seeds: [u64; 2],
    known: HashedMap<Fingerprint, Known>,
    scan: u32,
}

/// What a scan of both lists found.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    /// UIDs of pods with a member that is new, in another state, there twice, or not convertible.
    pub changed: HashSet<&'a str>,
    /// Whether members that are known were not listed.
    pub misses_some: bool,
    /// How many pods there are.
    pub pods: usize,
    /// How many of them have a ready sandbox.
    pub running_pods: usize,
    /// How many sandboxes there are.
    pub sandboxes: usize,
    /// How many containers there are in each state, in the order of [`KubeletState::ALL`].
    pub containers: [usize; KubeletState::ALL.len()],
}

impl Fingerprints {
    pub fn new() -> Self {
        let state = RandomState::new();
        Self { seeds: [state.hash_one(0), state.hash_one(1)], known: HashedMap::default(), scan: 0 }
    }

    /// Compares both lists with what is known.
    pub fn scan<'a>(&mut self, sandboxes: &'a [Sandbox], containers: &'a [Container]) -> Scan<'a> {
        self.scan = self.scan.wrapping_add(1);
        let mut found = Scan {
            changed: HashSet::new(),
            misses_some: false,
            pods: 0,
            running_pods: 0,
            sandboxes: 0,
            containers: [0; KubeletState::ALL.len()],
        };
        let mut met = 0;
        let mut pods: HashedMap<u64, bool> =
            HashedMap::with_capacity_and_hasher(sandboxes.len(), BuildHasherDefault::default());
        for sandbox in sandboxes {
            let Some(uid) = pods::uid_of_sandbox(sandbox) else {
                continue;
            };
            let owner = self.owner(uid);
            let runs = pods.entry(owner.0).or_default();
            if pods::is_sandbox_kept(sandbox) {
                let state = KubeletState::from(sandbox.state);
                *runs |= state == KubeletState::Running;
                found.sandboxes += 1;
                let member = self.member(owner, Subject::Sandbox, &sandbox.id);
                if self.is_unchanged(member, state.pleg(), &mut met) {
                    continue;
                }
            }
            found.changed.insert(uid);
        }
        for container in containers {
            let Some(uid) = pods::uid_of_container(container) else {
                continue;
            };
            let owner = self.owner(uid);
            pods.entry(owner.0).or_default();
            if pods::is_container_kept(container) {
                let state = KubeletState::from(container.state);
                for (count, known) in found.containers.iter_mut().zip(KubeletState::ALL) {
                    *count += usize::from(known == state);
                }
                let member = self.member(owner, Subject::Container, &container.id);
                if self.is_unchanged(member, state.pleg(), &mut met) {
                    continue;
                }
            }
            found.changed.insert(uid);
        }
        found.misses_some = met < self.known.len();
        found.pods = pods.len();
        found.running_pods = pods.values().filter(|runs| **runs).count();
        found
    }

    /// Whether a member of the pod is known that the last scan did not meet.
    pub fn misses(&self, uid: &str, members: &Members) -> bool {
        let owner = self.owner(uid);
        members.each().any(|(subject, member)| {
            let known = self.known.get(&self.member(owner, subject, &member.id));
            known.is_some_and(|known| known.seen != self.scan)
        })
    }

    /// From now on these members of the pod are known, and those are not.
    pub fn replace(&mut self, uid: &str, old: Option<&Members>, new: Option<&Members>) {
        let owner = self.owner(uid);
        for (subject, member) in old.into_iter().flat_map(Members::each) {
            self.known.remove(&self.member(owner, subject, &member.id));
        }
        for (subject, member) in new.into_iter().flat_map(Members::each) {
            let known = Known { state: member.state, seen: self.scan };
            let key = self.member(owner, subject, &member.id);
            self.known.entry(key).or_insert(known);
        }
    }

    /// Whether a member is known in this state and was not met before in this scan.
    fn is_unchanged(&mut self, member: Fingerprint, state: PlegState, met: &mut usize) -> bool {
        let Some(known) = self.known.get_mut(&member) else {
            return false;
        };
        let first = known.seen != self.scan;
        known.seen = self.scan;
        *met += usize::from(first);
        first && known.state == state
    }

    fn owner(&self, uid: &str) -> Fingerprint {
        let [one, other] = self.seeds;
        absorb(Fingerprint(one, other), uid)
    }

    fn member(&self, owner: Fingerprint, subject: Subject, id: &str) -> Fingerprint {
        let [_, seed] = self.seeds;
        let kind = u64::from(subject == Subject::Sandbox);
        absorb(Fingerprint(owner.0 ^ seed.rotate_left(17), owner.1 ^ kind), id)
    }
}

/// Mixes a text into a fingerprint, its length included.
fn absorb(start: Fingerprint, text: &str) -> Fingerprint {
    let mut hash = start;
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    for chunk in chunks {
        hash = mix(hash, u64::from_le_bytes(*chunk));
    }
    let mut tail = [0; 8];
    for (slot, byte) in tail.iter_mut().zip(rest) {
        *slot = *byte;
    }
    hash = mix(hash, u64::from_le_bytes(tail));
    mix(hash, u64::try_from(text.len()).unwrap_or(u64::MAX))
}

fn mix(hash: Fingerprint, word: u64) -> Fingerprint {
    // Two odd constants without a pattern: the fractional digits of the golden ratio and of pi.
    Fingerprint(fold(hash.0 ^ word, 0x9e37_79b9_7f4a_7c15), fold(hash.1 ^ word, 0x243f_6a88_85a3_08d3))
}

/// Both halves of a product, one on top of the other.
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    let half = |part: u128| u64::try_from(part & u128::from(u64::MAX)).unwrap_or(0);
    half(product) ^ half(product >> 64)
}
