//! Encodes the messages of answers for a segment. Each distinct message is stored once per segment. A list is stored as
//! its difference from the previous list of the same request.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use prost::bytes::Bytes;

use super::entry::{Body, CaptureEntry, StoredMessage};
use super::pack::packed;
use super::{delta, list_order};

/// The maximum number of differences in a chain. A chain begins with a whole list, and each difference is from the list
/// before it. To decode a list, a reader needs all earlier differences of the chain, and damage to one of them makes
/// all later ones unreadable.
const MAX_CHAIN: u32 = 64;

/// A difference is stored only if it is this many times smaller than the answer.
const MIN_SAVING_FACTOR: usize = 2;

/// The maximum number of messages that the encoder remembers. A segment has far fewer, but an export may have more. If there
/// are more, the encoder forgets them all, and stores a repeated message again.
const MAX_KNOWN: usize = 50_000;

/// Identifies a list: the RPC and a hash of its request.
pub type ListKey = (u32, u64);

/// Encodes messages, and remembers the messages that the segment already has.
pub struct AnswerEncoder {
    next: u32,
    known: HashMap<(u64, u64), u32>,
    lists: HashMap<ListKey, LastList>,
    hashes: (RandomState, RandomState),
}

/// The last stored list with a key: its bytes in canonical order, and the permutation that restores the original order.
struct LastList {
    number: u32,
    chain: u32,
    bytes: Bytes,
    order: Bytes,
}

impl AnswerEncoder {
    /// Creates an encoder for an empty segment.
    pub fn new() -> Self {
        let hashes = (RandomState::new(), RandomState::new());
        Self { next: 1, known: HashMap::new(), lists: HashMap::new(), hashes }
    }

    /// Returns the hash of a request for a [`ListKey`].
    pub fn hash(&self, request: &Bytes) -> u64 {
        self.hashes.0.hash_one(request)
    }

    /// Returns one message of an answer in its stored form. `list` is the key of the list if the message is a list.
    pub fn encode(&mut self, bytes: Bytes, list: Option<ListKey>) -> StoredMessage {
        match list {
            Some(key) => self.encode_list(key, bytes),
            None => self.encode_once(bytes),
        }
    }

    /// Replaces all messages of an entry by their stored form.
    pub fn encode_entry(&mut self, entry: &mut CaptureEntry, list: Option<ListKey>) {
        if let Some(Body::CallFinished(ended)) = &mut entry.body {
            for answer in &mut ended.answers {
                *answer = self.encode(std::mem::take(&mut answer.bytes), list);
            }
        }
    }

    fn next_number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    /// Encodes a message that is not a list: stores it, or refers to the same message earlier in the segment.
    fn encode_once(&mut self, bytes: Bytes) -> StoredMessage {
        // The hashes have random seeds, so nobody can construct two messages with the same key.
        let key = (self.hashes.0.hash_one(&bytes), self.hashes.1.hash_one(&bytes));
        if let Some(number) = self.known.get(&key) {
            return StoredMessage { number: *number, ..StoredMessage::default() };
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let number = self.next_number();
        self.known.insert(key, number);
        stored_bytes(number, bytes)
    }

    /// Encodes a list as a reference to the last list, as its difference from the last list, or as a whole.
    fn encode_list(&mut self, key: ListKey, bytes: Bytes) -> StoredMessage {
        let last = self.lists.get(&key);
        let sorted = list_order::sorted(&bytes, last.map_or(&[], |last| &last.bytes));
        let (bytes, order) = match sorted {
            Some((sorted, order)) => (sorted.into(), order.into()),
            None => (bytes, Bytes::new()),
        };
        if let Some(last) = last.filter(|last| last.bytes == bytes && last.order == order) {
            return StoredMessage { number: last.number, ..StoredMessage::default() };
        }
        let difference = last.and_then(|last| {
            // A list that differs from the last list only in its order does not become the base of later differences.
            // So it does not make the chain longer, and is stored as a difference even at the end of a full chain.
            let same_content = last.bytes == bytes;
            let steps =
                (same_content || last.chain < MAX_CHAIN).then(|| delta::difference(&last.bytes, &bytes))?;
            (steps.len() * MIN_SAVING_FACTOR < bytes.len()).then_some((
                last.number,
                last.chain + 1,
                same_content,
                steps,
            ))
        });
        let number = self.next_number();
        let (answer, chain, same_content) = match difference {
            Some((base, chain, same_content, steps)) => {
                (StoredMessage { base, ..stored_bytes(number, steps.into()) }, chain, same_content)
            }
            None => (stored_bytes(number, bytes.clone()), 0, false),
        };
        if !same_content {
            self.lists.insert(key, LastList { number, chain, bytes, order: order.clone() });
        }
        StoredMessage { order, ..answer }
    }
}

/// Returns a stored message with this number and these bytes, which are either a whole message or a difference.
fn stored_bytes(number: u32, bytes: Bytes) -> StoredMessage {
    let (bytes, inflated) = packed(bytes);
    StoredMessage { number, bytes, inflated, is_stored_here: true, ..StoredMessage::default() }
}
