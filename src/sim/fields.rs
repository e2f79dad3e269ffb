//! Reads the values of a scenario file: a map key by key, with an error for unknown keys, and single values by type.

use std::str::FromStr;
use std::time::Duration;

use super::error::Position;
use super::tree::FieldProblem;
use crate::report::most_similar;
use crate::yaml::{YamlKind, YamlNode};

/// The longest duration. A longer one would not fit the CRI's nanoseconds.
const MAX_DURATION: Duration = Duration::from_secs(10 * 366 * 86_400);

/// A map with the keys that have been read so far.
pub struct Fields<'a> {
    at: Position,
    what: &'static str,
    entries: &'a [(YamlNode, YamlNode)],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Wraps `value`, which must be a map. Error messages name the map `what`, such as "a group of pods".
    pub fn of(value: &'a YamlNode, what: &'static str) -> Result<Self, FieldProblem> {
        match &value.kind {
            YamlKind::Map(entries) => Ok(Self { at: value.at, what, entries, known: Vec::new() }),
            _ => Err(FieldProblem::new(value.at, format!("{what} is written as keys and values"))),
        }
    }

    /// Returns a map without keys, for a map that is absent.
    pub fn none(what: &'static str) -> Self {
        Self { at: Position::START, what, entries: &[], known: Vec::new() }
    }

    /// Returns the value of `key`, if the key is present.
    pub fn get(&mut self, key: &'static str) -> Option<&'a YamlNode> {
        self.known.push(key);
        self.entries
            .iter()
            .find(|(entry, _)| scalar(entry).is_ok_and(|name| name == key))
            .map(|(_, value)| value)
    }

    /// Returns the value of `key`, which must be present.
    pub fn need(&mut self, key: &'static str) -> Result<&'a YamlNode, FieldProblem> {
        let (at, what) = (self.at, self.what);
        self.get(key).ok_or_else(|| FieldProblem::new(at, format!("{what} needs `{key}`")))
    }

    /// Reads the value of `key` with `read`, or returns `default`.
    pub fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl Fn(&YamlNode) -> Result<T, FieldProblem>,
    ) -> Result<T, FieldProblem> {
        self.get(key).map_or(Ok(default), read)
    }

    /// Reads the value of `key` with `read`, if the key is present.
    pub fn maybe<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&YamlNode) -> Result<T, FieldProblem>,
    ) -> Result<Option<T>, FieldProblem> {
        self.get(key).map(read).transpose()
    }

    /// Reads each item of the list at `key` with `read`; without the key, there is none.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&YamlNode) -> Result<T, FieldProblem>,
    ) -> Result<Vec<T>, FieldProblem> {
        self.or(key, Vec::new(), |value| list(value)?.iter().map(&read).collect())
    }

    /// Rejects keys that have not been read.
    pub fn end(self) -> Result<(), FieldProblem> {
        for (key, _) in self.entries {
            let name = scalar(key)?;
            if self.known.contains(&name) {
                continue;
            }
            let hint = match most_similar(name, self.known.iter().copied()) {
                Some(most_similar) => format!("did you mean `{most_similar}`?"),
                None => format!("{} has {}", self.what, self.known.join(", ")),
            };
            let problem = format!("{} has no `{name}`", self.what);
            return Err(FieldProblem { hint: Some(hint), ..FieldProblem::new(key.at, problem) });
        }
        Ok(())
    }
}

/// Returns the items of a list.
pub fn list(value: &YamlNode) -> Result<&[YamlNode], FieldProblem> {
    match &value.kind {
        YamlKind::List(items) => Ok(items),
        _ => Err(FieldProblem::new(value.at, "this has to be a list")),
    }
}

/// Reads a text that is not empty and has one line.
pub fn text(value: &YamlNode) -> Result<String, FieldProblem> {
    let words = scalar(value)?.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() { Err(FieldProblem::new(value.at, "this must not be empty")) } else { Ok(words) }
}

fn scalar(value: &YamlNode) -> Result<&str, FieldProblem> {
    match &value.kind {
        YamlKind::Scalar { text, .. } => Ok(text),
        _ => Err(FieldProblem::new(value.at, "this has to be a single value")),
    }
}

/// Parses a value with the standard library.
fn parsed<T: FromStr>(value: &YamlNode, what: &str) -> Result<T, FieldProblem> {
    let text = scalar(value)?;
    text.parse().map_err(|_| FieldProblem::new(value.at, format!("`{text}` is not {what}")))
}

/// Reads a whole number that fits in `T`.
pub fn number<T: FromStr>(value: &YamlNode) -> Result<T, FieldProblem> {
    parsed(value, "a whole number")
}

/// Reads an exit code.
pub fn exit_code(value: &YamlNode) -> Result<i32, FieldProblem> {
    parsed::<u8>(value, "an exit code (0 to 255)").map(Into::into)
}

/// Reads `true` or `false`.
pub fn boolean(value: &YamlNode) -> Result<bool, FieldProblem> {
    parsed(value, "`true` or `false`")
}

/// Reads a duration with its unit.
pub fn duration(value: &YamlNode) -> Result<Duration, FieldProblem> {
    duration_in(value, scalar(value)?)
}

fn duration_in(value: &YamlNode, text: &str) -> Result<Duration, FieldProblem> {
    let time = humantime::parse_duration(text.trim()).map_err(|_| {
        FieldProblem::new(value.at, format!("`{text}` is not a time like `500ms`, `30s` or `2h`"))
    })?;
    if time > MAX_DURATION {
        return Err(FieldProblem::new(value.at, "times must be at most ten years"));
    }
    Ok(time)
}

/// Reads a duration, or two durations separated by `..`.
pub fn duration_range(value: &YamlNode) -> Result<(Duration, Duration), FieldProblem> {
    let text = scalar(value)?;
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (duration_in(value, least)?, duration_in(value, most)?);
    if least > most {
        return Err(FieldProblem::new(value.at, format!("`{text}` ends before it begins")));
    }
    Ok((least, most))
}

/// Returns a function that reads one of these values by its word.
pub fn one_of<T: Copy, const N: usize>(
    values: [T; N],
    word_of: fn(T) -> &'static str,
) -> impl Fn(&YamlNode) -> Result<T, FieldProblem> {
    let words = values.map(|value| (word_of(value), value));
    move |node| word(node, &words)
}

/// Reads one of several words.
pub fn word<T: Clone>(value: &YamlNode, words: &[(&str, T)]) -> Result<T, FieldProblem> {
    let text = scalar(value)?;
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(meaning.clone());
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let problem = format!("`{text}` is not one of {}", known.join(", "));
    let hint = most_similar(text, known).map(|most_similar| format!("did you mean `{most_similar}`?"));
    Err(FieldProblem { hint, ..FieldProblem::new(value.at, problem) })
}
