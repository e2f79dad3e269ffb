//! Remembers very many names in a fixed amount of memory: a Bloom filter of their hashes. It finds every name that was
//! added, and takes another name for a known one in one of 100 000 cases at most.

/// The size in bits, 4 MiB. It is a power of two, so that a bit is found without a division.
const BITS: u64 = 1 << 25;

/// The number of bits for each name.
const BITS_PER_NAME: u64 = 8;

/// The number of names that are added at most: with more, too many others would be found.
const MAX_NAMES: u32 = 1 << 20;

/// The names.
#[derive(Debug, Default)]
pub struct NameFilter {
    /// Empty until the first name is added.
    words: Vec<u64>,
    names: u32,
}

/// Returns the bits for a name, each as the index of a word and a mask. The hash must have a random seed.
fn places(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    // Two halves of one good hash replace eight hashes (Kirsch and Mitzenmacher, "Less Hashing, Same Performance").
    let (first, step) = (hash & u64::from(u32::MAX), (hash >> 32) | 1);
    (0..BITS_PER_NAME).map(move |number| {
        let bit = first.wrapping_add(number.wrapping_mul(step)) % BITS;
        (usize::try_from(bit / 64).unwrap_or_default(), 1 << (bit % 64))
    })
}

impl NameFilter {
    /// Adds a name by its hash, unless there are too many names already. Returns whether it was added.
    pub fn add(&mut self, hash: u64) -> bool {
        if self.has(hash) || self.names >= MAX_NAMES {
            return false;
        }
        if self.words.is_empty() {
            self.words = vec![0; usize::try_from(BITS / 64).unwrap_or_default()];
        }
        for (word, mask) in places(hash) {
            if let Some(word) = self.words.get_mut(word) {
                *word |= mask;
            }
        }
        self.names += 1;
        true
    }

    /// Whether a name with this hash was added; rarely also true for another name.
    pub fn has(&self, hash: u64) -> bool {
        places(hash).all(|(word, mask)| self.words.get(word).is_some_and(|word| word & mask != 0))
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn every_added_name_is_found_and_hardly_any_other_even_in_a_full_filter() {
        let (mut filter, hashes) = (NameFilter::default(), RandomState::new());
        assert!(!filter.has(hashes.hash_one("pod")), "an empty filter has no name");
        let count = |filter: &NameFilter, range: std::ops::Range<u32>| {
            range.filter(|number| filter.has(hashes.hash_one(number))).count()
        };
        // A few names are taken for known ones, and are not added.
        for number in 0..MAX_NAMES {
            filter.add(hashes.hash_one(number));
        }
        assert_eq!(count(&filter, 0..100_000), 100_000);
        let others = count(&filter, MAX_NAMES..MAX_NAMES + 200_000);
        assert!(others < 20, "{others} of 200000");
    }

    #[test]
    fn name_above_the_limit_is_not_added() {
        let mut filter = NameFilter { words: vec![0; 1 << 19], names: MAX_NAMES };
        assert!(!filter.add(1) && !filter.has(1));
        filter.names -= 1;
        assert!(filter.add(1) && filter.has(1) && !filter.add(1));
    }
}
