//! Extracts a dump from a log: removes the log's prefix from each line, and unescapes a dump that was logged as one
//! quoted message.

/// Removes the wrapping line by line.
#[derive(Debug, Default)]
pub struct Unwrap {
    quoted: Option<Quoted>,
    taken_at: Option<String>,
}

/// The state inside a quoted message.
#[derive(Debug, Default)]
struct Quoted {
    line: String,
    escape: bool,
}

/// The line that containerd and its shim write before a dump.
pub const BEGIN: &str = "=== BEGIN goroutine stack dump ===";
/// The line that they write after a dump.
pub const END: &str = "=== END goroutine stack dump ===";

impl Unwrap {
    /// Takes one line of the log and passes each line of a dump in it to `line`.
    pub fn feed(&mut self, raw: &str, line: &mut impl FnMut(&str)) {
        let bare = raw.get(prefix(raw)..).unwrap_or(raw);
        // A quoted message without an end must not swallow the lines after it.
        if self.quoted.is_some() && super::line::header(bare).is_some() {
            self.end(line);
        }
        if let Some(quoted) = &mut self.quoted {
            // The journal splits a long line; the text after a split belongs to the same message.
            if quoted.take(bare, line) {
                self.quoted = None;
            }
            return;
        }
        let Some(start) = quoted_dump(bare) else {
            line(bare);
            return;
        };
        self.taken_at = stamp(bare.get(..start).unwrap_or_default());
        let mut quoted = Quoted::default();
        if !quoted.take(bare.get(start..).unwrap_or_default(), line) {
            self.quoted = Some(quoted);
        }
    }

    /// Returns the log's time of the quoted message, once.
    pub fn taken_at(&mut self) -> Option<String> {
        self.taken_at.take()
    }

    /// Ends a quoted message and passes on its incomplete last line.
    pub fn end(&mut self, line: &mut impl FnMut(&str)) {
        if let Some(quoted) = self.quoted.take()
            && !quoted.line.is_empty()
        {
            line(&quoted.line);
        }
    }
}

impl Quoted {
    /// Unescapes and adds `text`. Returns true if it contains the closing quote.
    fn take(&mut self, text: &str, line: &mut impl FnMut(&str)) -> bool {
        for character in text.chars() {
            match (self.escape, character) {
                (true, 'n') => {
                    line(&self.line);
                    self.line.clear();
                }
                (true, 't') => self.line.push('\t'),
                (true, other) => self.line.push(other),
                (false, '\\') => {
                    self.escape = true;
                    continue;
                }
                (false, '"') => {
                    line(&self.line);
                    return true;
                }
                (false, plain) => self.line.push(plain),
            }
            self.escape = false;
        }
        false
    }
}

/// Returns the position after the opening quote of a quoted dump.
fn quoted_dump(line: &str) -> Option<usize> {
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

/// The value of `time=` or `"time":`.
fn stamp(before: &str) -> Option<String> {
    let at =
        before.find("time=\"").map(|at| at + 6).or_else(|| before.find("\"time\":\"").map(|at| at + 8))?;
    let rest = before.get(at..)?;
    Some(rest.get(..rest.find('"')?)?.to_owned())
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The length of the prefix that the journal or a container log puts before a line.
fn prefix(line: &str) -> usize {
    prefixed(line).unwrap_or(0)
}

fn prefixed(line: &str) -> Option<usize> {
    let after_time = if line.get(..3).is_some_and(|month| MONTHS.contains(&month)) {
        // `Nov 21 18:33:10`, optionally with a fraction.
        let clock = line.get(7..15)?;
        let looks = clock
            .bytes()
            .enumerate()
            .all(|(at, byte)| if at == 2 || at == 5 { byte == b':' } else { byte.is_ascii_digit() });
        looks.then_some(15 + line.get(15..)?.find(' ')?)?
    } else if line.starts_with('[') {
        // `[  123.456789]`, since the boot.
        let end = line.find(']')?;
        let inside = line.get(1..end)?.trim();
        let looks = inside.contains('.') && inside.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        looks.then_some(end + 1)?
    } else {
        // `2026-11-21T18:33:10…`
        let looks = line.get(..11)?.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T' || byte == b' ',
            _ => byte.is_ascii_digit(),
        });
        looks.then_some(11 + line.get(11..)?.find(' ')?)?
    };
    let rest = line.get(after_time..)?.strip_prefix(' ')?;
    for stream in ["stdout F ", "stderr F ", "stdout P ", "stderr P "] {
        if rest.starts_with(stream) {
            return Some(after_time + 1 + stream.len());
        }
    }
    // `host unit[123]: `
    let (host, from) = rest.split_once(' ')?;
    let (unit, _) = from.split_once(':')?;
    let plain = !host.is_empty() && !unit.is_empty() && !unit.contains([' ', '(', '\t']);
    let colon = after_time + 1 + host.len() + 1 + unit.len() + 1;
    plain.then(|| colon + usize::from(line.get(colon..).is_some_and(|rest| rest.starts_with(' '))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(lines: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        let mut unwrap = Unwrap::default();
        for line in lines {
            unwrap.feed(line, &mut |line| found.push(line.to_owned()));
        }
        unwrap.end(&mut |line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn a_journals_prefix_goes() {
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
    fn a_bare_line_stays_as_it_is() {
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
    fn one_log_line_is_many() {
        let line = r#"time="2026-11-21T18:33:10Z" level=info msg="=== BEGIN goroutine stack dump ===\ngoroutine 1 [select labels:{\"a\": \"b\"}]:\nmain.f()\n\t/a.go:1\n=== END goroutine stack dump ===""#;
        let mut unwrap = Unwrap::default();
        let mut found = Vec::new();
        unwrap.feed(line, &mut |line| found.push(line.to_owned()));
        assert_eq!(unwrap.taken_at().as_deref(), Some("2026-11-21T18:33:10Z"));
        assert_eq!(
            found,
            [BEGIN, "goroutine 1 [select labels:{\"a\": \"b\"}]:", "main.f()", "\t/a.go:1", END]
        );
    }

    #[test]
    fn a_message_that_never_ends_does_not_swallow_the_next_dump() {
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
    fn a_message_that_the_journal_cut_is_joined() {
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
