//! The characters of a text as go-yaml's scanner sees them: it reads a file in pieces and looks only at characters that
//! are in its buffer.

use super::encoding::DecodedText;
use super::{FaultStage, Mark, YamlFault};

/// How many bytes of a file go-yaml reads at a time (`input_raw_buffer_size` in readerc.go). The size decides how far
/// ahead an encoding error is noticed.
const PIECE: usize = 512;

/// A text, the position in it, and the part of it that is loaded.
pub struct TextCursor<'t> {
    text: DecodedText<'t>,
    /// The byte offset of the next character.
    next: usize,
    /// The byte offset of the end of the last loaded piece.
    loaded: usize,
    /// The number of characters between these two.
    unread: usize,
    /// The next character, if it is loaded.
    current: Option<char>,
    /// Whether every piece is loaded.
    complete: bool,
    /// How often more was required than there is: go-yaml appends a NUL to its buffer each time and counts it.
    beyond: usize,
    /// The first character of go-yaml's buffer, which it moves to the unread text only when it loads.
    buffer_start: Option<char>,
    /// The position of the next character.
    pub mark: Mark,
}

impl<'t> TextCursor<'t> {
    /// Starts before the first character.
    pub fn new(text: DecodedText<'t>) -> Self {
        Self {
            text,
            next: 0,
            loaded: 0,
            unread: 0,
            current: None,
            complete: false,
            beyond: 0,
            buffer_start: None,
            mark: Mark::default(),
        }
    }

    /// The next character; `None` at the end.
    pub const fn current(&self) -> Option<char> {
        self.current
    }

    /// Whether this is the next character.
    pub fn is_at(&self, character: char) -> bool {
        self.current == Some(character)
    }

    /// The character after `ahead` others, if it is loaded.
    pub fn peek(&self, ahead: usize) -> Option<char> {
        if ahead >= self.unread {
            return None;
        }
        self.text.text.get(self.next..)?.chars().nth(ahead)
    }

    /// The first character of go-yaml's buffer.
    pub const fn buffer_start(&self) -> Option<char> {
        self.buffer_start
    }

    /// Loads pieces until there are this many characters, or none is left.
    pub fn load(&mut self, characters: usize) -> Result<(), YamlFault> {
        if self.unread + self.beyond >= characters {
            return Ok(());
        }
        while self.unread < characters && !self.complete {
            self.load_piece()?;
        }
        if self.unread < characters {
            self.beyond += 1;
        }
        self.current = self.peek(0);
        self.buffer_start = self.current;
        Ok(())
    }

    /// Loads a piece. A character that does not fit belongs to the following piece. A piece with an encoding error is
    /// not loaded.
    fn load_piece(&mut self) -> Result<(), YamlFault> {
        let rest = self.text.text.get(self.loaded..).unwrap_or_default();
        let room = if self.loaded == 0 { PIECE - self.text.mark_bytes() } else { PIECE };
        let (length, used) = if self.text.utf16 { utf16_piece(rest, room) } else { utf8_piece(rest, room) };
        if length == rest.len()
            && used < room
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

    /// Skips a character. At the end, skips one of go-yaml's NULs.
    pub fn skip(&mut self) {
        if self.advance().is_none() {
            self.beyond = self.beyond.saturating_sub(1);
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

    /// Skips a line break and returns how it is kept: as a line feed, unless it is one of Unicode's.
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

    /// Skips blanks.
    pub fn skip_blanks(&mut self) -> Result<(), YamlFault> {
        while self.current.is_some_and(is_blank) {
            self.skip();
            self.load(1)?;
        }
        Ok(())
    }

    /// Skips a comment up to the end of its line, if there is one.
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

/// How many bytes of `text` the next piece has, and how many bytes of the file that is.
fn utf8_piece(text: &str, room: usize) -> (usize, usize) {
    let mut length = text.len().min(room);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    (length, length)
}

fn utf16_piece(text: &str, room: usize) -> (usize, usize) {
    let (mut length, mut used) = (0, 0);
    for character in text.chars() {
        let width = 2 * character.len_utf16();
        if used + width > room {
            break;
        }
        used += width;
        length += character.len_utf8();
    }
    (length, used)
}

/// Whether the character is a space or a tab.
pub const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

/// Whether the character ends a line.
pub const fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether the line ends here.
pub fn is_break_or_end(character: Option<char>) -> bool {
    character.is_none_or(is_break)
}

/// Whether a word ends here.
pub fn is_blank_or_end(character: Option<char>) -> bool {
    character.is_none_or(|character| is_blank(character) || is_break(character))
}
