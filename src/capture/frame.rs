//! Reads and writes frames. A segment stores each entry in one frame, which consists of a mark, the length, a checksum of
//! length and content, and the content.
//!
//! After a damaged frame the reader searches for the next frame with a correct checksum, so that one flipped bit destroys
//! only one entry.

use flate2::Crc;

/// The mark: the first bytes of each frame.
const MARK: [u8; 2] = [0xA7, 0x50];

/// The number of bytes of mark, length and checksum.
pub const OVERHEAD: usize = MARK.len() + 4 + 4;

/// One search for the next whole frame may compute checksums of at most this many times the segment's size. This limits
/// the cost of a malicious file whose bytes look like many overlapping frames.
const MAX_CHECKED_FACTOR: usize = 16;

/// The result of reading a frame at an offset.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameRead<'a> {
    /// A whole frame with a correct checksum: its content, and the offset of its end.
    Whole(&'a [u8], usize),
    /// Only zeros follow: nothing was written from here to the end of the segment.
    End,
    /// Damaged bytes, or an incomplete frame.
    Broken,
}

/// Returns the checksum of a frame's length and content.
fn checksum(length: [u8; 4], content: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(&length);
    crc.update(content);
    crc.sum().to_le_bytes()
}

/// Appends a frame with this content to `out`. Returns false if the content is too long. The content must not be empty.
pub fn append(out: &mut Vec<u8>, content: &[u8]) -> bool {
    let Ok(length) = u32::try_from(content.len()) else { return false };
    let length = length.to_le_bytes();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(length, content));
    out.extend_from_slice(content);
    true
}

/// Returns the start and end of the content, the length and the stored checksum, if the bytes at `offset` look like a frame.
fn parse_head(bytes: &[u8], offset: usize) -> Option<(usize, usize, [u8; 4], [u8; 4])> {
    let rest = bytes.get(offset..)?.strip_prefix(&MARK)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let expected = rest.first_chunk::<4>()?;
    let from = offset.checked_add(OVERHEAD)?;
    let to = from.checked_add(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    (to > from && to <= bytes.len()).then_some((from, to, *length, *expected))
}

/// Returns the content and the end of the frame at `offset`, if the checksum is correct.
fn whole_frame_at(bytes: &[u8], offset: usize) -> Option<(&[u8], usize)> {
    let (from, to, length, expected) = parse_head(bytes, offset)?;
    let content = bytes.get(from..to)?;
    (checksum(length, content) == expected).then_some((content, to))
}

/// Reads the frame at `offset`.
pub fn read_at(bytes: &[u8], offset: usize) -> FrameRead<'_> {
    if let Some((content, end)) = whole_frame_at(bytes, offset) {
        return FrameRead::Whole(content, end);
    }
    let rest = bytes.get(offset..).unwrap_or_default();
    if rest.iter().all(|byte| *byte == 0) { FrameRead::End } else { FrameRead::Broken }
}

/// Returns the position of the next whole frame after `offset`.
pub fn next_whole(bytes: &[u8], offset: usize) -> Option<usize> {
    let mut left = bytes.len().saturating_mul(MAX_CHECKED_FACTOR);
    let mut place = offset.checked_add(1)?;
    loop {
        let ahead = bytes.get(place..)?;
        place += ahead.windows(MARK.len()).position(|window| window == MARK)?;
        if let Some((from, to, ..)) = parse_head(bytes, place) {
            left = left.checked_sub(to - from)?;
            if whole_frame_at(bytes, place).is_some() {
                return Some(place);
            }
        }
        place += 1;
    }
}

/// Whether the bytes at `offset` are the beginning of a frame that the recorder could not write completely, for example
/// because it was killed. The caller makes sure that no whole frame follows.
pub fn is_torn(bytes: &[u8], offset: usize) -> bool {
    let Some(rest) = bytes.get(offset..used_length(bytes)) else { return false };
    let Some((head, _)) = rest.split_first_chunk::<OVERHEAD>() else {
        return MARK.starts_with(rest) || rest.starts_with(&MARK);
    };
    let length =
        head.strip_prefix(&MARK).and_then(<[u8]>::first_chunk).map(|length| u32::from_le_bytes(*length));
    let length = length.and_then(|length| usize::try_from(length).ok());
    // A frame that ends exactly at the end of the file was written completely, so it is damaged and not torn.
    let left = bytes.len() - offset;
    length.is_some_and(|length| length > rest.len() - OVERHEAD && length != left - OVERHEAD)
}

/// Returns the number of bytes up to the last byte that is not zero. The rest is reserved space.
pub fn used_length(mut bytes: &[u8]) -> usize {
    // A comparison of whole blocks is much quicker than one of bytes, and the reserved space is megabytes long.
    while let Some(shorter) = bytes.strip_suffix(&[0; 4096]) {
        bytes = shorter;
    }
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(contents: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for content in contents {
            assert!(append(&mut bytes, content));
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Vec<u8>> {
        let (mut offset, mut all) = (0, Vec::new());
        loop {
            match read_at(bytes, offset) {
                FrameRead::Whole(content, end) => {
                    all.push(content.to_vec());
                    offset = end;
                }
                FrameRead::End => return all,
                FrameRead::Broken => match next_whole(bytes, offset) {
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
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            read(&bytes);
        }
    }

    #[test]
    fn entry_that_lacks_only_zeros_is_whole_in_reserved_space() {
        let bytes = frames(&[vec![1, 2], vec![3, 0, 0]]);
        let mut torn = bytes[..bytes.len() - 2].to_vec();
        assert_eq!(read(&torn), [vec![1, 2]]);
        torn.resize(4096, 0);
        assert_eq!(read(&torn), [vec![1, 2], vec![3, 0, 0]]);
    }

    #[test]
    fn search_ends_after_too_many_false_frames() {
        let mut bytes = Vec::new();
        while bytes.len() < 60_000 {
            bytes.extend(MARK);
            bytes.extend(20_000_u32.to_le_bytes());
            bytes.extend([1, 2, 3, 4]);
        }
        assert_eq!(next_whole(&bytes, 0), None);
    }
}
