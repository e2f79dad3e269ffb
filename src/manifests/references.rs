//! Finds references to API objects, which a static pod must not have.
//!
//! Since 1.34 (gate `PreventStaticPodAPIReferences`) the kubelet rejects the first reference that it finds, in a fixed
//! order, after validation. Earlier releases reject two kinds only, but for the other kinds the API server rejects the
//! mirror pod.

use super::finding::LintFinding;
use super::pod_field::PodField;
use crate::kubelet::KubeletVersion;
use crate::manifests::Check;

/// A reference to an API object.
pub struct Reference<'a> {
    /// The kubelet's name of the kind of object.
    pub what: &'static str,
    /// The field.
    pub at: PodField<'a>,
}

/// The first release that rejects all references.
const BAN: u8 = 34;
/// The first release whose patch releases reject resource claims.
const CLAIMS: u8 = 32;

/// Returns the kubelet's first rejection, if any, and a finding for each reference.
pub fn check(pod: &PodField<'_>, version: KubeletVersion) -> (Option<String>, Vec<LintFinding>) {
    let spec = pod.get("spec");
    let references = collect(&spec);
    let refused = |reference: &&Reference<'_>| {
        version.at_least(BAN)
            || reference.what == "clustertrustbundles"
            || (reference.what == "resourceclaims" && version.at_least(CLAIMS))
    };
    let first = references.iter().find(refused);
    let reason = first.map(|reference| format!("static pods may not reference {}", reference.what));
    let findings = references.iter().map(|reference| finding(reference, refused(&reference))).collect();
    (reason, findings)
}

fn finding(reference: &Reference<'_>, refused: bool) -> LintFinding {
    let (what, path) = (reference.what, reference.at.path());
    let finding = if refused {
        LintFinding::error(
            Check::ApiReference,
            format!("static pods may not reference {what} ({path}): the kubelet refuses the pod"),
        )
    } else {
        LintFinding::warning(
            Check::ApiReference,
            format!(
                "{path} references {what}: this kubelet runs the pod, but the API server refuses its mirror pod"
            ),
        )
    };
    finding.with_fix(advice(what)).on_field(path).at(reference.at.position())
}

fn advice(what: &str) -> &'static str {
    if what.starts_with("serviceaccounts") {
        "remove the service account; if the static pod needs the API server, give it a kubeconfig through a \
         hostPath"
    } else if what.starts_with("secrets") {
        "put the content into a file on the node and mount it with hostPath; for images, give the node pull credentials"
    } else if what.starts_with("configmaps") {
        "put the content into a file on the node and mount it with hostPath, or write the value here"
    } else {
        "remove it, or run this pod from the API server instead"
    }
}

fn collect<'a>(spec: &PodField<'a>) -> Vec<Reference<'a>> {
    let mut found = Vec::new();
    let mut add = |what, at: PodField<'a>| found.push(Reference { what, at });
    if !spec.get("serviceAccountName").is_empty() {
        add("serviceaccounts", spec.get("serviceAccountName"));
    }
    for at in named(spec, SECRETS) {
        add("secrets", at);
    }
    for at in named(spec, CONFIG_MAPS) {
        add("configmaps", at);
    }
    if !spec.get("resourceClaims").is_empty() {
        add("resourceclaims", spec.get("resourceClaims"));
    }
    for volume in spec.get("volumes").items() {
        for (source, what) in [
            ("configMap", "configmaps (via configmap volumes)"),
            ("secret", "secrets (via secret volumes)"),
            ("csi", "csidrivers (via CSI volumes)"),
            ("glusterfs", "endpoints (via glusterFS volumes)"),
            ("persistentVolumeClaim", "persistentvolumeclaims"),
            ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
            ("azureFile", "secrets (via azureFile volumes)"),
        ] {
            if volume.get(source).is_set() {
                add(what, volume.get(source));
            }
        }
        for source in volume.get("projected").get("sources").items() {
            let (what, at) = projected(&source);
            if let Some(what) = what {
                add(what, at);
            }
        }
    }
    found
}

fn projected<'a>(source: &PodField<'a>) -> (Option<&'static str>, PodField<'a>) {
    for (name, what) in [
        ("configMap", Some("configmaps (via projected volumes)")),
        ("secret", Some("secrets (via projected volumes)")),
        ("serviceAccountToken", Some("serviceaccounts (via projected volumes)")),
        ("clusterTrustBundle", Some("clustertrustbundles")),
        ("podCertificate", Some("podcertificates")),
        ("downwardAPI", None),
    ] {
        if source.get(name).is_set() {
            return (what, source.get(name));
        }
    }
    (Some("unknown source for projected volume"), source.clone())
}

/// The fields that name a secret, below the spec.
const SECRETS: &[&str] = &[
    "imagePullSecrets[].name",
    "initContainers[].env[].valueFrom.secretKeyRef.name",
    "initContainers[].envFrom[].secretRef.name",
    "containers[].env[].valueFrom.secretKeyRef.name",
    "containers[].envFrom[].secretRef.name",
    "volumes[].secret.secretName",
    "volumes[].azureFile.secretName",
    "volumes[].cephfs.secretRef.name",
    "volumes[].cinder.secretRef.name",
    "volumes[].flexVolume.secretRef.name",
    "volumes[].rbd.secretRef.name",
    "volumes[].scaleIO.secretRef.name",
    "volumes[].iscsi.secretRef.name",
    "volumes[].storageos.secretRef.name",
    "volumes[].csi.nodePublishSecretRef.name",
    "volumes[].projected.sources[].secret.name",
];

/// The fields that name a config map, below the spec.
const CONFIG_MAPS: &[&str] = &[
    "initContainers[].env[].valueFrom.configMapKeyRef.name",
    "initContainers[].envFrom[].configMapRef.name",
    "containers[].env[].valueFrom.configMapKeyRef.name",
    "containers[].envFrom[].configMapRef.name",
    "volumes[].configMap.name",
    "volumes[].projected.sources[].configMap.name",
];

/// Returns the fields at these paths that name an object. An empty name is not a reference.
fn named<'a>(spec: &PodField<'a>, paths: &[&str]) -> Vec<PodField<'a>> {
    let all = paths.iter().flat_map(|path| spec.at_path(path));
    all.filter(|name| !name.is_empty()).collect()
}
