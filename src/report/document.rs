//! What all JSON of plegctl has in common: the two keys in front.

use serde::Serialize;

/// Version of every document that this program writes.
pub const API_VERSION: &str = "plegctl/v1";

/// A body with the two keys in front. The body brings `kind` itself, by `#[serde(tag = "kind")]`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, T> {
    api_version: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// `body` as a document, ready for any serializer.
pub const fn document<T: Serialize>(body: &T) -> Document<'_, T> {
    Document { api_version: API_VERSION, body }
}

/// Memory that a document of JSON may take when it is read. A diagnosis of the largest node takes some MiB.
const MOST_MEMORY: usize = 32 << 20;

/// What a value takes at least: itself, and the allocator's own.
const VALUE: usize = 64;

/// What a text of JSON takes in memory at most, told without reading it: two bytes are an empty list, and much more than
/// two bytes of memory.
pub fn weight(text: &[u8]) -> usize {
    text.len().saturating_add(weight_of_values(text))
}

fn weight_of_values(text: &[u8]) -> usize {
    let begins = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{');
    text.iter().filter(begins).count().saturating_mul(VALUE)
}

/// Whether a text of JSON takes no more memory than a document may. What is too heavy is not looked at to its end.
pub fn is_light(text: &[u8]) -> bool {
    let mut weight = text.len();
    let fits = |piece: &[u8]| {
        weight = weight.saturating_add(weight_of_values(piece));
        weight <= MOST_MEMORY
    };
    text.chunks(4096).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_of_empty_lists_weighs_more_than_its_bytes() {
        let lists = format!("[{}[]]", "[],".repeat(400_000));
        assert!(lists.len() < 1_300_000 && !is_light(lists.as_bytes()));
        let words = format!("{{\"summary\":\"{}\"}}", "x".repeat(4 << 20));
        assert!(is_light(words.as_bytes()));
    }
}
