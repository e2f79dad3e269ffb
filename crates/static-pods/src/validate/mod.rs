//! Applies the kubelet's validation to a static pod.
//!
//! The rules are the rows of `rules.txt`, which [`walk`] applies to the fields in the order of the table. [`formats`] has
//! the formats of texts, and [`functions`] the rules that look at more than one field. Each error produces two texts: a
//! finding, which names the field and describes the error in plain words, and a part of the message that the kubelet writes
//! into its log.

mod annotations;
mod formats;
mod functions;
mod metadata;
mod resources;
mod selectors;
mod table;
mod validator;
mod volumes;
mod walk;

use super::Kubelet;
use super::finding::LintFinding;
use super::pod_field::PodField;
use plegctl_api_values::names;
use plegctl_node::kubelet::KubeletVersion;
use validator::Validator;

/// Returns the kubelet's error message and the findings; `None` if the pod is valid. `pod_name` is the pod's full name, with the
/// node's name.
pub fn validate(pod: &PodField<'_>, pod_name: &str, kubelet: &Kubelet) -> Option<(String, Vec<LintFinding>)> {
    let mut validator = Validator::new(kubelet.version, pod.get("spec"), pod_name, &kubelet.node_name);
    validator.object("Pod", pod);
    validator.finish()
}

/// Returns the findings about values that the kubelet accepts although they are probably mistakes.
pub fn mistakes(pod: &PodField<'_>, version: KubeletVersion) -> Vec<LintFinding> {
    let validator = Validator::new(version, pod.get("spec"), "", "");
    validator.errors("PodMistakes", pod).into_iter().filter_map(|(row, at)| row.mistake(&at)).collect()
}

/// A reference to an API object.
pub struct Reference<'a> {
    /// The kind of object, as the kubelet's message names it.
    pub kind: &'static str,
    /// The field.
    pub at: PodField<'a>,
    /// Whether the kubelet rejects a static pod because of the reference.
    pub is_refused: bool,
}

/// Returns the references of a valid pod to API objects, in the order in which the kubelet looks for them.
pub fn references<'a>(pod: &PodField<'a>, version: KubeletVersion) -> Vec<Reference<'a>> {
    let validator = Validator::new(version, pod.get("spec"), "", "");
    let found = validator.errors("References", &validator.spec).into_iter();
    let reference = |(row, at): (&'static table::Row, _)| Reference {
        kind: row.why.unwrap_or_default(),
        at,
        is_refused: row.minors.contains(&version.minor()),
    };
    found.map(reference).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Kubelet, KubeletVersion, inspect_bytes};

    /// Returns the reason for which the newest kubelet rejects a pod with this field in its spec.
    fn reason(field: &str) -> String {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: c, image: i}}]\n  {field}\n"
        );
        let kubelet = Kubelet::new(KubeletVersion::NEWEST, "node1");
        inspect_bytes(Path::new("/p.yaml"), text.as_bytes(), &kubelet).kubelet_reason.unwrap()
    }

    #[test]
    fn only_the_first_error_of_a_field_is_reported() {
        let constraint = "topologyKey: a, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, minDomains: 0";
        assert_eq!(
            reason(&format!("topologySpreadConstraints: [{{{constraint}}}]")),
            "invalid pod: [spec.topologySpreadConstraints[0].minDomains: Invalid value: 0]"
        );
    }

    #[test]
    fn errors_of_the_first_source_of_a_volume_come_before_a_second_source() {
        assert_eq!(
            reason("volumes: [{name: v, nfs: {server: s, path: /p}, hostPath: {path: ''}}]"),
            "invalid pod: [spec.volumes[0].hostPath.path: Required value spec.volumes[0].nfs: Forbidden]"
        );
    }

    #[test]
    fn a_rule_may_depend_on_what_contains_the_object_and_on_other_lists() {
        let mount = "{name: v, mountPath: /m, mountPropagation: Bidirectional}";
        let container =
            |rest: &str| format!("initContainers: [{{name: i, image: i, volumeMounts: [{mount}]{rest}}}]");
        assert_eq!(
            reason(&container("")),
            "invalid pod: [spec.initContainers[0].volumeMounts[0].name: Not found: \"v\" \
             spec.initContainers[0].volumeMounts.mountPropagation: Forbidden]"
        );
        assert_eq!(
            reason(&container(", securityContext: {privileged: true}")),
            "invalid pod: [spec.initContainers[0].volumeMounts[0].name: Not found: \"v\"]"
        );
    }
}
