//! Reads a manifest path like the kubelet: selects the entries, reads them in the kubelet's order, and decides which file
//! wins if several define the same pod.
//!
//! `pipeline` decides about the content of each file. This module opens only regular files and changes nothing.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::Kubelet;
use super::finding::LintFinding;
use super::glob;
use super::pipeline::{SIZE_LIMIT, judge, too_large};
use super::report::{
    FileReport, FileVerdict, ManifestEntryKind, ManifestEntryMeta, PathKind, PodIdentity, SourceReport,
};
use plegctl_base::report::load::open_nonblocking;

/// Returns the kubelet's verdicts on `path` and on each entry.
pub fn inspect(path: &Path, kubelet: &Kubelet) -> SourceReport {
    let mut files = Vec::new();
    let mut report = each_file(path, kubelet, &mut |file| files.push(file));
    if report.kind == PathKind::Directory {
        mark_shadowed(&mut files);
    }
    report.files = files;
    report
}

/// Passes the report of each file to `take_file` in the kubelet's order, so that not all reports must be in memory at the
/// same time. The returned report has no files. If two files define the same pod, this function does not mark the earlier
/// file as shadowed.
pub fn each_file(path: &Path, kubelet: &Kubelet, take_file: &mut dyn FnMut(FileReport)) -> SourceReport {
    let path = strip_slashes(path);
    let mut report = SourceReport { path, kind: PathKind::Missing, files: Vec::new(), findings: Vec::new() };
    match fs::metadata(&report.path) {
        Ok(meta) if meta.is_dir() => {
            report.kind = PathKind::Directory;
            inspect_directory(&mut report, kubelet, take_file);
        }
        Ok(meta) if meta.is_file() => {
            report.kind = PathKind::File;
            take_file(read_and_judge(unread(&report.path), kubelet));
        }
        Ok(_) => {
            report.kind = PathKind::Special;
            report.findings.push(LintFinding::of("path-of-other-kind", &[]));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.findings.push(LintFinding::of("path-missing", &[]));
        }
        Err(error) => {
            report.kind = PathKind::Unreadable;
            report.findings.push(LintFinding::of("path-unreadable", &[("error", &error)]));
        }
    }
    report
}

/// Returns the verdict on bytes without a path, such as standard input.
pub fn inspect_bytes(name: &Path, bytes: &[u8], kubelet: &Kubelet) -> FileReport {
    judge(name, None, bytes, kubelet)
}

/// Removes trailing slashes, as the kubelet does first. So `/` becomes an empty path.
fn strip_slashes(path: &Path) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes();
    while let Some(shorter) = bytes.strip_suffix(b"/") {
        bytes = shorter;
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

fn inspect_directory(report: &mut SourceReport, kubelet: &Kubelet, take_file: &mut dyn FnMut(FileReport)) {
    if glob::has_meta(report.path.as_os_str().as_bytes()) {
        report.findings.push(LintFinding::of("path-is-pattern", &[]));
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for directory in glob::directories(&report.path) {
        match fs::read_dir(&directory) {
            Ok(entries) => paths.extend(entries.filter_map(Result::ok).map(|entry| entry.path())),
            // The kubelet ignores this error and sees an empty directory.
            Err(error) => report.findings.push(LintFinding::of("path-unlisted", &[("error", &error)])),
        }
    }
    paths.sort_by(|left, right| left.as_os_str().as_bytes().cmp(right.as_os_str().as_bytes()));
    for path in paths {
        take_file(inspect_file(&path, kubelet));
    }
}

/// Marks shadowed files. The kubelet stores pods by namespace and name in the order of the files, so the last file wins.
fn mark_shadowed(files: &mut [FileReport]) {
    let mut winners: HashMap<PodIdentity, PathBuf> = HashMap::new();
    for file in files.iter_mut().rev() {
        let (FileVerdict::Loaded, Some(pod)) = (file.verdict, &file.pod) else {
            continue;
        };
        if let Some(winner) = winners.get(pod) {
            file.verdict = FileVerdict::Shadowed;
            file.kubelet_reason =
                Some(format!("{} defines the same pod, and the kubelet reads it later", winner.display()));
        } else {
            winners.insert(pod.clone(), file.path.clone());
        }
    }
}

/// Returns the verdict on one entry of a manifest directory, for example after an inotify event about that entry.
pub fn inspect_file(path: &Path, kubelet: &Kubelet) -> FileReport {
    let mut report = unread(path);
    let Some(meta) = &report.meta else { return report };
    if meta.hidden {
        return report;
    }
    let (reason, row) = match meta.kind {
        ManifestEntryKind::File => return read_and_judge(report, kubelet),
        ManifestEntryKind::Directory => ("not recursing into manifest path", None),
        ManifestEntryKind::DanglingLink => ("Could not get metadata", Some("dangling-link")),
        ManifestEntryKind::Fifo => ("Manifest path is not a directory or file", Some("fifo-entry")),
        ManifestEntryKind::Endless => {
            report.verdict = FileVerdict::NotJudged;
            report.findings.push(LintFinding::of("endless-file", &[]));
            return report;
        }
        ManifestEntryKind::Special => ("Manifest path is not a directory or file", Some("odd-entry")),
        ManifestEntryKind::Unreadable => ("Could not get metadata", Some("unreadable-entry")),
    };
    report.kubelet_reason = Some(reason.to_owned());
    report.findings.extend(row.map(|row| LintFinding::of(row, &[])));
    report
}

/// Returns the report about a file before it is read, with the verdict that remains if the kubelet does not read it.
fn unread(path: &Path) -> FileReport {
    FileReport::new(path, meta(path), FileVerdict::Ignored)
}

fn read_and_judge(mut report: FileReport, kubelet: &Kubelet) -> FileReport {
    if report.meta.as_ref().is_some_and(|meta| meta.size >= SIZE_LIMIT) {
        report.verdict = FileVerdict::Rejected;
        return too_large(report);
    }
    match read_up_to_limit(&report.path) {
        Ok(bytes) => judge(&report.path, report.meta, &bytes, kubelet),
        Err(error) => {
            report.verdict = FileVerdict::Rejected;
            report.kubelet_reason = Some(error.to_string());
            report.findings.push(LintFinding::of("unreadable-file", &[("error", &error)]));
            report
        }
    }
}

fn read_up_to_limit(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_nonblocking(path)?.take(SIZE_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the metadata of an entry; `None` if the entry no longer exists.
fn meta(path: &Path) -> Option<ManifestEntryMeta> {
    let hidden = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."));
    let own = fs::symlink_metadata(path).ok()?;
    let symlink = own.is_symlink();
    let (kind, meta) = match fs::metadata(path) {
        Ok(meta) => match entry_kind(&meta) {
            ManifestEntryKind::File if is_in_virtual_file_system(path) => (ManifestEntryKind::Endless, meta),
            kind => (kind, meta),
        },
        Err(error) if symlink && error.kind() == io::ErrorKind::NotFound => {
            (ManifestEntryKind::DanglingLink, own)
        }
        Err(_) => (ManifestEntryKind::Unreadable, own),
    };
    let modified_nanos =
        meta.mtime().checked_mul(1_000_000_000).and_then(|nanos| nanos.checked_add(meta.mtime_nsec()));
    Some(ManifestEntryMeta {
        kind,
        hidden,
        symlink,
        size: meta.len(),
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        inode: (meta.dev(), meta.ino()),
        links: meta.nlink(),
        modified_nanos,
    })
}

/// Whether a file is in a virtual file system of the kernel. There, a regular file may never end.
fn is_in_virtual_file_system(path: &Path) -> bool {
    /// The numbers of proc, debugfs and tracefs (linux/magic.h).
    const VIRTUAL_FILE_SYSTEMS: [u64; 3] = [0x9fa0, 0x6462_6720, 0x7472_6163];
    let found = rustix::fs::statfs(path).ok().and_then(|found| u64::try_from(found.f_type).ok());
    found.is_some_and(|magic| VIRTUAL_FILE_SYSTEMS.contains(&magic))
}

fn entry_kind(meta: &Metadata) -> ManifestEntryKind {
    let kind = meta.file_type();
    if kind.is_file() {
        ManifestEntryKind::File
    } else if kind.is_dir() {
        ManifestEntryKind::Directory
    } else if kind.is_fifo() {
        ManifestEntryKind::Fifo
    } else {
        ManifestEntryKind::Special
    }
}
