//! The YAML scanner: splits a text into tokens. It is a port of libyaml's scanner, which go-yaml uses too. This file
//! recognises indentation, indicators such as `-` and `:`, and simple keys; `scalars` scans scalars, and `properties`
//! scans directives, anchors and tags.
//!
//! A *simple key* is a key without `?`, such as `a` in `a: b`. Only the `:` shows that the text before it was a key, so
//! the scanner remembers where a simple key may have started, and inserts the key token later.

use std::collections::{HashMap, VecDeque};

use super::encoding::DecodedText;
use super::error::FaultContext;
use super::text_cursor::{TextCursor, is_blank_or_end, is_break, is_break_or_end};
use super::token::{Token, TokenKind};
use super::{FaultStage, Mark, YamlFault};

/// The deepest nesting of flow collections and of indents (`max_flow_level` and `max_indents` in scannerc.go).
const MAX_DEPTH: usize = 10_000;

const TOO_DEEP: &str = "exceeded max depth of 10000";

/// The most characters of a simple key (`yaml_simple_key_is_valid` in scannerc.go).
const MAX_KEY_LENGTH: usize = 1024;

/// Finds the tokens one by one.
pub struct Scanner<'t> {
    pub(super) text: TextCursor<'t>,
    /// The queue of tokens that were found and that the parser has not taken yet.
    tokens: VecDeque<Token>,
    /// The number of tokens that the parser has taken.
    taken: usize,
    /// Whether the parser can take the first token of the queue, because no key token can come before it.
    is_ready: bool,
    /// The token that is returned after the last token.
    end: Token,
    /// The number of open flow collections (`[` and `{`).
    flow_level: usize,
    /// The columns of the enclosing block collections.
    indents: Vec<Option<usize>>,
    /// The column of the innermost block collection.
    pub(super) indent: Option<usize>,
    /// Whether a simple key may start at the current position.
    pub(super) simple_key_allowed: bool,
    /// For each flow level, the last position at which a simple key may have started. The first entry is for block
    /// collections.
    simple_keys: Vec<SimpleKey>,
    /// For the number of a token, the index in `simple_keys` of the simple key that may start before it.
    simple_keys_by_token: HashMap<usize, usize>,
}

/// A position at which a simple key may have started.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    /// Whether the text there can still become a key.
    possible: bool,
    /// Whether the text there must become a key, because its column is that of a map.
    required: bool,
    /// The number of the token that starts there.
    token_number: usize,
    mark: Mark,
}

impl<'t> Scanner<'t> {
    /// Creates a scanner at the start of `text`.
    pub fn new(text: DecodedText<'t>) -> Self {
        Self {
            text: TextCursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            is_ready: false,
            end: Token { kind: TokenKind::StreamEnd, start: Mark::default(), end: Mark::default() },
            flow_level: 0,
            indents: Vec::new(),
            indent: None,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            simple_keys_by_token: HashMap::new(),
        }
    }

    /// Returns the next token. The caller may move its text out before it skips the token.
    pub fn peek(&mut self) -> Result<&mut Token, YamlFault> {
        if !self.is_ready {
            while self.tokens.is_empty() || self.key_may_come_first()? {
                self.fetch_token()?;
            }
            self.is_ready = true;
        }
        Ok(self.tokens.front_mut().unwrap_or(&mut self.end))
    }

    /// Removes the token that `peek` returned.
    pub fn skip(&mut self) {
        self.is_ready = false;
        self.taken += 1;
        self.tokens.pop_front();
    }

    /// Returns whether a key token may still be inserted before the next token.
    fn key_may_come_first(&mut self) -> Result<bool, YamlFault> {
        match self.simple_keys_by_token.get(&self.taken) {
            Some(&index) => self.simple_key_is_valid(index),
            None => Ok(false),
        }
    }

    /// Returns a fault at the current position.
    pub(super) fn fault<T>(&self, context: FaultContext, problem: &'static str) -> Result<T, YamlFault> {
        Err(YamlFault { stage: FaultStage::Scanner, problem, mark: self.text.mark, context })
    }

    /// Returns whether the current position is in `[]` or `{}`.
    pub(super) const fn in_flow(&self) -> bool {
        self.flow_level > 0
    }

    /// Returns whether `---` or `...` (three of `indicator`) starts at the current position.
    pub(super) fn at_document_indicator(&self, indicator: char) -> bool {
        self.text.mark.column == 0
            && self.text.is_at(indicator)
            && self.text.peek(1) == Some(indicator)
            && self.text.peek(2) == Some(indicator)
            && is_blank_or_end(self.text.peek(3))
    }

    /// Adds the next token to the queue, with the tokens that result from a change of indentation before it.
    fn fetch_token(&mut self) -> Result<(), YamlFault> {
        self.skip_to_token()?;
        self.unroll_indent(Some(self.text.mark.column));
        self.text.load(4)?;
        let Some(first) = self.text.current() else { return self.fetch_stream_end() };
        if first == '%' && self.text.mark.column == 0 {
            self.end_blocks()?;
            let token = self.scan_directive()?;
            self.tokens.push_back(token);
            return Ok(());
        }
        match first {
            '-' if self.at_document_indicator('-') => self.fetch_document_indicator(TokenKind::DocumentStart),
            '.' if self.at_document_indicator('.') => self.fetch_document_indicator(TokenKind::DocumentEnd),
            '[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            '{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            ']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            '}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            ',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.push_indicator(1, TokenKind::FlowEntry);
                Ok(())
            }
            '-' if is_blank_or_end(self.text.peek(1)) => self.fetch_block_entry(),
            '?' if self.in_flow() || is_blank_or_end(self.text.peek(1)) => self.fetch_key(),
            ':' if self.in_flow() || is_blank_or_end(self.text.peek(1)) => self.fetch_value(),
            '|' | '>' if !self.in_flow() => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                let token = self.scan_block_scalar(first == '|')?;
                self.tokens.push_back(token);
                Ok(())
            }
            '\t' | '|' | '>' | '#' | '%' | '@' | '`' => self.fault(
                Some(("while scanning for the next token", self.text.mark)),
                "found character that cannot start any token",
            ),
            _ => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let token = match first {
                    '*' => self.scan_anchor("while scanning an alias", TokenKind::Alias),
                    '&' => self.scan_anchor("while scanning an anchor", TokenKind::Anchor),
                    '!' => self.scan_tag(),
                    '\'' | '"' => self.scan_quoted(first),
                    _ => self.scan_plain(),
                }?;
                self.tokens.push_back(token);
                Ok(())
            }
        }
    }

    /// Skips blanks, a comment and the line break after it. Anything else in the rest of the line is a fault.
    pub(super) fn skip_rest_of_line(&mut self, context: FaultContext) -> Result<(), YamlFault> {
        self.text.load(1)?;
        self.text.skip_blanks()?;
        self.text.skip_comment()?;
        if !is_break_or_end(self.text.current()) {
            return self.fault(context, "did not find expected comment or line break");
        }
        if self.text.current().is_some_and(is_break) {
            self.text.load(2)?;
            self.text.line_break();
        }
        Ok(())
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_token(&mut self) -> Result<(), YamlFault> {
        loop {
            self.text.load(1)?;
            // go-yaml checks the start of its buffer, not the start of the line (is_bom in yamlprivateh.go).
            if self.text.mark.column == 0 && self.text.buffer_start() == Some('\u{feff}') {
                self.text.skip();
            }
            self.text.load(1)?;
            while self.text.is_at(' ')
                || (self.in_flow() || !self.simple_key_allowed) && self.text.is_at('\t')
            {
                self.text.skip();
                self.text.load(1)?;
            }
            self.text.skip_comment()?;
            if !self.text.current().is_some_and(is_break) {
                return Ok(());
            }
            self.text.load(2)?;
            self.text.line_break();
            if !self.in_flow() {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Returns whether a simple key can still become a key: it is on one line and not too long.
    fn simple_key_is_valid(&mut self, index: usize) -> Result<bool, YamlFault> {
        let now = self.text.mark;
        let Some(key) = self.simple_keys.get_mut(index).filter(|key| key.possible) else {
            return Ok(false);
        };
        if key.mark.line >= now.line && key.mark.index + MAX_KEY_LENGTH >= now.index {
            return Ok(true);
        }
        let key = *key;
        self.check_not_required(key)?;
        if let Some(key) = self.simple_keys.get_mut(index) {
            key.possible = false;
        }
        Ok(false)
    }

    /// Fails if this text had to be a key, because no `:` followed it.
    fn check_not_required(&self, key: SimpleKey) -> Result<(), YamlFault> {
        if key.required {
            return self
                .fault(Some(("while scanning a simple key", key.mark)), "could not find expected ':'");
        }
        Ok(())
    }

    /// Remembers that a simple key may start at the current position.
    fn save_simple_key(&mut self) -> Result<(), YamlFault> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = !self.in_flow() && self.indent == Some(self.text.mark.column);
        let key = SimpleKey { possible: true, required, ..self.no_key() };
        self.remove_simple_key()?;
        self.simple_keys_by_token.insert(key.token_number, self.simple_keys.len() - 1);
        if let Some(last) = self.simple_keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    /// Returns an entry for the next token that is marked as impossible as a key.
    fn no_key(&self) -> SimpleKey {
        let token_number = self.taken + self.tokens.len();
        SimpleKey { possible: false, required: false, token_number, mark: self.text.mark }
    }

    /// Removes the possible simple key of the current level.
    fn remove_simple_key(&mut self) -> Result<(), YamlFault> {
        if let Some(key) = self.simple_keys.last().copied().filter(|key| key.possible) {
            self.check_not_required(key)?;
            self.simple_keys_by_token.remove(&key.token_number);
        }
        if let Some(key) = self.simple_keys.last_mut() {
            key.possible = false;
        }
        Ok(())
    }

    /// Opens a block collection if the column of `mark` is larger than that of the innermost block collection. `before` is
    /// the number of the token before which the collection starts.
    fn roll_indent(&mut self, before: Option<usize>, kind: TokenKind, mark: Mark) -> Result<(), YamlFault> {
        if self.in_flow() || self.indent >= Some(mark.column) {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = Some(mark.column);
        if self.indents.len() > MAX_DEPTH {
            let mark = self.simple_keys.last().map_or(mark, |key| key.mark);
            return self.fault(Some(("while increasing indent level", mark)), TOO_DEEP);
        }
        self.insert_token(before, Token { kind, start: mark, end: mark });
        Ok(())
    }

    /// Adds a token to the queue before the token with the number `before`. Without a number, or if the parser has taken
    /// that token, adds it at the end.
    fn insert_token(&mut self, before: Option<usize>, token: Token) {
        match before.and_then(|number| number.checked_sub(self.taken)) {
            Some(index) => self.tokens.insert(index, token),
            None => self.tokens.push_back(token),
        }
    }

    /// Closes the block collections whose column is larger than `column`.
    fn unroll_indent(&mut self, column: Option<usize>) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.push_indicator(0, TokenKind::BlockEnd);
            self.indent = self.indents.pop().flatten();
        }
    }

    /// Closes all block collections.
    fn end_blocks(&mut self) -> Result<(), YamlFault> {
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    /// Skips the characters of an indicator and adds its token to the queue.
    fn push_indicator(&mut self, characters: usize, kind: TokenKind) {
        let start = self.text.mark;
        for _ in 0..characters {
            self.text.skip();
        }
        self.tokens.push_back(Token { kind, start, end: self.text.mark });
    }

    /// Adds the token for the end of the stream.
    fn fetch_stream_end(&mut self) -> Result<(), YamlFault> {
        if self.text.mark.column != 0 {
            self.text.mark.column = 0;
            self.text.mark.line += 1;
        }
        self.end_blocks()?;
        self.push_indicator(0, TokenKind::StreamEnd);
        Ok(())
    }

    /// Adds the token for `---` or `...`.
    fn fetch_document_indicator(&mut self, kind: TokenKind) -> Result<(), YamlFault> {
        self.end_blocks()?;
        self.push_indicator(3, kind);
        Ok(())
    }

    /// Adds the token for `[` or `{`.
    fn fetch_flow_start(&mut self, kind: TokenKind) -> Result<(), YamlFault> {
        self.save_simple_key()?;
        self.simple_keys.push(self.no_key());
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return self.fault(Some(("while increasing flow level", self.text.mark)), TOO_DEEP);
        }
        self.simple_key_allowed = true;
        self.push_indicator(1, kind);
        Ok(())
    }

    /// Adds the token for `]` or `}`.
    fn fetch_flow_end(&mut self, kind: TokenKind) -> Result<(), YamlFault> {
        self.remove_simple_key()?;
        if self.in_flow() {
            self.flow_level -= 1;
            if let Some(key) = self.simple_keys.pop() {
                self.simple_keys_by_token.remove(&key.token_number);
            }
        }
        self.simple_key_allowed = false;
        self.push_indicator(1, kind);
        Ok(())
    }

    /// Adds the token for `-`.
    fn fetch_block_entry(&mut self) -> Result<(), YamlFault> {
        self.start_block(
            TokenKind::BlockSequenceStart,
            "block sequence entries are not allowed in this context",
        )?;
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(1, TokenKind::BlockEntry);
        Ok(())
    }

    /// Adds the token for `?`.
    fn fetch_key(&mut self) -> Result<(), YamlFault> {
        self.start_block(TokenKind::BlockMappingStart, "mapping keys are not allowed in this context")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = !self.in_flow();
        self.push_indicator(1, TokenKind::Key);
        Ok(())
    }

    /// Adds the token for `:`, and the token for a simple key before it.
    fn fetch_value(&mut self) -> Result<(), YamlFault> {
        let index = self.simple_keys.len() - 1;
        if self.simple_key_is_valid(index)?
            && let Some(key) = self.simple_keys.get_mut(index)
        {
            key.possible = false;
            let SimpleKey { mark, token_number, .. } = *key;
            self.insert_token(Some(token_number), Token { kind: TokenKind::Key, start: mark, end: mark });
            self.simple_keys_by_token.remove(&token_number);
            self.roll_indent(Some(token_number), TokenKind::BlockMappingStart, mark)?;
            self.simple_key_allowed = false;
        } else {
            self.start_block(TokenKind::BlockMappingStart, "mapping values are not allowed in this context")?;
            self.simple_key_allowed = !self.in_flow();
        }
        self.push_indicator(1, TokenKind::Value);
        Ok(())
    }

    /// Opens a block collection for the indicator at the current position. If no indicator is allowed there, returns a
    /// fault with the text `not_allowed`.
    fn start_block(&mut self, kind: TokenKind, not_allowed: &'static str) -> Result<(), YamlFault> {
        if self.in_flow() {
            return Ok(());
        }
        if !self.simple_key_allowed {
            return self.fault(None, not_allowed);
        }
        self.roll_indent(None, kind, self.text.mark)
    }
}
