//! Reads a YAML or JSON configuration file as a flat map from key paths (`featureGates.EventedPLEG`) to texts.
//! plegctl reads crictl.yaml and the kubelet's configuration in this way.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use plegctl_base::report::load::load;
use plegctl_go_yaml::{Documents, YamlError, YamlKind, YamlNode};

/// The largest configuration file in bytes. Most have a few kilobytes.
const LARGEST_FILE: usize = 1024 * 1024;

/// The deepest nesting of collections; a kubelet's configuration has four levels.
const MAX_DEPTH: usize = 32;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScalarsError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not YAML.
    #[error("`{}` is not valid YAML: {detail}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        detail: String,
    },
    /// The path is relative to an unknown directory.
    #[error("`{}` is relative to the kubelet's working directory, which cannot be read", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The document is not a mapping, or is nested too deeply.
    #[error("`{}` is not a mapping of settings", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
    },
}

impl ScalarsError {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads the scalars of the first document in the file `path`. An empty file has no scalars.
pub fn file_scalars(path: &Path) -> Result<BTreeMap<String, String>, ScalarsError> {
    let text =
        load(path, LARGEST_FILE).map_err(|source| ScalarsError::Read { path: path.to_path_buf(), source })?;
    scalars(&text).map_err(|problem| match problem {
        ParseProblem::Syntax(detail) => ScalarsError::Syntax { path: path.to_path_buf(), detail },
        ParseProblem::Shape => ScalarsError::Shape { path: path.to_path_buf() },
    })
}

/// Why a text cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseProblem {
    /// The text is not YAML; the parser's message.
    Syntax(String),
    /// The document is not a mapping, or is nested too deeply.
    Shape,
}

/// Returns the scalars of the first document by their key paths, such as `featureGates.EventedPLEG`. A list of
/// scalars becomes one text with commas; a list with other items is left out.
pub fn scalars(text: &[u8]) -> Result<BTreeMap<String, String>, ParseProblem> {
    let document = Documents::of(text, MAX_DEPTH).next_document().map_err(|fault| match fault {
        YamlError::Syntax(fault) => ParseProblem::Syntax(fault.to_string()),
        YamlError::TooDeep(_) => ParseProblem::Shape,
    })?;
    let mut found = BTreeMap::new();
    match document.map(|root| root.kind) {
        None => {}
        Some(YamlKind::Map(entries)) => add_entries("", entries, &mut found),
        // An empty document parses as one empty scalar.
        Some(YamlKind::Scalar { text, .. }) if text.is_empty() => {}
        Some(_) => return Err(ParseProblem::Shape),
    }
    Ok(found)
}

/// Adds the scalars of a map, whose own path is `path`.
fn add_entries(path: &str, entries: Vec<(YamlNode, YamlNode)>, found: &mut BTreeMap<String, String>) {
    for (key, value) in entries {
        let YamlKind::Scalar { text: key, .. } = key.kind else { continue };
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        match value.kind {
            YamlKind::Scalar { text, .. } => drop(found.insert(path, text)),
            YamlKind::Map(entries) => add_entries(&path, entries, found),
            YamlKind::List(items) => {
                let texts = items.into_iter().map(|item| match item.kind {
                    YamlKind::Scalar { text, .. } => Some(text),
                    _ => None,
                });
                if let Some(texts) = texts.collect::<Option<Vec<String>>>() {
                    found.insert(path, texts.join(","));
                }
            }
            YamlKind::Alias => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_have_their_key_path_and_lists_with_maps_are_left_out() {
        let found = scalars(b"a: 1\nb:\n  a: 2\n  c: {d: 3}\nd: [x, {y: z}]\ne: \"z\"\n").unwrap();
        let pairs: Vec<(&str, &str)> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b.a", "2"), ("b.c.d", "3"), ("e", "z")]);
    }

    #[test]
    fn json_is_read_like_yaml() {
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
    fn unusual_texts_are_read_or_are_syntax_errors() {
        for text in [&b"a: >-\n  b"[..], b"a: |\n  b"] {
            assert_eq!(scalars(text).unwrap().get("a").map(|value| value.trim()), Some("b"));
        }
        for text in [&b"a: [!t,]"[..], b"a: \"\\"] {
            assert!(matches!(scalars(text), Err(ParseProblem::Syntax(_))), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_an_error_and_not_an_empty_file() {
        assert!(matches!(scalars(b"a: [1\nb: }"), Err(ParseProblem::Syntax(_))));
        assert_eq!(scalars(b"just words"), Err(ParseProblem::Shape));
        assert_eq!(scalars(b"- a\n- b\n"), Err(ParseProblem::Shape));
    }
}
