//! Top-level `key: scalar` pairs of a YAML or JSON file: all that we need of crictl.yaml and the kubelet's
//! configuration.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use libyaml_safer::{EventData, Parser};

/// A configuration file is a few kilobytes; what is larger is something else.
const LARGEST_FILE: u64 = 1024 * 1024;

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

/// Reads the scalars at the top level of the first document of `path`. An empty file has none.
pub fn top_level_scalars(path: &Path) -> Result<BTreeMap<String, String>, ScalarsError> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST_FILE).read_to_end(&mut text))
        .map_err(|source| ScalarsError::Read { path: path.to_path_buf(), source })?;
    scalars(&text).map_err(|trouble| match trouble {
        Trouble::Syntax(detail) => ScalarsError::Syntax { path: path.to_path_buf(), detail },
        Trouble::Shape => ScalarsError::Shape { path: path.to_path_buf() },
    })
}

#[derive(Debug, PartialEq)]
enum Trouble {
    Syntax(String),
    Shape,
}

fn scalars(text: &[u8]) -> Result<BTreeMap<String, String>, Trouble> {
    let mut input = text;
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut found = BTreeMap::new();
    let mut depth = 0_u32;
    let mut key: Option<String> = None;
    loop {
        let event = parser.parse().map_err(|why| Trouble::Syntax(why.to_string()))?;
        match event.data {
            EventData::MappingStart { .. } | EventData::SequenceStart { .. } => {
                if depth == 0 && matches!(event.data, EventData::SequenceStart { .. }) {
                    return Err(Trouble::Shape);
                }
                depth += 1;
                key = None;
            }
            EventData::MappingEnd | EventData::SequenceEnd => {
                depth = depth.saturating_sub(1);
                key = None;
            }
            // An empty document parses as one empty scalar.
            EventData::Scalar { value, .. } if depth == 0 && !value.is_empty() => return Err(Trouble::Shape),
            EventData::Scalar { value, .. } if depth == 1 => match key.take() {
                None => key = Some(value),
                Some(name) => {
                    found.insert(name, value);
                }
            },
            EventData::DocumentEnd { .. } | EventData::StreamEnd => return Ok(found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_top_level_is_read() {
        let found = scalars(b"a: 1\nb:\n  a: 2\n  c: 3\nd: [x, y]\ne: \"z\"\n").unwrap();
        assert_eq!(found.get("a").map(String::as_str), Some("1"));
        assert_eq!(found.get("e").map(String::as_str), Some("z"));
        assert!(!found.contains_key("c"));
    }

    #[test]
    fn json_is_yaml_enough() {
        assert_eq!(scalars(br#"{"a": {"b": 1}, "c": "d"}"#).unwrap().get("c").map(String::as_str), Some("d"));
    }

    #[test]
    fn an_empty_file_has_no_settings() {
        assert!(scalars(b"").unwrap().is_empty());
        assert!(scalars(b"# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn a_broken_file_is_not_an_empty_one() {
        assert!(matches!(scalars(b"a: [1\nb: }"), Err(Trouble::Syntax(_))));
        assert_eq!(scalars(b"just words"), Err(Trouble::Shape));
        assert_eq!(scalars(b"- a\n- b\n"), Err(Trouble::Shape));
    }
}
