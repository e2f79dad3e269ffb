//! Makes text from runtimes and files harmless for a terminal.
//!
//! An annotation, an error message or a file name may contain escape sequences that move the cursor, rename the
//! window or hide text. Such characters are replaced with their code points, such as `\u{1b}`.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes every control, formatting and line-breaking character.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            hostile if is_hostile(hostile) => {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(hostile));
            }
            plain => safe.push(plain),
        }
    }
    Cow::Owned(safe)
}

/// Escapes control characters in a text of several lines, except line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let escape = |character: char| {
        if is_escaped(character) {
            escaped(character.encode_utf8(&mut [0; 4])).into_owned()
        } else {
            character.into()
        }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Escapes every line of a log, except its tabs.
pub fn log(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(escaped).collect::<Vec<_>>().join("\t") + "\n";
    text.lines().map(line).collect()
}

/// Formats a text as a label value in Prometheus' format, with quotes.
pub fn label_value(text: &str) -> String {
    format!("\"{}\"", escaped(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether a character is a control character, or reorders, hides or breaks text without being visible.
pub fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Quotes a word for a shell, if it is not a plain name or path. A shell replaces `~` only at the beginning of a word.
pub fn shell_word(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-._/~:@+".contains(character);
    if !word.is_empty() && !word.starts_with('~') && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_value_contains_no_terminal_control_characters() {
        assert_eq!(label_value("etcd-n1 é"), "\"etcd-n1 é\"");
        assert_eq!(label_value(r#"a\b"c"#), r#""a\\b\"c""#);
        assert_eq!(label_value("\u{7f}\n"), r#""\\u{7f}\\n""#);
    }

    #[test]
    fn a_log_keeps_its_lines_and_tabs_only() {
        assert_eq!(log("a\tb\u{7}\u{1b}[2J\nc\u{202e}\r\nd"), "a\tb\\u{7}\\u{1b}[2J\nc\\u{202e}\nd\n");
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(escaped("kube-system/etcd-n1 é 漢"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_escape_sequence_is_escaped() {
        assert_eq!(escaped("\u{1b}[2Jgone"), "\\u{1b}[2Jgone");
        assert_eq!(escaped("\u{9b}2J"), "\\u{9b}2J");
    }

    #[test]
    fn a_line_break_cannot_start_a_new_line() {
        assert_eq!(escaped("a\nb\r\tc"), "a\\nb\\r\\tc");
    }

    #[test]
    fn a_text_of_several_lines_keeps_only_line_breaks_and_tabs() {
        assert_eq!(lines("a\tb\n\u{1b}[2Jc\r\n\u{9b}d é"), "a\tb\n\\u{1b}[2Jc\\r\n\\u{9b}d é");
        assert!(matches!(lines("a\nb\tc\u{202e}"), Cow::Borrowed(_)));
    }

    #[test]
    fn text_cannot_be_reordered_or_hidden() {
        assert_eq!(escaped("a\u{202e}b\u{200b}c"), "a\\u{202e}b\\u{200b}c");
    }
}
