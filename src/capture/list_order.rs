//! Sorts an encoded list into canonical order, so that the difference between two lists is small: a runtime that keeps
//! containers and labels in hash maps lists them in a different order each time. Computes also the permutation that
//! restores the original order.
//!
//! Two levels are sorted: the items of a list, and within each item neighbouring fields with the same key, for example
//! labels. The permutation is a sequence of numbers. Each number is the index of the next element among the remaining ones, in as
//! few bits as possible.

use std::borrow::Cow;
use std::ops::Range;

use prost::bytes::Buf;

use crate::cri::list_items::{OrderStep, WireField, bits, fields, id_of, items, reordered, runs};

/// Returns the steps that restore the original order. `places` has the position of each element in canonical order.
fn steps_back(places: &[usize]) -> Vec<OrderStep> {
    let mut left: Vec<usize> = (0..places.len()).collect();
    let mut at = left.clone();
    let step = |(next, place): (usize, &usize)| {
        let found = *at.get(*place)?;
        let moved = *left.get(next)?;
        left.swap(next, found);
        *at.get_mut(moved)? = found;
        Some(OrderStep::new(found.checked_sub(next)?, places.len() - next))
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

/// An item whose fields are sorted: its bytes, the size of its key and length, and where the steps are that restore the original
/// order.
struct SortedItem<'a> {
    bytes: Cow<'a, [u8]>,
    head: usize,
    back: Range<usize>,
}

impl<'a> SortedItem<'a> {
    /// Sorts the fields of an item, and adds the steps back to `steps`. If one of the `known` items, which are sorted by their ids,
    /// differs only in the order of its fields, nothing needs to be sorted.
    fn from_field(
        item: &WireField<'a>,
        known: &[(&[u8], WireField<'a>)],
        steps: &mut Vec<OrderStep>,
    ) -> Self {
        let &(_, whole, content) = item;
        let (head, first) = (whole.len() - content.len(), steps.len());
        if let Some(same) = known_item(item, known, steps) {
            return Self { bytes: same.into(), head, back: first..steps.len() };
        }
        steps.truncate(first);
        let bytes = sorted_fields(whole, content, steps).map_or(Cow::Borrowed(whole), Cow::Owned);
        Self { bytes, head, back: first..steps.len() }
    }

    fn content(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }
}

/// Returns the item among the `known` ones that has the same fields, in another order. If there is none, the steps that were added to
/// `steps` mean nothing.
fn known_item<'a>(
    (_, whole, content): &WireField<'a>,
    known: &[(&[u8], WireField<'a>)],
    steps: &mut Vec<OrderStep>,
) -> Option<&'a [u8]> {
    let id = id_of(content);
    let place = known.partition_point(|(known, _)| *known < id);
    let (_, (_, same, known)) = known.get(place)?;
    let head = |whole: &'a [u8], content: &[u8]| whole.get(..whole.len() - content.len());
    (head(same, known) == head(whole, content)).then(|| reordered(known, content, steps))??;
    Some(same)
}

/// Returns the item with sorted fields, and adds the steps back; `None` if its content is not a message.
fn sorted_fields(whole: &[u8], content: &[u8], steps: &mut Vec<OrderStep>) -> Option<Vec<u8>> {
    let fields = fields(content)?;
    let mut bytes = Vec::with_capacity(whole.len());
    bytes.extend_from_slice(whole.get(..whole.len() - content.len())?);
    for run in runs(&fields) {
        // Most fields have no neighbour with the same key, so there is nothing to sort.
        if let [(_, field, _)] = run {
            bytes.extend_from_slice(field);
            continue;
        }
        let (order, places) =
            canonical_order(run.len(), |field| run.get(field).map(|(.., content)| *content));
        for (_, field, _) in order.iter().filter_map(|field| run.get(*field)) {
            bytes.extend_from_slice(field);
        }
        steps.extend(steps_back(&places));
    }
    Some(bytes)
}

/// Returns the list in canonical order, and the permutation that restores the original order; the permutation is empty if
/// the orders are equal. Items are sorted by their content, which begins with the id. `earlier` is the list before in canonical order,
/// if there is one: what it has is not sorted again. Returns `None` if the bytes are not a list of items.
pub fn sorted(list: &[u8], earlier: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let known = items(earlier).unwrap_or_default();
    let known: Vec<_> = known.into_iter().map(|item| (id_of(item.2), item)).collect();
    let mut back = Vec::new();
    let items: Vec<SortedItem<'_>> =
        items(list)?.iter().map(|item| SortedItem::from_field(item, &known, &mut back)).collect();
    let (order, places) = canonical_order(items.len(), |item| items.get(item).map(SortedItem::content));
    let (mut bytes, mut permutation) = (Vec::with_capacity(list.len()), BitWriter::default());
    permutation.write(&steps_back(&places));
    for item in order.iter().filter_map(|item| items.get(*item)) {
        bytes.extend_from_slice(&item.bytes);
        permutation.write(back.get(item.back.clone()).unwrap_or_default());
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

    fn sorted_and_restored(list: &[u8], earlier: &[u8]) -> Vec<u8> {
        let (whole, back) = sorted(list, earlier).unwrap();
        if back.is_empty() { whole } else { restored(&whole, &back).unwrap() }
    }

    proptest! {
        #[test]
        fn restored_list_equals_the_original(items in prop::collection::vec(listed(), 0..40)) {
            let original = list(&items);
            prop_assert_eq!(sorted_and_restored(&original, &[]), original);
        }

        #[test]
        fn lists_with_the_same_content_have_one_canonical_order(
            (one, other) in prop::collection::vec(listed(), 0..12)
                .prop_flat_map(|items| (Just(items.clone()), shuffled(items))),
        ) {
            prop_assert_eq!(sorted(&list(&one), &[]).unwrap().0, sorted(&list(&other), &[]).unwrap().0);
        }

        #[test]
        fn list_after_another_one_is_sorted_as_if_it_came_alone(
            (one, other) in prop::collection::vec(listed(), 0..12)
                .prop_flat_map(|items| (Just(items.clone()), shuffled(items))),
            others in prop::collection::vec(listed(), 0..3),
        ) {
            let (last, _) = sorted(&list(&one), &[]).unwrap();
            let next = list(&[other, others].concat());
            prop_assert_eq!(sorted(&next, &last).unwrap().0, sorted(&next, &[]).unwrap().0);
            prop_assert_eq!(sorted_and_restored(&next, &last), next);
        }

        #[test]
        fn every_sorted_list_is_restored(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..9)) {
            let original: Vec<u8> = contents.iter().flat_map(|content| with_length(0x0A, content)).collect();
            prop_assert_eq!(sorted_and_restored(&original, &[]), original);
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
            sorted(&bytes, &back);
            restored(&bytes, &back);
        }
    }

    #[test]
    fn permutation_of_a_hundred_items_is_small() {
        // The order of 100 items needs at least 525 bits (100!), the order of three labels three bits per item.
        let labels = || ["c", "b", "a"].map(str::to_owned).to_vec();
        let items: Vec<_> =
            (0..100).rev().map(|item| TestItem(format!("{item:03}"), 1, labels(), vec![])).collect();
        assert_eq!(sorted(&list(&items), &[]).unwrap().1.len(), 110);
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
        assert_eq!(sorted(b"\x0a\x01x\x10\x01", b""), None);
        assert_eq!(sorted(b"\x0a\x05x", b""), None);
        assert_eq!(sorted(b"", b""), Some((Vec::new(), Vec::new())));
    }
}
