//! Finds references from a static pod to API objects such as secrets (SP066). A static pod must not have them.
//!
//! Since 1.34 (feature gate `PreventStaticPodAPIReferences`), the kubelet rejects a pod after validation because of its
//! first reference in a fixed order. Earlier releases reject only two kinds of references; for the other kinds, the API
//! server rejects the mirror pod.

use super::finding::LintFinding;
use super::pod_field::PodField;
use crate::Check;
use plegctl_node::kubelet::KubeletVersion;

/// A reference to an API object.
pub struct Reference<'a> {
    /// The kind of object, as the kubelet's message names it.
    pub kind: &'static str,
    /// The field.
    pub at: PodField<'a>,
}

/// The first minor release that rejects all references.
const REJECTS_ALL: u8 = 34;
/// The first minor release whose patch releases reject resource claims.
const REJECTS_CLAIMS: u8 = 32;

/// Returns the message with which the kubelet rejects the pod, if it does, and a finding for each reference.
pub fn check(pod: &PodField<'_>, version: KubeletVersion) -> (Option<String>, Vec<LintFinding>) {
    let spec = pod.get("spec");
    let references = collect(&spec);
    let is_refused = |reference: &&Reference<'_>| {
        version.at_least(REJECTS_ALL)
            || reference.kind == "clustertrustbundles"
            || (reference.kind == "resourceclaims" && version.at_least(REJECTS_CLAIMS))
    };
    let first = references.iter().find(is_refused);
    let reason = first.map(|reference| format!("static pods may not reference {}", reference.kind));
    let findings = references.iter().map(|reference| finding(reference, is_refused(&reference))).collect();
    (reason, findings)
}

fn finding(reference: &Reference<'_>, is_refused: bool) -> LintFinding {
    let (kind, path) = (reference.kind, reference.at.path());
    let finding = if is_refused {
        LintFinding::error(
            Check::ApiReference,
            format!("static pods may not reference {kind} ({path}): the kubelet refuses the pod"),
        )
    } else {
        LintFinding::warning(
            Check::ApiReference,
            format!(
                "{path} references {kind}: this kubelet runs the pod, but the API server refuses its mirror pod"
            ),
        )
    };
    finding.with_fix(fix_for(kind)).about(&reference.at)
}

fn fix_for(kind: &str) -> &'static str {
    if kind.starts_with("serviceaccounts") {
        "remove the service account; if the static pod needs the API server, give it a kubeconfig through a \
         hostPath"
    } else if kind.starts_with("secrets") {
        "put the content into a file on the node and mount it with hostPath; for images, give the node pull credentials"
    } else if kind.starts_with("configmaps") {
        "put the content into a file on the node and mount it with hostPath, or write the value here"
    } else {
        "remove this reference, or create the pod in the API server instead"
    }
}

/// Returns all references, in the order in which the kubelet looks for them.
fn collect<'a>(spec: &PodField<'a>) -> Vec<Reference<'a>> {
    let mut found = Vec::new();
    let mut add = |kind, at: PodField<'a>| found.push(Reference { kind, at });
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
        for (source, kind) in [
            ("configMap", "configmaps (via configmap volumes)"),
            ("secret", "secrets (via secret volumes)"),
            ("csi", "csidrivers (via CSI volumes)"),
            ("glusterfs", "endpoints (via glusterFS volumes)"),
            ("persistentVolumeClaim", "persistentvolumeclaims"),
            ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
            ("azureFile", "secrets (via azureFile volumes)"),
        ] {
            if volume.get(source).is_set() {
                add(kind, volume.get(source));
            }
        }
        for source in volume.get("projected").get("sources").items() {
            let (kind, at) = projected(&source);
            if let Some(kind) = kind {
                add(kind, at);
            }
        }
    }
    found
}

/// Returns the kind of object to which a source of a projected volume refers, and the field that refers to it.
fn projected<'a>(source: &PodField<'a>) -> (Option<&'static str>, PodField<'a>) {
    for (name, kind) in [
        ("configMap", Some("configmaps (via projected volumes)")),
        ("secret", Some("secrets (via projected volumes)")),
        ("serviceAccountToken", Some("serviceaccounts (via projected volumes)")),
        ("clusterTrustBundle", Some("clustertrustbundles")),
        ("podCertificate", Some("podcertificates")),
        ("downwardAPI", None),
    ] {
        if source.get(name).is_set() {
            return (kind, source.get(name));
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

/// Returns the fields at these paths that have a name. An empty name is not a reference.
fn named<'a>(spec: &PodField<'a>, paths: &[&str]) -> Vec<PodField<'a>> {
    let all = paths.iter().flat_map(|path| spec.at_path(path, spec));
    all.filter(|name| !name.is_empty()).collect()
}
