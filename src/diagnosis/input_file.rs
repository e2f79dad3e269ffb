//! One file of a bundle: text, in which characters that control a terminal are escaped, or gzip, which is unchanged. A long
//! file is cut.

use crate::report::escape;

/// The largest size of a file before characters are escaped. Only the end of a longer text is kept, because in a log the
/// end matters most.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// One file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// The path in the bundle, made of plain characters.
    pub name: String,
    /// A short description of the content.
    pub about: &'static str,
    /// The content.
    pub bytes: Vec<u8>,
    /// Whether only a part of the content is kept.
    pub cut: bool,
}

impl InputFile {
    /// Creates a file with at most [`MAX_BYTES`] of `bytes`.
    pub fn new(name: impl Into<String>, about: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::within(MAX_BYTES, name, about, bytes)
    }

    /// Creates a file that is never cut, for plegctl's own documents.
    pub fn whole(name: impl Into<String>, about: &'static str, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), about, bytes, cut: false }
    }

    /// Creates a file with the last `max_bytes` of a text, or with the first ones of gzip, whose end cannot be unpacked
    /// alone.
    pub fn within(
        max_bytes: usize,
        name: impl Into<String>,
        about: &'static str,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        let mut bytes: Vec<u8> = bytes.into();
        let cut = bytes.len() > max_bytes;
        if bytes.starts_with(&GZIP) {
            // A goroutine dump may be compressed, and to escape it would destroy it.
            bytes.truncate(max_bytes);
        } else {
            if cut {
                bytes.drain(..bytes.len() - max_bytes);
            }
            bytes = escape::lines(&String::from_utf8_lossy(&bytes)).into_owned().into_bytes();
        }
        Self { name: name.into(), about, bytes, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_end_and_long_gzip_its_unchanged_beginning() {
        let text = InputFile::within(4, "log.txt", "a log", "old new\u{1b}");
        assert_eq!((text.bytes.as_slice(), text.cut), (escape::lines("new\u{1b}").as_bytes(), true));
        let gzip = InputFile::within(4, "stacks.gz", "a dump", [0x1f, 0x8b, 8, 0x1b, 5, 6]);
        assert_eq!((gzip.bytes.as_slice(), gzip.cut), ([0x1f, 0x8b, 8, 0x1b].as_slice(), true));
    }
}
