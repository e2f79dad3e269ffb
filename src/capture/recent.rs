//! What was made of a message, so that one that comes again and again is worked on once.

use std::collections::HashMap;
use std::hash::Hash;

use prost::bytes::Bytes;

/// How many bytes the messages and their results may have before all of them are forgotten, and how many there may be.
const MOST_BYTES: usize = 64 << 20;
const MOST: usize = 4096;

/// Results of some work on messages, by where each message lies in memory. A message is held as long as its result, so
/// that no other comes to lie there.
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
    /// What was made of this very message.
    pub fn get(&self, key: K, message: &Bytes) -> Option<&T> {
        self.results.get(&(key, message.as_ptr().addr(), message.len())).map(|(_, result)| result)
    }

    /// Keeps what was made of a message; `size` is that of the result.
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
