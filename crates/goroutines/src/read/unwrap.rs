//! Removes what a log adds to a dump: the prefix of each line, such as `Nov 21 18:33:10 node-1 containerd[812]: `, and
//! the quotes and escapes of a dump that was logged as one message.
//!
//! Lines of a log go in, lines of a dump come out. Lines without a prefix pass unchanged.

use plegctl_base::clock::MONTHS;

/// Converts lines of a log into lines of a dump.
#[derive(Debug, Default)]
pub struct LogUnwrapper {
    /// The quoted message whose closing quote has not come yet.
    message: Option<QuotedMessage>,
    /// The log's time of the last quoted message.
    time: Option<String>,
}

/// A quoted message that contains a dump.
#[derive(Debug, Default)]
struct QuotedMessage {
    /// The unescaped text of the current line of the dump.
    line: String,
    /// Whether the last character was a backslash that begins an escape.
    after_backslash: bool,
}

/// The line that containerd and its shim write before a dump.
pub const BEGIN: &str = "=== BEGIN goroutine stack dump ===";
/// The line that they write after a dump.
pub const END: &str = "=== END goroutine stack dump ===";

impl LogUnwrapper {
    /// Reads one line of the log and passes each line of a dump in it to `receive_line`.
    pub fn feed(&mut self, log_line: &str, receive_line: &mut impl FnMut(&str)) {
        let text = log_line.get(find_prefix(log_line).unwrap_or(0)..).unwrap_or(log_line);
        // A message without a closing quote must not consume the next dump.
        if self.message.is_some() && super::line::header(text).is_some() {
            self.end(receive_line);
        }
        if let Some(message) = &mut self.message {
            // The journal splits long lines, so this line continues the message.
            if message.append(text, receive_line) {
                self.message = None;
            }
            return;
        }
        let Some(start) = start_of_quoted_dump(text) else {
            receive_line(text);
            return;
        };
        self.time = log_time(text.get(..start).unwrap_or_default());
        let mut message = QuotedMessage::default();
        if !message.append(text.get(start..).unwrap_or_default(), receive_line) {
            self.message = Some(message);
        }
    }

    /// Returns the log's time of the last quoted message, once for each message.
    pub fn take_time(&mut self) -> Option<String> {
        self.time.take()
    }

    /// Ends a quoted message without a closing quote and passes its incomplete last line to `receive_line`.
    pub fn end(&mut self, receive_line: &mut impl FnMut(&str)) {
        if let Some(message) = self.message.take()
            && !message.line.is_empty()
        {
            receive_line(&message.line);
        }
    }
}

impl QuotedMessage {
    /// Unescapes `text` and passes each complete line to `receive_line`. Returns true if `text` has the closing quote.
    fn append(&mut self, text: &str, receive_line: &mut impl FnMut(&str)) -> bool {
        for character in text.chars() {
            match (self.after_backslash, character) {
                (true, 'n') => {
                    receive_line(&self.line);
                    self.line.clear();
                }
                (true, 't') => self.line.push('\t'),
                (true, other) => self.line.push(other),
                (false, '\\') => {
                    self.after_backslash = true;
                    continue;
                }
                (false, '"') => {
                    receive_line(&self.line);
                    return true;
                }
                (false, plain) => self.line.push(plain),
            }
            self.after_backslash = false;
        }
        false
    }
}

/// Returns the position after the opening quote of a dump that was logged as one message.
fn start_of_quoted_dump(line: &str) -> Option<usize> {
    if !line.as_bytes().contains(&b'"') {
        return None;
    }
    if let Some(at) = line.find(BEGIN)
        && line.get(..at)?.ends_with('"')
    {
        return Some(at);
    }
    let at = line.find("\"goroutine ")? + 1;
    let rest = line.get(at..)?;
    (super::line::header_id(rest).is_some() && rest.contains("]:\\n")).then_some(at)
}

/// Returns the value of `time=` or `"time":` in the text before a quoted message.
fn log_time(before: &str) -> Option<String> {
    let at =
        before.find("time=\"").map(|at| at + 6).or_else(|| before.find("\"time\":\"").map(|at| at + 8))?;
    let rest = before.get(at..)?;
    Some(rest.get(..rest.find('"')?)?.to_owned())
}

/// Finds the end of the prefix that the journal or a container log writes before a line: a time, then either the stream of a
/// container log or `host unit[123]:`.
fn find_prefix(line: &str) -> Option<usize> {
    let after_time = if line.get(..3).is_some_and(|month| MONTHS.contains(&month)) {
        // `Nov 21 18:33:10`, optionally with a fraction.
        let clock = line.get(7..15)?;
        let is_time = clock
            .bytes()
            .enumerate()
            .all(|(at, byte)| if at == 2 || at == 5 { byte == b':' } else { byte.is_ascii_digit() });
        is_time.then_some(15 + line.get(15..)?.find(' ')?)?
    } else if line.starts_with('[') {
        // `[  123.456789]`: seconds since the boot.
        let end = line.find(']')?;
        let seconds = line.get(1..end)?.trim();
        let is_number =
            seconds.contains('.') && seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_number.then_some(end + 1)?
    } else {
        // `2026-11-21T18:33:10…`
        let is_date = line.get(..11)?.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T' || byte == b' ',
            _ => byte.is_ascii_digit(),
        });
        is_date.then_some(11 + line.get(11..)?.find(' ')?)?
    };
    let rest = line.get(after_time..)?.strip_prefix(' ')?;
    for stream in ["stdout F ", "stderr F ", "stdout P ", "stderr P "] {
        if rest.starts_with(stream) {
            return Some(after_time + 1 + stream.len());
        }
    }
    // `host unit[123]: `
    let (host, after_host) = rest.split_once(' ')?;
    let (unit, _) = after_host.split_once(':')?;
    // A frame of a dump also has colons, but with a space, a tab or a parenthesis before them.
    let is_prefix = !host.is_empty() && !unit.is_empty() && !unit.contains([' ', '(', '\t']);
    let after_colon = after_time + 1 + host.len() + 1 + unit.len() + 1;
    is_prefix
        .then(|| after_colon + usize::from(line.get(after_colon..).is_some_and(|rest| rest.starts_with(' '))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(lines: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        let mut unwrapper = LogUnwrapper::default();
        for line in lines {
            unwrapper.feed(line, &mut |line| found.push(line.to_owned()));
        }
        unwrapper.end(&mut |line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn the_prefix_of_a_journal_or_a_container_log_is_removed() {
        for prefix in [
            "Nov 21 18:33:10 node-1 containerd[812]: ",
            "Nov  1 18:33:10.123456 node-1 crio[1]: ",
            "2026-11-21T18:33:10+0000 node-1 kubelet[77]: ",
            "2026-11-21T18:33:10.123456789Z stderr F ",
            "[  123.456789] node-1 containerd[812]: ",
        ] {
            for line in ["goroutine 1 [select]:", "main.main()", "\t/a/main.go:7 +0x1"] {
                assert_eq!(unwrapped(&[&format!("{prefix}{line}")]), [line], "{prefix}");
            }
        }
    }

    #[test]
    fn a_line_without_a_prefix_stays_unchanged() {
        for line in [
            "goroutine 1 [select]:",
            "a/b.(*T).f({0x1, 0x2})",
            "created by a.f in goroutine 3",
            "[originating from goroutine 4]:",
            "",
        ] {
            assert_eq!(unwrapped(&[line]), [line]);
        }
    }

    #[test]
    fn a_quoted_message_becomes_many_lines_and_has_a_time() {
        let line = r#"time="2026-11-21T18:33:10Z" level=info msg="=== BEGIN goroutine stack dump ===\ngoroutine 1 [select labels:{\"a\": \"b\"}]:\nmain.f()\n\t/a.go:1\n=== END goroutine stack dump ===""#;
        let mut unwrapper = LogUnwrapper::default();
        let mut found = Vec::new();
        unwrapper.feed(line, &mut |line| found.push(line.to_owned()));
        assert_eq!(unwrapper.take_time().as_deref(), Some("2026-11-21T18:33:10Z"));
        assert_eq!(
            found,
            [BEGIN, "goroutine 1 [select labels:{\"a\": \"b\"}]:", "main.f()", "\t/a.go:1", END]
        );
    }

    #[test]
    fn a_message_without_a_closing_quote_ends_before_the_next_dump() {
        let lines = [
            r#"msg="=== BEGIN goroutine stack dump ===\ngoroutine 1 [select]:\nmain.f()"#,
            "goroutine 2 [select]:",
            "main.g()",
        ];
        assert_eq!(
            unwrapped(&lines),
            [BEGIN, "goroutine 1 [select]:", "main.f()", "goroutine 2 [select]:", "main.g()"]
        );
    }

    #[test]
    fn a_message_that_the_journal_split_is_joined() {
        let lines = [
            r#"Nov 21 18:33:10 n c[1]: time="t" msg="=== BEGIN goroutine stack dump ===\ngoroutine 1 [sel"#,
            r"Nov 21 18:33:10 n c[1]: ect]:\nmain.f()\",
            r#"Nov 21 18:33:10 n c[1]: n\t/a.go:1""#,
            "Nov 21 18:33:11 n c[1]: another line",
        ];
        assert_eq!(
            unwrapped(&lines),
            [BEGIN, "goroutine 1 [select]:", "main.f()", "\t/a.go:1", "another line"]
        );
    }
}
