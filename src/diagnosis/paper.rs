//! One text that a bundle keeps word for word, but for what a terminal would obey.

use crate::report::escape;

/// What one paper may have; the end of a log says more than its beginning.
pub const LARGEST: usize = 2 * 1024 * 1024;

/// How a packed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// One text, by the name that it has in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paper {
    /// A path of plain letters.
    pub name: String,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The text.
    pub bytes: Vec<u8>,
    /// Whether it was longer.
    pub cut: bool,
}

impl Paper {
    /// The end of `bytes`, as far as it fits.
    pub fn new(name: impl Into<String>, about: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::within(LARGEST, name, about, bytes)
    }

    /// A document of our own, which means nothing without its beginning.
    pub fn whole(name: impl Into<String>, about: &'static str, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), about, bytes, cut: false }
    }

    /// The end of `bytes`, as far as it fits `most` of them.
    pub fn within(
        most: usize,
        name: impl Into<String>,
        about: &'static str,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        let mut bytes: Vec<u8> = bytes.into();
        let cut = bytes.len() > most;
        if cut {
            bytes.drain(..bytes.len() - most);
        }
        // A goroutine dump may be packed, and nobody prints that.
        if !bytes.starts_with(&GZIP) {
            bytes = escape::lines(&String::from_utf8_lossy(&bytes)).into_owned().into_bytes();
        }
        Self { name: name.into(), about, bytes, cut }
    }
}
