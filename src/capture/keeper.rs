//! Which answers a segment has already: the same bytes are kept once, and a list as its difference to the one before.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use prost::bytes::Bytes;

use super::delta;
use super::entry::{Answer, Body, Entry};
use super::pack::packed;

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

struct Last {
    number: u32,
    chain: u32,
    bytes: Bytes,
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
        let Some(last) = self.lists.get(&key) else {
            let number = self.number();
            self.lists.insert(key, Last { number, chain: 0, bytes: bytes.clone() });
            return whole(number, bytes);
        };
        if last.bytes == bytes {
            return Answer { number: last.number, ..Answer::default() };
        }
        let (base, chain) = (last.number, last.chain + 1);
        let steps = (chain <= LONGEST_CHAIN).then(|| delta::difference(&last.bytes, &bytes));
        let steps = steps.filter(|steps| steps.len() * WORTH < bytes.len());
        let number = self.number();
        let chain = if steps.is_some() { chain } else { 0 };
        self.lists.insert(key, Last { number, chain, bytes: bytes.clone() });
        match steps {
            Some(steps) => Answer { base, ..whole(number, steps.into()) },
            None => whole(number, bytes),
        }
    }
}

fn whole(number: u32, bytes: Bytes) -> Answer {
    let (bytes, inflated) = packed(bytes);
    Answer { number, base: 0, bytes, inflated, here: true }
}
