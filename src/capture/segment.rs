//! Reads and writes segments, the files of a capture. A segment has a header, followed by frames with one entry each.
//! Each segment can be read without the others, so that old segments can be deleted.

use std::fs::File;
use std::io::{self, Write};

use prost::Message;
use rustix::fs::{FallocateFlags, fallocate};

use super::budget;
use super::entry::CaptureEntry;
use super::frame::{self, FrameRead};
use super::private_directory::PrivateDirectory;

/// The first bytes of each segment.
const MAGIC: [u8; 8] = *b"plegcap\n";

/// The version of the format. A new version is needed only if older releases could not read the segments; new fields and
/// new kinds of entries need no new version.
pub const VERSION: u16 = 1;

/// The size of the header: magic, version and reserved bytes.
pub const HEADER_SIZE: usize = 16;

/// The suffix of the file names of segments.
const SUFFIX: &str = ".seg";

/// The reason why a file is not read as a segment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file does not begin with [`MAGIC`].
    #[error("its first bytes are not those of a capture")]
    NoSegment,
    /// A later release wrote the file in another version of the format.
    #[error("it has version {0} of the format, which only a later release reads")]
    Version(u16),
}

/// Returns the header of a segment.
pub fn header() -> [u8; HEADER_SIZE] {
    let mut header = [0; HEADER_SIZE];
    for (place, byte) in header.iter_mut().zip(MAGIC.into_iter().chain(VERSION.to_le_bytes())) {
        *place = byte;
    }
    header
}

/// Checks that this release can read these bytes as a segment.
pub fn check(bytes: &[u8]) -> Result<(), HeaderError> {
    let Some(rest) = bytes.strip_prefix(&MAGIC) else { return Err(HeaderError::NoSegment) };
    match rest.first_chunk().map(|version| u16::from_le_bytes(*version)) {
        Some(VERSION) => Ok(()),
        Some(version) => Err(HeaderError::Version(version)),
        None => Err(HeaderError::NoSegment),
    }
}

/// The largest number that a segment can have: file names have ten digits.
pub const MAX_NUMBER: u64 = 9_999_999_999;

/// Returns the file name of segment `number`.
pub fn name(number: u64) -> String {
    format!("{number:010}{SUFFIX}")
}

/// Returns the number of the segment with this file name.
pub fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let digits =
        Some(digits).filter(|digits| digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}

/// Iterates over the entries of a segment, and counts the bytes that cannot be read.
pub struct Entries<'a> {
    bytes: &'a [u8],
    offset: usize,
    /// The number of damaged bytes, which cannot be read as entries. The header, the unused space and [`Self::cut`] do
    /// not count.
    pub damaged: u64,
    /// The size of the incomplete last entry: the recorder was killed, or the file was truncated.
    pub cut: u64,
    /// The offset of the first fault.
    pub fault: Option<usize>,
}

impl<'a> Entries<'a> {
    /// Creates an iterator over the entries of a segment that [`check`] accepts.
    pub const fn in_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: HEADER_SIZE, damaged: 0, cut: 0, fault: None }
    }

    /// Returns the end of the last entry that was read.
    pub const fn end(&self) -> usize {
        self.offset
    }

    /// Counts the bytes up to `to` as damaged.
    fn count_damage(&mut self, to: usize) {
        self.fault.get_or_insert(self.offset);
        self.damaged += u64::try_from(to.saturating_sub(self.offset)).unwrap_or(u64::MAX);
    }
}

impl Iterator for Entries<'_> {
    /// The offset of an entry in the segment, and the entry.
    type Item = (usize, CaptureEntry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match frame::read_at(self.bytes, self.offset) {
                FrameRead::Whole(content, end) => {
                    let begins = self.offset;
                    if let Some(entry) = budget::decode_entry(content) {
                        self.offset = end;
                        return Some((begins, entry));
                    }
                    self.count_damage(end);
                    self.offset = end;
                }
                FrameRead::End => return None,
                FrameRead::Broken => {
                    if let Some(next) = frame::next_whole(self.bytes, self.offset) {
                        self.count_damage(next);
                        self.offset = next;
                        continue;
                    }
                    let used = frame::used_length(self.bytes);
                    if frame::is_torn(self.bytes, self.offset) {
                        self.cut = u64::try_from(used.saturating_sub(self.offset)).unwrap_or(u64::MAX);
                    } else {
                        self.count_damage(used);
                    }
                    // The next call returns `None` without a new search.
                    self.bytes = self.bytes.get(..self.offset).unwrap_or_default();
                    return None;
                }
            }
        }
    }
}

/// A segment that is being written.
pub struct Segment {
    file: File,
    /// The number of the segment.
    pub number: u64,
    size: u64,
    used: u64,
}

impl Segment {
    /// Creates segment `number` in `directory` and reserves `size` bytes of disk space, so that a later entry has space even if
    /// the disk is full by then.
    pub fn create(directory: &PrivateDirectory, number: u64, size: u64) -> io::Result<Self> {
        let name = name(number);
        let file = directory.create(&name)?;
        let made = reserve(&file, size).and_then(|()| (&file).write_all(&header()));
        if let Err(why) = made {
            // An incomplete segment is not left behind.
            let _ = directory.remove(&name);
            return Err(why);
        }
        Ok(Self { file, number, size, used: u64::try_from(HEADER_SIZE).unwrap_or_default() })
    }

    /// Returns the number of free bytes.
    pub const fn room(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    /// Returns the size on the disk.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends complete frames, which must fit.
    pub fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_all(frames)?;
        self.used += u64::try_from(frames.len()).unwrap_or_default();
        Ok(())
    }

    /// Releases the unused disk space; returns the size after that.
    pub fn seal(self) -> u64 {
        // If the file cannot be truncated, readers still find the end of its entries.
        let is_truncated = self.file.set_len(self.used).is_ok();
        // An error is ignored, because the kernel may still write the data later.
        let _ = self.file.sync_data();
        if is_truncated { self.used } else { self.size }
    }
}

/// Reserves disk space for a file.
fn reserve(file: &File, size: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        // On a file system that cannot reserve space, only the length is set.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(size),
        other => other.map_err(Into::into),
    }
}

/// Encodes `entry` as a frame.
pub fn framed(entry: &CaptureEntry) -> Vec<u8> {
    let mut out = Vec::new();
    frame::append(&mut out, &entry.encode_to_vec());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_of_this_version_are_accepted() {
        assert_eq!(check(&header()), Ok(()));
        assert_eq!(check(b"plegcap\n\x02\x00......"), Err(HeaderError::Version(2)));
        assert_eq!(check(b"plegcap\n\x01"), Err(HeaderError::NoSegment));
        assert_eq!(check(b""), Err(HeaderError::NoSegment));
    }

    #[test]
    fn number_of_a_segment_is_in_its_name() {
        assert_eq!(number("0000000012.seg"), Some(12));
        for other in ["12.seg", "0000000012", "lock", "00000000ab.seg", "+000000012.seg"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
