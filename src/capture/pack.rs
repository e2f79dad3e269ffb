//! Compression of what is worth it.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use prost::bytes::Bytes;

/// Below this size there is nothing to be won.
const WORTH: usize = 96;

/// The largest thing that is unpacked: what the client is willing to receive.
pub const LARGEST: usize = 256 * 1024 * 1024;

/// The bytes deflated, and their size before that; 0 if they are as they were.
pub fn packed(bytes: Bytes) -> (Bytes, u64) {
    match deflated(&bytes) {
        Some(smaller) => (smaller.into(), u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
        None => (bytes, 0),
    }
}

fn deflated(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < WORTH {
        return None;
    }
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::default());
    encoder.write_all(bytes).ok()?;
    let smaller = encoder.finish().ok()?;
    (smaller.len() < bytes.len()).then_some(smaller)
}

/// The bytes as they were; `None` if they are not what they say.
pub fn unpacked(bytes: &Bytes, inflated: u64) -> Option<Bytes> {
    if inflated == 0 {
        return Some(bytes.clone());
    }
    let size = usize::try_from(inflated).ok().filter(|size| *size <= LARGEST)?;
    let mut whole = Vec::new();
    // One byte more than there should be: whoever says less than there is lies too.
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
        fn what_is_not_packed_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), size in 1_u64..10_000) {
            let unpacked = unpacked(&bytes.into(), size);
            prop_assert!(unpacked.is_none_or(|all| u64::try_from(all.len()) == Ok(size)));
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let (small, _) = packed(vec![0; 1_000_000].into());
        assert_eq!(unpacked(&small, 10), None);
        assert_eq!(unpacked(&small, u64::MAX), None);
    }
}
