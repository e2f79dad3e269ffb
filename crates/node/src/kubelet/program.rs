//! Reads the release of a kubelet from its program: Go notes in each program how it was built, and Kubernetes sets the
//! release there (`-X k8s.io/component-base/version.gitVersion=v1.36.2`).
//!
//! Nothing is run. A program that was built with `-trimpath` has no such note; then the release is not known.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::KubeletVersion;

/// What the linker's arguments contain before the release.
const VARIABLE: &str = "k8s.io/component-base/version.gitVersion=";

/// What the note contains before the release of the module Kubernetes, if Go knows it.
const MODULE: &str = "mod\tk8s.io/kubernetes\t";

/// The section with the note (`debug/buildinfo` in Go).
const SECTION: &[u8] = b".go.buildinfo";

/// The beginning of a little-endian ELF file with 64-bit addresses.
const ELF: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];

/// The size of the table entry for a section.
const ENTRY: usize = 64;

/// The most bytes that are read of the names of sections and of the note. A kubelet's note has 9 000 bytes.
const MOST_BYTES: u64 = 256 * 1024;

/// Returns the release of the kubelet in this program.
pub fn release_of_program(program: &File) -> Option<KubeletVersion> {
    release_in(&String::from_utf8_lossy(&build_note(program)?))
}

/// Finds the release in Go's note about a build.
fn release_in(note: &str) -> Option<KubeletVersion> {
    let (_, rest) = note.split_once(VARIABLE).or_else(|| note.split_once(MODULE))?;
    let end = rest.find([' ', '"', '\'', '\\', '\t', '\n']).unwrap_or(rest.len());
    KubeletVersion::parse(rest.get(..end)?).ok()
}

/// Reads the section with Go's note. A file without that section, or with impossible numbers, has none.
fn build_note(program: &File) -> Option<Vec<u8>> {
    let header = bytes(program, 0, 64)?;
    if !header.starts_with(&ELF) || number(&header, 58, 2)? != ENTRY as u64 {
        return None;
    }
    let count = usize::try_from(number(&header, 60, 2)?).ok()?;
    let table = bytes(program, number(&header, 40, 8)?, ENTRY * count)?;
    let mut sections = table.chunks_exact(ENTRY);
    let content = |section: &[u8]| {
        let size = number(section, 32, 8)?.min(MOST_BYTES);
        bytes(program, number(section, 24, 8)?, usize::try_from(size).ok()?)
    };
    let names = content(sections.clone().nth(usize::try_from(number(&header, 62, 2)?).ok()?)?)?;
    let is_note = |section: &&[u8]| {
        let start = number(section, 0, 4).and_then(|start| usize::try_from(start).ok());
        let name = start.and_then(|start| names.get(start..)).unwrap_or_default();
        name.strip_prefix(SECTION).is_some_and(|rest| rest.first() == Some(&0))
    };
    content(sections.find(is_note)?)
}

/// Reads a part of the file; `None` if the file is shorter.
fn bytes(file: &File, offset: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// Returns the little-endian number of `length` bytes.
fn number(bytes: &[u8], offset: usize, length: usize) -> Option<u64> {
    let digits = bytes.get(offset..offset + length)?;
    Some(digits.iter().rev().fold(0, |number, digit| number << 8 | u64::from(*digit)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use flate2::read::GzDecoder;

    use super::*;

    /// Returns a program of Go 1.26 whose code is replaced by zeros.
    fn program(name: &str) -> Vec<u8> {
        let path = format!("{}/../../tests/recordings/{name}.gz", env!("CARGO_MANIFEST_DIR"));
        let mut program = Vec::new();
        GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut program).unwrap();
        program
    }

    fn release(program: &[u8]) -> Option<String> {
        let path = std::env::temp_dir().join(format!(
            "plegctl-program-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        File::create(&path).unwrap().write_all(program).unwrap();
        let release = release_of_program(&File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        release.map(|release| release.to_string())
    }

    #[test]
    fn the_release_is_in_the_note_about_the_build_unless_it_was_trimmed() {
        assert_eq!(release(&program("go-program")).as_deref(), Some("1.35"));
        assert_eq!(release(&program("go-program-trimpath")), None);
        assert_eq!(release(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn a_damaged_program_has_no_release_and_costs_little() {
        let good = program("go-program");
        for length in (0..256).chain((good.len() - 4096..good.len()).step_by(64)) {
            assert_eq!(release(&good[..length]), None, "{length}");
        }
        // Every number of the header and of the table of sections may be any number.
        let table = usize::try_from(number(&good, 40, 8).unwrap()).unwrap();
        for at in (40..64).chain(table..table + 12 * ENTRY) {
            let mut bad = good.clone();
            bad[at] = 0xff;
            let found = release(&bad);
            assert!(found.is_none() || found.as_deref() == Some("1.35"), "{at}: {found:?}");
        }
    }

    #[test]
    fn the_release_is_read_in_each_form() {
        let of = |note: &str| release_in(note).map(|release| release.to_string());
        let k3s = "build\t-ldflags=\"-X 'k8s.io/component-base/version.gitVersion=v1.30.4+k3s1' -w\"\n";
        assert_eq!(of(k3s).as_deref(), Some("1.30"));
        assert_eq!(of("path\tx\nmod\tk8s.io/kubernetes\tv1.36.1\t\n").as_deref(), Some("1.36"));
        assert_eq!(of("mod\tk8s.io/kubernetes\t(devel)\t\n"), None);
        assert_eq!(of("dep\tk8s.io/component-base\tv0.36.2\n"), None);
    }
}
