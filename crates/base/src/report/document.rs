//! [`Document`] adds the keys `apiVersion` and `kind` with which every JSON document begins. The module also
//! estimates the memory that reading a document needs.

use serde::Serialize;

/// The API version of every document that plegctl writes.
pub const API_VERSION: &str = "plegctl/v1";

/// A report with `apiVersion` in front. The report adds its `kind` itself, with `#[serde(tag = "kind")]`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, T> {
    api_version: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// Wraps `body` as a document, for any serializer.
pub const fn document<T: Serialize>(body: &T) -> Document<'_, T> {
    Document { api_version: API_VERSION, body }
}

/// The maximum memory for reading a JSON document, in bytes. A report about the largest node needs some MiB.
pub const MAX_MEMORY: usize = 32 << 20;

/// The minimum memory of a JSON value: the value itself and the allocator's overhead.
const MIN_VALUE_MEMORY: usize = 64;

/// Returns an upper bound of the memory that a JSON text needs, without parsing it. Two bytes of text may be an empty
/// list, which needs far more than two bytes of memory.
pub fn memory_bound(text: &[u8]) -> usize {
    text.len().saturating_add(values_memory_bound(text))
}

/// Returns an upper bound of the memory for the values of a JSON text, without their texts.
fn values_memory_bound(text: &[u8]) -> usize {
    let begins = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{');
    text.iter().filter(begins).count().saturating_mul(MIN_VALUE_MEMORY)
}

/// Whether reading a JSON text needs at most `MAX_MEMORY`. Stops counting at the limit.
pub fn fits_in_memory(text: &[u8]) -> bool {
    let mut memory_bound = text.len();
    let fits = |piece: &[u8]| {
        memory_bound = memory_bound.saturating_add(values_memory_bound(piece));
        memory_bound <= MAX_MEMORY
    };
    text.chunks(4096).all(fits)
}

/// Whether a number is zero, so that a document leaves it out.
pub fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_empty_lists_needs_more_memory_than_its_text() {
        let lists = format!("[{}[]]", "[],".repeat(400_000));
        assert!(lists.len() < 1_300_000 && !fits_in_memory(lists.as_bytes()));
        let words = format!("{{\"summary\":\"{}\"}}", "x".repeat(4 << 20));
        assert!(fits_in_memory(words.as_bytes()));
    }
}
