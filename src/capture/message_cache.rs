//! Caches a result for each message of a capture, so that a repeated message is not processed again.

use std::collections::HashMap;
use std::hash::Hash;

use prost::bytes::Bytes;

/// The usual maximum size of all messages and results together. If a new result would exceed a limit, the cache first drops
/// all older results, and then keeps the new one, whatever its size.
const MAX_BYTES: usize = 64 << 20;

/// The maximum number of results.
const MAX_RESULTS: usize = 4096;

/// A result for each message, found by a key and the address of the message in memory. The cache keeps the message together
/// with its result, so that no other message gets the same address.
#[derive(Debug)]
pub struct MessageCache<K, T> {
    results: HashMap<(K, usize, usize), (Bytes, T)>,
    bytes: usize,
    max_bytes: usize,
}

impl<K, T> Default for MessageCache<K, T> {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl<K, T> MessageCache<K, T> {
    /// Creates a cache for this size of messages and results.
    pub fn with_limit(max_bytes: usize) -> Self {
        Self { results: HashMap::new(), bytes: 0, max_bytes: max_bytes.min(MAX_BYTES) }
    }
}

impl<K: Eq + Hash, T> MessageCache<K, T> {
    /// Returns the result for this message.
    pub fn get(&self, key: K, message: &Bytes) -> Option<&T> {
        self.results.get(&(key, message.as_ptr().addr(), message.len())).map(|(_, result)| result)
    }

    /// Adds the result for a message; `size` is the size of the result.
    pub fn put(&mut self, key: K, message: Bytes, result: T, size: usize) {
        let more = message.len().saturating_add(size);
        if self.results.len() >= MAX_RESULTS || self.bytes.saturating_add(more) > self.max_bytes {
            self.results.clear();
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(more);
        self.results.insert((key, message.as_ptr().addr(), message.len()), (message, result));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_found_by_the_message_itself_until_there_are_too_many() {
        let mut cache = MessageCache::default();
        let message = Bytes::from(vec![1; 100]);
        cache.put(1, message.clone(), "one", 0);
        assert_eq!(cache.get(1, &message), Some(&"one"));
        assert_eq!((cache.get(2, &message), cache.get(1, &message.slice(1..))), (None, None));
        cache.put(1, Bytes::from(vec![2; 100]), "large", MAX_BYTES - 200);
        assert_eq!(cache.get(1, &message), Some(&"one"));
        cache.put(1, Bytes::from(vec![3; 100]), "too much", 0);
        assert_eq!(cache.get(1, &message), None);
    }
}
