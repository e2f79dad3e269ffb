//! What an upgrade does with the static pods of a node.

use std::path::Path;

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use crate::kubelet::KubeletVersion;
use crate::manifests::upgrade::{self, UpgradedFile};
use crate::manifests::{Kubelet, inspect};

/// Compares what two releases do with the manifests in `below`, which the kubelet reads as `directory`.
pub fn compare(
    below: &Path,
    directory: &Path,
    node_name: &str,
    from: KubeletVersion,
    to: KubeletVersion,
) -> (Vec<UpgradedFile>, Vec<StartFinding>) {
    let kubelet = |version| Kubelet {
        manifest_dir: Some(directory.to_path_buf()),
        ..Kubelet::new(version, node_name.to_lowercase())
    };
    let (old, new) = (kubelet(from), kubelet(to));
    let mut before = [inspect(below, &old)];
    let files = upgrade::compare(&mut before, &[inspect(below, &new)], &old, &new).files;
    let mut findings: Vec<StartFinding> =
        files.iter().filter(|file| file.is_lost()).map(|file| lost(file, to)).collect();
    let restarts = files.iter().filter(|file| file.restarts == Some(true)).count();
    if restarts > 0 {
        let pods = if restarts == 1 { "1 static pod".to_owned() } else { format!("{restarts} static pods") };
        findings.push(
            StartFinding::new(
                StartCheck::StaticPodsRestart,
                format!("the upgrade from {from} to {to} restarts {pods}"),
            )
            .with_fix("upgrade control-plane nodes one after another"),
        );
    }
    (files, findings)
}

fn lost(file: &UpgradedFile, to: KubeletVersion) -> StartFinding {
    let pod = file.pod.as_deref().unwrap_or("the pod");
    let mut finding = StartFinding::new(StartCheck::StaticPodRefused, format!("kubelet {to} refuses {pod}"));
    finding.file = Some(file.path.clone());
    finding.kubelet_reason.clone_from(&file.reason);
    finding
}
