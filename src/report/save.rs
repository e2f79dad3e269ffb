//! Writes a file so that whoever reads it sees all of it or none.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A file that was named could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {source}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

/// Writes `document` as JSON.
pub fn save(document: &impl Serialize, path: &Path) -> Result<(), Error> {
    write(path, |file| {
        serde_json::to_writer_pretty(&mut *file, document)?;
        file.write_all(b"\n")
    })
}

/// Has `content` write a file beside `path`, and renames it.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    replace(path, content).map_err(|source| Error { path: path.to_path_buf(), source })
}

fn replace(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let written = File::create(&beside).and_then(|file| {
        let mut file = BufWriter::new(file);
        content(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()
    });
    written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        // What could not be finished should not be found; if it cannot be removed either, it is only litter.
        let _ = fs::remove_file(&beside);
    })
}
