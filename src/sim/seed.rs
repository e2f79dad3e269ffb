//! Numbers, ids and names out of a seed: the same seed and the same words always give the same ones.

use std::fmt::Write as _;

/// Letters and digits of Kubernetes' generated name suffixes: none that could spell a word.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A point in the tree of derived seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The root of a scenario.
    pub const fn new(number: u64) -> Self {
        Self(mixed(number))
    }

    /// The seed of something called `name` below this one.
    pub fn of(self, name: &str) -> Self {
        // FNV-1a over the name, started from this seed.
        let start = 0xcbf2_9ce4_8422_2325 ^ self.0;
        let hash = name
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Self(mixed(hash))
    }

    /// The seed of the `index`th thing below this one.
    pub const fn nth(self, index: u64) -> Self {
        Self(mixed(self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number below `bound`; zero if the bound is.
    pub const fn below(self, bound: u64) -> u64 {
        match self.0.checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }

    /// 64 hex digits, as container and sandbox ids are.
    pub fn id(self) -> String {
        self.hex(4)
    }

    /// 32 hex digits, as the UID of a static pod is.
    pub fn short_hex(self) -> String {
        self.hex(2)
    }

    /// A random-looking UUID, as the UID of a pod from the API server is.
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

    /// A generated name suffix.
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

/// The finishing step of splitmix64: every bit of the input moves about half of the output's.
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
    fn the_same_words_give_the_same_id_and_others_another() {
        let seed = Seed::new(1);
        assert_eq!(seed.of("web").id(), seed.of("web").id());
        assert_ne!(seed.of("web").id(), seed.of("wec").id());
        assert_ne!(seed.of("web").id(), Seed::new(2).of("web").id());
    }

    #[test]
    fn ids_look_like_a_runtimes() {
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
