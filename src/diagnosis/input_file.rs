//! One text file of a bundle. Its content is unchanged, except that characters that control a terminal are escaped and
//! that a long file is cut.

use crate::report::escape;

/// The largest size of a file. Only the end of a longer file is kept, because in a log the end matters most.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// One text file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// The path in the bundle, made of plain characters.
    pub name: String,
    /// A short description of the content.
    pub about: &'static str,
    /// The content.
    pub bytes: Vec<u8>,
    /// Whether only the end of the content is kept.
    pub cut: bool,
}

impl InputFile {
    /// Creates a file with the last [`MAX_BYTES`] of `bytes`.
    pub fn new(name: impl Into<String>, about: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::within(MAX_BYTES, name, about, bytes)
    }

    /// Creates a file that is never cut, for plegctl's own documents.
    pub fn whole(name: impl Into<String>, about: &'static str, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), about, bytes, cut: false }
    }

    /// Creates a file with the last `max_bytes` of `bytes`.
    pub fn within(
        max_bytes: usize,
        name: impl Into<String>,
        about: &'static str,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        let mut bytes: Vec<u8> = bytes.into();
        let cut = bytes.len() > max_bytes;
        if cut {
            bytes.drain(..bytes.len() - max_bytes);
        }
        // A goroutine dump may be compressed, and to escape it would destroy it.
        if !bytes.starts_with(&GZIP) {
            bytes = escape::lines(&String::from_utf8_lossy(&bytes)).into_owned().into_bytes();
        }
        Self { name: name.into(), about, bytes, cut }
    }
}
