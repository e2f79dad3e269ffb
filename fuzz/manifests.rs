//! Fuzzes manifests of static pods, as YAML or JSON, for the oldest and the newest kubelet.

use std::path::Path;

use plegctl_engine::manifests::{FileVerdict, Kubelet, KubeletVersion, inspect_bytes};

use super::fuzz;

#[test]
fn manifests() {
    let kubelets = [28, 36].map(|minor| Kubelet::new(KubeletVersion::nearest(minor), "node1"));
    fuzz("manifests", Vec::new(), |bytes| {
        for kubelet in &kubelets {
            let report = inspect_bytes(Path::new("p.yaml"), bytes, kubelet);
            assert_eq!(report.verdict == FileVerdict::Rejected, report.kubelet_reason.is_some());
        }
    });
}

#[test]
fn image_names() {
    let kubelets = [28, 36].map(|minor| Kubelet::new(KubeletVersion::nearest(minor), "node1"));
    let digest = format!("[fd00::1]:5000/a/b__c-d.e:1.36@sha256:{}", "a".repeat(64));
    let seeds =
        ["busybox", "registry.example:5000/a/b:latest", "localhost/a_b.c", &digest, "{{ image }}", " a "];
    fuzz("image_names", seeds.map(|seed| seed.as_bytes().to_vec()).to_vec(), |bytes| {
        let image = String::from_utf8_lossy(bytes);
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "app", "image": image}]},
        });
        for kubelet in &kubelets {
            let report = inspect_bytes(Path::new("p.yaml"), pod.to_string().as_bytes(), kubelet);
            // The kubelet rejects an image name only if it is empty or has blanks around it.
            let is_accepted = !image.is_empty() && image.trim() == image;
            assert_eq!(report.verdict == FileVerdict::Loaded, is_accepted, "{image:?}: {report:?}");
        }
    });
}
