//! Finds which goroutines may hold a lock, from addresses alone, and ranks them.
//!
//! A dump never states who holds a lock, but it has addresses. A goroutine that is inside a method of the same object
//! and does not itself wait for the lock is a *candidate*. Only a matching signature makes it sure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::dump::{Dump, Frame, Goroutine, Name, Token};
use super::wait::{self, Lock, LockKind};

/// How many frames outwards from the waiting frame an object is searched.
const OUTWARDS: usize = 4;

/// The largest offset of a lock that is embedded in an object.
const EMBEDDED_WITHIN: u64 = 1024;

/// Smaller words are counts, lengths and flags.
const SMALLEST_ADDRESS: u64 = 1 << 16;

/// How many waiters of one lock have their words examined; more would show the same.
const SAMPLED: usize = 16;

/// The most candidates for one lock.
const MAX_CANDIDATES: usize = 4096;

/// The most goroutines inside one function that may have started another goroutine.
const MAKERS: usize = 64;

/// How many goroutines may share an argument before the argument means nothing.
const MAX_SHARERS: usize = 4;

/// Why a goroutine may hold a lock, the best reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The goroutine is inside a method of the same type with the same receiver, this many frames outwards from the
    /// waiting frame.
    SameObject(usize),
    /// The goroutine holds the object in which the lock is embedded.
    Embeds,
    /// Like [`Self::Embeds`], but by words that may be stale.
    Faint,
    /// The goroutine shares an argument of the waiting frame.
    SharesArgument,
}

impl Reason {
    /// The reason in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::SameObject(0) => "inside a method of the same object",
            Self::SameObject(_) => "inside a method of an object that the waiter came through",
            Self::Embeds => "has the object that the lock is part of",
            Self::Faint => {
                "has the object that contains the lock, according to a stack value that may be outdated"
            }
            Self::SharesArgument => "has an argument of the waiting call",
        }
    }
}

/// A lock with its waiters and candidates, as indexes in the dump.
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
    /// Their reason.
    pub reason: Option<Reason>,
}

/// What the waiters of one lock have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LockKey<'a> {
    Address(u64),
    Object(&'a str, u64),
    Place(&'a str),
}

/// Finds every lock for which a goroutine waits. Goroutines for which `idle` is true wait as usual and hold nothing.
pub fn contentions(dump: &Dump, idle: &dyn Fn(&Goroutine) -> bool) -> Vec<Contention> {
    let mut groups: BTreeMap<LockKey<'_>, Vec<(usize, Lock)>> = BTreeMap::new();
    let mut locks: HashMap<usize, Lock> = HashMap::new();
    for (at, goroutine) in dump.goroutines.iter().enumerate() {
        if let Some(lock) = wait::lock(goroutine) {
            locks.insert(at, lock);
            groups.entry(key(goroutine, &lock)).or_default().push((at, lock));
        }
    }
    let clues: Vec<Clues> = groups.iter().map(|(key, waiters)| clues(dump, key, waiters)).collect();
    let mut found = search(dump, &clues, &locks);
    let mut contentions: Vec<Contention> = groups
        .into_values()
        .enumerate()
        .filter_map(|(nth, waiters)| {
            let (first, lock) = *waiters.first()?;
            let at = Name::clone(&dump.goroutines.get(first)?.frames.get(lock.owner)?.function);
            let mut candidates = found.remove(&nth).unwrap_or_default();
            candidates.retain(|at, _| !dump.goroutines.get(*at).is_some_and(idle));
            let (reason, holders) = best(candidates);
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

fn key<'a>(goroutine: &'a Goroutine, lock: &Lock) -> LockKey<'a> {
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
        (None, None) => LockKey::Place(owner.map_or("", |frame| &*frame.function)),
    }
}

/// Whether a daemon has only one object of this type, so that being inside its methods means nothing.
fn is_daemon_wide(kind: &str) -> bool {
    const WIDE: [&str; 6] = [
        "server.(*criService)",
        "(*instrumentedService)",
        "server.(*Server)",
        "grpc.(*Server)",
        "oci.(*Runtime)",
        "lib.(*ContainerServer)",
    ];
    WIDE.iter().any(|wide| kind.ends_with(wide))
}

/// The values by which a holder is recognised.
#[derive(Default)]
struct Clues {
    waiters: BTreeSet<usize>,
    /// Type and receiver, and the number of frames outwards.
    objects: Vec<(Name, u64, usize)>,
    address: Option<u64>,
    /// The words of the waiting frames.
    arguments: BTreeSet<u64>,
}

fn clues(dump: &Dump, key: &LockKey<'_>, waiters: &[(usize, Lock)]) -> Clues {
    let mut clues = Clues {
        waiters: waiters.iter().map(|(at, _)| *at).collect(),
        address: match key {
            LockKey::Address(address) => Some(*address),
            LockKey::Object(..) | LockKey::Place(_) => waiters.iter().find_map(|(_, lock)| lock.address),
        },
        ..Clues::default()
    };
    for (at, lock) in waiters.iter().take(SAMPLED) {
        let Some(goroutine) = dump.goroutines.get(*at) else { continue };
        let owners = goroutine.frames.iter().skip(lock.owner);
        for (out, frame) in owners.take(OUTWARDS + 1).enumerate() {
            if let (Some(kind), Some((receiver, certain))) = (frame.receiver_type(), frame.receiver())
                && (certain || out == 0)
                && receiver >= SMALLEST_ADDRESS
                && !is_daemon_wide(kind)
                && !clues.objects.iter().any(|(known, address, _)| &**known == kind && *address == receiver)
            {
                clues.objects.push((kind.into(), receiver, out));
            }
            if out == 0 {
                clues
                    .arguments
                    .extend(frame.words().map(|(bits, _)| bits).filter(|bits| *bits >= SMALLEST_ADDRESS));
            }
        }
    }
    clues
}

/// For each lock, its candidates, each with its best reason.
type CandidatesByLock = HashMap<usize, BTreeMap<usize, Reason>>;

/// Searches all words of a dump once.
fn search(dump: &Dump, clues: &[Clues], locks: &HashMap<usize, Lock>) -> CandidatesByLock {
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
    // Which goroutines have a word: a word that many have means nothing.
    let mut holders_of: HashMap<u64, BTreeSet<usize>> = HashMap::new();
    for (at, goroutine) in dump.goroutines.iter().enumerate() {
        // The frames of a wait itself hold nothing, and neither do those of an idle loop.
        let from = locks.get(&at).map_or(0, |lock| lock.owner + 1);
        let mut idle = None;
        for (depth, frame) in goroutine.frames.iter().enumerate().skip(from) {
            if !frame.words().any(|(word, _)| wanted.may_have(word))
                || *idle.get_or_insert_with(|| background(goroutine)) == Some(depth)
            {
                continue;
            }
            let receiver = frame.receiver_type().zip(frame.receiver());
            for (word, certain) in frame.words() {
                if word < SMALLEST_ADDRESS {
                    continue;
                }
                if let Some((kind, (address, _))) = receiver
                    && address == word
                {
                    for (nth, wanted, out) in by_object.get(&word).into_iter().flatten() {
                        if *wanted == kind {
                            add_candidate(&mut found, clues, *nth, at, Reason::SameObject(*out));
                        }
                    }
                }
                for (address, contended) in by_address.range(word..word.saturating_add(EMBEDDED_WITHIN)) {
                    debug_assert!(*address >= word);
                    for nth in contended {
                        let reason = if certain { Reason::Embeds } else { Reason::Faint };
                        add_candidate(&mut found, clues, *nth, at, reason);
                    }
                }
                for nth in by_argument.get(&word).into_iter().flatten() {
                    holders_of.entry(word).or_default().insert(at);
                    add_candidate(&mut found, clues, *nth, at, Reason::SharesArgument);
                }
            }
        }
    }
    drop_common(&mut found, clues, &holders_of);
    drop_fellow_waiters(dump, &mut found, clues, locks);
    found
}

fn add_candidate(found: &mut CandidatesByLock, clues: &[Clues], nth: usize, at: usize, reason: Reason) {
    if clues.get(nth).is_some_and(|clue| clue.waiters.contains(&at)) {
        return;
    }
    let candidates = found.entry(nth).or_default();
    // A word that so many have means nothing, and must not cost more than the dump itself.
    let telling = matches!(reason, Reason::SameObject(_));
    if !telling && candidates.len() >= MAX_CANDIDATES && !candidates.contains_key(&at) {
        return;
    }
    let known = candidates.entry(at).or_insert(reason);
    *known = (*known).min(reason);
}

/// Removes candidates with a shared argument that many goroutines have: a server, a type or a context.
fn drop_common(found: &mut CandidatesByLock, clues: &[Clues], holders_of: &HashMap<u64, BTreeSet<usize>>) {
    for (nth, candidates) in found.iter_mut() {
        let Some(clue) = clues.get(*nth) else { continue };
        candidates.retain(|at, reason| {
            *reason != Reason::SharesArgument
                || clue.arguments.iter().any(|word| {
                    holders_of.get(word).is_some_and(|holders| {
                        holders.contains(at) && holders.difference(&clue.waiters).count() <= MAX_SHARERS
                    })
                })
        });
    }
}

/// Removes candidates that wait at the same object: they wait for the same lock, whatever their frame is called.
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

/// The frame of a loop that waits in its own select and therefore serves nobody.
fn background(goroutine: &Goroutine) -> Option<usize> {
    let idle =
        matches!(&*goroutine.state, "select" | "chan receive" | "IO wait" | "sleep" | "sync.Cond.Wait");
    (idle && !serves(goroutine)).then(|| wait::innermost_frame(goroutine))
}

/// A filter for words that may matter, with which most words of a dump are skipped. It may accept too many words, but
/// never too few.
struct AddressFilter(Vec<bool>);

impl AddressFilter {
    const SLOTS: usize = 1 << 14;

    fn of(exact: impl Iterator<Item = u64>, inside: impl Iterator<Item = u64>) -> Self {
        let mut filter = Self(vec![false; Self::SLOTS]);
        for word in exact {
            filter.set(Self::slot(word));
        }
        for address in inside {
            filter.set(Self::block(address / EMBEDDED_WITHIN));
            filter.set(Self::block((address / EMBEDDED_WITHIN).wrapping_sub(1)));
        }
        filter
    }

    fn may_have(&self, word: u64) -> bool {
        let set = |slot: usize| self.0.get(slot).copied().unwrap_or(false);
        word >= SMALLEST_ADDRESS && (set(Self::slot(word)) || set(Self::block(word / EMBEDDED_WITHIN)))
    }

    fn set(&mut self, slot: usize) {
        if let Some(slot) = self.0.get_mut(slot) {
            *slot = true;
        }
    }

    fn slot(word: u64) -> usize {
        // The low bits of addresses are alike.
        Self::fold(word >> 3)
    }

    fn block(number: u64) -> usize {
        Self::fold(number ^ 0x2f2f)
    }

    fn fold(word: u64) -> usize {
        let folded = word ^ (word >> 14) ^ (word >> 28);
        usize::try_from(folded % (1 << 14)).unwrap_or(0)
    }
}

/// Whether a goroutine serves a call.
fn serves(goroutine: &Goroutine) -> bool {
    goroutine.frames.iter().any(|frame| {
        frame.function.contains("_Handler")
            || frame.function.contains("ttrpc.(*serviceSet)")
            || frame.function.contains("podWorkerLoop")
    })
}

/// The best reason and all candidates with it.
fn best(candidates: BTreeMap<usize, Reason>) -> (Option<Reason>, Vec<usize>) {
    let mut by_reason: BTreeMap<Reason, Vec<usize>> = BTreeMap::new();
    for (at, reason) in candidates {
        by_reason.entry(reason).or_default().push(at);
    }
    for (reason, holders) in by_reason {
        let telling = match reason {
            Reason::SameObject(0) | Reason::Embeds => true,
            Reason::SameObject(_) | Reason::Faint | Reason::SharesArgument => holders.len() <= MAX_SHARERS,
        };
        if telling {
            return (Some(reason), holders);
        }
    }
    (None, Vec::new())
}

/// Which goroutine started which, as indexes in the dump.
#[derive(Debug, Default)]
pub struct Family {
    makers: HashMap<usize, usize>,
    children: HashMap<usize, Vec<usize>>,
}

impl Family {
    /// Uses the goroutine id that Go writes since 1.21, and before that a context that both goroutines have.
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
        let mut family = Self::default();
        for (child, creator) in creators() {
            if let Some(maker) = creator.goroutine.and_then(|id| positions.get(&id)) {
                family.add(*maker, child);
            }
        }
        if creators().any(|(_, creator)| creator.goroutine.is_some()) {
            return family;
        }
        let wanted: BTreeSet<&str> = creators().map(|(_, creator)| &*creator.function).collect();
        let mut inside: HashMap<&str, Vec<(usize, &Frame)>> = HashMap::new();
        for (at, goroutine) in dump.goroutines.iter().enumerate() {
            for frame in goroutine.frames.iter().filter(|frame| wanted.contains(&*frame.function)) {
                inside.entry(&frame.function).or_default().push((at, frame));
            }
        }
        for (child, creator) in creators() {
            let makers = inside.get(&*creator.function).map_or(&[][..], Vec::as_slice);
            // A server's loop starts thousands of goroutines and shares no context with them.
            if let (true, Some(goroutine)) = (makers.len() <= MAKERS, dump.goroutines.get(child))
                && let Some(maker) = sharing_a_context(goroutine, child, makers)
            {
                family.add(maker, child);
            }
        }
        family
    }

    fn add(&mut self, maker: usize, child: usize) {
        self.makers.insert(child, maker);
        self.children.entry(maker).or_default().push(child);
    }

    /// The goroutine that started `child`.
    pub fn maker(&self, child: usize) -> Option<usize> {
        self.makers.get(&child).copied()
    }

    /// The goroutines that `maker` started.
    pub fn children(&self, maker: usize) -> &[usize] {
        self.children.get(&maker).map_or(&[], Vec::as_slice)
    }
}

/// The only goroutine in the starting function that has a context of the child's.
fn sharing_a_context(child: &Goroutine, at: usize, makers: &[(usize, &Frame)]) -> Option<usize> {
    let own: BTreeSet<(u64, u64)> = child.frames.iter().flat_map(contexts).collect();
    let mut sharing: Vec<usize> = makers
        .iter()
        .filter(|(maker, frame)| *maker != at && contexts(frame).any(|context| own.contains(&context)))
        .map(|(maker, _)| *maker)
        .collect();
    sharing.dedup();
    match sharing.as_slice() {
        [maker] => Some(*maker),
        _ => None,
    }
}

/// Arguments that may be a context: `{type, pointer}`.
fn contexts(frame: &Frame) -> impl Iterator<Item = (u64, u64)> + '_ {
    frame.arguments.windows(4).filter_map(|tokens| match tokens {
        [Token::Open, Token::Word { bits: kind, .. }, Token::Word { bits: pointer, .. }, Token::Close]
            if *kind >= SMALLEST_ADDRESS && *pointer >= SMALLEST_ADDRESS =>
        {
            Some((*kind, *pointer))
        }
        _ => None,
    })
}

/// Cycles of waiters, each as indexes in order: a deadlock, if the candidates are right.
pub fn cycles(contentions: &[Contention]) -> Vec<Vec<usize>> {
    let mut waits_for: BTreeMap<usize, &[usize]> = BTreeMap::new();
    for contention in contentions {
        // Several candidates do not prove that one of them closes a cycle.
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

    fn found(text: &str) -> Vec<(Vec<usize>, Option<Reason>)> {
        let found = contentions(&dump(text), &|_| false);
        found.into_iter().map(|contention| (contention.holders, contention.reason)).collect()
    }

    #[test]
    fn method_of_the_same_object_shows_the_holder() {
        let text = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + &holder(2, "a/b.(*T).Put(0xc000100000)");
        assert_eq!(found(&text), [(vec![1], Some(Reason::SameObject(0)))]);
        let other = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + &holder(2, "a/b.(*T).Put(0xc000200000)");
        assert_eq!(found(&other), [(Vec::new(), None)]);
    }

    #[test]
    fn lock_inside_an_object_is_held_by_a_method_of_the_object() {
        let near = waiter(1, "0xc000100388", "main.get(0x1)") + &holder(2, "main.put(0xc000100200)");
        assert_eq!(found(&near), [(vec![1], Some(Reason::Embeds))]);
        let far = waiter(1, "0xc000100388", "main.get(0x1)") + &holder(2, "main.put(0xc000000200)");
        assert_eq!(found(&far), [(Vec::new(), None)]);
        let behind = waiter(1, "0xc000100388", "main.get(0x1)") + &holder(2, "main.put(0xc000100389)");
        assert_eq!(found(&behind), [(Vec::new(), None)]);
    }

    #[test]
    fn waiter_for_a_lock_does_not_hold_it() {
        let text = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + &waiter(2, "0xc000100010", "a/b.(*T).Put(0xc000100000)");
        let contentions = contentions(&dump(&text), &|_| false);
        assert_eq!(
            (contentions.len(), contentions[0].waiters.len(), contentions[0].holders.len()),
            (1, 2, 0)
        );
    }

    #[test]
    fn a_loop_in_its_own_select_holds_nothing() {
        let text = waiter(1, "0xc000100010", "a/b.(*T).Get(0xc000100000)")
            + "goroutine 2 [select, 9 minutes]:\na/b.(*T).run(0xc000100000)\n\t/a.go:1 +0x1\ncreated by a/b.New in goroutine 1\n\t/a.go:2 +0x1\n";
        assert_eq!(found(&text), [(Vec::new(), None)]);
    }

    #[test]
    fn before_go_1_21_a_context_joins_maker_and_made() {
        let maker = |id, context: &str| {
            format!(
                "goroutine {id} [chan receive]:\na/cni.(*C).attach(0xc000100000, {{0x55ddaa10, {context}}}, 0x2?)\n\t/a.go:1 +0x1\n\n"
            )
        };
        let made = |id, context: &str| {
            format!(
                "goroutine {id} [syscall]:\na/cni.run({{0x55ddaa10?, {context}}}, 0x1)\n\t/a.go:9 +0x1\ncreated by a/cni.(*C).attach\n\t/a.go:3 +0x1\n\n"
            )
        };
        let text = maker(1, "0xc000777000")
            + &maker(2, "0xc000888000")
            + &made(3, "0xc000888000")
            + &made(4, "0xc000999000");
        let family = Family::of(&dump(&text));
        assert_eq!((family.maker(2), family.children(1)), (Some(1), &[2][..]));
        assert_eq!(family.maker(3), None, "it carries nobody's context");
        // If both goroutines have the context, neither is chosen.
        let both = maker(1, "0xc000888000") + &maker(2, "0xc000888000") + &made(3, "0xc000888000");
        assert_eq!(Family::of(&dump(&both)).maker(2), None);
        let newer =
            text.replace("created by a/cni.(*C).attach\n", "created by a/cni.(*C).attach in goroutine 1\n");
        assert_eq!(Family::of(&dump(&newer)).maker(2), Some(0));
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
