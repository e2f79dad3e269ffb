//! How much work a capture may cause: what is unpacked and copied is charged to one budget, in proportion to its size, so
//! that a small file costs little however it was made.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::entry::{Answer, Entry};

/// What any capture may cost: bytes that are unpacked or copied.
const FREE: u64 = 1 << 30;

/// The same for each byte of it. A list that is told as 64 differences on top of each other, itself deflated to a
/// twentieth, costs 1 300 times its bytes, and an anonymised export reads everything twice.
const PER_BYTE: u64 = 4096;

/// The largest message that a small capture may hold.
const FREE_MESSAGE: u64 = 16 << 20;

/// What each byte of the capture adds to that. Lists deflate to a twentieth.
const MESSAGE_PER_BYTE: u64 = 64;

/// What the answers of one entry may cost in memory: a list of 500 000 messages that all came before.
const FREE_ANSWERS: usize = 64 << 20;

/// The same for each byte of the entry. An answer of nothing is two bytes, and 44 times as many in memory.
const ANSWERS_PER_BYTE: usize = 8;

/// The field of an entry that is the end of a call, and that field's own which is an answer.
const ENDED: u32 = 5;
const ANSWER: u32 = 6;

/// Decodes an entry, unless it is none or its answers would take far more memory than it has bytes: no recorder writes
/// such an entry.
pub fn entry(content: &[u8]) -> Option<Entry> {
    let answers: usize = parts(content, ENDED).map(|ended| parts(ended, ANSWER).count()).sum();
    let allowed = FREE_ANSWERS.saturating_add(content.len().saturating_mul(ANSWERS_PER_BYTE));
    let is_plausible = answers.saturating_mul(size_of::<Answer>()) <= allowed;
    is_plausible.then(|| Entry::decode(content).ok())?
}

/// The messages and texts that a message has in this field, up to the first thing that cannot be read.
fn parts(mut bytes: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let (field, kind) = decode_key(&mut bytes).ok()?;
            if kind != WireType::LengthDelimited {
                skip_field(kind, field, &mut bytes, DecodeContext::default()).ok()?;
                continue;
            }
            let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
            let (part, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            if field == wanted {
                return Some(part);
            }
        }
    })
}

/// What is left of a budget.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    /// How often something was refused.
    refusals: AtomicU64,
    /// The largest message.
    largest: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(0)
    }
}

impl Budget {
    /// For a capture of so many bytes.
    pub const fn of(bytes: u64) -> Self {
        Self {
            left: AtomicU64::new(FREE.saturating_add(bytes.saturating_mul(PER_BYTE))),
            refusals: AtomicU64::new(0),
            largest: FREE_MESSAGE.saturating_add(bytes.saturating_mul(MESSAGE_PER_BYTE)),
        }
    }

    /// Takes so many bytes of it; `None` if they are not there, which leaves nothing.
    pub fn spend(&self, bytes: usize) -> Option<()> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        self.allow(before.is_ok_and(|before| before >= bytes))
    }

    /// Takes what a message of so many bytes costs; `None` if that is too much, or larger than a message may be.
    pub fn spend_on_message(&self, bytes: u64) -> Option<()> {
        self.allow(bytes <= self.largest)?;
        self.spend(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Nothing, and a refusal is counted, unless something is allowed.
    pub fn allow(&self, is_allowed: bool) -> Option<()> {
        if !is_allowed {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed.then_some(())
    }

    /// How large a message may be.
    pub fn largest_message(&self) -> usize {
        usize::try_from(self.largest).unwrap_or(usize::MAX)
    }

    /// How often something was refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Body, Ended};
    use super::*;

    #[test]
    fn entry_of_answers_that_came_before_is_decoded_and_one_of_nothing_is_not() {
        let of = |answer: Answer, count: usize| {
            let body = Body::Ended(Ended { answers: vec![answer; count], ..Ended::default() });
            Entry { body: Some(body), ..Entry::default() }.encode_to_vec()
        };
        let repeated = Answer { number: 200, ..Answer::default() };
        let answers = |bytes: &[u8]| match entry(bytes)?.body? {
            Body::Ended(ended) => Some(ended.answers.len()),
            _ => None,
        };
        assert_eq!(answers(&of(repeated, 500_000)), Some(500_000));
        let nothing = of(Answer::default(), 1_000_000);
        assert_eq!((nothing.len() / 1_000_000, answers(&nothing)), (2, None));
        // The end of a call may come in parts, which are put together.
        assert_eq!(answers(&of(Answer::default(), 500_000).repeat(2)), None);
        assert_eq!(answers(&of(Answer::default(), 300_000).repeat(2)), Some(600_000));
    }

    #[test]
    fn budget_grows_with_the_file_and_ends() {
        let budget = Budget::of(1000);
        let all = usize::try_from(FREE + 1000 * PER_BYTE).unwrap();
        assert!(budget.spend(all - 1).is_some() && budget.refusals() == 0);
        assert!(budget.spend(2).is_none(), "there is one byte left");
        assert!(budget.spend(1).is_none(), "and then none");
        assert_eq!(budget.refusals(), 2);
    }

    #[test]
    fn message_of_a_small_file_is_small() {
        let budget = Budget::of(1000);
        assert!(budget.spend_on_message(FREE_MESSAGE + 1000 * MESSAGE_PER_BYTE).is_some());
        assert!(budget.spend_on_message(FREE_MESSAGE + 1000 * MESSAGE_PER_BYTE + 1).is_none());
    }
}
