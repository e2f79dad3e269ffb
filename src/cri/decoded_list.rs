//! [`DecodedList`]: a list whose items the next answer takes over where it has not changed, so that they are not decoded again.
//! On a quiet node, only the order of two lists differs.

use prost::bytes::Bytes;

use super::decode_budget::{DecodeBudget, HasShape, MessageError};
use super::list_items::{has_free_order, id_of, reordered};

/// The size of the largest list whose entries are kept for the next answer.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// A decoded list.
#[derive(Debug)]
pub struct DecodedList<T> {
    pub(super) items: Vec<T>,
    /// The encoded entries of all items; empty if they are not kept.
    entries: Vec<Entry>,
}

/// An encoded entry of a list.
#[derive(Debug)]
struct Entry {
    bytes: Bytes,
    /// The size of the first field, the id.
    id_size: usize,
    /// The memory that it was charged.
    memory: u64,
    /// Whether the same labels in another order are the same entry.
    has_free_order: bool,
}

impl Entry {
    fn id(&self) -> &[u8] {
        self.bytes.get(..self.id_size).unwrap_or_default()
    }

    /// Whether the same item would be decoded from these bytes.
    fn is_same(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes
            || (self.has_free_order && reordered(&self.bytes, bytes, &mut Vec::new()).is_some())
    }
}

impl<T> Default for DecodedList<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for DecodedList<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, entries: Vec::new() }
    }
}

impl<T> DecodedList<T> {
    /// Returns the items, in the order of the answer.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the items, in the order of the answer.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns what the next answer can take over: the whole list, or nothing.
    #[must_use]
    pub fn kept(self) -> Self {
        if self.entries.is_empty() { Self::default() } else { self }
    }
}

/// A list that is being decoded, and the answer before, whose items it takes over.
pub(super) struct ListDecoder<T> {
    list: DecodedList<T>,
    keeps_entries: bool,
    /// The memory of the kept entries.
    kept_bytes: usize,
    /// The items of the answer before that were not taken over so far.
    earlier: Vec<Option<T>>,
    /// The entries of these items, in the order of their ids, each with the index of its item.
    earlier_entries: Vec<(Entry, usize)>,
    /// For each entry of this answer, the index of the item that is taken over.
    sources: Vec<Option<usize>>,
}

impl<T> ListDecoder<T> {
    /// Creates the decoder of a list. `last` is the answer before; `None` if no answer comes after this one.
    pub fn new(last: Option<DecodedList<T>>) -> Self {
        let keeps_entries = last.is_some();
        let DecodedList { items, entries } = last.unwrap_or_default();
        let mut earlier_entries: Vec<(Entry, usize)> = entries.into_iter().zip(0..).collect();
        earlier_entries.sort_unstable_by(|(one, _), (other, _)| one.id().cmp(other.id()));
        Self {
            list: DecodedList::default(),
            keeps_entries,
            kept_bytes: 0,
            earlier: items.into_iter().map(Some).collect(),
            earlier_entries,
            sources: Vec::new(),
        }
    }

    /// Counts memory of the kept entries: their messages, and the entries themselves. Those of a large list are not kept.
    pub fn count_kept(&mut self, size: usize) {
        self.kept_bytes = self.kept_bytes.saturating_add(size);
        if self.kept_bytes > MAX_KEPT_BYTES {
            let items = std::mem::take(&mut self.list.items);
            *self = Self { list: items.into(), kept_bytes: self.kept_bytes, ..Self::new(None) };
        }
    }

    /// Charges an entry, and searches for the same entry in the answer before.
    pub fn charge<M: HasShape>(
        &mut self,
        bytes: &Bytes,
        budget: &mut DecodeBudget,
    ) -> Result<(), MessageError> {
        if !self.keeps_entries {
            return budget.charge_entry(M::SHAPE, bytes).map(drop);
        }
        let id = id_of(bytes);
        let place = self.earlier_entries.partition_point(|(earlier, _)| earlier.id() < id);
        let same = self.earlier_entries.get(place).filter(|(earlier, _)| earlier.is_same(bytes));
        let entry = match same {
            Some((same, _)) => {
                budget.charge_again(same.memory)?;
                Entry { bytes: bytes.clone(), ..*same }
            }
            None => Entry {
                bytes: bytes.clone(),
                id_size: id.len(),
                memory: budget.charge_entry(M::SHAPE, bytes)?,
                has_free_order: has_free_order(bytes, |field| M::SHAPE.is_map(field)),
            },
        };
        self.sources.push(same.map(|(_, index)| *index));
        self.list.entries.push(entry);
        self.count_kept(size_of::<Entry>());
        Ok(())
    }

    /// Reserves memory for this many items.
    pub fn reserve(&mut self, items: usize) {
        // The exact size is reserved, because growing by doubling would need three times the memory for a moment.
        self.list.items.reserve_exact(items);
    }

    /// Adds the next item, whose entry was charged: that of the answer before, or the one that `decode` returns.
    pub fn add<E>(&mut self, decode: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        let source = self.sources.get(self.list.items.len()).copied().flatten();
        let earlier = source.and_then(|index| self.earlier.get_mut(index)?.take());
        self.list.items.push(earlier.map_or_else(decode, Ok)?);
        Ok(())
    }

    /// Returns the number of items.
    pub const fn len(&self) -> usize {
        self.list.items.len()
    }

    /// Returns the list.
    pub fn finish(self) -> DecodedList<T> {
        self.list
    }
}
