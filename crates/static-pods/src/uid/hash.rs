//! The two hash functions with which kubelet releases compute a static pod's UID.

/// Computes the FNV-1a hash with 128 bits, which the kubelet uses since 1.35.
pub fn fnv1a_128(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

/// Computes the MD5 hash (RFC 1321), which the kubelet uses up to 1.34. It only identifies a pod and has no security
/// purpose.
pub fn md5(bytes: &[u8]) -> u128 {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        digest(&mut state, block);
    }
    // The last block ends with a one bit, zeros, and the length in bits.
    let mut tail = rest.to_vec();
    tail.push(0x80);
    while tail.len() % 64 != 56 {
        tail.push(0);
    }
    let bits = u64::try_from(bytes.len()).unwrap_or(u64::MAX).wrapping_mul(8);
    tail.extend(bits.to_le_bytes());
    for block in tail.as_chunks::<64>().0 {
        digest(&mut state, block);
    }
    state.iter().fold(0, |hash, word| hash << 32 | u128::from(word.swap_bytes()))
}

/// For each round, the numbers of bits by which its steps rotate.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The constants of the 64 steps: the first 32 bits after the point of |sin(1)|, |sin(2)|, …
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Adds one block to the state.
fn digest(state: &mut [u32; 4], block: &[u8; 64]) {
    let (words, _) = block.as_chunks::<4>();
    let word = |index: usize| words.get(index % 16).copied().map_or(0, u32::from_le_bytes);
    let [mut a, mut b, mut c, mut d] = *state;
    for (step, sine) in SINES.iter().enumerate() {
        let (mixed, index) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (b & d | c & !d, 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let rotation =
            ROTATIONS.get(step / 16).and_then(|round| round.get(step % 4)).copied().unwrap_or_default();
        let sum = a.wrapping_add(mixed).wrapping_add(word(index)).wrapping_add(*sine);
        (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(rotation)));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_gives_the_digests_of_rfc_1321() {
        for (text, digest) in [
            ("", 0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e),
            ("abc", 0x9001_5098_3cd2_4fb0_d696_3f7d_28e1_7f72),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                0x57ed_f4a2_2be3_c955_ac49_da2e_2107_b67a,
            ),
        ] {
            assert_eq!(md5(text.as_bytes()), digest, "{text}");
        }
    }

    #[test]
    fn fnv_gives_the_published_digests() {
        assert_eq!(fnv1a_128(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a_128(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
