//! One text that a bundle keeps word for word.

/// What one paper may have; the end of a log says more than its beginning.
pub const LARGEST: usize = 2 * 1024 * 1024;

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
        Self { name: name.into(), about, bytes, cut }
    }
}
