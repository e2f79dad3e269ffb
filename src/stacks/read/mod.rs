//! Reads goroutine dumps in all forms that daemons, journals and profilers write.
//!
//! Reading is streaming and bounded, and loses nothing silently: goroutines are counted by their headers before they
//! are parsed, and every line in a dump that cannot be parsed is counted too.

mod line;
mod parser;
mod unwrap;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::dump::Dump;
use parser::Parser;
use unwrap::Unwrap;

/// The limits of reading.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most bytes, after decompression.
    pub bytes: u64,
    /// The most goroutines in all dumps together.
    pub goroutines: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 64 << 20, goroutines: 1_000_000 }
    }
}

/// The result of reading.
#[derive(Debug)]
pub struct Reading {
    /// The dumps, in their order.
    pub dumps: Vec<Dump>,
    /// Why reading stopped before the end of the source, if it did.
    pub cut: Option<Cut>,
}

/// Why reading stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The limit of bytes was reached.
    Bytes,
    /// The limit of goroutines was reached.
    Goroutines,
    /// The compressed file is cut off.
    Packed,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "no more than its first 64 MiB were read",
            Self::Goroutines => "no more than its first million goroutines were kept",
            Self::Packed => "the packed file ends before its end; what there is was read",
        })
    }
}

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The source is empty.
    #[error("it is empty")]
    Empty,
    /// The source is a thread dump of a Java process.
    #[error("it is a thread dump of a Java process, not of a Go one")]
    Java,
    /// The source is a profile for `go tool pprof`.
    #[error("it is a binary profile, which has neither states nor arguments")]
    Binary,
    /// The source contains no goroutine.
    #[error("there is no goroutine in its {lines} lines")]
    NoDump {
        /// How many lines the source has.
        lines: u64,
    },
}

impl Error {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io(_) => None,
            Self::Binary => Some("ask for it with `?debug=2`"),
            Self::Empty | Self::Java | Self::NoDump { .. } => Some(
                "a dump has lines like `goroutine 12 [select]:`; `plegctl stacks --help` says where to get one",
            ),
        }
    }
}

/// Reads all dumps of `source`, compressed or not.
pub fn read(source: impl Read, bounds: Bounds) -> Result<Reading, Error> {
    let mut source = BufReader::with_capacity(64 << 10, source);
    let packed = source.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if packed { unpacked(MultiGzDecoder::new(source), bounds) } else { unpacked(source, bounds) }
}

fn unpacked(source: impl Read, bounds: Bounds) -> Result<Reading, Error> {
    let mut source = BufReader::with_capacity(64 << 10, source).take(bounds.bytes);
    let mut parser = Parser::new(bounds.goroutines);
    let mut unwrap = Unwrap::default();
    let mut cut = None;
    let mut raw = Vec::new();
    let (mut lines, mut java, mut binary) = (0_u64, false, false);
    loop {
        raw.clear();
        match source.read_until(b'\n', &mut raw) {
            Ok(0) => break,
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => cut = Some(Cut::Packed),
            Err(why) if lines == 0 => return Err(why.into()),
            Err(_) => cut = Some(Cut::Packed),
        }
        if raw.is_empty() {
            break;
        }
        lines += 1;
        let text = String::from_utf8_lossy(&raw);
        let text = text.trim_end_matches(['\n', '\r']);
        java |= text.starts_with("Full thread dump ");
        binary |= text.contains('\0');
        unwrap.feed(text, &mut |line| parser.feed(line));
        if let Some(stamp) = unwrap.taken_at() {
            parser.stamp(stamp);
        }
        if cut.is_some() {
            break;
        }
    }
    unwrap.end(&mut |line| parser.feed(line));
    if source.limit() == 0 {
        cut = Some(Cut::Bytes);
    }
    let (dumps, full) = parser.finish();
    if full {
        cut = Some(Cut::Goroutines);
    }
    match (dumps.is_empty(), lines) {
        (false, _) => Ok(Reading { dumps, cut }),
        (true, 0) => Err(Error::Empty),
        (true, _) if java => Err(Error::Java),
        (true, _) if binary => Err(Error::Binary),
        (true, lines) => Err(Error::NoDump { lines }),
    }
}

#[cfg(test)]
mod tests;
