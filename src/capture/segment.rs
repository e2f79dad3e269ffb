//! One file of a capture: a header, then frames. A segment leans on no other, so that old ones can go.

use std::fs::File;
use std::io::{self, Write};

use prost::Message;
use rustix::fs::{FallocateFlags, fallocate};

use super::budget;
use super::entry::Entry;
use super::frame::{self, Found};
use super::private::Directory;

/// What every segment begins with.
const MAGIC: [u8; 8] = *b"plegcap\n";

/// The way of writing that this release has. It is raised only when an older release could not read the result at all:
/// fields and kinds of entries may be added without.
pub const VERSION: u16 = 1;

/// Magic, version, and room.
pub const HEADER: usize = 16;

/// What segments are called.
const SUFFIX: &str = ".seg";

/// Why a file is not read as a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// It begins with something else.
    Other,
    /// A later release wrote it in a way that this one does not know.
    Version(u16),
}

/// The header of a file.
pub fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    for (place, byte) in header.iter_mut().zip(MAGIC.into_iter().chain(VERSION.to_le_bytes())) {
        *place = byte;
    }
    header
}

/// Whether these bytes are a segment that this release reads.
pub fn check(bytes: &[u8]) -> Result<(), NotOurs> {
    let Some(rest) = bytes.strip_prefix(&MAGIC) else { return Err(NotOurs::Other) };
    match rest.first_chunk().map(|version| u16::from_le_bytes(*version)) {
        Some(VERSION) => Ok(()),
        Some(version) => Err(NotOurs::Version(version)),
        None => Err(NotOurs::Other),
    }
}

/// The largest number that a segment can have.
pub const LAST: u64 = 9_999_999_999;

/// The file name of segment `number`.
pub fn name(number: u64) -> String {
    format!("{number:010}{SUFFIX}")
}

/// The number of the segment with this file name.
pub fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let digits =
        Some(digits).filter(|digits| digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}

/// The entries of a segment, in order, and how much of it could not be read.
pub struct Entries<'a> {
    bytes: &'a [u8],
    offset: usize,
    /// Bytes that are no entry.
    pub damaged: u64,
    /// Bytes at the end of what is the beginning of an entry: whoever wrote it was stopped, or the file was cut.
    pub cut: u64,
    /// Where the first fault is.
    pub fault: Option<usize>,
}

impl<'a> Entries<'a> {
    /// Of a segment that [`check`] accepts.
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: HEADER, damaged: 0, cut: 0, fault: None }
    }

    /// Where the last entry read so far ends.
    pub const fn end(&self) -> usize {
        self.offset
    }

    fn damage(&mut self, to: usize) {
        self.fault.get_or_insert(self.offset);
        self.damaged += u64::try_from(to.saturating_sub(self.offset)).unwrap_or(u64::MAX);
    }
}

impl Iterator for Entries<'_> {
    /// Where it begins, and what it is.
    type Item = (usize, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match frame::at(self.bytes, self.offset) {
                Found::Whole(content, end) => {
                    let begins = self.offset;
                    if let Some(entry) = budget::entry(content) {
                        self.offset = end;
                        return Some((begins, entry));
                    }
                    self.damage(end);
                    self.offset = end;
                }
                Found::End => return None,
                Found::Broken => {
                    if let Some(next) = frame::next_whole(self.bytes, self.offset) {
                        self.damage(next);
                        self.offset = next;
                        continue;
                    }
                    let used = frame::used(self.bytes);
                    if frame::is_torn(self.bytes, self.offset) {
                        self.cut = u64::try_from(used.saturating_sub(self.offset)).unwrap_or(u64::MAX);
                    } else {
                        self.damage(used);
                    }
                    // Nothing more comes of it.
                    self.bytes = self.bytes.get(..self.offset).unwrap_or_default();
                    return None;
                }
            }
        }
    }
}

/// A segment that is written.
pub struct Segment {
    file: File,
    /// Its number.
    pub number: u64,
    size: u64,
    used: u64,
}

impl Segment {
    /// Makes segment `number` in `directory`, with room for `size` bytes, all of them taken from the disk now: an entry
    /// that is written later has its place.
    pub fn create(directory: &Directory, number: u64, size: u64) -> io::Result<Self> {
        let name = name(number);
        let file = directory.create(&name)?;
        let made = reserve(&file, size).and_then(|()| (&file).write_all(&header()));
        if let Err(why) = made {
            // What has no room is not left behind half made.
            let _ = directory.remove(&name);
            return Err(why);
        }
        Ok(Self { file, number, size, used: u64::try_from(HEADER).unwrap_or_default() })
    }

    /// How many bytes are left.
    pub const fn room(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    /// Its size on the disk.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends whole frames, which must fit.
    pub fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_all(frames)?;
        self.used += u64::try_from(frames.len()).unwrap_or_default();
        Ok(())
    }

    /// Gives back what is not used; its size then.
    pub fn seal(self) -> u64 {
        // A segment that stays too long is only too long: its end is found all the same.
        let cut = self.file.set_len(self.used).is_ok();
        // The disk may be what is broken; what it does not take now it may take later.
        let _ = self.file.sync_data();
        if cut { self.used } else { self.size }
    }
}

fn reserve(file: &File, size: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        // A file system that cannot reserve still takes the size.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(size),
        other => other.map_err(Into::into),
    }
}

/// A frame around `entry`.
pub fn framed(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, &entry.encode_to_vec());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_knows_its_own() {
        assert_eq!(check(&header()), Ok(()));
        assert_eq!(check(b"plegcap\n\x02\x00......"), Err(NotOurs::Version(2)));
        assert_eq!(check(b"plegcap\n\x01"), Err(NotOurs::Other));
        assert_eq!(check(b""), Err(NotOurs::Other));
    }

    #[test]
    fn segments_are_told_by_their_names() {
        assert_eq!(number("0000000012.seg"), Some(12));
        for other in ["12.seg", "0000000012", "lock", "00000000ab.seg", "+000000012.seg"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
