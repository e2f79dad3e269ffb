//! Parses goroutine dumps in all formats that daemons, logs and profilers write: plain, gzip, with the prefixes of a
//! log, or as one quoted log message.
//!
//! [`read()`] reads a source line by line, with limits. `unwrap` removes what a log adds to a line, `line` parses single
//! lines, and `parser` assembles goroutines and dumps. Nothing is lost silently: a goroutine is counted by its header
//! before it is parsed, and each line in a dump that cannot be parsed is counted.

mod line;
mod parser;
mod unwrap;

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::dump::Dump;
use parser::Parser;
use plegctl_base::report::word_enum;
use unwrap::LogUnwrapper;

/// The limits for reading one source.
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

/// What was read from one source.
#[derive(Debug)]
pub struct ParsedSource {
    /// The dumps, in their order.
    pub dumps: Vec<Dump>,
    /// Why a part of the source is missing, if one is missing.
    pub cut: Option<Cut>,
}

word_enum! {
    /// Why a part of a source is missing in the result.
    pub enum Cut: words {
        /// The source has more bytes than the limit.
        Bytes = "only the first 64 MiB were read",
        /// The source has more goroutines than the limit.
        Goroutines = "only the first million goroutines were kept",
        /// Reading failed before the end, usually because a compressed file is incomplete.
        Incomplete = "the compressed file is incomplete; only the part before the break was read",
    }
}

/// Why a source has no dump.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The source is empty.
    #[error("it is empty")]
    Empty,
    /// The source is a thread dump of a Java process.
    #[error("it is a thread dump of a Java process, not a goroutine dump")]
    Java,
    /// The source is a binary profile for `go tool pprof`.
    #[error("it is a binary profile, which has neither states nor arguments")]
    Binary,
    /// The source contains no goroutine.
    #[error("no line is the header of a goroutine (lines read: {lines})")]
    NoDump {
        /// The number of lines in the source.
        lines: u64,
    },
}

impl Error {
    /// What the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io(_) => None,
            Self::Binary => Some("request the dump with `?debug=2`"),
            Self::Empty | Self::Java | Self::NoDump { .. } => Some(
                "a dump has lines like `goroutine 12 [select]:`; `plegctl stacks --help` shows where to get a dump",
            ),
        }
    }
}

/// Reads all dumps of `source`, which may be compressed with gzip.
pub fn read(source: impl Read, bounds: Bounds) -> Result<ParsedSource, Error> {
    let mut source = BufReader::with_capacity(64 << 10, source);
    let is_gzip = source.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if is_gzip { read_text(MultiGzDecoder::new(source), bounds) } else { read_text(source, bounds) }
}

fn read_text(source: impl Read, bounds: Bounds) -> Result<ParsedSource, Error> {
    let mut source = BufReader::with_capacity(64 << 10, source).take(bounds.bytes);
    let mut parser = Parser::new(bounds.goroutines);
    let mut unwrapper = LogUnwrapper::default();
    let mut cut = None;
    let mut raw = Vec::new();
    let (mut lines, mut java, mut binary) = (0_u64, false, false);
    loop {
        raw.clear();
        match source.read_until(b'\n', &mut raw) {
            Ok(0) => break,
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => cut = Some(Cut::Incomplete),
            Err(why) if lines == 0 => return Err(why.into()),
            Err(_) => cut = Some(Cut::Incomplete),
        }
        if raw.is_empty() {
            break;
        }
        lines += 1;
        let text = String::from_utf8_lossy(&raw);
        let text = text.trim_end_matches(['\n', '\r']);
        java |= text.starts_with("Full thread dump ");
        binary |= text.contains('\0');
        unwrapper.feed(text, &mut |line| parser.feed(line));
        if let Some(time) = unwrapper.take_time() {
            parser.set_time(time);
        }
        if cut.is_some() {
            break;
        }
    }
    unwrapper.end(&mut |line| parser.feed(line));
    if source.limit() == 0 {
        cut = Some(Cut::Bytes);
    }
    let (dumps, limit_reached) = parser.finish();
    if limit_reached {
        cut = Some(Cut::Goroutines);
    }
    match (dumps.is_empty(), lines) {
        (false, _) => Ok(ParsedSource { dumps, cut }),
        (true, 0) => Err(Error::Empty),
        (true, _) if java => Err(Error::Java),
        (true, _) if binary => Err(Error::Binary),
        (true, lines) => Err(Error::NoDump { lines }),
    }
}

#[cfg(test)]
mod tests;
