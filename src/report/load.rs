//! Reads a file that somebody named, whatever it is: it may be a FIFO that nobody writes to, or a device without an end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::patience::{STEPS, patiently, shown};

/// More than the report of any node has bytes.
pub const LARGEST_REPORT: usize = 64 * 1024 * 1024;

/// More than a kubeconfig, a certificate, a token or a file of signatures has bytes.
pub const LARGEST_SETTING: usize = 16 * 1024 * 1024;

/// All of `path`, which may have `most` bytes. What is not a regular file is waited for as long as something comes now and
/// then.
pub fn load(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    read(patient(path)?, most)
}

/// `path`, to be read piece by piece and waited for in the same way.
pub fn patient(path: &Path) -> io::Result<Patient<File>> {
    let from = opened(path)?;
    let is_fifo = FileType::from_raw_mode(fstat(&from)?.st_mode) == FileType::Fifo;
    Ok(Patient { from, unbegun: is_fifo, steps: STEPS })
}

/// Opens `path` so that neither that nor reading from it waits: what has nothing to say just now answers with an error.
pub fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?.into())
}

/// All of standard input, which may have `most` bytes. Whoever gave us one that says nothing knows why.
pub fn stdin(most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let one_more = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    io::stdin().lock().take(one_more).read_to_end(&mut bytes)?;
    fits(&bytes, most).map(|()| bytes)
}

fn fits(bytes: &[u8], most: usize) -> io::Result<()> {
    if bytes.len() <= most {
        return Ok(());
    }
    let why = format!("it is longer than {} KiB, which is all that is read", most / 1024);
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// Waits for what has nothing to say just now, for a while and not for ever.
#[derive(Debug)]
pub struct Patient<R> {
    from: R,
    /// The end of a FIFO is none as long as nobody has written to it: its writer may not be there yet.
    unbegun: bool,
    steps: u32,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Self { from, unbegun, steps } = self;
        let length = patiently(*steps, || match from.read(into) {
            Ok(0) if *unbegun => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(None),
            other => other.map(Some),
        })?;
        *unbegun = false;
        length.ok_or_else(|| {
            let why = format!("nothing came out of it for {}", shown());
            io::Error::new(io::ErrorKind::TimedOut, why)
        })
    }
}

/// Reads to the end.
fn read(mut from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(bytes),
            length => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
        fits(&bytes, most)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Answers each read with the next of these.
    struct Script(VecDeque<io::Result<&'static [u8]>>);

    impl Read for Script {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let next = self.0.pop_front().unwrap_or(Ok(b""))?;
            into[..next.len()].copy_from_slice(next);
            Ok(next.len())
        }
    }

    fn script(reads: impl IntoIterator<Item = io::Result<&'static [u8]>>) -> Script {
        Script(reads.into_iter().collect())
    }

    fn patient(from: Script, is_fifo: bool, steps: u32) -> Patient<Script> {
        Patient { from, unbegun: is_fifo, steps }
    }

    fn not_yet<T>() -> io::Result<T> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    #[test]
    fn what_has_no_end_is_given_up_and_named() {
        let why = load(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(why.to_string(), "it is longer than 1024 KiB, which is all that is read");
        assert_eq!(load(Path::new("/dev/null"), 1).unwrap(), b"");
        assert!(load(Path::new("/"), 1).is_err());
    }

    #[test]
    fn a_fifo_without_a_writer_is_given_up_and_named() {
        let why = read(patient(script([]), true, 0), 9).unwrap_err();
        assert_eq!(
            (why.kind(), why.to_string().as_str()),
            (io::ErrorKind::TimedOut, "nothing came out of it for 5s")
        );
        let why = read(patient(script([Ok(&b"a"[..]), not_yet()]), true, 0), 9).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_comes_late_or_in_pieces_is_waited_for() {
        let late = script([Ok(&b""[..]), not_yet(), Ok(b"ab"), not_yet(), Ok(b"c")]);
        assert_eq!(read(patient(late, true, 5), 9).unwrap(), b"abc");
    }
}
