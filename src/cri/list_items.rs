//! Splits an encoded list into its items and their fields, and compares an item with an earlier one. A runtime that keeps
//! containers and labels in hash maps sends both in a different order each time, so two orders of labels do not differ.

use prost::encoding::decode_varint;

/// The protobuf key of each item of a list: field 1, length-delimited.
const ITEM: u64 = 0x0A;

/// The bits of a field's key that have the wire type.
const WIRE: u64 = 7;

/// The wire type of length-delimited fields.
const WITH_LENGTH: u64 = 2;

/// The maximum number of items. A list with more items is not split.
const MAX_ITEMS: usize = 1 << 20;

/// The maximum number of neighbouring fields with the same key in an item that is compared, because each is compared with all.
const MAX_COMPARED: usize = 64;

/// A protobuf field: its key, all its bytes, and its content without key and length.
pub type WireField<'a> = (u64, &'a [u8], &'a [u8]);

/// Reads a varint, which nearly always has one byte.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    match rest.split_first() {
        Some((byte, left)) if *byte < 0x80 => {
            *rest = left;
            Some(u64::from(*byte))
        }
        _ => decode_varint(rest).ok(),
    }
}

/// Reads one field from the beginning of `rest`.
fn field<'a>(rest: &mut &'a [u8]) -> Option<WireField<'a>> {
    let whole = *rest;
    let key = varint(rest)?;
    let length = match key & WIRE {
        0 => {
            varint(rest)?;
            0
        }
        1 => 8,
        WITH_LENGTH => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (content, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some((key, whole.get(..whole.len() - left.len())?, content))
}

/// Splits a message into its fields; `None` if the bytes are not a message.
pub fn fields(mut message: &[u8]) -> Option<Vec<WireField<'_>>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        fields.push(field(&mut message)?);
        if fields.len() > MAX_ITEMS {
            return None;
        }
    }
    Some(fields)
}

/// Returns the items of an encoded list; `None` if the bytes are not a list.
pub fn items(list: &[u8]) -> Option<Vec<WireField<'_>>> {
    fields(list).filter(|items| items.iter().all(|(key, ..)| *key == ITEM))
}

/// Splits the fields of an item into runs of neighbouring fields with the same key.
pub fn runs<'r, 'a>(fields: &'r [WireField<'a>]) -> impl Iterator<Item = &'r [WireField<'a>]> {
    fields.chunk_by(|(one, ..), (other, ..)| one == other && one & WIRE == WITH_LENGTH)
}

/// Returns the first field of an item, which in every list of the CRI is the id.
pub fn id_of(mut item: &[u8]) -> &[u8] {
    field(&mut item).map_or(&[], |(_, whole, _)| whole)
}

/// Whether the order of the fields in each run means nothing: they are pairs of a map, and each has another key. `is_map` is true
/// for the number of a field with such pairs.
pub fn has_free_order(item: &[u8], is_map: impl Fn(u64) -> bool) -> bool {
    let is_free = |run: &[WireField<'_>]| {
        let mut keys: Vec<_> = run.iter().map(|(.., pair)| key_of(pair)).collect();
        keys.sort_unstable();
        run.first().is_some_and(|(key, ..)| is_map(key >> 3))
            && keys.first().is_some_and(Option::is_some)
            && keys.is_sorted_by(|one, next| one < next)
    };
    fields(item).is_some_and(|fields| runs(&fields).all(|run| run.len() == 1 || is_free(run)))
}

/// Returns the key of an encoded pair; `None` if it has other fields than a key and a value.
fn key_of(pair: &[u8]) -> Option<&[u8]> {
    match fields(pair)?.as_slice() {
        [(0x0A, _, key)] | [(0x0A, _, key), (0x12, ..)] => Some(key),
        _ => None,
    }
}

/// One step of a permutation: the index of the next element among the remaining elements, and the bits for that number.
#[derive(Clone, Copy, Debug)]
pub struct OrderStep {
    /// The index.
    pub index: usize,
    /// The number of bits.
    pub bits: u32,
}

impl OrderStep {
    /// Creates the step to the element with this index among those that are `left`.
    pub const fn new(index: usize, left: usize) -> Self {
        Self { index, bits: bits(left) }
    }
}

/// Returns the number of bits for an index below `left`.
pub const fn bits(left: usize) -> u32 {
    usize::BITS - left.saturating_sub(1).leading_zeros()
}

/// Compares two items, and adds the steps that make the order of `new` from that of `old`; `None` if they differ in more than the
/// order of the fields in each run, or if a run is too long to compare.
pub fn reordered(mut old: &[u8], mut new: &[u8], steps: &mut Vec<OrderStep>) -> Option<()> {
    if old.len() != new.len() {
        return None;
    }
    while !new.is_empty() {
        let (count, run) = first_run(&mut new)?;
        let (old_run, left) = old.split_at_checked(run.len())?;
        match count {
            1 if old_run != run => return None,
            1 => {}
            2..=MAX_COMPARED => reordered_run(old_run, run, steps)?,
            _ => return None,
        }
        old = left;
    }
    Some(())
}

/// Returns the key of the next field.
fn next_key(mut rest: &[u8]) -> Option<u64> {
    varint(&mut rest)
}

/// Splits the first run off an item; returns its number of fields and its bytes.
fn first_run<'a>(rest: &mut &'a [u8]) -> Option<(usize, &'a [u8])> {
    let (item, mut count) = (*rest, 1);
    let (key, ..) = field(rest)?;
    while key & WIRE == WITH_LENGTH && next_key(rest) == Some(key) {
        field(rest)?;
        count += 1;
    }
    Some((count, item.get(..item.len() - rest.len())?))
}

/// Compares two runs of the same size.
fn reordered_run(old: &[u8], new: &[u8], steps: &mut Vec<OrderStep>) -> Option<()> {
    let (mut left, new) = (fields(old)?, fields(new)?);
    for (next, (_, wanted, _)) in new.iter().enumerate() {
        let index = left.get(next..)?.iter().position(|(_, field, _)| field == wanted)?;
        left.swap(next, next + index);
        steps.push(OrderStep::new(index, new.len() - next));
    }
    (left.len() == new.len()).then_some(())
}
