//! Compresses the messages and documents of a capture with deflate if that makes them smaller.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use prost::bytes::Bytes;

/// The smallest size that is compressed: smaller data does not get smaller.
const MIN_SIZE: usize = 96;

/// The largest size after unpacking, which equals the client's limit for one message.
pub const MAX_UNPACKED: usize = 256 * 1024 * 1024;

/// Returns the compressed bytes and their size before compression, or the unchanged bytes and 0.
pub fn packed(bytes: Bytes) -> (Bytes, u64) {
    match deflated(&bytes) {
        Some(smaller) => (smaller.into(), u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
        None => (bytes, 0),
    }
}

fn deflated(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < MIN_SIZE {
        return None;
    }
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::default());
    encoder.write_all(bytes).ok()?;
    let smaller = encoder.finish().ok()?;
    (smaller.len() < bytes.len()).then_some(smaller)
}

/// Returns the original bytes; `None` if `bytes` cannot be unpacked, or if the result does not have the size `inflated`.
pub fn unpacked(bytes: &Bytes, inflated: u64) -> Option<Bytes> {
    if inflated == 0 {
        return Some(bytes.clone());
    }
    let size = usize::try_from(inflated).ok().filter(|size| *size <= MAX_UNPACKED)?;
    let mut whole = Vec::new();
    // Reads up to one byte more than `inflated`, so that a result that is too large is noticed.
    let mut limited = DeflateDecoder::new(&bytes[..]).take(inflated.saturating_add(1));
    limited.read_to_end(&mut whole).ok()?;
    (whole.len() == size).then(|| whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_is_undone(bytes in prop::collection::vec(0_u8..4, 0..600)) {
            let (small, inflated) = packed(bytes.clone().into());
            prop_assert!(small.len() <= bytes.len());
            prop_assert_eq!(unpacked(&small, inflated).unwrap(), bytes);
        }

        #[test]
        fn bytes_that_are_not_packed_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), size in 1_u64..10_000) {
            let unpacked = unpacked(&bytes.into(), size);
            prop_assert!(unpacked.is_none_or(|all| u64::try_from(all.len()) == Ok(size)));
        }
    }

    #[test]
    fn decompression_bomb_is_refused() {
        let (small, _) = packed(vec![0; 1_000_000].into());
        assert_eq!(unpacked(&small, 10), None);
        assert_eq!(unpacked(&small, u64::MAX), None);
    }
}
