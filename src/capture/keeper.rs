//! Stores each answer once per segment, and a list as its difference from the list before.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use prost::bytes::Bytes;

use super::entry::{Body, CaptureEntry, StoredMessage};
use super::pack::packed;
use super::{delta, order};

/// The maximum number of differences between a list and the whole list that it depends on. A reader needs all of them, and
/// damage to one makes all later ones unreadable.
const LONGEST_CHAIN: u32 = 64;

/// A difference is stored only if it is this many times smaller than the answer.
const WORTH: usize = 2;

/// Identifies a list: the RPC and a hash of its request.
pub type ListKey = (u32, u64);

/// The key of the event stream. Each event is stored as its difference from the event before, because most events repeat a
/// whole pod.
const EVENTS: ListKey = (u32::MAX, 0);

/// The answers that a segment has.
pub struct Keeper {
    next: u32,
    known: HashMap<(u64, u64), u32>,
    lists: HashMap<ListKey, Last>,
    hashes: (RandomState, RandomState),
}

/// The last list with a key: its canonical order, and the permutation that restores the original order.
struct Last {
    number: u32,
    chain: u32,
    bytes: Bytes,
    order: Bytes,
}

impl Keeper {
    /// Starts an empty segment.
    pub fn new() -> Self {
        let hashes = (RandomState::new(), RandomState::new());
        Self { next: 1, known: HashMap::new(), lists: HashMap::new(), hashes }
    }

    /// Returns the hash of a request for a [`ListKey`].
    pub fn hash(&self, request: &Bytes) -> u64 {
        self.hashes.0.hash_one(request)
    }

    /// Returns what to store for one message of an answer. `list` is the key of a list that will be requested again.
    pub fn keep(&mut self, bytes: Bytes, list: Option<ListKey>) -> StoredMessage {
        match list {
            Some(key) => self.list(key, bytes),
            None => self.single(bytes),
        }
    }

    /// Replaces all messages of an entry by what to store for them.
    pub fn keep_all(&mut self, entry: &mut CaptureEntry, list: Option<ListKey>) {
        match &mut entry.body {
            Some(Body::CallFinished(ended)) => {
                for answer in &mut ended.answers {
                    *answer = self.keep(std::mem::take(&mut answer.bytes), list);
                }
            }
            Some(Body::StreamMessage(streamed)) => {
                streamed.answer = self.keep(std::mem::take(&mut streamed.answer.bytes), Some(EVENTS));
            }
            _ => {}
        }
    }

    fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    fn single(&mut self, bytes: Bytes) -> StoredMessage {
        // The hashes have random seeds, so nobody can construct two answers with the same key.
        let key = (self.hashes.0.hash_one(&bytes), self.hashes.1.hash_one(&bytes));
        if let Some(number) = self.known.get(&key) {
            return StoredMessage { number: *number, ..StoredMessage::default() };
        }
        let number = self.number();
        self.known.insert(key, number);
        whole(number, bytes)
    }

    fn list(&mut self, key: ListKey, bytes: Bytes) -> StoredMessage {
        let (bytes, order) = match order::sorted(&bytes) {
            Some((sorted, order)) => (sorted.into(), order.into()),
            None => (bytes, Bytes::new()),
        };
        let last = self.lists.get(&key);
        if let Some(last) = last.filter(|last| last.bytes == bytes && last.order == order) {
            return StoredMessage { number: last.number, ..StoredMessage::default() };
        }
        let difference = last.and_then(|last| {
            // A list that differs only in its order does not replace the list that later differences refer to.
            let stays = last.bytes == bytes;
            let steps =
                (stays || last.chain < LONGEST_CHAIN).then(|| delta::difference(&last.bytes, &bytes))?;
            (steps.len() * WORTH < bytes.len()).then_some((last.number, last.chain + 1, stays, steps))
        });
        let number = self.number();
        let (answer, chain, stays) = match difference {
            Some((base, chain, stays, steps)) => {
                (StoredMessage { base, ..whole(number, steps.into()) }, chain, stays)
            }
            None => (whole(number, bytes.clone()), 0, false),
        };
        if !stays {
            self.lists.insert(key, Last { number, chain, bytes, order: order.clone() });
        }
        StoredMessage { order, ..answer }
    }
}

fn whole(number: u32, bytes: Bytes) -> StoredMessage {
    let (bytes, inflated) = packed(bytes);
    StoredMessage { number, bytes, inflated, here: true, ..StoredMessage::default() }
}
