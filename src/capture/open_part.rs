//! Opens the part of a capture that an export of one period needs, for a recorder that exports its own capture while it
//! records. The recorder must stay small and must not be delayed, so only a few segments are read, few answers are cached,
//! and the thread that reads pauses often.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::export::Range;
use super::processor_limit::ProcessorLimit;
use super::read::{Capture, Opening};
use super::segment::{self, Entries};
use super::{Error, store};
use crate::clock::{Clock, Wall};
use crate::report::load::open_nonblocking;

/// The largest size of the segments of the period, in bytes.
const LARGEST_PART: u64 = 32 << 20;

/// Earlier segments are added up to this size, because an export contains the last call of each request before the period.
const SIZE_WITH_EARLIER: u64 = 8 << 20;

/// The beginning of a segment that certainly contains its session entry, in bytes.
const SESSION_ENTRY: u64 = 16 * 1024;

/// Opens the segments of a period, and earlier ones as far as they are small.
pub fn open_part(path: &Path, period: Range, clock: Arc<dyn Clock>) -> Result<Capture, Error> {
    let files: Vec<SegmentFile> =
        store::segments_in(path)?.into_iter().map(|(_, path)| SegmentFile::at(path)).collect();
    let chosen = chosen(&files, period)?;
    let files = files.into_iter().skip(chosen.start).take(chosen.len()).map(|file| file.path).collect();
    let how =
        Opening { is_directory: true, is_indexed: false, processor_limit: ProcessorLimit::a_tenth(clock) };
    Capture::open_files(path, files, how)
}

/// A segment, its size, and the time of its first entry, if that can be read.
struct SegmentFile {
    path: PathBuf,
    size: u64,
    begins: Option<Wall>,
}

impl SegmentFile {
    fn at(path: PathBuf) -> Self {
        let mut start = Vec::new();
        let opened = open_nonblocking(&path).ok();
        let about = opened.as_ref().and_then(|file| file.metadata().ok());
        let size = about.as_ref().map_or(0, std::fs::Metadata::len);
        let file = opened.filter(|_| about.is_some_and(|about| about.is_file()));
        // A segment that cannot be read has no beginning.
        let _ = file.map(|file| file.take(SESSION_ENTRY).read_to_end(&mut start));
        let first = segment::check(&start).is_ok().then(|| Entries::in_bytes(&start).next()).flatten();
        Self { path, size, begins: first.map(|(_, entry)| Wall::from_nanos(entry.wall)) }
    }
}

/// Returns the indices of the segments to open. A segment lasts until the next one begins.
fn chosen(files: &[SegmentFile], period: Range) -> Result<std::ops::Range<usize>, Error> {
    let is_in = |index: usize| {
        let begins = files.get(index).and_then(|file| file.begins);
        let ends = files.get(index + 1).and_then(|file| file.begins);
        // Setting the wall clock back puts the end before the beginning, so both are compared with both limits. The last
        // segment has no end yet.
        let starts_too_late = period
            .to
            .is_some_and(|to| begins.is_some_and(|time| time > to) && ends.is_none_or(|time| time > to));
        let ends_too_early = period.from.is_some_and(|from| {
            ends.is_some_and(|time| time < from) && begins.is_none_or(|time| time < from)
        });
        !starts_too_late && !ends_too_early
    };
    let first = (0..files.len()).find(|index| is_in(*index)).unwrap_or(files.len());
    let end = (first..files.len()).rev().find(|index| is_in(*index)).map_or(first, |last| last + 1);
    let size = |range: std::ops::Range<usize>| -> u64 {
        files.get(range).unwrap_or_default().iter().map(|file| file.size).sum()
    };
    let bytes = size(first..end);
    if bytes > LARGEST_PART {
        return Err(Error::LargePart { bytes, limit: LARGEST_PART });
    }
    let mut start = first;
    while start > 0 && size(start - 1..end) <= SIZE_WITH_EARLIER {
        start -= 1;
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Wall {
        Wall::from_nanos(1_700_000_000_000_000_000).plus(Duration::from_secs(second))
    }

    fn files(segments: &[(u64, u64)]) -> Vec<SegmentFile> {
        let file = |(begins, mib): &(u64, u64)| SegmentFile {
            path: PathBuf::new(),
            size: mib << 20,
            begins: Some(at(*begins)),
        };
        segments.iter().map(file).collect()
    }

    fn range(from: u64, to: Option<u64>) -> Range {
        Range { from: Some(at(from)), to: to.map(at) }
    }

    #[test]
    fn only_the_segments_of_the_period_and_small_earlier_ones_are_read() {
        let small = files(&[(0, 4), (10, 4), (20, 2), (30, 1), (40, 1)]);
        assert_eq!(chosen(&small, range(32, Some(35))).unwrap(), 1..4);
        assert_eq!(chosen(&small, range(45, None)).unwrap(), 1..5);
        assert_eq!(chosen(&small, range(5, Some(25))).unwrap(), 0..3);
        assert_eq!(chosen(&small, Range::default()).unwrap(), 0..5);
        assert_eq!(chosen(&[], Range::default()).unwrap(), 0..0);
        let large = files(&[(0, 20), (10, 20), (20, 20)]);
        assert_eq!(chosen(&large, range(12, Some(15))).unwrap(), 1..2);
        let why = chosen(&large, range(5, Some(15))).unwrap_err();
        assert!(matches!(why, Error::LargePart { bytes, .. } if bytes == 40 << 20), "{why}");
    }

    #[test]
    fn a_segment_in_which_the_clock_was_set_back_belongs_to_both_times() {
        let back = files(&[(100, 1), (40, 1), (50, 1)]);
        assert_eq!(chosen(&back, range(90, Some(95))).unwrap(), 0..3);
        assert_eq!(chosen(&back, range(45, Some(46))).unwrap(), 0..2);
    }
}
