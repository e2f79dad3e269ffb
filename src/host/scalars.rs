//! The scalars of a settings file in YAML or JSON by their path of keys: all that we need of crictl.yaml and the
//! kubelet's configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use libyaml_safer::{EventData, Parser};

use crate::report::load::load;

/// A configuration file is a few kilobytes; what is larger is something else.
const LARGEST_FILE: usize = 1024 * 1024;

/// Why a configuration file says nothing.
#[derive(Debug, thiserror::Error)]
pub enum ScalarsError {
    /// It cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not YAML.
    #[error("`{}` is not valid YAML: {detail}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        detail: String,
    },
    /// It is YAML of another shape.
    #[error("`{}` is not a mapping of settings", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
    },
}

impl ScalarsError {
    /// Whether the file is simply not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads the scalars of the first document of the file `path`. An empty file has none.
pub fn file_scalars(path: &Path) -> Result<BTreeMap<String, String>, ScalarsError> {
    let text =
        load(path, LARGEST_FILE).map_err(|source| ScalarsError::Read { path: path.to_path_buf(), source })?;
    scalars(&text).map_err(|trouble| match trouble {
        Trouble::Syntax(detail) => ScalarsError::Syntax { path: path.to_path_buf(), detail },
        Trouble::Shape => ScalarsError::Shape { path: path.to_path_buf() },
    })
}

/// Why a text says nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not YAML; what the parser said.
    Syntax(String),
    /// It is YAML of another shape.
    Shape,
}

/// The scalars of the first document by their path of keys, `featureGates.EventedPLEG`. A sequence of scalars is one text
/// with commas; what else is below a sequence is left out.
pub fn scalars(text: &[u8]) -> Result<BTreeMap<String, String>, Trouble> {
    let mut input = text;
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut found = BTreeMap::new();
    // The keys of the mappings that are open; the last one waits for its value.
    let mut path: Vec<Option<String>> = Vec::new();
    let mut sequences = 0_u32;
    // What the sequence that is open holds, unless it is more than plain values.
    let mut items: Option<Vec<String>> = None;
    loop {
        let event = parser.parse().map_err(|why| Trouble::Syntax(why.to_string()))?;
        match event.data {
            EventData::DocumentEnd { .. } | EventData::StreamEnd => return Ok(found),
            EventData::SequenceStart { .. } if path.is_empty() => return Err(Trouble::Shape),
            EventData::SequenceStart { .. } => {
                items = (sequences == 0).then(Vec::new);
                sequences += 1;
            }
            EventData::SequenceEnd => {
                sequences = sequences.saturating_sub(1);
                if sequences == 0 {
                    if let Some(items) = items.take() {
                        let keys: Vec<&str> = path.iter().flatten().map(String::as_str).collect();
                        found.insert(keys.join("."), items.join(","));
                    }
                    forget_key(&mut path);
                }
            }
            EventData::Scalar { value, .. } if sequences > 0 => {
                items.as_mut().map(|items| items.push(value)).unwrap_or_default();
            }
            _ if sequences > 0 => items = None,
            EventData::MappingStart { .. } => path.push(None),
            EventData::MappingEnd => {
                path.pop();
                forget_key(&mut path);
            }
            EventData::Alias { .. } => forget_key(&mut path),
            EventData::Scalar { value, .. } => match path.last_mut() {
                // An empty document parses as one empty scalar.
                None if value.is_empty() => {}
                None => return Err(Trouble::Shape),
                Some(waiting @ None) => *waiting = Some(value),
                Some(Some(_)) => {
                    let keys: Vec<&str> = path.iter().flatten().map(String::as_str).collect();
                    found.insert(keys.join("."), value);
                    forget_key(&mut path);
                }
            },
            _ => {}
        }
    }
}

/// The value of the innermost waiting key has come.
fn forget_key(path: &mut [Option<String>]) {
    if let Some(waiting) = path.last_mut() {
        *waiting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_known_by_their_path_and_sequences_are_passed_over() {
        let found = scalars(b"a: 1\nb:\n  a: 2\n  c: {d: 3}\nd: [x, {y: z}]\ne: \"z\"\n").unwrap();
        let pairs: Vec<(&str, &str)> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b.a", "2"), ("b.c.d", "3"), ("e", "z")]);
    }

    #[test]
    fn json_is_yaml_enough() {
        assert_eq!(scalars(br#"{"a": {"b": 1}, "c": "d"}"#).unwrap().get("c").map(String::as_str), Some("d"));
    }

    #[test]
    fn a_list_of_scalars_is_one_text_and_other_lists_are_left_out() {
        let text = b"a: [x, y]\nb:\n- c: d\n- e\nf: {g: [1]}\nh: [[1], 2]\ni: []\nj: k\n";
        let found = scalars(text).unwrap();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", "x,y"), ("f.g", "1"), ("i", ""), ("j", "k")]);
    }

    #[test]
    fn an_empty_file_has_no_settings() {
        assert!(scalars(b"").unwrap().is_empty());
        assert!(scalars(b"# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn issue_12_what_the_scanner_panics_on_is_broken_or_read() {
        for text in [&b"a: >-\n  b"[..], b"a: |\n  b"] {
            assert_eq!(scalars(text).unwrap().get("a").map(|value| value.trim()), Some("b"));
        }
        for text in [&b"a: [!t,]"[..], b"a: \"\\"] {
            assert!(matches!(scalars(text), Err(Trouble::Syntax(_))), "{text:?}");
        }
    }

    #[test]
    fn a_broken_file_is_not_an_empty_one() {
        assert!(matches!(scalars(b"a: [1\nb: }"), Err(Trouble::Syntax(_))));
        assert_eq!(scalars(b"just words"), Err(Trouble::Shape));
        assert_eq!(scalars(b"- a\n- b\n"), Err(Trouble::Shape));
    }
}
