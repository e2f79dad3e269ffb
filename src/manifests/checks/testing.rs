//! What the tests of the checks build on.

use std::path::{Path, PathBuf};

use crate::manifests::{FileReport, Kubelet, KubeletVersion, PathKind, SourceReport, Verdict, inspect_bytes};

pub fn kubelet() -> Kubelet {
    Kubelet { version: KubeletVersion::NEWEST, node_name: "node1".to_owned() }
}

/// A source with a file of each verdict.
pub fn source(path: &str, kind: PathKind, verdicts: &[Verdict]) -> SourceReport {
    let file = |(index, &verdict): (usize, &Verdict)| FileReport {
        path: PathBuf::from(format!("{path}/{index}.yaml")),
        meta: None,
        verdict,
        pod: None,
        kubelet_reason: None,
        findings: Vec::new(),
        document: None,
    };
    SourceReport {
        path: PathBuf::from(path),
        kind,
        files: verdicts.iter().enumerate().map(file).collect(),
        findings: Vec::new(),
    }
}

/// What the verdict says of one file.
pub fn judged(text: impl AsRef<[u8]>) -> FileReport {
    inspect_bytes(Path::new("pod.yaml"), text.as_ref(), &kubelet())
}

/// The numbers of its findings, in order.
pub fn ids(file: &FileReport) -> Vec<u16> {
    let mut ids: Vec<u16> = file.findings.iter().map(|finding| finding.id.number()).collect();
    ids.sort_unstable();
    ids
}
