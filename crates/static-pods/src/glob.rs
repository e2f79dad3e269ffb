//! Matches file name patterns like Go's `filepath.Match`. The kubelet uses them for its manifest path, and `plegctl pods`
//! for pod names on the command line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether Go's `filepath.Glob` would treat the path as a pattern.
pub fn has_meta(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// Returns the directories that match the path as a pattern, or the path itself if it is not a pattern.
pub fn directories(path: &Path) -> Vec<PathBuf> {
    if !has_meta(path.as_os_str().as_bytes()) {
        return vec![path.to_path_buf()];
    }
    let Some(name) = path.file_name() else {
        return vec![path.to_path_buf()];
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for directory in directories(parent) {
        if has_meta(name.as_bytes()) {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
            let matching = names.filter(|entry| matches(name.as_bytes(), entry.as_bytes()));
            found.extend(matching.map(|entry: std::ffi::OsString| directory.join(entry)));
        } else {
            found.push(directory.join(OsStr::from_bytes(name.as_bytes())));
        }
    }
    found.retain(|path| path.is_dir());
    found
}

/// Whether a name matches a pattern. A malformed pattern matches nothing.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => {
            (0..=name.len()).any(|skip| matches(rest, name.get(skip..).unwrap_or_default()))
        }
        Some((b'?', rest)) => !name.is_empty() && matches(rest, rune(name).1),
        Some((b'[', rest)) => {
            let (letter, tail) = rune(name);
            let matched = class(rest, letter).is_some_and(|(found, rest)| found && matches(rest, tail));
            !name.is_empty() && matched
        }
        Some((b'\\', rest)) => rest.split_first().is_some_and(|(wanted, rest)| literal(*wanted, rest, name)),
        Some((wanted, rest)) => literal(*wanted, rest, name),
    }
}

/// Whether a pattern is complete: each `[` has its `]`, and a character follows each backslash.
pub fn is_complete(mut pattern: &[u8]) -> bool {
    while let Some((first, rest)) = pattern.split_first() {
        let after = match first {
            b'[' => class(rest, 'a').map(|(_, after)| after),
            b'\\' => rest.split_first().map(|(_, after)| after),
            _ => Some(rest),
        };
        let Some(after) = after else { return false };
        pattern = after;
    }
    true
}

/// Whether a name starts with the byte `wanted` and its rest matches the rest of the pattern.
fn literal(wanted: u8, rest: &[u8], name: &[u8]) -> bool {
    name.split_first().is_some_and(|(byte, tail)| *byte == wanted && matches(rest, tail))
}

/// Splits a text after its first character. Like Go, reads an invalid UTF-8 byte as U+FFFD.
fn rune(text: &[u8]) -> (char, &[u8]) {
    let longest = text.get(..text.len().min(4)).unwrap_or_default();
    let valid = match std::str::from_utf8(longest) {
        Ok(valid) => valid,
        Err(error) => longest
            .get(..error.valid_up_to())
            .and_then(|start| std::str::from_utf8(start).ok())
            .unwrap_or_default(),
    };
    let letter = valid.chars().next();
    let length = letter.map_or(1, char::len_utf8);
    (letter.unwrap_or(char::REPLACEMENT_CHARACTER), text.get(length..).unwrap_or_default())
}

/// Reads a character class after its `[`. Returns whether the class contains the letter, and the rest after its `]`.
fn class(pattern: &[u8], letter: char) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match pattern.split_first()? {
        (b'^', rest) => (true, rest),
        _ => (false, pattern),
    };
    let mut found = false;
    let mut first = true;
    loop {
        if let (Some((b']', after)), false) = (rest.split_first(), first) {
            return Some((found != negated, after));
        }
        first = false;
        let (low, after) = class_letter(rest)?;
        let (high, after) = match after.split_first() {
            Some((b'-', range)) => class_letter(range)?,
            _ => (low, after),
        };
        found |= (low..=high).contains(&letter);
        rest = after;
    }
}

/// Reads one character of a class. Returns `None` if the pattern is malformed.
fn class_letter(pattern: &[u8]) -> Option<(char, &[u8])> {
    let pattern = match pattern.split_first()? {
        (b'-' | b']', _) => return None,
        (b'\\', rest) => rest,
        _ => pattern,
    };
    // Go rejects a pattern whose class is not valid UTF-8.
    let (letter, rest) = rune(pattern);
    let is_invalid = letter == char::REPLACEMENT_CHARACTER && !pattern.starts_with("\u{fffd}".as_bytes());
    (!pattern.is_empty() && !is_invalid).then_some((letter, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        assert!(matches(b"s[2]", b"s2"));
        assert!(!matches(b"s[2]", b"s[2]"));
        assert!(matches(b"k*s", b"kubernetes"));
        assert!(matches(b"a?c", b"abc"));
        assert!(matches(b"[a-c]x", b"bx"));
        assert!(matches(b"[^a-c]x", b"dx"));
        assert!(matches(b"a\\*", b"a*"));
        assert!(!matches(b"[", b"["));
        assert!(!matches(b"[]a]", b"a"));
    }

    #[test]
    fn pattern_without_an_end_is_not_complete() {
        for pattern in [&b"a*[b-d]?"[..], b"", b"[^a]\\["] {
            assert!(is_complete(pattern));
        }
        for pattern in [&b"["[..], b"a[b-", b"[]a]", b"a\\"] {
            assert!(!is_complete(pattern));
        }
    }

    #[test]
    fn a_multi_byte_character_counts_as_one() {
        assert!(matches("?".as_bytes(), "é".as_bytes()) && !matches("??".as_bytes(), "é".as_bytes()));
        assert!(matches("[à-ü]x".as_bytes(), "éx".as_bytes()));
        assert!(!matches("[à-ü]x".as_bytes(), "ex".as_bytes()));
        assert!(matches(b"a?", b"a\xff") && matches(b"[^a]", b"\xff"));
    }
}
