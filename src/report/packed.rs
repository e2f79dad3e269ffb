//! The tables, catalogues and scenarios that the program contains in compressed form, because they would take a quarter of
//! a megabyte otherwise.
//!
//! Each text has a file of its own below `src/`, which people read and edit. A unit test packs these files into
//! `texts.deflate`. This module reads no file.

use std::io::Read;
use std::ops::Deref;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;

/// The packed texts. Each has its path below `src/` and a line feed, its compressed length as four bytes (little-endian),
/// and its compressed bytes.
const PACKED: &[u8] = include_bytes!("texts.deflate");

/// A packed text, which is unpacked at its first use.
#[derive(Debug)]
pub struct PackedText {
    /// The path of its file below `src/`.
    path: &'static str,
    text: OnceLock<String>,
}

impl PackedText {
    /// Creates the text of the file with this path below `src/`.
    pub const fn new(path: &'static str) -> Self {
        Self { path, text: OnceLock::new() }
    }

    /// Returns the text.
    pub fn get(&self) -> &str {
        self.text.get_or_init(|| unpacked(self.path).unwrap_or_default())
    }
}

impl Deref for PackedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.get()
    }
}

/// Unpacks the file with this path below `src/`; `None` if it is not packed.
pub fn unpacked(path: &str) -> Option<String> {
    let (_, compressed) = entries(PACKED).find(|(name, _)| *name == path.as_bytes())?;
    let mut text = String::new();
    DeflateDecoder::new(compressed).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the path and the compressed bytes of each packed text.
fn entries(mut packed: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let end = packed.iter().position(|byte| *byte == b'\n')?;
        let (path, rest) = packed.split_at_checked(end)?;
        let (length, rest) = rest.get(1..)?.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (compressed, rest) = rest.split_at_checked(length)?;
        packed = rest;
        Some((path, compressed))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    /// The packed files that are not scenarios.
    const FILES: [&str; 12] = [
        "capture/phrases.txt",
        "cmd/help.txt",
        "cmd/render/capture.css",
        "cmd/render/capture.js",
        "diagnosis/rules/reasons.txt",
        "diagnosis/rules/rules.txt",
        "manifests/checks.txt",
        "manifests/preflight/checks.txt",
        "manifests/preflight/refusals.txt",
        "manifests/preflight/tables.txt",
        "manifests/schema/pod.txt",
        "stacks/signatures.txt",
    ];

    fn source(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path)
    }

    /// Returns the paths of all packed files.
    fn paths() -> Vec<String> {
        let scenarios = fs::read_dir(source("sim/scenarios")).unwrap();
        let names = scenarios.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut scenarios: Vec<String> = names.map(|name| format!("sim/scenarios/{name}")).collect();
        scenarios.sort();
        FILES.into_iter().map(str::to_owned).chain(scenarios).collect()
    }

    #[test]
    fn packed_texts_are_those_of_their_files() {
        let update = "PLEGCTL_BLESS=1 cargo test --lib packed updates src/report/texts.deflate";
        if env::var_os("PLEGCTL_BLESS").is_some() {
            let mut packed = Vec::new();
            for path in paths() {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(&fs::read(source(&path)).unwrap()).unwrap();
                let compressed = encoder.finish().unwrap();
                packed.extend_from_slice(format!("{path}\n").as_bytes());
                packed.extend_from_slice(&u32::try_from(compressed.len()).unwrap().to_le_bytes());
                packed.extend_from_slice(&compressed);
            }
            if packed != PACKED {
                fs::write(source("report/texts.deflate"), packed).unwrap();
                panic!("the packed texts were updated: build again");
            }
        }
        for path in paths() {
            let text = unpacked(&path).unwrap_or_else(|| panic!("{path} is not packed; {update}"));
            assert!(text == fs::read_to_string(source(&path)).unwrap(), "{path} is not current; {update}");
        }
        assert_eq!(
            entries(PACKED).count(),
            paths().len(),
            "a file is packed that no longer exists; {update}"
        );
    }
}
