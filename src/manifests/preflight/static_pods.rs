//! Predicts the effect of an upgrade on the static pods of a node: which pods are refused (KP080) and which restart (KP081).

use std::path::Path;

use super::{StartCheck, StartFinding};
use crate::kubelet::KubeletVersion;
use crate::manifests::upgrade::{self, UpgradedFile};
use crate::manifests::{Kubelet, inspect, inspect_bytes};

/// Compares the verdicts of two releases on the manifests. plegctl reads them in `local_path`; the kubelet reads the same
/// files in `directory`.
pub fn compare(
    local_path: &Path,
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
    let mut before = [inspect(local_path, &old)];
    let files = upgrade::compare(&mut before, &[inspect(local_path, &new)], &old, &new).files;
    let mut findings: Vec<StartFinding> =
        files.iter().filter(|file| file.is_lost()).map(|file| refused(file, to)).collect();
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

fn refused(file: &UpgradedFile, to: KubeletVersion) -> StartFinding {
    let pod = file.pod.as_ref().map_or_else(|| "the pod".to_owned(), ToString::to_string);
    let mut finding = StartFinding::new(StartCheck::StaticPodRefused, format!("kubelet {to} refuses {pod}"));
    finding.file = Some(file.path.clone());
    finding.kubelet_reason.clone_from(&file.kubelet_reason);
    finding
}

/// The smallest static pod. Its printed form has only what every static pod has.
const SMALLEST: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n";

/// Whether an upgrade from one release to another changes the UID of every static pod, which restarts all of them.
/// `None` if that depends on the pod, or if plegctl does not know the UIDs of one of the releases.
pub fn restarts_every_static_pod(from: KubeletVersion, to: KubeletVersion) -> Option<bool> {
    if from == to {
        return Some(false);
    }
    let uid = |release| {
        let directory = Some("/etc/kubernetes/manifests".into());
        let kubelet = Kubelet { manifest_dir: directory, ..Kubelet::new(release, "n") };
        inspect_bytes(Path::new("a.yaml"), SMALLEST.as_bytes(), &kubelet).uid?.ok()
    };
    (uid(from)? != uid(to)?).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(from: &str, to: &str) -> Option<bool> {
        restarts_every_static_pod(KubeletVersion::parse(from).unwrap(), KubeletVersion::parse(to).unwrap())
    }

    #[test]
    fn an_upgrade_to_137_restarts_every_static_pod_and_a_patch_release_none() {
        assert_eq!(every("1.36.2", "1.37"), Some(true));
        assert_eq!(every("v1.34.0", "1.37.1"), Some(true));
        assert_eq!(every("1.36.0", "1.36.4"), Some(false));
    }

    #[test]
    fn nothing_is_concluded_about_a_release_whose_uids_are_not_known() {
        assert_eq!((every("1.37", "1.38"), every("1.27", "1.37")), (None, None));
        assert_eq!(every("1.38.0", "1.38.1"), Some(false));
    }
}
