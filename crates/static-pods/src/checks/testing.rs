//! Support code for the tests of the checks.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use super::CheckContext;
use crate::Check;
use crate::{
    FileReport, FileVerdict, Kubelet, KubeletVersion, PathKind, SourceReport, inspect, inspect_bytes,
};

/// A manifest without findings. Tests replace a part of it or add fields.
pub const GOOD: &str = "apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: registry.k8s.io/app:1.0
";

/// An empty list of findings.
pub const NONE: [u16; 0] = [];

pub fn kubelet() -> Kubelet {
    Kubelet::new(KubeletVersion::NEWEST_WITH_UIDS, "node1")
}

/// Returns the report about a path with one file for each of these verdicts.
pub fn source(path: &str, kind: PathKind, verdicts: &[FileVerdict]) -> SourceReport {
    let file = |(index, &verdict): (usize, &FileVerdict)| {
        FileReport::new(Path::new(&format!("{path}/{index}.yaml")), None, verdict)
    };
    SourceReport {
        path: PathBuf::from(path),
        kind,
        files: verdicts.iter().enumerate().map(file).collect(),
        findings: Vec::new(),
    }
}

fn context(kubelet: &Kubelet) -> CheckContext<'_> {
    CheckContext { kubelet, configured: None, on_node: false, host: None, kubelet_settings: None }
}

/// Runs all checks on a manifest and returns the numbers of its findings: 53 for SP053.
pub fn found(text: impl AsRef<[u8]>) -> Vec<u16> {
    let kubelet = kubelet();
    let path = Path::new("pod.yaml");
    let mut report = source("pod.yaml", PathKind::File, &[]);
    report.files = vec![inspect_bytes(path, text.as_ref(), &kubelet)];
    super::run(&mut report, &context(&kubelet));
    ids(&report.files[0])
}

/// Returns the number in the id of a check.
pub fn number(check: Check) -> u16 {
    check.id().trim_start_matches("SP").parse().unwrap()
}

/// Returns the numbers of a file's findings in ascending order, each number once.
pub fn ids(file: &FileReport) -> Vec<u16> {
    let mut ids: Vec<u16> = file.findings.iter().map(|finding| number(finding.id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A temporary directory that is deleted when the value is dropped.
pub struct TestDirectory(pub PathBuf);

impl TestDirectory {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("plegctl-checks-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Adds a file with this name.
    pub fn with(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.0.join(name), text).unwrap();
        self
    }

    /// Runs all checks on the directory and returns the name of each entry with the numbers of its findings.
    pub fn found(&self) -> Vec<(String, Vec<u16>)> {
        let kubelet = kubelet();
        let mut report = inspect(&self.0, &kubelet);
        super::run(&mut report, &context(&kubelet));
        let name = |file: &FileReport| file.path.file_name().unwrap().to_string_lossy().into_owned();
        report.files.iter().map(|file| (name(file), ids(file))).collect()
    }

    /// Runs all checks on the directory and returns the numbers of the findings of one entry.
    pub fn found_in(&self, name: &str) -> Vec<u16> {
        let found = self.found().into_iter().find(|(file, _)| file == name);
        found.unwrap_or_else(|| panic!("{name} was not listed")).1
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the good manifest with a part replaced.
pub fn with(part: &str, replacement: &str) -> String {
    assert!(GOOD.contains(part), "{part}");
    GOOD.replace(part, replacement)
}

/// Returns the good manifest with more fields in the container.
pub fn in_container(fields: &str) -> String {
    GOOD.to_owned() + &indented(fields, "    ")
}

/// Returns the good manifest with more fields in the spec.
pub fn in_spec(fields: &str) -> String {
    GOOD.to_owned() + &indented(fields, "  ")
}

/// Returns the good manifest with more metadata.
pub fn in_metadata(fields: &str) -> String {
    with("  name: web\n", &format!("  name: web\n{}", indented(fields, "  ")))
}

fn indented(fields: &str, indent: &str) -> String {
    fields.lines().flat_map(|line| [indent, line, "\n"]).collect()
}
