//! Static pods' manifests, as YAML or JSON, for the oldest and the newest kubelet.

use std::path::Path;

use plegctl::manifests::{Kubelet, KubeletVersion, Verdict, inspect_bytes};

use super::fuzz;

#[test]
fn manifests() {
    let kubelets = [28, 36].map(|minor| Kubelet::new(KubeletVersion::nearest(minor), "node1"));
    fuzz("manifests", Vec::new(), |bytes| {
        for kubelet in &kubelets {
            let report = inspect_bytes(Path::new("p.yaml"), bytes, kubelet);
            assert_eq!(report.verdict == Verdict::Rejected, report.kubelet_reason.is_some());
        }
    });
}
