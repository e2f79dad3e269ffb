//! Taking a map of a scenario file apart, key by key, until nothing is left.

use std::time::Duration;

use super::error::Position;
use super::tree::{Key, Kind, Value, Wrong};
use crate::report::meant;

/// Longer times would not fit the CRI's nanoseconds.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// A map of which the keys asked for so far are known.
pub struct Fields<'a> {
    at: Position,
    what: &'static str,
    entries: &'a [(Key, Value)],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// `value` as a map that is called `what` in messages.
    pub fn of(value: &'a Value, what: &'static str) -> Result<Self, Wrong> {
        match &value.kind {
            Kind::Map(entries) => Ok(Self { at: value.at, what, entries, known: Vec::new() }),
            _ => Err(Wrong::new(value.at, format!("{what} is written as keys and values"))),
        }
    }

    /// The value of `key`, if it is there.
    pub fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.entries.iter().find(|(entry, _)| entry.name == key).map(|(_, value)| value)
    }

    /// The value of `key`.
    pub fn need(&mut self, key: &'static str) -> Result<&'a Value, Wrong> {
        let (at, what) = (self.at, self.what);
        self.get(key).ok_or_else(|| Wrong::new(at, format!("{what} needs `{key}`")))
    }

    /// The value of `key` as `read` understands it, or `default`.
    pub fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        self.get(key).map_or(Ok(default), read)
    }

    /// The value of `key` as `read` understands it, if it is there.
    pub fn maybe<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Result<Option<T>, Wrong> {
        self.get(key).map(read).transpose()
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Wrong> {
        let Some((key, _)) = self.entries.iter().find(|(key, _)| !self.known.contains(&key.name.as_str()))
        else {
            return Ok(());
        };
        let hint = match meant(&key.name, self.known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("{} has {}", self.what, self.known.join(", ")),
        };
        let problem = format!("{} has no `{}`", self.what, key.name);
        Err(Wrong { hint: Some(hint), ..Wrong::new(key.at, problem) })
    }
}

/// The items of a list.
pub fn list(value: &Value) -> Result<&[Value], Wrong> {
    match &value.kind {
        Kind::List(items) => Ok(items),
        _ => Err(Wrong::new(value.at, "this has to be a list")),
    }
}

/// A text that is not empty, on one line.
pub fn text(value: &Value) -> Result<String, Wrong> {
    let words = scalar(value)?.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() { Err(Wrong::new(value.at, "this must not be empty")) } else { Ok(words) }
}

/// A list of texts.
pub fn texts(value: &Value) -> Result<Vec<String>, Wrong> {
    list(value)?.iter().map(text).collect()
}

fn scalar(value: &Value) -> Result<&str, Wrong> {
    match &value.kind {
        Kind::Scalar(text) => Ok(text),
        _ => Err(Wrong::new(value.at, "this has to be a single value")),
    }
}

/// Something that the standard library can read.
fn parsed<T: std::str::FromStr>(value: &Value, what: &str) -> Result<T, Wrong> {
    let text = scalar(value)?;
    text.parse().map_err(|_| Wrong::new(value.at, format!("`{text}` is not {what}")))
}

/// A number.
pub fn number(value: &Value) -> Result<u64, Wrong> {
    parsed(value, "a whole number")
}

/// A small number.
pub fn count(value: &Value) -> Result<u32, Wrong> {
    parsed(value, "a whole number")
}

/// An exit code.
pub fn exit_code(value: &Value) -> Result<i32, Wrong> {
    parsed::<u8>(value, "an exit code (0 to 255)").map(Into::into)
}

/// `true` or `false`.
pub fn truth(value: &Value) -> Result<bool, Wrong> {
    parsed(value, "`true` or `false`")
}

/// A time with its unit.
pub fn duration(value: &Value) -> Result<Duration, Wrong> {
    duration_in(value, scalar(value)?)
}

fn duration_in(value: &Value, text: &str) -> Result<Duration, Wrong> {
    let time = humantime::parse_duration(text.trim())
        .map_err(|_| Wrong::new(value.at, format!("`{text}` is not a time like `500ms`, `30s` or `2h`")))?;
    if time > LONGEST {
        return Err(Wrong::new(value.at, "nothing here takes longer than ten years"));
    }
    Ok(time)
}

/// A time, or two with `..` between them.
pub fn duration_range(value: &Value) -> Result<(Duration, Duration), Wrong> {
    let text = scalar(value)?;
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (duration_in(value, least)?, duration_in(value, most)?);
    if least > most {
        return Err(Wrong::new(value.at, format!("`{text}` ends before it begins")));
    }
    Ok((least, most))
}

/// One of several words.
pub fn word<T: Clone>(value: &Value, words: &[(&str, T)]) -> Result<T, Wrong> {
    let text = scalar(value)?;
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(meaning.clone());
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let problem = format!("`{text}` is not one of {}", known.join(", "));
    let hint = meant(text, known).map(|meant| format!("did you mean `{meant}`?"));
    Err(Wrong { hint, ..Wrong::new(value.at, problem) })
}
