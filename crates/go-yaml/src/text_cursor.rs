//! A position in a text, and the next characters. go-yaml loads a file in pieces into a buffer, and its scanner sees only
//! the characters in this buffer. This cursor loads the same pieces, so that the scanner makes the same decisions and
//! reports the same errors.

use super::encoding::DecodedText;
use super::{FaultStage, Mark, YamlFault};

/// The number of bytes that go-yaml loads at a time (`input_raw_buffer_size` in readerc.go). An encoding error is reported
/// when its piece is loaded, so the size decides how early that is.
const PIECE: usize = 512;

/// A text, the position in the text, and the part of the text that is loaded.
pub struct TextCursor<'t> {
    text: DecodedText<'t>,
    /// The byte offset of the next character.
    next: usize,
    /// The byte offset of the end of the last loaded piece.
    loaded: usize,
    /// The number of characters between `next` and `loaded`.
    unread: usize,
    /// The next character, if it is loaded.
    current: Option<char>,
    /// Whether every piece is loaded.
    complete: bool,
    /// The number of NULs that go-yaml would have in its buffer after the end of the text: it appends one each time when
    /// the scanner requires more characters than the text has.
    nuls: usize,
    /// The first character of go-yaml's buffer. go-yaml removes read characters from the buffer only when it loads a
    /// piece.
    buffer_start: Option<char>,
    /// The position of the next character.
    pub mark: Mark,
}

impl<'t> TextCursor<'t> {
    /// Creates a cursor before the first character.
    pub fn new(text: DecodedText<'t>) -> Self {
        Self {
            text,
            next: 0,
            loaded: 0,
            unread: 0,
            current: None,
            complete: false,
            nuls: 0,
            buffer_start: None,
            mark: Mark::default(),
        }
    }

    /// Returns the next character; `None` at the end.
    pub const fn current(&self) -> Option<char> {
        self.current
    }

    /// Returns whether `character` is the next character.
    pub fn is_at(&self, character: char) -> bool {
        self.current == Some(character)
    }

    /// Returns the character that follows the next `ahead` characters, if it is loaded.
    pub fn peek(&self, ahead: usize) -> Option<char> {
        if ahead >= self.unread {
            return None;
        }
        self.text.text.get(self.next..)?.chars().nth(ahead)
    }

    /// Returns the first character of go-yaml's buffer.
    pub const fn buffer_start(&self) -> Option<char> {
        self.buffer_start
    }

    /// Loads pieces until this number of unread characters is loaded, or until the text ends.
    pub fn load(&mut self, characters: usize) -> Result<(), YamlFault> {
        if self.unread + self.nuls >= characters {
            return Ok(());
        }
        while self.unread < characters && !self.complete {
            self.load_piece()?;
        }
        if self.unread < characters {
            self.nuls += 1;
        }
        self.current = self.peek(0);
        self.buffer_start = self.current;
        Ok(())
    }

    /// Loads a piece. A character that does not fit completely belongs to the next piece. A piece with an encoding error
    /// is not loaded.
    fn load_piece(&mut self) -> Result<(), YamlFault> {
        let rest = self.text.text.get(self.loaded..).unwrap_or_default();
        let max_bytes = if self.loaded == 0 { PIECE - self.text.mark_bytes() } else { PIECE };
        let (length, file_bytes) =
            if self.text.utf16 { utf16_piece(rest, max_bytes) } else { utf8_piece(rest, max_bytes) };
        if length == rest.len()
            && file_bytes < max_bytes
            && let Some(fault) = &self.text.fault
            && (length == 0 || !fault.is_the_end())
        {
            let zero_based = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1);
            let (line, column) = (zero_based(fault.position.line), zero_based(fault.position.column));
            let mark = Mark { index: 0, line, column };
            return Err(YamlFault { stage: FaultStage::Reader, problem: fault.reason, mark, context: None });
        }
        self.complete = length == 0;
        self.loaded += length;
        self.unread += rest.get(..length).unwrap_or_default().chars().count();
        Ok(())
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.current?;
        self.next += character.len_utf8();
        self.unread -= 1;
        self.current = self.peek(0);
        Some(character)
    }

    /// Skips a character. At the end of the text, skips one of go-yaml's NULs.
    pub fn skip(&mut self) {
        if self.advance().is_none() {
            self.nuls = self.nuls.saturating_sub(1);
        }
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Appends the next character to `text`.
    pub fn read(&mut self, text: &mut String) {
        if let Some(character) = self.advance() {
            text.push(character);
            self.mark.index += 1;
            self.mark.column += 1;
        }
    }

    /// Skips a line break. Returns the character that replaces it in a scalar: a line feed, but Unicode's line and
    /// paragraph separators stay as they are.
    pub fn line_break(&mut self) -> Option<char> {
        let first = self.current.filter(|character| is_break(*character))?;
        if first == '\r' && self.peek(1) == Some('\n') {
            self.advance();
            self.mark.index += 1;
        }
        self.advance();
        self.mark.index += 1;
        self.mark.line += 1;
        self.mark.column = 0;
        Some(if first.len_utf8() == 3 { first } else { '\n' })
    }

    /// Skips spaces and tabs.
    pub fn skip_blanks(&mut self) -> Result<(), YamlFault> {
        while self.current.is_some_and(is_blank) {
            self.skip();
            self.load(1)?;
        }
        Ok(())
    }

    /// Skips a comment up to the end of its line, if a comment comes next.
    pub fn skip_comment(&mut self) -> Result<(), YamlFault> {
        if self.is_at('#') {
            while !is_break_or_end(self.current) {
                self.skip();
                self.load(1)?;
            }
        }
        Ok(())
    }
}

/// Returns the number of bytes of `text` that are the next piece, and the number of bytes of the file for them, which is at
/// most `max_bytes`.
fn utf8_piece(text: &str, max_bytes: usize) -> (usize, usize) {
    let mut length = text.len().min(max_bytes);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    (length, length)
}

/// Like [`utf8_piece`], for a file in UTF-16.
fn utf16_piece(text: &str, max_bytes: usize) -> (usize, usize) {
    let (mut length, mut file_bytes) = (0, 0);
    for character in text.chars() {
        let width = 2 * character.len_utf16();
        if file_bytes + width > max_bytes {
            break;
        }
        file_bytes += width;
        length += character.len_utf8();
    }
    (length, file_bytes)
}

/// Returns whether the character is a space or a tab.
pub const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

/// Returns whether the character is a line break.
pub const fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether the character is a line break or missing, so that the line ends before it.
pub fn is_break_or_end(character: Option<char>) -> bool {
    character.is_none_or(is_break)
}

/// Returns whether the character is a blank, a line break or missing, so that a word ends before it.
pub fn is_blank_or_end(character: Option<char>) -> bool {
    character.is_none_or(|character| is_blank(character) || is_break(character))
}
