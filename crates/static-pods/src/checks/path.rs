//! Checks of the manifest path itself: SP004 to SP007. The verdict on the path includes SP001 to SP003.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::CheckContext;
use crate::{FileVerdict, LintFinding, PathKind, SourceReport};

/// Adds findings about the path.
pub fn check(report: &mut SourceReport, context: &CheckContext<'_>) {
    match report.kind {
        PathKind::File => check_single_file(report, context),
        PathKind::Directory => check_directory(report, context),
        PathKind::Missing | PathKind::Special | PathKind::Unreadable => {}
    }
    check_is_configured(report, context);
}

/// Reports that the kubelet's path is a single file. A user may also lint one file of a copy, which is no problem.
fn check_single_file(report: &mut SourceReport, context: &CheckContext<'_>) {
    if context.on_node {
        report.findings.push(LintFinding::of("path-is-file", &[]));
    }
}

/// Reports a directory from which nothing loads, or to which others can write.
fn check_directory(report: &mut SourceReport, context: &CheckContext<'_>) {
    let is_valid = |verdict| matches!(verdict, FileVerdict::Loaded | FileVerdict::Shadowed);
    if !report.files.iter().any(|file| is_valid(file.verdict)) {
        report.findings.push(LintFinding::of("nothing-loads", &[]));
    }
    if let Ok(meta) = fs::metadata(&report.path) {
        report.findings.extend(check_write_access(meta.mode(), meta.uid(), context.on_node));
    }
}

/// Reports a directory that others than root can write to. In a copy, for example a Git checkout, the owner and the
/// group normally have write access, so that only write access for everybody is reported.
fn check_write_access(mode: u32, owner: u32, on_node: bool) -> Option<LintFinding> {
    const GROUP: u32 = 0o020;
    const WORLD: u32 = 0o002;
    let who = if mode & WORLD != 0 {
        "everybody".to_owned()
    } else if on_node && mode & GROUP != 0 {
        "its group".to_owned()
    } else if on_node && owner != 0 {
        format!("its owner, user {owner},")
    } else {
        return None;
    };
    Some(LintFinding::of("path-writable", &[("who", &who)]))
}

/// Reports that the kubelet of this node reads another path.
fn check_is_configured(report: &mut SourceReport, context: &CheckContext<'_>) {
    let Some(configured) = context.configured else { return };
    if context.on_node || same(&report.path, configured) {
        return;
    }
    // The path may be one file in the kubelet's directory.
    if report.path.parent().is_some_and(|parent| same(parent, configured)) {
        return;
    }
    report.findings.push(LintFinding::of("other-path", &[("configured", &configured.display())]));
}

fn same(left: &Path, right: &Path) -> bool {
    left == right
        || matches!((fs::canonicalize(left), fs::canonicalize(right)), (Ok(left), Ok(right)) if left == right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NONE, kubelet, number, source};

    fn ids(report: &SourceReport) -> Vec<u16> {
        report.findings.iter().map(|finding| number(finding.id)).collect()
    }

    fn checked(
        kind: PathKind,
        verdicts: &[FileVerdict],
        on_node: bool,
        configured: Option<&str>,
    ) -> Vec<u16> {
        let mut report = source("/nowhere/manifests", kind, verdicts);
        let kubelet = kubelet();
        check(
            &mut report,
            &CheckContext {
                kubelet: &kubelet,
                configured: configured.map(Path::new),
                on_node,
                host: None,
                kubelet_settings: None,
            },
        );
        ids(&report)
    }

    #[test]
    fn sp004_reports_a_single_file_only_if_it_is_the_nodes_own_path() {
        assert_eq!(checked(PathKind::File, &[FileVerdict::Loaded], true, None), [4]);
        assert_eq!(checked(PathKind::File, &[FileVerdict::Loaded], false, None), NONE);
    }

    #[test]
    fn sp005_reports_a_path_that_the_nodes_kubelet_does_not_read() {
        let loaded = [FileVerdict::Loaded];
        assert_eq!(checked(PathKind::Directory, &loaded, false, Some("/etc/other")), [5]);
        assert_eq!(checked(PathKind::Directory, &loaded, false, Some("/nowhere/manifests")), NONE);
        assert_eq!(checked(PathKind::File, &loaded, false, Some("/nowhere")), NONE);
        assert_eq!(checked(PathKind::Directory, &loaded, false, None), NONE);
    }

    #[test]
    fn sp006_reports_directories_from_which_nothing_loads() {
        assert_eq!(checked(PathKind::Directory, &[], false, None), [6]);
        assert_eq!(
            checked(PathKind::Directory, &[FileVerdict::Rejected, FileVerdict::Ignored], false, None),
            [6]
        );
        assert_eq!(
            checked(PathKind::Directory, &[FileVerdict::Rejected, FileVerdict::Loaded], false, None),
            NONE
        );
    }

    #[test]
    fn sp007_is_stricter_on_the_node() {
        assert_eq!(check_write_access(0o40700, 0, true), None);
        assert!(check_write_access(0o40775, 0, true).is_some());
        assert!(check_write_access(0o40755, 1000, true).is_some());
        assert_eq!(check_write_access(0o40775, 1000, false), None);
        assert!(check_write_access(0o40777, 1000, false).is_some());
    }
}
