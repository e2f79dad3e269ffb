//! Sorts an encoded list into canonical order, so that the difference between two lists is small: a runtime that keeps
//! containers and labels in hash maps lists them in a different order each time. Computes also the permutation that
//! restores the original order.
//!
//! Two levels are sorted: the items of a list, and within each item neighbouring fields with the same key, for example
//! labels. The permutation is a sequence of numbers. Each number is the index of the next element among the remaining ones, in as
//! few bits as possible.

use prost::bytes::Buf;
use prost::encoding::decode_varint;

/// The protobuf key of each item of a list: field 1, length-delimited.
const ITEM: u64 = 0x0A;

/// The bits of a field's key that have the wire type.
const WIRE: u64 = 7;

/// The wire type of length-delimited fields.
const WITH_LENGTH: u64 = 2;

/// The maximum number of items. A list with more items is not sorted.
const MAX_ITEMS: usize = 1 << 20;

/// A protobuf field: its key, all its bytes, and its content without key and length.
type WireField<'a> = (u64, &'a [u8], &'a [u8]);

/// Reads one field from the beginning of `rest`.
fn field<'a>(rest: &mut &'a [u8]) -> Option<WireField<'a>> {
    let whole = *rest;
    let key = decode_varint(rest).ok()?;
    let length = match key & WIRE {
        0 => {
            decode_varint(rest).ok()?;
            0
        }
        1 => 8,
        WITH_LENGTH => usize::try_from(decode_varint(rest).ok()?).ok()?,
        5 => 4,
        _ => return None,
    };
    let content = rest.get(..length)?;
    rest.advance(length);
    Some((key, whole.get(..whole.len() - rest.len())?, content))
}

/// Splits a message into its fields; `None` if the bytes are not a message.
fn fields(mut message: &[u8]) -> Option<Vec<WireField<'_>>> {
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
fn items(list: &[u8]) -> Option<Vec<WireField<'_>>> {
    fields(list).filter(|items| items.iter().all(|(key, ..)| *key == ITEM))
}

/// Splits the fields of an item into runs of neighbouring fields with the same key.
fn runs<'r, 'a>(fields: &'r [WireField<'a>]) -> impl Iterator<Item = &'r [WireField<'a>]> {
    fields.chunk_by(|(one, ..), (other, ..)| one == other && one & WIRE == WITH_LENGTH)
}

/// One step of a permutation: the index of the next element among the remaining elements, and the bits for that number.
struct OrderStep {
    index: usize,
    bits: u32,
}

/// Returns the number of bits for an index below `left`.
const fn bits(left: usize) -> u32 {
    usize::BITS - left.saturating_sub(1).leading_zeros()
}

/// Returns the steps that restore the original order. `places` has the position of each element in canonical order.
fn steps(places: &[usize]) -> Vec<OrderStep> {
    let mut left: Vec<usize> = (0..places.len()).collect();
    let mut at = left.clone();
    let step = |(next, place): (usize, &usize)| {
        let found = *at.get(*place)?;
        let moved = *left.get(next)?;
        left.swap(next, found);
        *at.get_mut(moved)? = found;
        Some(OrderStep { index: found.checked_sub(next)?, bits: bits(places.len() - next) })
    };
    places.iter().enumerate().map_while(step).collect()
}

/// Packs numbers of any bit width one after another, the lowest bits first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// The bits that do not fill a byte yet, and their number.
    buffer: u128,
    count: u32,
}

impl BitWriter {
    /// Appends the numbers of the steps.
    fn write(&mut self, steps: &[OrderStep]) {
        for step in steps {
            self.buffer |= u128::try_from(step.index).unwrap_or(0) << self.count;
            self.count += step.bits;
            while self.count >= 8 {
                self.bytes.extend(self.buffer.to_le_bytes().first());
                self.buffer >>= 8;
                self.count -= 8;
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.extend(self.buffer.to_le_bytes().first());
        }
        self.bytes
    }
}

/// Reads the numbers that a [`BitWriter`] has packed.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// The bits that were taken from `bytes` and not read yet, and their number.
    buffer: u128,
    count: u32,
}

impl BitReader<'_> {
    /// Reads a number with this many bits.
    fn read(&mut self, bits: u32) -> Option<usize> {
        while self.count < bits {
            self.buffer |= u128::from(self.bytes.try_get_u8().ok()?) << self.count;
            self.count += 8;
        }
        let index = usize::try_from(self.buffer & ((1 << bits) - 1)).ok()?;
        self.buffer >>= bits;
        self.count -= bits;
        Some(index)
    }

    /// Restores the original order of `elements`. Even wrong bits only reorder the elements.
    fn restore<T>(&mut self, elements: &mut [T]) -> Option<()> {
        for next in 0..elements.len() {
            let left = elements.len() - next;
            let index = self.read(bits(left)).filter(|index| *index < left)?;
            elements.swap(next, next + index);
        }
        Some(())
    }
}

/// Sorts the elements with the indices below `count` by `key`. Returns their indices in canonical order, and the position of
/// each element in that order.
fn canonical_order<K: Ord>(count: usize, key: impl Fn(usize) -> K) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|item| key(*item));
    let mut places = vec![0; count];
    for (place, item) in order.iter().enumerate() {
        if let Some(place_of_item) = places.get_mut(*item) {
            *place_of_item = place;
        }
    }
    (order, places)
}

/// An item whose fields are sorted: its bytes, the size of its key and length, and the steps that restore the original order.
struct SortedItem {
    bytes: Vec<u8>,
    head: usize,
    back: Vec<OrderStep>,
}

impl SortedItem {
    /// Sorts the fields of an item.
    fn from_field(&(_, whole, content): &WireField<'_>) -> Self {
        let head = whole.len() - content.len();
        let mut item = Self { bytes: whole.get(..head).unwrap_or_default().to_vec(), head, back: Vec::new() };
        let Some(fields) = fields(content) else { return Self { bytes: whole.to_vec(), ..item } };
        for run in runs(&fields) {
            // Most fields have no neighbour with the same key, so there is nothing to sort.
            if let [(_, field, _)] = run {
                item.bytes.extend_from_slice(field);
                continue;
            }
            let (order, places) =
                canonical_order(run.len(), |field| run.get(field).map(|(.., content)| *content));
            for (_, field, _) in order.iter().filter_map(|field| run.get(*field)) {
                item.bytes.extend_from_slice(field);
            }
            item.back.extend(steps(&places));
        }
        item
    }

    fn content(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }
}

/// Returns the list in canonical order, and the permutation that restores the original order; the permutation is empty if
/// the orders are equal. Items are sorted by their content, which begins with the id. Returns `None` if the bytes are not
/// a list of items.
pub fn sorted(list: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let items: Vec<SortedItem> = items(list)?.iter().map(SortedItem::from_field).collect();
    let (order, places) = canonical_order(items.len(), |item| items.get(item).map(SortedItem::content));
    let (mut bytes, mut permutation) = (Vec::with_capacity(list.len()), BitWriter::default());
    permutation.write(&steps(&places));
    for item in order.iter().filter_map(|item| items.get(*item)) {
        bytes.extend_from_slice(&item.bytes);
        permutation.write(&item.back);
    }
    let permutation = if bytes == list { Vec::new() } else { permutation.finish() };
    Some((bytes, permutation))
}

/// Restores the original order of a list. Returns `None` if the permutation does not belong to the list.
pub fn restored(sorted: &[u8], permutation: &[u8]) -> Option<Vec<u8>> {
    let mut permutation = BitReader { bytes: permutation, buffer: 0, count: 0 };
    let items = items(sorted)?;
    let mut original: Vec<usize> = (0..items.len()).collect();
    permutation.restore(&mut original)?;
    let mut restored = Vec::with_capacity(items.len());
    for (_, whole, content) in items {
        let Some(fields) = fields(content) else {
            restored.push(whole.to_vec());
            continue;
        };
        let mut item = whole.get(..whole.len() - content.len())?.to_vec();
        for run in runs(&fields) {
            let mut run = run.to_vec();
            permutation.restore(&mut run)?;
            item.extend(run.iter().flat_map(|(_, field, _)| *field));
        }
        restored.push(item);
    }
    let mut list = Vec::with_capacity(sorted.len());
    for item in original {
        list.extend_from_slice(restored.get(item)?);
    }
    permutation.bytes.is_empty().then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_length(key: u8, content: &[u8]) -> Vec<u8> {
        [&[key, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// A list item with the fields that runtimes send: an id, a state, labels and annotations.
    #[derive(Clone, Debug)]
    struct TestItem(String, u8, Vec<String>, Vec<String>);

    fn list(items: &[TestItem]) -> Vec<u8> {
        let item = |TestItem(id, state, labels, annotations): &TestItem| {
            let labels = labels.iter().map(|label| with_length(0x42, label.as_bytes()));
            let annotations = annotations.iter().map(|annotation| with_length(0x4A, annotation.as_bytes()));
            let fields = [with_length(0x0A, id.as_bytes()), vec![0x30, *state]];
            let fields: Vec<u8> = fields.into_iter().chain(labels).chain(annotations).flatten().collect();
            with_length(0x0A, &fields)
        };
        items.iter().flat_map(item).collect()
    }

    fn words() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a-c]{0,3}", 0..6)
    }

    fn listed() -> impl Strategy<Value = TestItem> {
        ("[a-d]{1,4}", 0_u8..3, words(), words())
            .prop_map(|(id, state, labels, annotations)| TestItem(id, state, labels, annotations))
    }

    fn shuffled(items: Vec<TestItem>) -> impl Strategy<Value = Vec<TestItem>> {
        let item = |TestItem(id, state, labels, annotations)| {
            (Just(id), Just(state), Just(labels).prop_shuffle(), Just(annotations).prop_shuffle())
                .prop_map(|(id, state, labels, annotations)| TestItem(id, state, labels, annotations))
        };
        items.into_iter().map(item).collect::<Vec<_>>().prop_shuffle()
    }

    fn sorted_and_restored(list: &[u8]) -> Vec<u8> {
        let (whole, back) = sorted(list).unwrap();
        if back.is_empty() { whole } else { restored(&whole, &back).unwrap() }
    }

    proptest! {
        #[test]
        fn restored_list_equals_the_original(items in prop::collection::vec(listed(), 0..40)) {
            let original = list(&items);
            prop_assert_eq!(sorted_and_restored(&original), original);
        }

        #[test]
        fn lists_with_the_same_content_have_one_canonical_order(
            (one, other) in prop::collection::vec(listed(), 0..12)
                .prop_flat_map(|items| (Just(items.clone()), shuffled(items))),
        ) {
            prop_assert_eq!(sorted(&list(&one)).unwrap().0, sorted(&list(&other)).unwrap().0);
        }

        #[test]
        fn every_sorted_list_is_restored(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..9)) {
            let original: Vec<u8> = contents.iter().flat_map(|content| with_length(0x0A, content)).collect();
            prop_assert_eq!(sorted_and_restored(&original), original);
        }

        #[test]
        fn any_permutation_is_applied_or_refused(
            items in prop::collection::vec(listed(), 0..12),
            back in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            let whole = list(&items);
            prop_assert!(restored(&whole, &back).is_none_or(|list| list.len() == whole.len()));
        }

        #[test]
        fn any_bytes_are_sorted_or_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), back in prop::collection::vec(any::<u8>(), 0..9)) {
            sorted(&bytes);
            restored(&bytes, &back);
        }
    }

    #[test]
    fn permutation_of_a_hundred_items_is_small() {
        // The order of 100 items needs at least 525 bits (100!), the order of three labels three bits per item.
        let labels = || ["c", "b", "a"].map(str::to_owned).to_vec();
        let items: Vec<_> =
            (0..100).rev().map(|item| TestItem(format!("{item:03}"), 1, labels(), vec![])).collect();
        assert_eq!(sorted(&list(&items)).unwrap().1.len(), 110);
    }

    #[test]
    fn invalid_permutation_is_refused() {
        let three: Vec<u8> = (1..=3).flat_map(|item| with_length(0x0A, &[0x30, item])).collect();
        assert!(restored(&three, &[0b000]).is_some());
        assert_eq!(restored(&three, &[0b011]), None, "the index is too large");
        assert_eq!(restored(&three, &[]), None, "the permutation is too short");
        assert_eq!(restored(&three, &[0, 0]), None, "the permutation is too long");
    }

    #[test]
    fn message_with_other_fields_is_not_a_list() {
        assert_eq!(sorted(b"\x0a\x01x\x10\x01"), None);
        assert_eq!(sorted(b"\x0a\x05x"), None);
        assert_eq!(sorted(b""), Some((Vec::new(), Vec::new())));
    }
}
