//! Checks of the metadata and of fields that work differently in static pods: SP062 to SP065 and SP071. The table
//! `validate/rules.txt` has those that look at one field. Errors for which the kubelet rejects a file (SP060, SP061, SP066,
//! SP067) are part of the verdict.

use super::CheckContext;
use crate::{FileReport, FileVerdict, Kubelet, LintFinding, PodField};
use plegctl_base::report::Places;
use plegctl_node::kubelet::KubeletSettings;

/// The prefix of annotations that the kubelet sets itself.
const CONFIG_PREFIX: &str = "kubernetes.io/config.";
/// The annotation by which the kubelet recognises a mirror pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Adds findings to a file with a decoded Pod.
pub fn check(file: &mut FileReport, context: &CheckContext<'_>) {
    let kubelet = context.kubelet;
    let Some(document) = &file.document else { return };
    let Some(pod) = &document.pod else { return };
    let pod = PodField::root(&pod.pod);
    let mut findings = Vec::new();
    let metadata = pod.get("metadata");
    findings.extend(check_name(&metadata, kubelet));
    check_server_fields(&pod, kubelet, &mut findings);
    if file.verdict != FileVerdict::Rejected {
        findings.extend(check_fixed_uid(&metadata, &document.text));
    }
    findings.extend(check_runtime_class(&pod.get("spec"), context.kubelet_settings));
    file.findings.extend(findings);
}

/// Reports a name that already ends with the node's name.
fn check_name(metadata: &PodField<'_>, kubelet: &Kubelet) -> Option<LintFinding> {
    let at = metadata.get("name");
    let node = kubelet.node_name.to_lowercase();
    let base = at.str().strip_suffix(&format!("-{node}"))?;
    let places: &Places<'_> = &[("name", &at.str()), ("node", &node), ("base", &base)];
    Some(LintFinding::of("name-with-node", places).about(&at))
}

/// Reports fields that only the API server or the kubelet sets. A manifest has them if it was saved with
/// `kubectl get pod -o yaml`.
fn check_server_fields(pod: &PodField<'_>, kubelet: &Kubelet, findings: &mut Vec<LintFinding>) {
    let metadata = pod.get("metadata");
    for (entry, at) in metadata.get("annotations").entries() {
        if &*entry.key == MIRROR {
            findings.push(LintFinding::of("saved-mirror", &[]).about(&at));
        } else if entry.key.starts_with(CONFIG_PREFIX) {
            findings.push(LintFinding::of("annotation-of-kubelet", &[("key", &entry.key)]).about(&at));
        }
    }
    let node = pod.get("spec").get("nodeName");
    if !node.is_empty() && node.str().to_lowercase() != kubelet.node_name.to_lowercase() {
        findings.push(LintFinding::of("other-node-name", &[("node", &node.str())]).about(&node));
    }
}

/// Reports a UID in the file; only as information for RKE2, which gives each revision its own UID.
fn check_fixed_uid(metadata: &PodField<'_>, text: &str) -> Option<LintFinding> {
    let at = metadata.get("uid");
    if at.is_empty() {
        return None;
    }
    let is_of_rke2 = ["rke2", "rancher/"].iter().any(|word| text.contains(word));
    let row = if is_of_rke2 { "fixed-uid-of-rke2" } else { "fixed-uid" };
    Some(LintFinding::of(row, &[]).about(&at))
}

/// Reports a runtime class, which the kubelet gets from the API server. A kubelet without an API server waits for a cache
/// that is never filled, and panics.
fn check_runtime_class(
    spec: &PodField<'_>,
    kubelet_settings: Option<&KubeletSettings>,
) -> Option<LintFinding> {
    let class = spec.get("runtimeClassName");
    if class.is_empty() {
        return None;
    }
    let is_standalone = kubelet_settings.is_some_and(KubeletSettings::is_standalone);
    let row = if is_standalone { "class-without-api-server" } else { "runtime-class" };
    Some(LintFinding::of(row, &[]).about(&class))
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{NONE, found, in_metadata, in_spec, with};

    #[test]
    fn sp060_sp061_and_sp067_reject_the_pod() {
        assert_eq!(found(with("  name: web\n", "  generateName: web\n")), [60]);
        assert_eq!(found(with("name: web", "name: Web")), [61]);
        assert!(found(in_spec("schedulingGates: [{name: a}]")).contains(&67));
    }

    #[test]
    fn sp071_is_an_error_if_the_kubelet_has_no_api_server() {
        use crate::checks::CheckContext;
        use crate::checks::testing::kubelet;
        use crate::{Check, Severity, inspect_bytes};
        use plegctl_node::host::Arguments;
        use plegctl_node::kubelet::KubeletSettings;
        let severity_with = |words: Option<&[&str]>| {
            let kubelet = kubelet();
            let kubelet_settings =
                words.map(|words| KubeletSettings::parse(words.iter().copied().collect::<Arguments>(), b""));
            let text = in_spec("runtimeClassName: kata");
            let mut file = inspect_bytes("web.yaml".as_ref(), text.as_bytes(), &kubelet);
            let kubelet_settings = kubelet_settings.as_ref();
            super::check(
                &mut file,
                &CheckContext {
                    kubelet: &kubelet,
                    configured: None,
                    on_node: true,
                    host: None,
                    kubelet_settings,
                },
            );
            let found = file.findings.into_iter().find(|finding| finding.id == Check::RuntimeClass);
            found.unwrap().severity
        };
        assert_eq!(severity_with(None), Severity::Warning);
        assert_eq!(
            severity_with(Some(&["/usr/bin/kubelet", "--kubeconfig=/etc/kubernetes/kubelet.conf"])),
            Severity::Warning
        );
        assert_eq!(
            severity_with(Some(&["/usr/bin/kubelet", "--bootstrap-kubeconfig", "/b"])),
            Severity::Warning
        );
        // In a program with a built-in kubelet, such as k3s, no flag shows the kubelet's API server.
        assert_eq!(severity_with(Some(&["/usr/local/bin/k3s", "server"])), Severity::Warning);
        assert_eq!(severity_with(Some(&["/usr/bin/kubelet", "--config=/etc/k.yaml"])), Severity::Error);
    }

    #[test]
    fn sp062_reports_a_name_that_ends_with_the_node_name() {
        assert_eq!(found(with("name: web", "name: web-node1")), [62]);
        assert_eq!(found(with("name: web", "name: web-node2")), NONE);
    }

    #[test]
    fn sp063_reports_a_saved_mirror_pod() {
        assert_eq!(found(in_metadata("annotations: {kubernetes.io/config.mirror: abc}")), [63]);
    }

    #[test]
    fn sp064_reports_fields_that_only_the_api_server_sets() {
        assert_eq!(found(in_metadata("annotations: {kubernetes.io/config.hash: abc}")), [64]);
        assert_eq!(found(in_metadata("resourceVersion: '7'")), [64]);
        assert_eq!(found(in_spec("nodeName: other")), [64]);
        assert_eq!(found(in_spec("nodeName: node1")), NONE);
        assert_eq!(found(in_metadata("creationTimestamp: null")), NONE);
    }

    #[test]
    fn sp065_reports_a_fixed_uid() {
        assert_eq!(found(in_metadata("uid: abc")), [65]);
        assert_eq!(found(in_metadata("uid: ''")), NONE);
    }

    #[test]
    fn sp066_reports_references_to_api_objects() {
        assert_eq!(found(in_spec("imagePullSecrets: [{name: a}]")), [66]);
        assert_eq!(found(in_spec("imagePullSecrets: [{}]")), NONE);
    }

    #[test]
    fn sp068_reports_incomplete_or_wrong_priorities() {
        assert_eq!(found(in_spec("priority: 5")), [68]);
        assert_eq!(found(in_spec("priorityClassName: mine")), [68]);
        assert_eq!(found(in_spec("priorityClassName: system-node-critical\npriority: 5")), [68]);
        assert_eq!(found(in_spec("priorityClassName: system-node-critical\npriority: 2000001000")), NONE);
    }

    #[test]
    fn sp069_to_sp072_report_namespace_node_selector_runtime_class_and_restart_policy() {
        assert_eq!(found(in_metadata("namespace: mine")), [69]);
        assert_eq!(found(in_metadata("namespace: kube-system")), NONE);
        assert_eq!(found(in_spec("nodeSelector: {a: b}")), [70]);
        assert_eq!(found(in_spec("runtimeClassName: kata")), [71]);
        assert_eq!(found(in_spec("restartPolicy: Never")), [72]);
        assert_eq!(found(in_spec("restartPolicy: Always")), NONE);
    }
}
