//! Scans directives (`%YAML`, `%TAG`), anchors (`&a`), aliases (`*a`) and tags (`!a`).

use super::error::FaultContext;
use super::scanner::Scanner;
use super::text_cursor::{is_blank, is_blank_or_end};
use super::token::{Token, TokenKind};
use super::{Mark, YamlFault};

/// The most digits of a number in a `%YAML` directive (`max_number_length` in scannerc.go).
const MAX_NUMBER_LENGTH: usize = 2;

impl Scanner<'_> {
    /// Scans a directive and the rest of its line.
    pub(super) fn scan_directive(&mut self) -> Result<Token, YamlFault> {
        let start = self.text.mark;
        let context = Some(("while scanning a directive", start));
        self.text.skip();
        let name = self.scan_word()?;
        if name.is_empty() {
            return self.fault(context, "could not find expected directive name");
        }
        if !is_blank_or_end(self.text.current()) {
            return self.fault(context, "found unexpected non-alphabetical character");
        }
        let kind = match name.as_str() {
            "YAML" => self.scan_version(Some(("while scanning a %YAML directive", start)))?,
            "TAG" => self.scan_tag_directive(start)?,
            _ => return self.fault(context, "found unknown directive name"),
        };
        let end = self.text.mark;
        self.skip_rest_of_line(context)?;
        Ok(Token { kind, start, end })
    }

    /// Scans letters, digits, `_` and `-`.
    fn scan_word(&mut self) -> Result<String, YamlFault> {
        let mut word = String::new();
        self.text.load(1)?;
        while self.text.current().is_some_and(is_of_word) {
            self.text.read(&mut word);
            self.text.load(1)?;
        }
        Ok(word)
    }

    fn scan_version(&mut self, context: FaultContext) -> Result<TokenKind, YamlFault> {
        self.text.load(1)?;
        self.text.skip_blanks()?;
        let major = self.scan_version_number(context)?;
        if !self.text.is_at('.') {
            return self.fault(context, "did not find expected digit or '.' character");
        }
        self.text.skip();
        Ok(TokenKind::VersionDirective { major, minor: self.scan_version_number(context)? })
    }

    fn scan_version_number(&mut self, context: FaultContext) -> Result<u32, YamlFault> {
        let (mut value, mut length) = (0, 0);
        self.text.load(1)?;
        while let Some(digit) = self.text.current().and_then(|character| character.to_digit(10)) {
            length += 1;
            if length > MAX_NUMBER_LENGTH {
                return self.fault(context, "found extremely long version number");
            }
            value = value * 10 + digit;
            self.text.skip();
            self.text.load(1)?;
        }
        if length == 0 {
            return self.fault(context, "did not find expected version number");
        }
        Ok(value)
    }

    fn scan_tag_directive(&mut self, start: Mark) -> Result<TokenKind, YamlFault> {
        let context = Some(("while scanning a %TAG directive", start));
        self.text.load(1)?;
        self.text.skip_blanks()?;
        let handle = self.scan_tag_handle(true, start)?;
        self.text.load(1)?;
        if !self.text.current().is_some_and(is_blank) {
            return self.fault(context, "did not find expected whitespace");
        }
        self.text.skip_blanks()?;
        let prefix = self.scan_tag_uri(Some(("while parsing a %TAG directive", start)), "")?;
        self.text.load(1)?;
        if !is_blank_or_end(self.text.current()) {
            return self.fault(context, "did not find expected whitespace or line break");
        }
        Ok(TokenKind::TagDirective { handle, prefix })
    }

    /// Scans an anchor or an alias.
    pub(super) fn scan_anchor(
        &mut self,
        context: &'static str,
        kind: fn(String) -> TokenKind,
    ) -> Result<Token, YamlFault> {
        let start = self.text.mark;
        self.text.skip();
        let name = self.scan_word()?;
        let next = self.text.current();
        let is_end =
            is_blank_or_end(next) || matches!(next, Some('?' | ':' | ',' | ']' | '}' | '%' | '@' | '`'));
        if name.is_empty() || !is_end {
            return self
                .fault(Some((context, start)), "did not find expected alphabetic or numeric character");
        }
        Ok(Token { kind: kind(name), start, end: self.text.mark })
    }

    /// Scans the tag of a node.
    pub(super) fn scan_tag(&mut self) -> Result<Token, YamlFault> {
        let start = self.text.mark;
        let context = Some(("while scanning a tag", start));
        let uri_context = Some(("while parsing a tag", start));
        self.text.load(2)?;
        let (handle, suffix) = if self.text.peek(1) == Some('<') {
            self.text.skip();
            self.text.skip();
            let suffix = self.scan_tag_uri(uri_context, "")?;
            if !self.text.is_at('>') {
                return self.fault(context, "did not find the expected '>'");
            }
            self.text.skip();
            (String::new(), suffix)
        } else {
            let handle = self.scan_tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.scan_tag_uri(uri_context, "")?;
                (handle, suffix)
            } else {
                let suffix = self.scan_tag_uri(uri_context, &handle)?;
                let handle = "!".to_owned();
                if suffix.is_empty() { (suffix, handle) } else { (handle, suffix) }
            }
        };
        self.text.load(1)?;
        if !is_blank_or_end(self.text.current()) {
            return self.fault(context, "did not find expected whitespace or line break");
        }
        Ok(Token { kind: TokenKind::Tag { handle, suffix }, start, end: self.text.mark })
    }

    /// Scans a handle: `!`, `!!` or `!word!`. For the tag of a node (not of a `directive`) it may also return `!word`,
    /// which is not a handle but the beginning of the suffix. The tag or the directive begins at `start`.
    fn scan_tag_handle(&mut self, directive: bool, start: Mark) -> Result<String, YamlFault> {
        const MISSING: &str = "did not find expected '!'";
        self.text.load(1)?;
        if !self.text.is_at('!') {
            let words = if directive { "while scanning a tag directive" } else { "while scanning a tag" };
            return self.fault(Some((words, start)), MISSING);
        }
        let mut handle = String::new();
        self.text.read(&mut handle);
        handle.push_str(&self.scan_word()?);
        if self.text.is_at('!') {
            self.text.read(&mut handle);
        } else if directive && handle != "!" {
            return self.fault(Some(("while parsing a tag directive", start)), MISSING);
        }
        Ok(handle)
    }

    /// Scans the rest of a tag. Returns `head` without its exclamation mark, and the rest.
    fn scan_tag_uri(&mut self, context: FaultContext, head: &str) -> Result<String, YamlFault> {
        let mut uri = head.get(1..).unwrap_or_default().to_owned();
        self.text.load(1)?;
        while self.text.current().is_some_and(is_of_uri) {
            if self.text.is_at('%') {
                self.scan_uri_escape(context, &mut uri)?;
            } else {
                self.text.read(&mut uri);
            }
            self.text.load(1)?;
        }
        if uri.is_empty() && head.is_empty() {
            return self.fault(context, "did not find expected tag URI");
        }
        Ok(uri)
    }

    /// Scans an escaped character: `%` and two hexadecimal digits for each byte of its UTF-8 form. Like libyaml-safer, it
    /// adds one character for each byte.
    fn scan_uri_escape(&mut self, context: FaultContext, uri: &mut String) -> Result<(), YamlFault> {
        let mut left = 0;
        loop {
            self.text.load(3)?;
            let digits = (self.text.peek(1), self.text.peek(2));
            let Some(octet) = escaped_octet(digits).filter(|_| self.text.is_at('%')) else {
                return self.fault(context, "did not find URI escaped octet");
            };
            if left == 0 {
                left = match octet {
                    0..=0x7f => 1,
                    0xc0..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xf7 => 4,
                    _ => return self.fault(context, "found an incorrect leading UTF-8 octet"),
                };
            } else if octet & 0xc0 != 0x80 {
                return self.fault(context, "found an incorrect trailing UTF-8 octet");
            }
            uri.push(char::from(octet));
            for _ in 0..3 {
                self.text.skip();
            }
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

fn escaped_octet((high, low): (Option<char>, Option<char>)) -> Option<u8> {
    u8::try_from(high?.to_digit(16)? * 16 + low?.to_digit(16)?).ok()
}

fn is_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

fn is_of_uri(character: char) -> bool {
    is_of_word(character) || ";/?:@&=+$.%!~*'(),[]".contains(character)
}
