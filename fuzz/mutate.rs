//! Mutates inputs: bits, bytes, lengths, parts of other inputs, and words that matter to parsers.

/// Xorshift, which is random enough for mutations.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }
}

const WORDS: [&[u8]; 40] = [
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x7f\xff\xff\xff",
    b"\x0a\0",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\x1b[2J",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"0x1p-1074",
    b"\"",
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!",
    b"<<: ",
    b"|\n",
    b"---\n",
    b"null",
    b"(",
    b")",
    b"=",
];

/// Returns one of the seeds with a few mutations.
pub fn mutated(seeds: &[Vec<u8>], random: &mut Random, longest: usize) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        match random.below(10) {
            0 | 1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 if at < input.len() => input[at] = random.byte(),
            3 => {
                let end = (at + random.below(16)).min(input.len());
                input.drain(at..end);
            }
            4 => input.truncate(at),
            5 | 6 => {
                let word = WORDS[random.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
            7 => {
                // Repeats a part of the input many times.
                let end = (at + 1 + random.below(64)).min(input.len());
                let piece = input[at..end].repeat(1 + random.below(64));
                input.splice(at..at, piece);
            }
            8 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(256)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            _ => input.insert(at, random.byte()),
        }
        input.truncate(longest);
    }
    input
}
