//! Which answers a segment has already: the same bytes are kept once, and a list as its difference to the one before.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use prost::bytes::Bytes;

use super::entry::{Answer, Body, Entry};
use super::pack::packed;
use super::{delta, order};

/// How many differences may lie on top of each other: whoever reads the last of them reads all, and a fault in one
/// takes what lies on it along.
const LONGEST_CHAIN: u32 = 64;

/// A difference larger than this share of the answer is not worth a chain.
const WORTH: usize = 2;

/// Which list: the RPC and a hash of its request.
pub type ListKey = (u32, u64);

/// Events of the runtime's stream are told as differences to one another: most of them repeat a whole pod.
const EVENTS: ListKey = (u32::MAX, 0);

/// What a segment has.
pub struct Keeper {
    next: u32,
    known: HashMap<(u64, u64), u32>,
    lists: HashMap<ListKey, Last>,
    hashes: (RandomState, RandomState),
}

/// A list, its items in order, and where they stood.
struct Last {
    number: u32,
    chain: u32,
    bytes: Bytes,
    order: Bytes,
}

impl Keeper {
    /// Nothing yet.
    pub fn new() -> Self {
        let hashes = (RandomState::new(), RandomState::new());
        Self { next: 1, known: HashMap::new(), lists: HashMap::new(), hashes }
    }

    /// A hash of a request, to tell lists apart.
    pub fn hash(&self, request: &Bytes) -> u64 {
        self.hashes.0.hash_one(request)
    }

    /// The entry for one message of an answer; `list` if it is a list that will be asked for again.
    pub fn keep(&mut self, bytes: Bytes, list: Option<ListKey>) -> Answer {
        match list {
            Some(key) => self.list(key, bytes),
            None => self.single(bytes),
        }
    }

    /// The same for whatever messages an entry has.
    pub fn keep_all(&mut self, entry: &mut Entry, list: Option<ListKey>) {
        match &mut entry.body {
            Some(Body::Ended(ended)) => {
                for answer in &mut ended.answers {
                    *answer = self.keep(std::mem::take(&mut answer.bytes), list);
                }
            }
            Some(Body::Told(told)) => {
                told.answer = self.keep(std::mem::take(&mut told.answer.bytes), Some(EVENTS));
            }
            _ => {}
        }
    }

    fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    fn single(&mut self, bytes: Bytes) -> Answer {
        // Seeds drawn at start: nobody can make two answers meet.
        let key = (self.hashes.0.hash_one(&bytes), self.hashes.1.hash_one(&bytes));
        if let Some(number) = self.known.get(&key) {
            return Answer { number: *number, ..Answer::default() };
        }
        let number = self.number();
        self.known.insert(key, number);
        whole(number, bytes)
    }

    fn list(&mut self, key: ListKey, bytes: Bytes) -> Answer {
        let (bytes, order) = match order::sorted(&bytes) {
            Some((sorted, order)) => (sorted.into(), order.into()),
            None => (bytes, Bytes::new()),
        };
        let last = self.lists.get(&key);
        if let Some(last) = last.filter(|last| last.bytes == bytes && last.order == order) {
            return Answer { number: last.number, ..Answer::default() };
        }
        let leans = last.and_then(|last| {
            // What is the same but for its order leaves the list that others lean on as it is.
            let stays = last.bytes == bytes;
            let steps =
                (stays || last.chain < LONGEST_CHAIN).then(|| delta::difference(&last.bytes, &bytes))?;
            (steps.len() * WORTH < bytes.len()).then_some((last.number, last.chain + 1, stays, steps))
        });
        let number = self.number();
        let (answer, chain, stays) = match leans {
            Some((base, chain, stays, steps)) => {
                (Answer { base, ..whole(number, steps.into()) }, chain, stays)
            }
            None => (whole(number, bytes.clone()), 0, false),
        };
        if !stays {
            self.lists.insert(key, Last { number, chain, bytes, order: order.clone() });
        }
        Answer { order, ..answer }
    }
}

fn whole(number: u32, bytes: Bytes) -> Answer {
    let (bytes, inflated) = packed(bytes);
    Answer { number, bytes, inflated, here: true, ..Answer::default() }
}
