//! Checks of the directory's entries by name, type and mode: SP010 to SP013, SP015, SP020 and SP021. Errors for which the
//! kubelet skips or rejects an entry (SP014, SP016 to SP019) are part of the verdict.

use std::collections::HashMap;
use std::fs;

use super::CheckContext;
use crate::{FileReport, FileVerdict, LintFinding, ManifestEntryKind, Value};

/// The usual extensions of manifests. The kubelet ignores extensions.
const EXTENSIONS: [&str; 3] = [".yaml", ".yml", ".json"];

/// Adds findings to one entry.
pub fn check(file: &mut FileReport, context: &CheckContext<'_>) {
    let Some(meta) = &file.meta else {
        check_is_manifest(file);
        return;
    };
    let mut findings = Vec::new();
    let ignored = file.verdict == FileVerdict::Ignored;
    if meta.hidden && ignored {
        findings.push(LintFinding::of("dot-file", &[]));
    } else if meta.kind == ManifestEntryKind::Directory && ignored {
        findings.extend(check_sub_directory(file));
    } else if meta.kind == ManifestEntryKind::File {
        if meta.symlink {
            findings.push(LintFinding::of("link-to-file", &[]));
        }
        findings.extend(check_access(meta.mode, meta.uid, context.on_node));
    }
    file.findings.extend(findings);
    check_is_manifest(file);
}

/// Compares the entries with each other and adds findings about backups and hard links.
pub fn check_together(files: &mut [FileReport]) {
    check_backups(files);
    check_hard_links(files);
}

/// Reports a sub-directory that contains manifests.
fn check_sub_directory(file: &FileReport) -> Option<LintFinding> {
    // The limit keeps a huge directory from delaying the command.
    const MAX_ENTRIES: usize = 1000;
    let entries = fs::read_dir(&file.path).ok()?;
    let manifests = entries
        .filter_map(Result::ok)
        .take(MAX_ENTRIES)
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            EXTENSIONS.iter().any(|extension| name.ends_with(extension))
        })
        .count();
    (manifests > 0).then(|| {
        let never_runs = match manifests {
            1 => "the file in it never runs".to_owned(),
            _ => format!("the {manifests} files in it never run"),
        };
        LintFinding::of("sub-directory", &[("neverRuns", &never_runs)])
    })
}

/// Reports a file with another owner than root or with more rights than a manifest needs.
fn check_access(mode: u32, owner: u32, on_node: bool) -> Option<LintFinding> {
    const BEYOND_0644: u32 = 0o7133;
    if on_node && owner != 0 {
        return Some(LintFinding::of("owned-by-user", &[("owner", &owner)]));
    }
    let shown = format!("{:04o}", mode & 0o7777);
    (mode & BEYOND_0644 != 0).then(|| LintFinding::of("broad-mode", &[("mode", &shown)]))
}

/// Reports a file that contains no word of a manifest, such as a README, a script or an archive.
fn check_is_manifest(file: &mut FileReport) {
    const WORDS: [&str; 4] = ["apiVersion", "kind", "metadata", "containers"];
    let Some(document) = &file.document else { return };
    let no_object =
        !matches!(document.root.as_ref().map(|root| &root.value), Some(Value::Null | Value::Map(_)));
    // UTF-16 without a byte order mark has NULs between the letters of the words.
    let has_word = |text: &str| WORDS.iter().any(|word| text.contains(word));
    if !no_object || has_word(&document.text) || has_word(&document.text.replace('\0', "")) {
        return;
    }
    file.findings.push(LintFinding::of("not-a-manifest", &[]));
}

/// Reports backup files whose pod runs. If another file defines the same pod, SP100 reports both.
fn check_backups(files: &mut [FileReport]) {
    let duplicated: Vec<_> = files
        .iter()
        .filter(|file| file.verdict == FileVerdict::Shadowed)
        .filter_map(|file| file.pod.clone())
        .collect();
    for file in files.iter_mut().filter(|file| file.verdict == FileVerdict::Loaded) {
        if file.meta.is_none() || file.pod.as_ref().is_some_and(|pod| duplicated.contains(pod)) {
            continue;
        }
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        if looks_like_backup(&name) {
            file.findings.push(LintFinding::of("live-backup", &[("name", &name)]));
        }
    }
}

/// Whether editors, package managers or people use a name like this for files that are not in use.
pub fn looks_like_backup(name: &str) -> bool {
    const ENDINGS: [&str; 13] = [
        "~", ".bak", ".backup", ".orig", ".old", ".save", ".rpmnew", ".rpmsave", ".tmp", ".swp", "-old",
        "-bak", "-backup",
    ];
    let lower = name.to_lowercase();
    let stem = EXTENSIONS.iter().find_map(|extension| lower.strip_suffix(extension)).unwrap_or(&lower);
    if ENDINGS.iter().any(|ending| lower.ends_with(ending) || stem.ends_with(ending)) {
        return true;
    }
    let numbered = lower.rsplit_once('.').is_some_and(|(front, number)| {
        EXTENSIONS.iter().any(|extension| front.ends_with(extension))
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_temporary_of_sed = lower.strip_prefix("sed").is_some_and(|rest| {
        rest.len() == 6 && !name.contains('.') && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    numbered
        || is_temporary_of_sed
        || lower.contains(".dpkg-")
        || (lower.starts_with('#') && lower.ends_with('#'))
        || stem.ends_with(" copy")
        || stem.ends_with("(copy)")
        || stem.starts_with("copy of ")
}

/// Reports two names of one file.
fn check_hard_links(files: &mut [FileReport]) {
    let mut names: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        let Some(meta) = &file.meta else { continue };
        let read = matches!(file.verdict, FileVerdict::Loaded | FileVerdict::Shadowed);
        if read && !meta.symlink && meta.links > 1 {
            names.entry(meta.inode).or_default().push(index);
        }
    }
    for indexes in names.into_values().filter(|indexes| indexes.len() > 1) {
        for (place, &index) in indexes.iter().enumerate() {
            // The message names one other file: the first, or the second for the first file itself.
            let other = indexes.get(usize::from(place == 0)).and_then(|&other| files.get(other));
            let Some(other) = other.map(|other| other.path.display().to_string()) else { continue };
            if let Some(file) = files.get_mut(index) {
                file.findings.push(LintFinding::of("hard-link", &[("other", &other)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::looks_like_backup;
    use crate::checks::testing::{GOOD, NONE, TestDirectory, found};

    #[test]
    fn sp010_reports_files_with_names_of_backups() {
        for name in [
            "a.yaml~",
            "a.yaml.bak",
            "a.bak.yaml",
            "a.yaml.orig",
            "a.rpmsave",
            "a.yaml.dpkg-old",
            "#a.yaml#",
            "sedAb12cD",
            "a-old.yaml",
            "a.yaml.1",
            "a copy.yaml",
            "a.yaml.tmp",
        ] {
            assert!(looks_like_backup(name), "{name}");
        }
        for name in
            ["a.yaml", "a.yml", "a.json", "etcd", "sedan.yaml", "kube-apiserver.yaml", "gold.yaml", "a.v1"]
        {
            assert!(!looks_like_backup(name), "{name}");
        }
        assert_eq!(TestDirectory::new().with("a.yaml.bak", GOOD).found_in("a.yaml.bak"), [10]);
        assert_eq!(TestDirectory::new().with("a.yaml", GOOD).found_in("a.yaml"), NONE);
    }

    #[test]
    fn sp011_reports_files_that_are_not_manifests() {
        assert!(found("# Read me\n\nThese are: the files: of this node\n").contains(&11));
        assert!(found("#!/bin/sh\necho hello\n").contains(&11));
        assert!(found(b"\x7fELF\x02\x01\x01\0\0\0").contains(&11));
        assert!(!found(GOOD.replace("  name", "\tname")).contains(&11));
        assert!(!found("").contains(&11));
    }

    #[test]
    fn sp012_reports_hidden_files() {
        assert_eq!(TestDirectory::new().with(".a.yaml", GOOD).found_in(".a.yaml"), [12]);
    }

    #[test]
    fn sp013_reports_sub_directories_with_manifests() {
        let directory = TestDirectory::new();
        fs::create_dir(directory.0.join("full")).unwrap();
        fs::create_dir(directory.0.join("empty")).unwrap();
        fs::write(directory.0.join("full/a.yaml"), GOOD).unwrap();
        assert_eq!(directory.found_in("full"), [13]);
        assert_eq!(directory.found_in("empty"), NONE);
    }

    #[test]
    fn sp014_and_sp015_report_symbolic_links() {
        let directory = TestDirectory::new();
        let elsewhere = TestDirectory::new().with("a.yaml", GOOD);
        symlink(elsewhere.0.join("a.yaml"), directory.0.join("good.yaml")).unwrap();
        symlink("/nowhere/at/all", directory.0.join("bad.yaml")).unwrap();
        assert_eq!(directory.found_in("good.yaml"), [15]);
        assert_eq!(directory.found_in("bad.yaml"), [14]);
    }

    #[test]
    fn sp020_reports_a_mode_with_too_many_rights() {
        let directory = TestDirectory::new().with("a.yaml", GOOD);
        let path = directory.0.join("a.yaml");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(directory.found_in("a.yaml"), [20]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(directory.found_in("a.yaml"), NONE);
    }

    #[test]
    fn sp021_reports_two_names_of_one_file() {
        let directory = TestDirectory::new().with("a.yaml", GOOD);
        fs::hard_link(directory.0.join("a.yaml"), directory.0.join("b.yaml")).unwrap();
        assert_eq!(directory.found_in("a.yaml"), [21, 100]);
        assert_eq!(directory.found_in("b.yaml"), [21]);
    }
}
