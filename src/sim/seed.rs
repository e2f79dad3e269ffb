//! [`Seed`]: derives random-looking numbers, ids and names. The same seed always gives the same results.

use std::fmt::Write as _;

/// The letters and digits of Kubernetes' generated name suffixes, which cannot spell a word.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A seed, from which further seeds, numbers and ids are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Creates the seed of a scenario.
    pub const fn new(number: u64) -> Self {
        Self(mixed(number))
    }

    /// Derives the seed of `name` from this seed.
    pub fn of(self, name: &str) -> Self {
        // FNV-1a of the name, starting with this seed.
        let start = 0xcbf2_9ce4_8422_2325 ^ self.0;
        let hash = name
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Self(mixed(hash))
    }

    /// Derives the seed with this index from this seed.
    pub const fn nth(self, index: u64) -> Self {
        Self(mixed(self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns a number below `bound`; zero if `bound` is zero.
    pub const fn below(self, bound: u64) -> u64 {
        match self.0.checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }

    /// Returns 64 hex digits, like ids of containers and sandboxes.
    pub fn id(self) -> String {
        self.hex(4)
    }

    /// Returns 32 hex digits, like the UID of a static pod.
    pub fn short_hex(self) -> String {
        self.hex(2)
    }

    /// Returns a UUID, like the UID of a pod from the API server.
    pub fn uuid(self) -> String {
        let (high, low) = (self.0, self.nth(1).0);
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
    }

    /// Returns a generated name suffix.
    pub fn suffix(self, length: usize) -> String {
        let letters = u64::try_from(SUFFIX_LETTERS.len()).unwrap_or(1);
        (0..)
            .map(|index| self.nth(index).below(letters))
            .filter_map(|pick| SUFFIX_LETTERS.get(usize::try_from(pick).ok()?))
            .map(|letter| char::from(*letter))
            .take(length)
            .collect()
    }

    fn hex(self, words: u64) -> String {
        (0..words).fold(String::new(), |mut text, word| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{:016x}", self.nth(word).0);
            text
        })
    }
}

/// Mixes the bits of a number with the final step of splitmix64, in which each bit of the input changes about half of the
/// output's bits.
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_give_equal_ids_and_different_names_different_ids() {
        let seed = Seed::new(1);
        assert_eq!(seed.of("web").id(), seed.of("web").id());
        assert_ne!(seed.of("web").id(), seed.of("wec").id());
        assert_ne!(seed.of("web").id(), Seed::new(2).of("web").id());
    }

    #[test]
    fn ids_have_the_format_of_a_runtimes_ids() {
        let seed = Seed::new(7).of("web");
        assert_eq!(seed.id().len(), 64);
        assert!(seed.id().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(seed.short_hex().len(), 32);
        assert_eq!(seed.suffix(5).len(), 5);
        let uuid = seed.uuid();
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
