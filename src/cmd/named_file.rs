//! Reads a file that the user named; `-` is stdin.

use std::path::Path;

use super::Error;
use crate::report::load::{self, load};

/// Returns the name of a file and its content, of at most `size_limit` bytes. `if_missing` is the hint for a user whose file does
/// not exist.
pub fn read(
    path: &Path,
    size_limit: usize,
    if_missing: Option<&'static str>,
) -> Result<(String, Vec<u8>), Error> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
    let read = if is_stdin { load::stdin(size_limit) } else { load(path, size_limit) };
    match read {
        Ok(content) => Ok((name, content)),
        Err(source) => Err(Error::Read { name, source, if_missing }),
    }
}
