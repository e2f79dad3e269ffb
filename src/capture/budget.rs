//! Limits the work that reading a capture may cause, so that a small malicious file costs little. Each unpacked or copied
//! byte is charged to one budget, whose size depends on the size of the capture.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::entry::{CaptureEntry, StoredMessage};

/// The budget of an empty capture, in unpacked or copied bytes.
const BASE_BYTES: u64 = 1 << 30;

/// The additional budget for each byte of the capture. A list that is compressed to a twentieth and depends on 64
/// differences costs 1 300 times its size.
const BYTES_PER_BYTE: u64 = 4096;

/// The size of the largest message in an empty capture.
const BASE_MESSAGE_SIZE: u64 = 16 << 20;

/// The additional size of the largest message for each byte of the capture. Lists are compressed to a twentieth.
const MESSAGE_SIZE_PER_BYTE: u64 = 64;

/// The memory that the answers of one entry may use: enough for 500 000 messages that were all stored before.
const BASE_ANSWERS_SIZE: usize = 64 << 20;

/// The additional memory for each byte of the entry. An empty answer has two bytes in the entry, and 88 in memory.
const ANSWERS_SIZE_PER_BYTE: usize = 8;

/// The number of the field `CallFinished` in an entry.
const CALL_FINISHED_FIELD: u32 = 5;

/// The number of the field `answers` in `CallFinished`.
const ANSWERS_FIELD: u32 = 6;

/// Decodes an entry. Returns `None` if the bytes are not an entry, or if the answers would need far more memory than the
/// entry has bytes, which no recorder writes.
pub fn decode_entry(content: &[u8]) -> Option<CaptureEntry> {
    let answers: usize = fields_with_number(content, CALL_FINISHED_FIELD)
        .map(|ended| fields_with_number(ended, ANSWERS_FIELD).count())
        .sum();
    let allowed = BASE_ANSWERS_SIZE.saturating_add(content.len().saturating_mul(ANSWERS_SIZE_PER_BYTE));
    let is_plausible = answers.saturating_mul(size_of::<StoredMessage>()) <= allowed;
    is_plausible.then(|| CaptureEntry::decode(content).ok())?
}

/// Returns the contents of the fields with the number `wanted` in a protobuf message, up to the first byte that cannot be
/// read.
fn fields_with_number(mut bytes: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
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

/// The remaining work that reading a capture may cause.
#[derive(Debug)]
pub struct ReadBudget {
    left: AtomicU64,
    /// The number of refused charges.
    refusals: AtomicU64,
    /// The size limit of a message.
    largest: u64,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self::of_bytes(0)
    }
}

impl ReadBudget {
    /// Creates the budget for a capture of this size.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self {
            left: AtomicU64::new(BASE_BYTES.saturating_add(bytes.saturating_mul(BYTES_PER_BYTE))),
            refusals: AtomicU64::new(0),
            largest: BASE_MESSAGE_SIZE.saturating_add(bytes.saturating_mul(MESSAGE_SIZE_PER_BYTE)),
        }
    }

    /// Charges this many bytes. If fewer are left, empties the budget and returns `None`.
    pub fn charge(&self, bytes: usize) -> Option<()> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        self.allow(before.is_ok_and(|before| before >= bytes))
    }

    /// Charges a message of this size. Returns `None` if the message is too large or the budget too small.
    pub fn charge_message(&self, bytes: u64) -> Option<()> {
        self.allow(bytes <= self.largest)?;
        self.charge(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns `None` and counts a refusal unless `is_allowed`.
    pub fn allow(&self, is_allowed: bool) -> Option<()> {
        if !is_allowed {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed.then_some(())
    }

    /// Returns the size limit of a message.
    pub fn largest_message(&self) -> usize {
        usize::try_from(self.largest).unwrap_or(usize::MAX)
    }

    /// Returns the number of refused charges.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Body, CallFinished};
    use super::*;

    #[test]
    fn entry_with_many_repeated_answers_is_decoded_and_one_with_many_empty_answers_is_not() {
        let of = |answer: StoredMessage, count: usize| {
            let body =
                Body::CallFinished(CallFinished { answers: vec![answer; count], ..CallFinished::default() });
            CaptureEntry { body: Some(body), ..CaptureEntry::default() }.encode_to_vec()
        };
        let repeated = StoredMessage { number: 200, ..StoredMessage::default() };
        let answers = |bytes: &[u8]| match decode_entry(bytes)?.body? {
            Body::CallFinished(ended) => Some(ended.answers.len()),
            _ => None,
        };
        assert_eq!(answers(&of(repeated, 500_000)), Some(500_000));
        let nothing = of(StoredMessage::default(), 1_000_000);
        assert_eq!((nothing.len() / 1_000_000, answers(&nothing)), (2, None));
        // Protobuf merges several occurrences of the same field.
        assert_eq!(answers(&of(StoredMessage::default(), 500_000).repeat(2)), None);
        assert_eq!(answers(&of(StoredMessage::default(), 300_000).repeat(2)), Some(600_000));
    }

    #[test]
    fn budget_grows_with_the_file_and_can_be_exhausted() {
        let budget = ReadBudget::of_bytes(1000);
        let all = usize::try_from(BASE_BYTES + 1000 * BYTES_PER_BYTE).unwrap();
        assert!(budget.charge(all - 1).is_some() && budget.refusals() == 0);
        assert!(budget.charge(2).is_none(), "one byte is left");
        assert!(budget.charge(1).is_none(), "the budget is empty");
        assert_eq!(budget.refusals(), 2);
    }

    #[test]
    fn largest_message_grows_with_the_file() {
        let budget = ReadBudget::of_bytes(1000);
        assert!(budget.charge_message(BASE_MESSAGE_SIZE + 1000 * MESSAGE_SIZE_PER_BYTE).is_some());
        assert!(budget.charge_message(BASE_MESSAGE_SIZE + 1000 * MESSAGE_SIZE_PER_BYTE + 1).is_none());
    }
}
