//! Finds for each lock in a dump which goroutines wait for it and which goroutines may hold it.
//!
//! A dump does not show who holds a lock, but it shows the addresses among the arguments of each frame. A goroutine is a
//! *candidate* if it does not wait for the lock itself and has the address of the object that contains the lock. The best
//! kind of evidence wins ([`HolderReason`]). `judge` decides with the signatures how sure a candidate is.
//!
//! This module also finds which goroutine started which ([`Starts`]), and cycles of waiters.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::dump::{ArgumentToken, Dump, Frame, Goroutine, Name};
use super::functions::{SINGLE_OBJECTS, meaning};
use super::wait::{self, Lock, LockKind};

/// The number of frames outwards from the waiting frame whose receivers are compared.
const MAX_OUTER_FRAMES: usize = 4;

/// The largest distance in bytes of a lock from the start of the object that contains it.
const MAX_LOCK_OFFSET: u64 = 1024;

/// The smallest word that can be an address; smaller words are counts, lengths and flags.
const MIN_ADDRESS: u64 = 1 << 16;

/// The number of waiters of one lock whose arguments are examined; more waiters would show the same.
const MAX_EXAMINED_WAITERS: usize = 16;

/// The most candidates for one lock.
const MAX_CANDIDATES: usize = 4096;

/// The starter of a goroutine is searched only if at most this many goroutines are inside the function that created it.
const MAX_STARTERS: usize = 64;

/// An argument is no evidence if more goroutines than this have it.
const MAX_SHARERS: usize = 4;

/// Why a goroutine may hold a lock, the best reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderReason {
    /// The goroutine is inside a method that has the same type and receiver as a frame of the waiter. The number is that
    /// frame's distance outwards from the waiting frame.
    SameObject(usize),
    /// The goroutine has the address of the object that contains the lock.
    ContainsLock,
    /// Like [`Self::ContainsLock`], but the dump marks the address as possibly outdated.
    MayContainLock,
    /// The goroutine has an argument of the waiting frame.
    SharesArgument,
}

impl HolderReason {
    /// Describes the reason for the report: `inside a method of the same object`.
    pub fn description(self) -> &'static str {
        match self {
            Self::SameObject(0) => "inside a method of the same object",
            Self::SameObject(_) => "inside a method of an object whose method called the waiting function",
            Self::ContainsLock => "has the object that contains the lock",
            Self::MayContainLock => {
                "has the object that contains the lock, according to a stack value that may be outdated"
            }
            Self::SharesArgument => "has an argument of the waiting function",
        }
    }
}

/// A lock with its waiters and the candidates for its holder, as indexes of goroutines in the dump.
#[derive(Clone, Debug)]
pub struct Contention {
    /// The function that wants the lock.
    pub at: Name,
    /// The waiters, in the dump's order.
    pub waiters: Vec<usize>,
    /// The waiters that want to write.
    pub writers: Vec<usize>,
    /// The candidates with the best reason.
    pub holders: Vec<usize>,
    /// The reason why these candidates may hold the lock.
    pub reason: Option<HolderReason>,
}

/// What identifies a lock: waiters with equal keys wait for the same lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LockKey<'a> {
    /// The lock's address.
    Address(u64),
    /// The type and the address of the object whose method wants the lock.
    Object(&'a str, u64),
    /// The function that wants the lock, if the dump has no address.
    Function(&'a str),
}

/// Finds every lock for which a goroutine waits. Goroutines for which `is_normal` is true wait as in a healthy daemon and
/// are no candidates.
pub fn contentions(dump: &Dump, is_normal: &dyn Fn(&Goroutine) -> bool) -> Vec<Contention> {
    let mut groups: BTreeMap<LockKey<'_>, Vec<(usize, Lock)>> = BTreeMap::new();
    let mut locks: HashMap<usize, Lock> = HashMap::new();
    for (at, goroutine) in dump.goroutines.iter().enumerate() {
        if let Some(lock) = wait::awaited_lock(goroutine) {
            locks.insert(at, lock);
            groups.entry(lock_key(goroutine, &lock)).or_default().push((at, lock));
        }
    }
    let clues: Vec<Clues> = groups.iter().map(|(key, waiters)| clues(dump, key, waiters)).collect();
    let mut found = find_candidates(dump, &clues, &locks);
    let mut contentions: Vec<Contention> = groups
        .into_values()
        .enumerate()
        .filter_map(|(nth, waiters)| {
            let (first, lock) = *waiters.first()?;
            let at = Name::clone(&dump.goroutines.get(first)?.frames.get(lock.owner)?.function);
            let mut candidates = found.remove(&nth).unwrap_or_default();
            candidates.retain(|at, _| !dump.goroutines.get(*at).is_some_and(is_normal));
            let (reason, holders) = best_candidates(candidates);
            Some(Contention {
                at,
                writers: waiters
                    .iter()
                    .filter(|(_, lock)| lock.kind == LockKind::Write)
                    .map(|(at, _)| *at)
                    .collect(),
                waiters: waiters.into_iter().map(|(at, _)| at).collect(),
                holders,
                reason,
            })
        })
        .collect();
    contentions.sort_by_key(|contention| contention.waiters.first().copied());
    contentions
}

/// Returns the key of the lock for which a goroutine waits. The address of a mutex is the best key. A lock of another
/// kind (such as an `RWMutex`) is identified by the object that contains it, then by its address, then by the function
/// that wants it.
fn lock_key<'a>(goroutine: &'a Goroutine, lock: &Lock) -> LockKey<'a> {
    let owner = goroutine.frames.get(lock.owner);
    if lock.kind == LockKind::Mutex
        && let Some(address) = lock.address
    {
        return LockKey::Address(address);
    }
    let object = owner.and_then(|frame| Some((frame.receiver_type()?, frame.receiver()?)));
    match (object, lock.address) {
        (Some((kind, (receiver, true))), _) if !is_daemon_wide(kind) => LockKey::Object(kind, receiver),
        (_, Some(address)) => LockKey::Address(address),
        (Some((kind, (receiver, _))), None) => LockKey::Object(kind, receiver),
        (None, None) => LockKey::Function(owner.map_or("", |frame| &*frame.function)),
    }
}

/// Returns whether a daemon has only one object of this type.
fn is_daemon_wide(kind: &str) -> bool {
    meaning(&SINGLE_OBJECTS, |single| kind.ends_with(single)).is_some()
}

/// What is known about one lock, by which its holder can be recognised.
#[derive(Default)]
struct Clues {
    /// The goroutines that wait for the lock.
    waiters: BTreeSet<usize>,
    /// The receivers of the waiters' methods: type, address, and the number of frames outwards from the waiting frame.
    objects: Vec<(Name, u64, usize)>,
    /// The lock's address.
    address: Option<u64>,
    /// The addresses among the arguments of the waiting frames.
    arguments: BTreeSet<u64>,
}

/// Collects the clues about one lock from the frames of its waiters.
fn clues(dump: &Dump, key: &LockKey<'_>, waiters: &[(usize, Lock)]) -> Clues {
    let mut clues = Clues {
        waiters: waiters.iter().map(|(at, _)| *at).collect(),
        address: match key {
            LockKey::Address(address) => Some(*address),
            LockKey::Object(..) | LockKey::Function(_) => waiters.iter().find_map(|(_, lock)| lock.address),
        },
        ..Clues::default()
    };
    for (at, lock) in waiters.iter().take(MAX_EXAMINED_WAITERS) {
        let Some(goroutine) = dump.goroutines.get(*at) else { continue };
        let owners = goroutine.frames.iter().skip(lock.owner);
        for (out, frame) in owners.take(MAX_OUTER_FRAMES + 1).enumerate() {
            if let (Some(kind), Some((receiver, certain))) = (frame.receiver_type(), frame.receiver())
                && (certain || out == 0)
                && receiver >= MIN_ADDRESS
                && !is_daemon_wide(kind)
                && !clues.objects.iter().any(|(known, address, _)| &**known == kind && *address == receiver)
            {
                clues.objects.push((kind.into(), receiver, out));
            }
            if out == 0 {
                clues
                    .arguments
                    .extend(frame.words().map(|(bits, _)| bits).filter(|bits| *bits >= MIN_ADDRESS));
            }
        }
    }
    clues
}

/// For each index of a lock, the candidates with their best reasons.
type CandidatesByLock = HashMap<usize, BTreeMap<usize, HolderReason>>;

/// Compares all arguments of all goroutines with the clues of all locks, in one pass over the dump.
fn find_candidates(dump: &Dump, clues: &[Clues], locks: &HashMap<usize, Lock>) -> CandidatesByLock {
    let mut by_object: HashMap<u64, Vec<(usize, &str, usize)>> = HashMap::new();
    let mut by_argument: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut by_address: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (nth, clue) in clues.iter().enumerate() {
        for (kind, receiver, out) in &clue.objects {
            by_object.entry(*receiver).or_default().push((nth, kind, *out));
        }
        for word in &clue.arguments {
            by_argument.entry(*word).or_default().push(nth);
        }
        if let Some(address) = clue.address {
            by_address.entry(address).or_default().push(nth);
        }
    }
    let mut found = CandidatesByLock::new();
    if clues.is_empty() {
        return found;
    }
    let wanted =
        AddressFilter::of(by_object.keys().chain(by_argument.keys()).copied(), by_address.keys().copied());
    // The goroutines that have a word as an argument; a word that many goroutines have is no evidence.
    let mut goroutines_with: HashMap<u64, BTreeSet<usize>> = HashMap::new();
    for (at, goroutine) in dump.goroutines.iter().enumerate() {
        // The frames in which a goroutine waits for a lock or in which an idle loop waits are no evidence.
        let from = locks.get(&at).map_or(0, |lock| lock.owner + 1);
        let mut idle_frame = None;
        for (depth, frame) in goroutine.frames.iter().enumerate().skip(from) {
            if !frame.words().any(|(word, _)| wanted.may_have(word))
                || *idle_frame.get_or_insert_with(|| idle_loop_frame(goroutine)) == Some(depth)
            {
                continue;
            }
            let receiver = frame.receiver_type().zip(frame.receiver());
            for (word, certain) in frame.words() {
                if word < MIN_ADDRESS {
                    continue;
                }
                if let Some((kind, (address, _))) = receiver
                    && address == word
                {
                    for (nth, wanted, out) in by_object.get(&word).into_iter().flatten() {
                        if *wanted == kind {
                            add_candidate(&mut found, clues, *nth, at, HolderReason::SameObject(*out));
                        }
                    }
                }
                for (address, contended) in by_address.range(word..word.saturating_add(MAX_LOCK_OFFSET)) {
                    debug_assert!(*address >= word);
                    for nth in contended {
                        let reason =
                            if certain { HolderReason::ContainsLock } else { HolderReason::MayContainLock };
                        add_candidate(&mut found, clues, *nth, at, reason);
                    }
                }
                for nth in by_argument.get(&word).into_iter().flatten() {
                    goroutines_with.entry(word).or_default().insert(at);
                    add_candidate(&mut found, clues, *nth, at, HolderReason::SharesArgument);
                }
            }
        }
    }
    drop_common_arguments(&mut found, clues, &goroutines_with);
    drop_fellow_waiters(dump, &mut found, clues, locks);
    found
}

/// Adds the goroutine `at` as a candidate for the lock with index `nth`, unless the goroutine waits for that lock. Keeps
/// the better of two reasons.
fn add_candidate(found: &mut CandidatesByLock, clues: &[Clues], nth: usize, at: usize, reason: HolderReason) {
    if clues.get(nth).is_some_and(|clue| clue.waiters.contains(&at)) {
        return;
    }
    let candidates = found.entry(nth).or_default();
    // A word that so many goroutines have is no evidence, and the list of them must not become larger than the dump.
    let is_strong = matches!(reason, HolderReason::SameObject(_));
    if !is_strong && candidates.len() >= MAX_CANDIDATES && !candidates.contains_key(&at) {
        return;
    }
    let known = candidates.entry(at).or_insert(reason);
    *known = (*known).min(reason);
}

/// Removes candidates whose only evidence is an argument that many goroutines have, such as a server or a context.
fn drop_common_arguments(
    found: &mut CandidatesByLock,
    clues: &[Clues],
    goroutines_with: &HashMap<u64, BTreeSet<usize>>,
) {
    for (nth, candidates) in found.iter_mut() {
        let Some(clue) = clues.get(*nth) else { continue };
        candidates.retain(|at, reason| {
            *reason != HolderReason::SharesArgument
                || clue.arguments.iter().any(|word| {
                    goroutines_with.get(word).is_some_and(|sharers| {
                        sharers.contains(at) && sharers.difference(&clue.waiters).count() <= MAX_SHARERS
                    })
                })
        });
    }
}

/// Removes candidates that themselves wait for a lock of the same object: they wait for the same lock.
fn drop_fellow_waiters(
    dump: &Dump,
    found: &mut CandidatesByLock,
    clues: &[Clues],
    locks: &HashMap<usize, Lock>,
) {
    for (nth, candidates) in found.iter_mut() {
        let Some(clue) = clues.get(*nth) else { continue };
        let innermost: BTreeSet<u64> =
            clue.objects.iter().filter(|(_, _, out)| *out == 0).map(|(_, address, _)| *address).collect();
        candidates.retain(|at, _| {
            let Some(lock) = locks.get(at) else { return true };
            let Some(frame) = dump.goroutines.get(*at).and_then(|goroutine| goroutine.frames.get(lock.owner))
            else {
                return true;
            };
            let same_address = lock.address.is_some() && lock.address == clue.address;
            !same_address && !frame.words().any(|(word, _)| innermost.contains(&word))
        });
    }
}

/// Returns the frame in which a goroutine waits for its next work, if it serves no call.
fn idle_loop_frame(goroutine: &Goroutine) -> Option<usize> {
    let idle =
        matches!(&*goroutine.state, "select" | "chan receive" | "IO wait" | "sleep" | "sync.Cond.Wait");
    (idle && !serves(goroutine)).then(|| wait::innermost_frame(goroutine))
}

/// A filter with which most words of a dump are skipped quickly. It may accept words that match no clue, but never skips
/// a word that matches one.
struct AddressFilter(Vec<bool>);

impl AddressFilter {
    /// The number of slots. Each word belongs to two slots: its own, and that of the block of memory to which it points.
    const SLOTS: usize = 1 << 14;

    /// Creates a filter for the words in `exact`, and for the words up to [`MAX_LOCK_OFFSET`] before an address in
    /// `locks`.
    fn of(exact: impl Iterator<Item = u64>, locks: impl Iterator<Item = u64>) -> Self {
        let mut filter = Self(vec![false; Self::SLOTS]);
        for word in exact {
            filter.set(Self::slot(word));
        }
        for address in locks {
            filter.set(Self::block(address / MAX_LOCK_OFFSET));
            filter.set(Self::block((address / MAX_LOCK_OFFSET).wrapping_sub(1)));
        }
        filter
    }

    /// Returns whether a word may match a clue.
    fn may_have(&self, word: u64) -> bool {
        let set = |slot: usize| self.0.get(slot).copied().unwrap_or(false);
        word >= MIN_ADDRESS && (set(Self::slot(word)) || set(Self::block(word / MAX_LOCK_OFFSET)))
    }

    /// Marks a slot.
    fn set(&mut self, slot: usize) {
        if let Some(slot) = self.0.get_mut(slot) {
            *slot = true;
        }
    }

    /// Returns the slot of a word.
    fn slot(word: u64) -> usize {
        // The low three bits of an address are zero, because objects are aligned to 8 bytes.
        Self::fold(word >> 3)
    }

    /// Returns the slot of a block of [`MAX_LOCK_OFFSET`] bytes.
    fn block(number: u64) -> usize {
        Self::fold(number ^ 0x2f2f)
    }

    /// Returns the slot for a number: its hash, modulo the number of slots.
    fn fold(word: u64) -> usize {
        let folded = word ^ (word >> 14) ^ (word >> 28);
        usize::try_from(folded).unwrap_or(usize::MAX) % Self::SLOTS
    }
}

/// Returns whether a goroutine serves a call or works for a pod.
fn serves(goroutine: &Goroutine) -> bool {
    goroutine.frames.iter().any(|frame| {
        frame.function.contains("_Handler")
            || frame.function.contains("ttrpc.(*serviceSet)")
            || frame.function.contains("podWorkerLoop")
    })
}

/// Returns the best reason and all candidates with that reason. A weak reason that many candidates have is skipped.
fn best_candidates(candidates: BTreeMap<usize, HolderReason>) -> (Option<HolderReason>, Vec<usize>) {
    let mut by_reason: BTreeMap<HolderReason, Vec<usize>> = BTreeMap::new();
    for (at, reason) in candidates {
        by_reason.entry(reason).or_default().push(at);
    }
    for (reason, holders) in by_reason {
        let is_evidence = match reason {
            HolderReason::SameObject(0) | HolderReason::ContainsLock => true,
            HolderReason::SameObject(_) | HolderReason::MayContainLock | HolderReason::SharesArgument => {
                holders.len() <= MAX_SHARERS
            }
        };
        if is_evidence {
            return (Some(reason), holders);
        }
    }
    (None, Vec::new())
}

/// Which goroutine started which, as indexes in the dump.
#[derive(Debug, Default)]
pub struct Starts {
    /// The goroutine that started each goroutine.
    starters: HashMap<usize, usize>,
    /// The goroutines that each goroutine started.
    started: HashMap<usize, Vec<usize>>,
}

impl Starts {
    /// Finds the starter of each goroutine: by its id, which Go writes since 1.21, otherwise by a context that both
    /// goroutines have as an argument.
    pub fn of(dump: &Dump) -> Self {
        let positions: HashMap<u64, usize> = dump
            .goroutines
            .iter()
            .enumerate()
            .filter_map(|(at, goroutine)| Some((goroutine.id?, at)))
            .collect();
        let creators = || {
            let all = dump.goroutines.iter().enumerate();
            all.filter_map(|(at, goroutine)| Some((at, goroutine.created_by.as_ref()?)))
        };
        let mut starts = Self::default();
        for (started, creator) in creators() {
            if let Some(starter) = creator.goroutine.and_then(|id| positions.get(&id)) {
                starts.add(*starter, started);
            }
        }
        if creators().any(|(_, creator)| creator.goroutine.is_some()) {
            return starts;
        }
        let wanted: BTreeSet<&str> = creators().map(|(_, creator)| &*creator.function).collect();
        let mut inside: HashMap<&str, Vec<(usize, &Frame)>> = HashMap::new();
        for (at, goroutine) in dump.goroutines.iter().enumerate() {
            for frame in goroutine.frames.iter().filter(|frame| wanted.contains(&*frame.function)) {
                inside.entry(&frame.function).or_default().push((at, frame));
            }
        }
        for (started, creator) in creators() {
            let candidates = inside.get(&*creator.function).map_or(&[][..], Vec::as_slice);
            // Many candidates are the handlers of a server's loop, which share no context with the loop.
            if let (true, Some(goroutine)) = (candidates.len() <= MAX_STARTERS, dump.goroutines.get(started))
                && let Some(starter) = starter_by_context(goroutine, started, candidates)
            {
                starts.add(starter, started);
            }
        }
        starts
    }

    /// Records that `starter` started `child`.
    fn add(&mut self, starter: usize, child: usize) {
        self.starters.insert(child, starter);
        self.started.entry(starter).or_default().push(child);
    }

    /// Returns the goroutine that started the goroutine `started`.
    pub fn starter_of(&self, started: usize) -> Option<usize> {
        self.starters.get(&started).copied()
    }

    /// Returns the goroutines that the goroutine `starter` started.
    pub fn started_by(&self, starter: usize) -> &[usize] {
        self.started.get(&starter).map_or(&[], Vec::as_slice)
    }
}

/// Returns the only candidate that has a context of `goroutine`, which is at index `at`, as an argument.
fn starter_by_context(goroutine: &Goroutine, at: usize, candidates: &[(usize, &Frame)]) -> Option<usize> {
    let own: BTreeSet<(u64, u64)> = goroutine.frames.iter().flat_map(contexts).collect();
    let mut sharing: Vec<usize> = candidates
        .iter()
        .filter(|(candidate, frame)| {
            *candidate != at && contexts(frame).any(|context| own.contains(&context))
        })
        .map(|(candidate, _)| *candidate)
        .collect();
    sharing.dedup();
    match sharing.as_slice() {
        [starter] => Some(*starter),
        _ => None,
    }
}

/// Returns the arguments that may be a Go context, which looks like `{type, pointer}`.
fn contexts(frame: &Frame) -> impl Iterator<Item = (u64, u64)> + '_ {
    frame.arguments.windows(4).filter_map(|tokens| match tokens {
        [
            ArgumentToken::Open,
            ArgumentToken::Word { bits: kind, .. },
            ArgumentToken::Word { bits: pointer, .. },
            ArgumentToken::Close,
        ] if *kind >= MIN_ADDRESS && *pointer >= MIN_ADDRESS => Some((*kind, *pointer)),
        _ => None,
    })
}

/// Finds cycles of goroutines in which each waits for the next, as indexes in the dump. A cycle is a deadlock if the
/// candidates hold the locks.
pub fn cycles(contentions: &[Contention]) -> Vec<Vec<usize>> {
    let mut waits_for: BTreeMap<usize, &[usize]> = BTreeMap::new();
    for contention in contentions {
        // With several candidates, it is unknown for which of them a waiter waits.
        if contention.holders.len() == 1 {
            for waiter in &contention.waiters {
                waits_for.insert(*waiter, &contention.holders);
            }
        }
    }
    let mut done = BTreeSet::new();
    let mut cycles = Vec::new();
    for start in waits_for.keys().copied() {
        let mut path: Vec<usize> = Vec::new();
        let mut at = start;
        while done.insert(at) {
            path.push(at);
            match waits_for.get(&at).and_then(|holders| holders.first()) {
                Some(next) => at = *next,
                None => break,
            }
        }
        if let Some(from) = path.iter().position(|seen| *seen == at)
            && waits_for.contains_key(&at)
            && path.len() - from > 1
        {
            cycles.push(path.split_off(from));
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::super::read::{Bounds, read};
    use super::*;

    fn dump(text: &str) -> Dump {
        read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0)
    }

    fn waiter(id: u64, lock: &str, owner: &str) -> String {
        format!(
            "goroutine {id} [sync.Mutex.Lock]:\ninternal/sync.(*Mutex).lockSlow({lock})\n\t/m.go:1 +0x1\nsync.(*Mutex).Lock(...)\n\t/m.go:2\n{owner}\n\t/a.go:3 +0x1\n\n"
        )
    }

    fn holder(id: u64, frame: &str) -> String {
        format!(
            "goroutine {id} [syscall]:\nsyscall.Syscall(0x1, 0x2)\n\t/s.s:1 +0x1\n{frame}\n\t/a.go:9 +0x1\n\n"
        )
    }

    fn found(text: &str) -> Vec<(Vec<usize>, Option<HolderReason>)> {
        let found = contentions(&dump(text), &|_| false);
        found.into_iter().map(|contention| (contention.holders, contention.reason)).collect()
    }

    #[test]
    fn a_goroutine_in_a_method_of_the_same_object_is_a_candidate() {
        let text = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + &holder(2, "a/b.(*T).Put(0xc000100000)");
        assert_eq!(found(&text), [(vec![1], Some(HolderReason::SameObject(0)))]);
        let other = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + &holder(2, "a/b.(*T).Put(0xc000200000)");
        assert_eq!(found(&other), [(Vec::new(), None)]);
    }

    #[test]
    fn a_goroutine_with_an_address_shortly_before_the_lock_is_a_candidate() {
        let near = waiter(1, "0xc000100388", "main.get(0x1)") + &holder(2, "main.put(0xc000100200)");
        assert_eq!(found(&near), [(vec![1], Some(HolderReason::ContainsLock))]);
        let far = waiter(1, "0xc000100388", "main.get(0x1)") + &holder(2, "main.put(0xc000000200)");
        assert_eq!(found(&far), [(Vec::new(), None)]);
        let behind = waiter(1, "0xc000100388", "main.get(0x1)") + &holder(2, "main.put(0xc000100389)");
        assert_eq!(found(&behind), [(Vec::new(), None)]);
    }

    #[test]
    fn a_waiter_for_a_lock_is_no_candidate_for_its_holder() {
        let text = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + &waiter(2, "0xc000100010", "a/b.(*T).Put(0xc000100000)");
        let contentions = contentions(&dump(&text), &|_| false);
        assert_eq!(
            (contentions.len(), contentions[0].waiters.len(), contentions[0].holders.len()),
            (1, 2, 0)
        );
    }

    #[test]
    fn a_loop_that_waits_for_its_next_work_is_no_candidate() {
        let text = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + "goroutine 2 [select, 9 minutes]:\na/b.(*T).run(0xc000100000)\n\t/a.go:1 +0x1\ncreated by a/b.New in goroutine 1\n\t/a.go:2 +0x1\n";
        assert_eq!(found(&text), [(Vec::new(), None)]);
    }

    #[test]
    fn before_go_1_21_a_shared_context_shows_the_starter() {
        let starter = |id, context: &str| {
            format!(
                "goroutine {id} [chan receive]:\na/cni.(*C).attach(0xc000100000, {{0x55ddaa10, {context}}}, 0x2?)\n\t/a.go:1 +0x1\n\n"
            )
        };
        let child = |id, context: &str| {
            format!(
                "goroutine {id} [syscall]:\na/cni.run({{0x55ddaa10?, {context}}}, 0x1)\n\t/a.go:9 +0x1\ncreated by a/cni.(*C).attach\n\t/a.go:3 +0x1\n\n"
            )
        };
        let text = starter(1, "0xc000777000")
            + &starter(2, "0xc000888000")
            + &child(3, "0xc000888000")
            + &child(4, "0xc000999000");
        let starts = Starts::of(&dump(&text));
        assert_eq!((starts.starter_of(2), starts.started_by(1)), (Some(1), &[2][..]));
        assert_eq!(starts.starter_of(3), None, "no other goroutine has its context");
        // If two goroutines have the context, the starter is unknown.
        let both = starter(1, "0xc000888000") + &starter(2, "0xc000888000") + &child(3, "0xc000888000");
        assert_eq!(Starts::of(&dump(&both)).starter_of(2), None);
        let newer =
            text.replace("created by a/cni.(*C).attach\n", "created by a/cni.(*C).attach in goroutine 1\n");
        assert_eq!(Starts::of(&dump(&newer)).starter_of(2), Some(0));
    }

    #[test]
    fn two_goroutines_that_wait_for_each_other_are_a_cycle() {
        let waits = |id, lock: &str, wants: &str, has: &str| {
            waiter(id, lock, &format!("a/b.(*T).Get({wants})")).trim_end().to_owned()
                + &format!("\na/b.(*U).Hold({has})\n\t/a.go:7 +0x1\n\n")
        };
        let text = waits(1, "0xc000900010", "0xc000900000", "0xc000800000")
            + &waits(2, "0xc000800010", "0xc000800000", "0xc000900000");
        let contentions = contentions(&dump(&text), &|_| false);
        assert_eq!(cycles(&contentions), [vec![0, 1]]);
    }
}
