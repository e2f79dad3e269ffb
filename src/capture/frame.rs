//! Reads and writes the frame of an entry in a segment: a mark, the length, a checksum of length and content, the
//! content.
//!
//! A frame can be checked by itself. After a damaged frame the reader searches for the next whole frame, so that one
//! flipped bit costs one entry.

use flate2::Crc;

/// The first bytes of a frame.
const MARK: [u8; 2] = [0xA7, 0x50];

/// The number of bytes of mark, length and checksum.
pub const OVERHEAD: usize = MARK.len() + 4 + 4;

/// How many bytes may be summed in search of the next whole frame, as a multiple of the segment's size. This limits the
/// cost of bytes that were made to look like many frames.
const MOST_SUMS: usize = 16;

/// The result of reading a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A whole frame: its content and its end.
    Whole(&'a [u8], usize),
    /// Nothing was written from here to the end of the segment.
    End,
    /// Bytes that are not a whole frame.
    Broken,
}

fn sum(length: [u8; 4], content: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(&length);
    crc.update(content);
    crc.sum().to_le_bytes()
}

/// Appends a frame; false if the content is too long for one.
pub fn put(out: &mut Vec<u8>, content: &[u8]) -> bool {
    let Ok(length) = u32::try_from(content.len()) else { return false };
    let length = length.to_le_bytes();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length);
    out.extend_from_slice(&sum(length, content));
    out.extend_from_slice(content);
    true
}

/// Returns the start and end of the content, the length and the checksum, if the bytes at `offset` look like a frame.
fn outline(bytes: &[u8], offset: usize) -> Option<(usize, usize, [u8; 4], [u8; 4])> {
    let rest = bytes.get(offset..)?.strip_prefix(&MARK)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let claimed = rest.first_chunk::<4>()?;
    let from = offset.checked_add(OVERHEAD)?;
    let to = from.checked_add(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    (to > from && to <= bytes.len()).then_some((from, to, *length, *claimed))
}

fn whole(bytes: &[u8], offset: usize) -> Option<(&[u8], usize)> {
    let (from, to, length, claimed) = outline(bytes, offset)?;
    let content = bytes.get(from..to)?;
    (sum(length, content) == claimed).then_some((content, to))
}

/// Reads the frame at `offset`.
pub fn at(bytes: &[u8], offset: usize) -> Found<'_> {
    if let Some((content, end)) = whole(bytes, offset) {
        return Found::Whole(content, end);
    }
    let rest = bytes.get(offset..).unwrap_or_default();
    if rest.iter().all(|byte| *byte == 0) { Found::End } else { Found::Broken }
}

/// Returns the position of the next whole frame after `offset`.
pub fn next_whole(bytes: &[u8], offset: usize) -> Option<usize> {
    let mut left = bytes.len().saturating_mul(MOST_SUMS);
    let mut place = offset.checked_add(1)?;
    loop {
        let ahead = bytes.get(place..)?;
        place += ahead.windows(MARK.len()).position(|window| window == MARK)?;
        if let Some((from, to, ..)) = outline(bytes, place) {
            left = left.checked_sub(to - from)?;
            if whole(bytes, place).is_some() {
                return Some(place);
            }
        }
        place += 1;
    }
}

/// Whether the bytes at `offset` are the beginning of a frame whose writer was stopped in the middle. No whole frame may
/// follow.
pub fn is_torn(bytes: &[u8], offset: usize) -> bool {
    let Some(rest) = bytes.get(offset..used(bytes)) else { return false };
    let Some((head, _)) = rest.split_first_chunk::<OVERHEAD>() else {
        return MARK.starts_with(rest) || rest.starts_with(&MARK);
    };
    let length =
        head.strip_prefix(&MARK).and_then(<[u8]>::first_chunk).map(|length| u32::from_le_bytes(*length));
    let length = length.and_then(|length| usize::try_from(length).ok());
    // A frame that ends at the end of the file is complete, so it is damaged and not torn.
    let left = bytes.len() - offset;
    length.is_some_and(|length| length > rest.len() - OVERHEAD && length != left - OVERHEAD)
}

/// Returns the end of the last byte that is not zero.
pub fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(contents: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for content in contents {
            assert!(put(&mut bytes, content));
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Vec<u8>> {
        let (mut offset, mut all) = (0, Vec::new());
        loop {
            match at(bytes, offset) {
                Found::Whole(content, end) => {
                    all.push(content.to_vec());
                    offset = end;
                }
                Found::End => return all,
                Found::Broken => match next_whole(bytes, offset) {
                    Some(next) => offset = next,
                    None => return all,
                },
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 0..20)) {
            let mut bytes = frames(&contents);
            bytes.extend([0; 64]);
            prop_assert_eq!(read(&bytes), contents);
        }

        #[test]
        fn a_flipped_bit_costs_the_entry_that_it_is_in(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 1..20),
            place in any::<prop::sample::Index>(),
            bit in 0_u32..8,
        ) {
            let mut bytes = frames(&contents);
            let place = place.index(bytes.len());
            bytes[place] ^= 1_u8 << bit;
            let mut end = 0;
            let hit = contents.iter().position(|content| {
                end += OVERHEAD + content.len();
                place < end
            });
            let mut left = contents;
            left.remove(hit.unwrap());
            prop_assert_eq!(read(&bytes), left);
        }

        #[test]
        fn any_bytes_are_read_without_trouble(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            read(&bytes);
        }
    }

    #[test]
    fn entry_that_lacks_nothing_but_zeros_is_whole_in_reserved_room() {
        let bytes = frames(&[vec![1, 2], vec![3, 0, 0]]);
        let mut torn = bytes[..bytes.len() - 2].to_vec();
        assert_eq!(read(&torn), [vec![1, 2]]);
        torn.resize(4096, 0);
        assert_eq!(read(&torn), [vec![1, 2], vec![3, 0, 0]]);
    }

    #[test]
    fn beginnings_without_number_are_given_up() {
        let mut bytes = Vec::new();
        while bytes.len() < 60_000 {
            bytes.extend(MARK);
            bytes.extend(20_000_u32.to_le_bytes());
            bytes.extend([1, 2, 3, 4]);
        }
        assert_eq!(next_whole(&bytes, 0), None);
    }
}
