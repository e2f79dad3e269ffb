//! Finds references from a static pod to API objects such as secrets (SP066). A static pod must not have them.
//!
//! The kubelet rejects a pod because of its first reference in the order of the table `validate/rules.txt`, which also says
//! which releases reject it.

use super::finding::LintFinding;
use super::pod_field::PodField;
use crate::validate::{Reference, references};
use plegctl_base::report::Places;
use plegctl_node::kubelet::KubeletVersion;

/// Returns the message with which the kubelet rejects the pod, if it does, and a finding for each reference.
pub fn check(pod: &PodField<'_>, version: KubeletVersion) -> (Option<String>, Vec<LintFinding>) {
    let references = references(pod, version);
    let first = references.iter().find(|reference| reference.is_refused);
    let reason = first.map(|reference| format!("static pods may not reference {}", reference.kind));
    (reason, references.iter().map(finding).collect())
}

fn finding(reference: &Reference<'_>) -> LintFinding {
    let (kind, path) = (reference.kind, reference.at.path());
    let row = if reference.is_refused { "refused-reference" } else { "api-reference" };
    let places: &Places<'_> = &[("kind", &kind), ("path", &path), ("fix", &fix_for(kind))];
    LintFinding::of(row, places).about(&reference.at)
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
