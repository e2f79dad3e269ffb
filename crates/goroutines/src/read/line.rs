//! Parses single lines of a dump: a goroutine's header, a frame, a position in a file, a line of a profile. Each function
//! returns `None` for a line of another kind.

use super::super::dump::ArgumentToken;

/// A goroutine's header. [`super::super::dump::Goroutine`] explains the fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    pub id: u64,
    pub state: &'a str,
    pub minutes: Option<u32>,
    /// Whether the header has `gp=` or `m=`, which the Go runtime writes only at a crash.
    pub crash: bool,
}

/// Parses the number in `goroutine N`, whatever follows it, so that an incomplete header counts too.
pub fn header_id(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("goroutine ")?;
    let digits = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}

/// Parses `goroutine 12 gp=0x… m=3 mp=0x… [select, 3 minutes, locked to thread]:`.
pub fn header(line: &str) -> Option<Header<'_>> {
    let id = header_id(line)?;
    let open = line.find(" [")?;
    let between = line.get("goroutine ".len()..open)?;
    let crash = between.contains(" gp=") || between.contains(" m=");
    if !crash && between.contains(' ') {
        return None;
    }
    let inside = line.get(open + 2..)?.trim_end().strip_suffix("]:")?;
    let mut found = Header { id, crash, ..Header::default() };
    let (before_labels, after_labels) = match labels_at(inside) {
        None => (inside, ""),
        Some(at) => {
            let length = labels_length(inside.get(at..)?)?;
            (inside.get(..at)?.trim_end_matches([' ', ',']), inside.get(at + length..)?)
        }
    };
    for (nth, part) in before_labels.split(", ").chain(after_labels.split(", ")).enumerate() {
        let part = part.trim();
        if nth == 0 {
            found.state = state(part);
        } else if let Some(minutes) = part.strip_suffix(" minutes") {
            found.minutes = Some(minutes.parse().ok()?);
        } else if part.starts_with("synctest bubble ") || ["locked to thread", ""].contains(&part) {
            // A Go test adds the first mark. Neither affects the wait.
        } else {
            return None;
        }
    }
    Some(found)
}

/// Removes the marks that the Go runtime adds to a state.
fn state(text: &str) -> &str {
    let mut text = text;
    for mark in [" (leaked)", " (durable)", "(scan)", " (scan)"] {
        text = text.strip_suffix(mark).unwrap_or(text);
    }
    text.trim()
}

/// Returns the position of `labels:{` outside quotes.
fn labels_at(inside: &str) -> Option<usize> {
    // A state never contains a quote, so the first occurrence is the right one.
    let at = inside.find("labels:{")?;
    inside.get(..at).is_some_and(|before| !before.contains('"')).then_some(at)
}

/// Returns the length of `labels:{"k": "v", …}` at the start of the text. Brackets, commas and braces inside quotes are part
/// of a label.
fn labels_length(text: &str) -> Option<usize> {
    let mut rest = text.strip_prefix("labels:{")?;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(text.len() - after.len());
        }
        rest = after_quoted(after_quoted(rest)?.strip_prefix(':')?.trim_start())?;
    }
}

/// Returns the text after the quoted string at its start.
fn after_quoted(text: &str) -> Option<&str> {
    let body = text.strip_prefix('"')?;
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return body.get(at + 1..),
            '\\' => _ = characters.next()?,
            _ => {}
        }
    }
    None
}

/// Parses a frame such as `a/b.(*T).f(0x1, …)`. Writes the arguments to `arguments`, and returns the function. `(...)` means an
/// inlined call, whose arguments are not known.
pub fn frame<'a>(line: &'a str, arguments: &mut Vec<ArgumentToken>) -> Option<&'a str> {
    arguments.clear();
    let inside = line.strip_suffix(')')?;
    // Arguments contain no parenthesis, so the last one opens them.
    let open = inside.rfind('(')?;
    let function = inside.get(..open)?;
    // A function contains no colon followed by a space; a line with both is a sentence of a log.
    let is_sentence = function.as_bytes().contains(&b':') && function.contains(": ");
    let is_plausible = !function.is_empty() && !is_sentence && !function.ends_with(' ');
    if !is_plausible {
        return None;
    }
    let list = inside.get(open + 1..)?;
    if list != "..." {
        argument_list(list.as_bytes(), arguments)?;
    }
    Some(function)
}

/// Parses an argument list such as `0x1, {0x2?, _}, ...`.
fn argument_list(list: &[u8], found: &mut Vec<ArgumentToken>) -> Option<()> {
    let mut at = 0;
    while let Some(byte) = list.get(at) {
        at += 1;
        let token = match byte {
            b' ' | b',' => continue,
            b'{' => ArgumentToken::Open,
            b'}' => ArgumentToken::Close,
            b'_' => ArgumentToken::Hidden,
            b'.' if list.get(at..at + 2) == Some(b"..") => {
                at += 2;
                ArgumentToken::More
            }
            b'0' if list.get(at) == Some(&b'x') => {
                at += 1;
                let digits = at;
                let mut bits: u64 = 0;
                while let Some(digit) = list.get(at).and_then(|byte| char::from(*byte).to_digit(16)) {
                    // A word has at most sixteen digits.
                    bits = bits.checked_mul(16)? | u64::from(digit);
                    at += 1;
                }
                if at == digits {
                    return None;
                }
                let stale = list.get(at) == Some(&b'?');
                at += usize::from(stale);
                ArgumentToken::Word { bits, certain: !stale }
            }
            _ => return None,
        };
        found.push(token);
    }
    Some(())
}

/// Parses `\t/path/file.go:12 +0x34 fp=… sp=… pc=…` into the file and the line number.
pub fn position(line: &str) -> Option<(&str, u32)> {
    let text = line.trim();
    let mut from = 0;
    // A path may contain colons, so the line number follows the first colon after which only a number and an offset come.
    while let Some(colon) = text.get(from..)?.find(':') {
        let colon = from + colon;
        let rest = text.get(colon + 1..)?;
        let end = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
        let after = rest.get(end..)?;
        let is_end = after.is_empty() || after.starts_with(" +0x") || after.starts_with(" fp=");
        if let (true, Ok(number)) = (is_end && end > 0, rest.get(..end)?.parse()) {
            return Some((text.get(..colon)?, number));
        }
        from = colon + 1;
    }
    None
}

/// Parses `created by F in goroutine N` into the function and the goroutine's id.
pub fn created_by(line: &str) -> Option<(&str, Option<u64>)> {
    let rest = line.strip_prefix("created by ")?;
    match rest.rsplit_once(" in goroutine ") {
        Some((function, number)) => Some((function, Some(number.trim().parse().ok()?))),
        None => Some((rest, None)),
    }
}

/// Parses `...23 frames elided...` or `...additional frames elided...` into the number of frames.
pub fn elided(line: &str) -> Option<u64> {
    let inside = line.strip_prefix("...")?.strip_suffix(" frames elided...")?;
    match inside {
        "additional" => Some(1),
        number => number.parse().ok(),
    }
}

/// Parses the first line of a stack in a profile, `12 @ 0x… 0x…`, into the number of goroutines.
pub fn profile_count(line: &str) -> Option<u64> {
    let (count, addresses) = line.split_once(" @")?;
    let is_plausible = addresses.is_empty() || addresses.starts_with(" 0x");
    count.parse().ok().filter(|_| is_plausible)
}

/// Parses a frame in a profile, `#\t0x…\tfunc+0x…\t\tfile:line`, into the function and its position.
pub fn profile_frame(line: &str) -> Option<(&str, Option<(&str, u32)>)> {
    let mut fields = line.strip_prefix("#\t")?.split('\t').filter(|field| !field.is_empty());
    fields.next()?.strip_prefix("0x")?;
    let function = fields.next()?;
    let function = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
    Some((function, fields.next().and_then(position)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_go_releases_are_parsed() {
        let plain = header("goroutine 12 [select]:").unwrap();
        assert_eq!((plain.id, plain.state, plain.minutes), (12, "select", None));
        let aged = header("goroutine 12 [select, 3 minutes, locked to thread]:").unwrap();
        assert_eq!((aged.state, aged.minutes), ("select", Some(3)));
        let crash = header("goroutine 12 gp=0xc000002 m=3 mp=0xc00 [GC worker (idle)]:").unwrap();
        assert_eq!((crash.state, crash.crash), ("GC worker (idle)", true));
        let without_thread = header("goroutine 1 gp=0x457993221e0 m=nil [chan receive, 2 minutes]:").unwrap();
        assert_eq!((without_thread.state, without_thread.minutes), ("chan receive", Some(2)));
        let leaked = header("goroutine 5 [chan send (nil chan) (leaked), synctest bubble 4]:").unwrap();
        assert_eq!(leaked.state, "chan send (nil chan)");
        assert_eq!(header("goroutine 5 [select (durable), 1 minutes]:").unwrap().state, "select");
        assert_eq!(header("goroutine 5 [runnable (scan)]:").unwrap().state, "runnable");
    }

    #[test]
    fn brackets_and_ages_inside_labels_are_not_those_of_the_header() {
        let text = r#"goroutine 9 [sync.Mutex.Lock labels:{"cri": "ListContainers", "k": "a]b, 3 minutes \"q\""}, 5 minutes]:"#;
        let found = header(text).unwrap();
        assert_eq!((found.state, found.minutes), ("sync.Mutex.Lock", Some(5)));
        let before = header(r#"goroutine 9 [select, 4 minutes, labels:{"a": "}]:"}]:"#).unwrap();
        assert_eq!(before.minutes, Some(4));
    }

    #[test]
    fn incomplete_and_unknown_headers_are_not_parsed() {
        for line in [
            "goroutine 1 [",
            "goroutine 1 [select, soon]:",
            "goroutine x [select]:",
            "goroutine 1 [a labels:{\"k]:",
        ] {
            assert_eq!(header(line), None, "{line}");
        }
        assert_eq!(header_id("goroutine 1 ["), Some(1));
    }

    #[test]
    fn a_frame_has_certain_uncertain_and_hidden_arguments() {
        let mut arguments = Vec::new();
        let found = frame("a/b.(*T).f(0x1, {0x2?, _}, ...)", &mut arguments);
        assert_eq!(found, Some("a/b.(*T).f"));
        assert_eq!(
            arguments,
            [
                ArgumentToken::Word { bits: 1, certain: true },
                ArgumentToken::Open,
                ArgumentToken::Word { bits: 2, certain: false },
                ArgumentToken::Hidden,
                ArgumentToken::Close,
                ArgumentToken::More
            ]
        );
        let mut frame = |line| frame(line, &mut arguments);
        assert_eq!(frame("sync.(*Mutex).Lock(...)"), Some("sync.(*Mutex).Lock"));
        assert_eq!(frame("a.Q[...].Send(0x1)"), Some("a.Q[...].Send"));
        for line in ["not a frame", "a.f(hello)", "a.f(0x)", "a.f(01)", "a.f(0x11112222333344445)", "a.f(..)"]
        {
            assert_eq!(frame(line), None, "{line}");
        }
        assert_eq!(frame("a.f(0xFfff222233334444)"), Some("a.f"));
        assert_eq!(arguments, [ArgumentToken::Word { bits: 0xffff_2222_3333_4444, certain: true }]);
    }

    #[test]
    fn a_position_may_have_offsets_and_colons() {
        assert_eq!(position("\t/a/b.go:12 +0x3f"), Some(("/a/b.go", 12)));
        assert_eq!(position("\t/a/b.s:575 +0x21 fp=0x7ff sp=0x7fe pc=0x49"), Some(("/a/b.s", 575)));
        assert_eq!(position("\tC:/a/b.go:7"), Some(("C:/a/b.go", 7)));
        assert_eq!(position("\t/a/b.go"), None);
    }

    #[test]
    fn lines_of_a_profile_are_parsed() {
        assert_eq!(profile_count("12 @ 0x1 0x2"), Some(12));
        assert_eq!(profile_count("12 @ home"), None);
        assert_eq!(
            profile_frame("#\t0x23ab576\ta/b.(*T).f+0xb6\t\t/x/y.go:593"),
            Some(("a/b.(*T).f", Some(("/x/y.go", 593))))
        );
    }

    #[test]
    fn creators_are_parsed_with_and_without_a_goroutine_and_elided_frames_are_counted() {
        assert_eq!(created_by("created by a.f in goroutine 7"), Some(("a.f", Some(7))));
        assert_eq!(created_by("created by a.f"), Some(("a.f", None)));
        assert_eq!(elided("...23 frames elided..."), Some(23));
        assert_eq!(elided("...additional frames elided..."), Some(1));
    }
}
