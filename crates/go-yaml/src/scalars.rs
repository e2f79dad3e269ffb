//! Scans scalars: block scalars (`|`, `>`), quoted scalars and plain scalars.

use super::error::FaultContext;
use super::scanner::Scanner;
use super::text_cursor::{is_blank, is_blank_or_end, is_break, is_break_or_end};
use super::token::{Token, TokenKind};
use super::{Mark, YamlFault};

/// What happens to the line breaks at the end of a block scalar. Without an indicator, the first line break is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    /// `-`: all line breaks are removed.
    Strip,
    /// `+`: all line breaks are kept.
    Keep,
}

/// The blanks and line breaks between two words of a scalar.
#[derive(Default)]
struct Gap {
    /// The blanks, if the gap has no line break.
    blanks: String,
    /// Whether the gap has a line break.
    is_broken: bool,
    /// The first line break, unless it is escaped with a backslash.
    first_break: Option<char>,
    /// The other line breaks.
    more_breaks: String,
}

impl Gap {
    /// Appends the folded gap to `text` and clears the gap: a single line break becomes a space, and of several line breaks
    /// the first is left out.
    fn append_to(&mut self, text: &mut String) {
        if self.is_broken {
            match self.first_break {
                Some('\n') if self.more_breaks.is_empty() => text.push(' '),
                Some('\n') | None => {}
                Some(other) => text.push(other),
            }
            text.push_str(&self.more_breaks);
            self.first_break = None;
            self.more_breaks.clear();
            self.is_broken = false;
        } else {
            text.push_str(&self.blanks);
            self.blanks.clear();
        }
    }
}

impl Scanner<'_> {
    /// Scans a block scalar: a literal one after `|`, or a folded one after `>`.
    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Token, YamlFault> {
        let start = self.text.mark;
        let context = Some(("while scanning a block scalar", start));
        self.text.skip();
        let (chomping, increment) = self.scan_block_header(context)?;
        let mut indent = match increment {
            0 => 0,
            increment => self.indent.unwrap_or(0) + increment,
        };
        let mut text = String::new();
        let mut line_break = None;
        let mut more_breaks = String::new();
        let mut after_blank = false;
        let mut end = self.scan_block_breaks(&mut indent, &mut more_breaks, context)?;
        self.text.load(1)?;
        while self.text.mark.column == indent
            && let Some(first) = self.text.current()
        {
            let before_blank = is_blank(first);
            match line_break.take() {
                Some('\n') if !literal && !after_blank && !before_blank => {
                    if more_breaks.is_empty() {
                        text.push(' ');
                    }
                }
                other => text.extend(other),
            }
            text.push_str(&more_breaks);
            more_breaks.clear();
            after_blank = before_blank;
            while !is_break_or_end(self.text.current()) {
                self.text.read(&mut text);
                self.text.load(1)?;
            }
            self.text.load(2)?;
            line_break = self.text.line_break();
            end = self.scan_block_breaks(&mut indent, &mut more_breaks, context)?;
        }
        if chomping != Some(Chomping::Strip) {
            text.extend(line_break);
        }
        if chomping == Some(Chomping::Keep) {
            text.push_str(&more_breaks);
        }
        Ok(Token { kind: TokenKind::Scalar { text, plain: false }, start, end })
    }

    /// Scans the rest of the line after `|` or `>`. Returns the chomping, and the number of columns by which the text is
    /// indented; 0 means that the text's first line decides.
    fn scan_block_header(&mut self, context: FaultContext) -> Result<(Option<Chomping>, usize), YamlFault> {
        self.text.load(1)?;
        let mut chomping = self.scan_chomping();
        if chomping.is_some() {
            self.text.load(1)?;
        }
        let increment = self.text.current().and_then(|character| character.to_digit(10));
        if increment == Some(0) {
            return self.fault(context, "found an indentation indicator equal to 0");
        }
        if increment.is_some() {
            self.text.skip();
            if chomping.is_none() {
                self.text.load(1)?;
                chomping = self.scan_chomping();
            }
        }
        self.skip_rest_of_line(context)?;
        Ok((chomping, increment.map_or(0, |digit| usize::try_from(digit).unwrap_or(0))))
    }

    fn scan_chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.text.current() {
            Some('+') => Chomping::Keep,
            Some('-') => Chomping::Strip,
            _ => return None,
        };
        self.text.skip();
        Some(chomping)
    }

    /// Reads the line breaks before the next line with text, and that line's indentation. Returns the position after the
    /// last line break. If `indent` is 0, it becomes the largest indentation of these lines.
    fn scan_block_breaks(
        &mut self,
        indent: &mut usize,
        breaks: &mut String,
        context: FaultContext,
    ) -> Result<Mark, YamlFault> {
        let mut deepest = 0;
        let mut end = self.text.mark;
        loop {
            self.text.load(1)?;
            while (*indent == 0 || self.text.mark.column < *indent) && self.text.is_at(' ') {
                self.text.skip();
                self.text.load(1)?;
            }
            deepest = deepest.max(self.text.mark.column);
            if (*indent == 0 || self.text.mark.column < *indent) && self.text.is_at('\t') {
                return self.fault(context, "found a tab character where an indentation space is expected");
            }
            if !self.text.current().is_some_and(is_break) {
                break;
            }
            self.text.load(2)?;
            breaks.extend(self.text.line_break());
            end = self.text.mark;
        }
        if *indent == 0 {
            *indent = deepest.max(self.inner_indent()).max(1);
        }
        Ok(end)
    }

    /// Returns the smallest column of text inside the innermost block collection.
    fn inner_indent(&self) -> usize {
        self.indent.map_or(0, |column| column + 1)
    }

    /// Scans a scalar in single or double quotes.
    pub(super) fn scan_quoted(&mut self, quote: char) -> Result<Token, YamlFault> {
        let context = Some(("while scanning a quoted scalar", self.text.mark));
        let start = self.text.mark;
        let mut text = String::new();
        let mut gap = Gap::default();
        self.text.skip();
        loop {
            self.text.load(4)?;
            if self.at_document_indicator('-') || self.at_document_indicator('.') {
                return self.fault(context, "found unexpected document indicator");
            }
            if self.text.current().is_none() {
                return self.fault(context, "found unexpected end of stream");
            }
            self.text.load(2)?;
            while !is_blank_or_end(self.text.current()) {
                if self.text.is_at(quote) {
                    if quote != '\'' || self.text.peek(1) != Some(quote) {
                        break;
                    }
                    self.text.skip();
                    self.text.read(&mut text);
                } else if quote == '"' && self.text.is_at('\\') {
                    if self.text.peek(1).is_some_and(is_break) {
                        self.text.load(3)?;
                        self.text.skip();
                        self.text.line_break();
                        gap.is_broken = true;
                        break;
                    }
                    text.push(self.scan_escape(start)?);
                } else {
                    self.text.read(&mut text);
                }
                self.text.load(2)?;
            }
            self.text.load(1)?;
            if self.text.is_at(quote) {
                break;
            }
            self.scan_gap(&mut gap, None)?;
            gap.append_to(&mut text);
        }
        self.text.skip();
        Ok(Token { kind: TokenKind::Scalar { text, plain: false }, start, end: self.text.mark })
    }

    /// Scans an escape sequence and returns its character.
    fn scan_escape(&mut self, start: Mark) -> Result<char, YamlFault> {
        let context = Some(("while parsing a quoted scalar", start));
        let (character, digits) = match self.text.peek(1) {
            Some('0') => ('\0', 0),
            Some('a') => ('\x07', 0),
            Some('b') => ('\x08', 0),
            Some('t' | '\t') => ('\t', 0),
            Some('n') => ('\n', 0),
            Some('v') => ('\x0B', 0),
            Some('f') => ('\x0C', 0),
            Some('r') => ('\r', 0),
            Some('e') => ('\x1B', 0),
            Some(itself @ (' ' | '"' | '\'' | '\\')) => (itself, 0),
            Some('N') => ('\u{85}', 0),
            Some('_') => ('\u{a0}', 0),
            Some('L') => ('\u{2028}', 0),
            Some('P') => ('\u{2029}', 0),
            Some('x') => ('\0', 2),
            Some('u') => ('\0', 4),
            Some('U') => ('\0', 8),
            _ => return self.fault(context, "found unknown escape character"),
        };
        self.text.skip();
        self.text.skip();
        if digits == 0 {
            return Ok(character);
        }
        self.text.load(digits)?;
        let mut code = 0;
        for nth in 0..digits {
            let Some(digit) = self.text.peek(nth).and_then(|character| character.to_digit(16)) else {
                return self.fault(context, "did not find expected hexdecimal number");
            };
            code = (code << 4) + digit;
        }
        let Some(character) = char::from_u32(code) else {
            return self.fault(context, "found invalid Unicode character escape code");
        };
        for _ in 0..digits {
            self.text.skip();
        }
        Ok(character)
    }

    /// Scans a plain scalar, which may have several lines.
    pub(super) fn scan_plain(&mut self) -> Result<Token, YamlFault> {
        let start = self.text.mark;
        let mut end = start;
        let mut text = String::new();
        let mut gap = Gap::default();
        loop {
            self.text.load(4)?;
            if self.at_document_indicator('-') || self.at_document_indicator('.') || self.text.is_at('#') {
                break;
            }
            while let Some(character) = self.text.current()
                && !is_blank(character)
                && !is_break(character)
                && !self.ends_plain(character)
            {
                gap.append_to(&mut text);
                self.text.read(&mut text);
                end = self.text.mark;
                self.text.load(2)?;
            }
            if !self.text.current().is_some_and(|character| is_blank(character) || is_break(character)) {
                break;
            }
            self.text.load(1)?;
            self.scan_gap(&mut gap, Some(start))?;
            if !self.in_flow() && self.text.mark.column < self.inner_indent() {
                break;
            }
        }
        if gap.is_broken {
            self.simple_key_allowed = true;
        }
        Ok(Token { kind: TokenKind::Scalar { text, plain: true }, start, end })
    }

    /// Returns whether a plain scalar ends before this character.
    fn ends_plain(&self, character: char) -> bool {
        character == ':' && is_blank_or_end(self.text.peek(1))
            || self.in_flow() && matches!(character, ',' | '?' | '[' | ']' | '{' | '}')
    }

    /// Reads blanks and line breaks into `gap`. `plain` is the start of a plain scalar, in which the indentation must not
    /// contain a tab.
    fn scan_gap(&mut self, gap: &mut Gap, plain: Option<Mark>) -> Result<(), YamlFault> {
        while let Some(character) = self.text.current() {
            if is_break(character) {
                self.text.load(2)?;
                let line_break = self.text.line_break();
                if gap.is_broken {
                    gap.more_breaks.extend(line_break);
                } else {
                    gap.blanks.clear();
                    gap.first_break = line_break;
                    gap.is_broken = true;
                }
            } else if !is_blank(character) {
                break;
            } else if !gap.is_broken {
                self.text.read(&mut gap.blanks);
            } else {
                if let Some(start) = plain
                    && character == '\t'
                    && self.text.mark.column < self.inner_indent()
                {
                    return self.fault(
                        Some(("while scanning a plain scalar", start)),
                        "found a tab character that violates indentation",
                    );
                }
                self.text.skip();
            }
            self.text.load(1)?;
        }
        Ok(())
    }
}
