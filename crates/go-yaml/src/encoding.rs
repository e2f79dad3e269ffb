//! Decodes the bytes of a file into text. It recognises byte order marks and UTF-16, and stops at the first invalid byte or
//! character that YAML does not allow, with go-yaml's error message.

use std::borrow::Cow;

use super::Position;

/// The text of a file up to the first encoding error.
pub struct DecodedText<'b> {
    /// Valid text without its byte order mark.
    pub text: Cow<'b, str>,
    /// Whether the file has a byte order mark.
    pub byte_order_mark: bool,
    /// Whether the file is UTF-16.
    pub utf16: bool,
    /// The error after `text`; `None` if the whole file was decoded.
    pub fault: Option<EncodingFault>,
}

/// An encoding error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingFault {
    /// The error message of the kubelet.
    pub reason: &'static str,
    /// The position of the error.
    pub position: Position,
}

impl EncodingFault {
    /// Returns whether the error is only that the file ends within a character. go-yaml reports this error later than
    /// other errors.
    pub fn is_the_end(&self) -> bool {
        [INCOMPLETE, INCOMPLETE_UTF16].contains(&self.reason)
    }
}

impl DecodedText<'_> {
    /// Decodes the whole file for display, with a replacement character for each error. A text in UTF-16 ends at its first
    /// error.
    pub fn whole<'a>(&'a self, bytes: &'a [u8]) -> Cow<'a, str> {
        match self.fault {
            Some(_) if !self.utf16 => String::from_utf8_lossy(bytes),
            _ => Cow::Borrowed(&self.text),
        }
    }

    /// Returns the same text with a reference to its characters.
    pub fn borrowed(&self) -> DecodedText<'_> {
        DecodedText { text: Cow::Borrowed(&self.text), fault: self.fault.clone(), ..*self }
    }

    /// Returns the length of the byte order mark in bytes.
    pub const fn mark_bytes(&self) -> usize {
        match (self.byte_order_mark, self.utf16) {
            (true, true) => 2,
            (true, false) => 3,
            (false, _) => 0,
        }
    }
}

/// Decodes the bytes up to the first error.
pub fn decode(bytes: &[u8]) -> DecodedText<'_> {
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => DecodedText { byte_order_mark: true, ..decode_utf8(rest) },
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        _ => decode_utf8(bytes),
    }
}

/// Returns the first character of UTF-8 bytes and its length.
pub fn first_char(bytes: &[u8]) -> Option<(char, usize)> {
    let head = bytes.get(..bytes.len().min(4))?;
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?,
    };
    let first = valid.chars().next()?;
    Some((first, first.len_utf8()))
}

fn decode_utf8(bytes: &[u8]) -> DecodedText<'_> {
    let chunk = bytes.utf8_chunks().next();
    let valid = chunk.as_ref().map_or("", |chunk| chunk.valid());
    let (text, fault) = match valid.find(|character| !is_accepted(character)) {
        Some(end) => (valid.get(..end).unwrap_or_default(), Some(CONTROL)),
        None => (valid, bytes.get(valid.len()..).filter(|rest| !rest.is_empty()).map(octet_fault)),
    };
    finish(Cow::Borrowed(text), fault, false)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> DecodedText<'static> {
    let pairs = bytes.chunks_exact(2);
    let odd = !pairs.remainder().is_empty();
    let units = pairs.filter_map(|pair| <[u8; 2]>::try_from(pair).ok().map(unit));
    let mut text = String::new();
    let mut fault = None;
    for decoded in char::decode_utf16(units) {
        fault = match decoded {
            Ok(character) if is_accepted(character) => {
                text.push(character);
                continue;
            }
            Ok(_) => Some(CONTROL),
            Err(_) => Some("unexpected low surrogate area"),
        };
        break;
    }
    if fault.is_none() && odd {
        fault = Some(INCOMPLETE_UTF16);
    }
    DecodedText { byte_order_mark: true, ..finish(Cow::Owned(text), fault, true) }
}

/// The error when the file ends within a UTF-8 character.
const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// The error when the file ends within a UTF-16 character.
const INCOMPLETE_UTF16: &str = "incomplete UTF-16 character";

/// The error for a character that YAML does not allow.
const CONTROL: &str = "control characters are not allowed";

fn finish<'b>(text: Cow<'b, str>, fault: Option<&'static str>, utf16: bool) -> DecodedText<'b> {
    let fault = fault.map(|reason| EncodingFault { reason, position: end_position(&text) });
    DecodedText { text, byte_order_mark: false, utf16, fault }
}

/// Returns the position after `text`.
fn end_position(text: &str) -> Position {
    let mut position = Position::START;
    let mut after_return = false;
    for character in text.chars() {
        match character {
            '\n' if after_return => {}
            '\n' | '\r' => {
                position.line = position.line.saturating_add(1);
                position.column = 1;
            }
            _ => position.column = position.column.saturating_add(1),
        }
        after_return = character == '\r';
    }
    position
}

/// Returns whether YAML allows the character.
fn is_accepted(character: char) -> bool {
    matches!(character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..='\u{10ffff}')
}

/// Returns go-yaml's message for bytes that begin with invalid UTF-8 (readerc.go).
fn octet_fault(bytes: &[u8]) -> &'static str {
    let (width, lowest, lead) = match bytes.first() {
        Some(first @ 0xc0..=0xdf) => (2, 0x80, u32::from(first & 0x1f)),
        Some(first @ 0xe0..=0xef) => (3, 0x800, u32::from(first & 0x0f)),
        Some(first @ 0xf0..=0xf7) => (4, 0x1_0000, u32::from(first & 0x07)),
        _ => return "invalid leading UTF-8 octet",
    };
    let Some(trailing) = bytes.get(1..width) else { return INCOMPLETE };
    if trailing.iter().any(|octet| octet & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    let value = trailing.iter().fold(lead, |value, octet| (value << 6) | u32::from(octet & 0x3f));
    if value < lowest { "invalid length of a UTF-8 sequence" } else { "invalid Unicode character" }
}
