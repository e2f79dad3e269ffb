//! Caches the results of work on messages, so that a message that comes again is not processed again.

use std::collections::HashMap;
use std::hash::Hash;

use prost::bytes::Bytes;

/// The maximum size of messages and results together. A cache that would exceed a limit is emptied.
const MOST_BYTES: usize = 64 << 20;

/// The maximum number of results.
const MOST: usize = 4096;

/// The results of some work on messages, by the address of each message in memory. The message is kept as long as its result,
/// so that no other message gets its address.
#[derive(Debug)]
pub struct Recent<K, T> {
    results: HashMap<(K, usize, usize), (Bytes, T)>,
    bytes: usize,
}

impl<K, T> Default for Recent<K, T> {
    fn default() -> Self {
        Self { results: HashMap::new(), bytes: 0 }
    }
}

impl<K: Eq + Hash, T> Recent<K, T> {
    /// Returns the result for this message.
    pub fn get(&self, key: K, message: &Bytes) -> Option<&T> {
        self.results.get(&(key, message.as_ptr().addr(), message.len())).map(|(_, result)| result)
    }

    /// Adds the result for a message; `size` is the size of the result.
    pub fn put(&mut self, key: K, message: Bytes, result: T, size: usize) {
        let more = message.len().saturating_add(size);
        if self.results.len() >= MOST || self.bytes.saturating_add(more) > MOST_BYTES {
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
        let mut recent = Recent::default();
        let message = Bytes::from(vec![1; 100]);
        recent.put(1, message.clone(), "one", 0);
        assert_eq!(recent.get(1, &message), Some(&"one"));
        assert_eq!((recent.get(2, &message), recent.get(1, &message.slice(1..))), (None, None));
        recent.put(1, Bytes::from(vec![2; 100]), "large", MOST_BYTES - 200);
        assert_eq!(recent.get(1, &message), Some(&"one"));
        recent.put(1, Bytes::from(vec![3; 100]), "too much", 0);
        assert_eq!(recent.get(1, &message), None);
    }
}
