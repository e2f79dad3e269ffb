//! [`Arguments`]: the command line of a process, with its flags parsed as Go programs parse them.

use std::ops::Deref;

use serde::Deserialize;

use super::CriName;
use super::proc::cgroup::container_id;
use super::proc::monitor;
use plegctl_base::report::rename::{NameKind, Rename, ReplaceName};

/// The arguments of a command line, the program first.
///
/// A flag can have one dash or two, `--name=value` or `--name value`, a number directly after a letter (`-v4`), and
/// `_` in place of `-`. After `--` there are no flags. Go's two flag libraries accept these forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Parses the content of `/proc/<pid>/cmdline`.
    pub fn from_cmdline(cmdline: &[u8]) -> Self {
        // A program that changes its title leaves zero bytes at the end. An empty argument in the middle is kept.
        let end = cmdline.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let text = cmdline.get(..end).unwrap_or_default();
        if text.is_empty() {
            return Self::default();
        }
        text.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect()
    }

    /// Whether an argument is exactly `word`.
    pub fn mentions(&self, word: &str) -> bool {
        self.0.iter().any(|argument| argument == word)
    }

    /// Returns the value of a flag; the last value if the flag is repeated. An empty value is `None`.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.all_values(name).pop().filter(|value| !value.is_empty())
    }

    /// Returns all values of a flag that may be repeated, in order.
    pub fn all_values(&self, name: &str) -> Vec<&str> {
        let mut values = Vec::new();
        let mut words = self.before_double_dash();
        while let Some(word) = words.next() {
            match assignment(word, name) {
                Some(Assignment::Value(value)) => values.push(value),
                Some(Assignment::Bare) => values.extend(words.next()),
                None => {}
            }
        }
        values
    }

    /// Returns the arguments before `--`; only these can be flags.
    fn before_double_dash(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str).take_while(|word| *word != "--")
    }
}

impl Deref for Arguments {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl<W: Into<String>> FromIterator<W> for Arguments {
    fn from_iter<I: IntoIterator<Item = W>>(words: I) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }
}

/// Parses a boolean as Go does.
pub fn parse_boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// Splits a text into arguments as a shell does, with quotes and backslashes but without variables.
pub fn shell_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// How an argument sets a flag.
enum Assignment<'a> {
    /// The value is in the same argument.
    Value(&'a str),
    /// The argument has no value. If the flag needs a value, the next argument is the value.
    Bare,
}

/// Parses `word` as the flag `name`; `None` if it is another flag or no flag.
fn assignment<'a>(word: &'a str, name: &str) -> Option<Assignment<'a>> {
    let dashed = word.strip_prefix('-')?;
    let text = dashed.strip_prefix('-').unwrap_or(dashed);
    let (written_name, value) = match text.split_once('=') {
        Some((written_name, value)) => (written_name, Some(value)),
        None => (text, None),
    };
    let is_same = written_name.bytes().zip(name.bytes()).all(|(a, b)| same_letter(a, b));
    if written_name.len() == name.len() && is_same {
        return Some(value.map_or(Assignment::Bare, Assignment::Value));
    }
    let is_letter = name.len() == 1 && !word.starts_with("--");
    // `-v4`: a number may follow a one-letter flag directly.
    let number =
        text.strip_prefix(name).filter(|rest| is_letter && rest.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Assignment::Value(number))
}

fn same_letter(written: u8, wanted: u8) -> bool {
    written == wanted || (written == b'_' && wanted == b'-')
}

/// A value of a flag that a rule reads has the kind of this flag. Any other word is the program, one of the words that rules
/// read, or removed.
impl Rename for Arguments {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        let mut flag_before = None;
        for (place, word) in self.0.iter_mut().enumerate() {
            let flag = word.strip_prefix('-').map(|name| name.trim_start_matches('-'));
            let (name, value) = flag.map_or((None, None), |flag| match flag.split_once('=') {
                Some((name, value)) => (monitor::kind_of_flag(name), Some(value)),
                None => (monitor::kind_of_flag(flag), None),
            });
            let renamed = match (flag_before.take(), name, value) {
                _ if place == 0 => {
                    let program = word.rsplit('/').next().unwrap_or_default();
                    replace(NameKind::Process, program)
                }
                (Some(kind), ..) => renamed_value(kind, word, replace),
                (None, Some(kind), Some(value)) => {
                    let (before, _) = word.split_once('=').unwrap_or_default();
                    format!("{before}={}", renamed_value(kind, value, replace))
                }
                (None, Some(kind), None) => {
                    flag_before = Some(kind);
                    continue;
                }
                _ if monitor::is_read_word(word) => continue,
                _ => container_id(word).unwrap_or_default().to_owned(),
            };
            *word = renamed;
        }
    }
}

/// Returns the value of a flag with its names replaced. A container's name that a runtime gave consists of several names.
fn renamed_value(kind: NameKind, value: &str, replace: ReplaceName<'_>) -> String {
    match (kind, CriName::parse(value)) {
        (NameKind::Container, Some(mut name)) => {
            name.rename(replace);
            name.text()
        }
        _ => replace(kind, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Arguments {
        text.split(' ').collect()
    }

    #[test]
    fn a_flag_is_found_in_every_form() {
        for text in ["k --config=/a", "k --config /a", "k -config=/a", "k -config /a"] {
            assert_eq!(line(text).flag("config"), Some("/a"), "{text}");
        }
        assert_eq!(line("k --pod_manifest_path=/m").flag("pod-manifest-path"), Some("/m"));
        for text in ["k -v=4", "k -v 4", "k --v=4", "k -v4"] {
            assert_eq!(line(text).flag("v"), Some("4"), "{text}");
        }
    }

    #[test]
    fn the_last_of_a_repeated_flag_counts() {
        let twice = line("kubelet --v=2 --config /a -v 4 --config=/b");
        assert_eq!((twice.flag("v"), twice.flag("config")), (Some("4"), Some("/b")));
        assert_eq!(line("k --config=/a --config=").flag("config"), None, "the last one is empty");
        let all = line("k --feature-gates A=true --feature-gates=B=false");
        assert_eq!(all.all_values("feature-gates"), ["A=true", "B=false"]);
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        assert_eq!(
            shell_words("--a='b c' --d \"e \\\" f\"  g\\ h \"\""),
            ["--a=b c", "--d", "e \" f", "g h", ""]
        );
    }

    #[test]
    fn a_boolean_flag_does_not_use_the_next_argument_as_its_value() {
        let line = line("k --read-only --config /a --quiet=false --loud=T");
        assert_eq!(line.flag("config"), Some("/a"));
    }

    #[test]
    fn arguments_that_only_look_like_the_flag_are_ignored() {
        assert_eq!(line("k --config-dir=/x").flag("config"), None, "a longer one");
        assert_eq!(line("k config /x").flag("config"), None, "no dash");
        assert_eq!(line("k -- --config=/x").flag("config"), None, "after the end of the flags");
        assert_eq!(line("k -verbose").flag("v"), None);
        assert_eq!(Arguments::from_cmdline(b"").flag("v"), None);
        assert_eq!(
            Arguments::from_cmdline(b"k\0--v\0\0--config=/a\0").flag("config"),
            Some("/a"),
            "an empty value"
        );
        assert_eq!(Arguments::from_cmdline(b"k3s server\0\0\0").len(), 1);
        assert_eq!(Arguments::from_cmdline(b"k\0--config\0").flag("config"), None, "cut off");
    }
}
