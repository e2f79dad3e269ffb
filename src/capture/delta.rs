//! Computes and applies the difference between two answers: on a node that changes little, two lists have nearly the same
//! bytes.
//!
//! A difference is a sequence of steps. Each step has new bytes, followed by the position and the number of bytes to copy
//! from the earlier answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use prost::bytes::Buf;
use prost::encoding::{decode_varint, encode_varint};

/// The size of the blocks of the earlier answer that are searched for in the new answer.
const BLOCK: usize = 32;

/// The factor of the rolling hash: any odd number with many bits set.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the hash of a block. The hash of the next position follows from it in constant time (a rolling hash).
fn fingerprint(block: &[u8]) -> u64 {
    block.iter().fold(0, |sum, byte| sum.wrapping_mul(FACTOR).wrapping_add(u64::from(*byte) + 1))
}

/// Returns `FACTOR` to the power of `BLOCK`, the weight in the rolling hash of the byte that leaves the window.
fn leaving_weight() -> u64 {
    (0..BLOCK).fold(1, |product: u64, _| product.wrapping_mul(FACTOR))
}

/// Returns the number of equal bytes at the beginning of both.
fn common_length(left: impl Iterator<Item = u8>, right: impl Iterator<Item = u8>) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).count()
}

/// Appends a number as a varint.
fn write_number(out: &mut Vec<u8>, value: usize) {
    encode_varint(u64::try_from(value).unwrap_or(u64::MAX), out);
}

/// The steps of a difference, as they are written.
struct Steps<'a> {
    new: &'a [u8],
    /// How many bytes of `new` the steps cover.
    covered: usize,
    out: Vec<u8>,
}

impl Steps<'_> {
    /// Adds a step: the bytes of `new` that are not covered yet, then a copy of `length` bytes, which are at `from` in the
    /// earlier answer and at `at` in the new one.
    fn copy(&mut self, at: usize, from: usize, length: usize) {
        let fresh = self.new.get(self.covered..at).unwrap_or_default();
        write_number(&mut self.out, fresh.len());
        self.out.extend_from_slice(fresh);
        write_number(&mut self.out, from);
        write_number(&mut self.out, length);
        self.covered = at + length;
    }
}

/// Returns the steps that make `new` from `old`.
pub fn difference(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut steps = Steps { new, covered: 0, out: Vec::new() };
    // Of a quiet node, only the order of its lists changes, and comparing them as a whole is many times faster.
    let head = if old == new { new.len() } else { common_length(old.iter().copied(), new.iter().copied()) };
    let (old_rest, new_rest) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = common_length(old_rest.iter().rev().copied(), new_rest.iter().rev().copied());
    let middle = new.len() - tail;
    steps.copy(0, 0, head);
    let blocks = blocks_of(old.get(head..old.len() - tail).unwrap_or_default(), head);
    if !blocks.is_empty() {
        copy_blocks(&mut steps, old, &blocks, middle);
    }
    if steps.covered < new.len() {
        steps.copy(middle, old.len() - tail, tail);
    }
    steps.out
}

/// Maps the hash of each block of `part` to the block's position in the earlier answer.
fn blocks_of(part: &[u8], offset: usize) -> HashMap<u64, usize> {
    let mut blocks = HashMap::new();
    for (number, block) in part.chunks_exact(BLOCK).enumerate() {
        if let Entry::Vacant(place) = blocks.entry(fingerprint(block)) {
            place.insert(offset + number * BLOCK);
        }
    }
    blocks
}

/// Slides a window over the new answer, and copies each block that the earlier answer has, extended in both directions.
fn copy_blocks(steps: &mut Steps<'_>, old: &[u8], blocks: &HashMap<u64, usize>, middle: usize) {
    let new = steps.new;
    let leaving = leaving_weight();
    let mut place = steps.covered;
    let mut sum = None;
    while place + BLOCK <= middle {
        let Some(window) = new.get(place..place + BLOCK) else { return };
        let current = sum.unwrap_or_else(|| fingerprint(window));
        let candidate = blocks.get(&current).copied();
        let ahead = candidate.map(|from| {
            common_length(
                old.get(from..).unwrap_or_default().iter().copied(),
                new.get(place..middle).unwrap_or_default().iter().copied(),
            )
        });
        if let (Some(from), Some(ahead)) = (candidate, ahead)
            && ahead >= BLOCK
        {
            let behind = common_length(
                old.get(..from).unwrap_or_default().iter().rev().copied(),
                new.get(steps.covered..place).unwrap_or_default().iter().rev().copied(),
            );
            steps.copy(place - behind, from - behind, behind + ahead);
            place = steps.covered;
            sum = None;
            continue;
        }
        let (first, next) = (window.first().copied().unwrap_or(0), new.get(place + BLOCK).copied());
        sum = next.map(|next| {
            current
                .wrapping_mul(FACTOR)
                .wrapping_add(u64::from(next) + 1)
                .wrapping_sub(leaving.wrapping_mul(u64::from(first) + 1))
        });
        place += 1;
    }
}

/// Returns the new answer, made from `old` and a difference. Returns `None` if the difference does not belong to `old`, or
/// if the result would have more than `most` bytes.
pub fn apply(old: &[u8], mut steps: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut new = Vec::new();
    let size = |steps: &mut &[u8]| usize::try_from(decode_varint(steps).ok()?).ok();
    while steps.has_remaining() {
        let fresh = size(&mut steps)?;
        new.extend_from_slice(steps.get(..fresh)?);
        steps = steps.get(fresh..)?;
        let (from, length) = (size(&mut steps)?, size(&mut steps)?);
        let copied = old.get(from..from.checked_add(length)?)?;
        if new.len().checked_add(length)? > most {
            return None;
        }
        new.extend_from_slice(copied);
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX_SIZE: usize = 1 << 20;

    /// Generates answers with repeated pieces, like lists.
    fn answer() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec((0_u8..6, 1_usize..90), 0..30).prop_map(|pieces| {
            let piece = |(kind, length): (u8, usize)| {
                (0..length).map(move |at| kind.wrapping_mul(31).wrapping_add(u8::try_from(at % 7).unwrap()))
            };
            pieces.into_iter().flat_map(piece).collect()
        })
    }

    proptest! {
        #[test]
        fn old_answer_and_difference_make_the_new_answer(old in answer(), new in answer()) {
            prop_assert_eq!(apply(&old, &difference(&old, &new), MAX_SIZE), Some(new));
        }

        #[test]
        fn any_difference_is_applied_or_refused(old in answer(), steps in prop::collection::vec(any::<u8>(), 0..60)) {
            let made = apply(&old, &steps, 4096);
            prop_assert!(made.is_none_or(|made| made.len() <= 4096 + steps.len()));
        }
    }

    #[test]
    fn an_item_that_moves_and_one_that_changes_cost_little() {
        let item = |number: u32, state: &str| {
            format!("container-{number:06}-{}-{state}-and-its-labels-{number:09};", "x".repeat(200))
        };
        let old: String = (0..100).map(|number| item(number, "RUNNING")).collect();
        let new: String = [99_u32]
            .into_iter()
            .chain(0..99)
            .map(|number| item(number, if number == 40 { "EXITED" } else { "RUNNING" }))
            .collect();
        let steps = difference(old.as_bytes(), new.as_bytes());
        assert_eq!(apply(old.as_bytes(), &steps, MAX_SIZE).unwrap(), new.as_bytes());
        assert!(steps.len() < 200, "{} bytes", steps.len());
    }

    #[test]
    fn a_difference_cannot_make_more_than_is_allowed() {
        let old = vec![7; 1000];
        let mut steps = Vec::new();
        for _ in 0..100 {
            for value in [0, 0, 1000] {
                write_number(&mut steps, value);
            }
        }
        assert_eq!(apply(&old, &steps, 99_999), None);
        assert!(apply(&old, &steps, 100_000).is_some());
    }
}
