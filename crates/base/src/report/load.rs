//! Reads a file that a user named, with a size limit and a time limit. A FIFO without a writer, or a device without
//! an end, gives an error and does not block.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::retry::{RETRIES, retry, total_wait};

/// The largest report that is read, in bytes. The report of a real node is smaller.
pub const LARGEST_REPORT: usize = 64 * 1024 * 1024;

/// The largest kubeconfig, certificate, token or signature file that is read.
pub const LARGEST_SETTING: usize = 16 * 1024 * 1024;

/// Reads all of `path`. Fails if the file is longer than `size_limit` bytes, or if a FIFO or a device delivers no
/// data within the time limit of `total_wait`.
pub fn load(path: &Path, size_limit: usize) -> io::Result<Vec<u8>> {
    read(open_with_timeout(path)?, size_limit)
}

/// Opens `path` for reading in pieces, with the timeout of [`load`].
pub fn open_with_timeout(path: &Path) -> io::Result<TimeoutReader<File>> {
    let from = open_nonblocking(path)?;
    let is_fifo = FileType::from_raw_mode(fstat(&from)?.st_mode) == FileType::Fifo;
    Ok(TimeoutReader { from, awaits_first_data: is_fifo, retries: RETRIES })
}

/// Opens `path` so that neither opening nor reading blocks. While there is no data, a read fails with `WouldBlock`;
/// for a FIFO without a writer, it returns zero bytes.
pub fn open_nonblocking(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?.into())
}

/// Reads all of standard input. Fails if it is longer than `size_limit` bytes. There is no time limit, because the
/// user chose standard input.
pub fn stdin(size_limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit_and_one = u64::try_from(size_limit).unwrap_or(u64::MAX).saturating_add(1);
    io::stdin().lock().take(limit_and_one).read_to_end(&mut bytes)?;
    fits(&bytes, size_limit).map(|()| bytes)
}

fn fits(bytes: &[u8], size_limit: usize) -> io::Result<()> {
    if bytes.len() <= size_limit {
        return Ok(());
    }
    let why = format!("it is longer than {} KiB, the most that plegctl reads", size_limit / 1024);
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// A reader that waits for data for a limited time in each read.
#[derive(Debug)]
pub struct TimeoutReader<R> {
    from: R,
    /// Whether this is a FIFO that has delivered no data yet. Its end is ignored until then, because the writer may
    /// start later.
    awaits_first_data: bool,
    retries: u32,
}

impl<R: Read> Read for TimeoutReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Self { from, awaits_first_data, retries } = self;
        let length = retry(*retries, || match from.read(into) {
            Ok(0) if *awaits_first_data => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(None),
            other => other.map(Some),
        })?;
        *awaits_first_data = false;
        length.ok_or_else(|| {
            let why = format!("it delivered nothing for {}", total_wait());
            io::Error::new(io::ErrorKind::TimedOut, why)
        })
    }
}

/// Reads to the end; fails above the size limit.
fn read(mut from: impl Read, size_limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(bytes),
            length => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
        fits(&bytes, size_limit)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Answers each read with the next result of a list.
    struct ScriptedReader(VecDeque<io::Result<&'static [u8]>>);

    impl Read for ScriptedReader {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let next = self.0.pop_front().unwrap_or(Ok(b""))?;
            into[..next.len()].copy_from_slice(next);
            Ok(next.len())
        }
    }

    fn script(reads: impl IntoIterator<Item = io::Result<&'static [u8]>>) -> ScriptedReader {
        ScriptedReader(reads.into_iter().collect())
    }

    fn open_with_timeout(from: ScriptedReader, is_fifo: bool, retries: u32) -> TimeoutReader<ScriptedReader> {
        TimeoutReader { from, awaits_first_data: is_fifo, retries }
    }

    fn not_yet<T>() -> io::Result<T> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    #[test]
    fn a_file_without_an_end_is_rejected_with_its_limit() {
        let why = load(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(why.to_string(), "it is longer than 1024 KiB, the most that plegctl reads");
        assert_eq!(load(Path::new("/dev/null"), 1).unwrap(), b"");
        assert!(load(Path::new("/"), 1).is_err());
    }

    #[test]
    fn a_fifo_without_a_writer_is_rejected_with_the_timeout() {
        let why = read(open_with_timeout(script([]), true, 0), 9).unwrap_err();
        assert_eq!(
            (why.kind(), why.to_string().as_str()),
            (io::ErrorKind::TimedOut, "it delivered nothing for 5s")
        );
        let why = read(open_with_timeout(script([Ok(&b"a"[..]), not_yet()]), true, 0), 9).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn data_that_comes_late_or_in_pieces_is_read() {
        let late = script([Ok(&b""[..]), not_yet(), Ok(b"ab"), not_yet(), Ok(b"c")]);
        assert_eq!(read(open_with_timeout(late, true, 5), 9).unwrap(), b"abc");
    }
}
