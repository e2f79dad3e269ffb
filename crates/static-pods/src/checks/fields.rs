//! Checks of fields that the kubelet drops (SP053, SP054), and of values that are probably a mistake: quantities (SP056) and
//! those in the table `validate/rules.txt`. A wrong kind or type makes the kubelet reject the file, so it is part of the
//! verdict.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt::Display;

use super::containers::containers;
use crate::validate::mistakes;
use crate::{
    DecodedPod, DropReason, DroppedField, FileReport, KubeletVersion, LintFinding, PodField, Severity,
};
use plegctl_base::report::Places;

const MEBIBYTE: i64 = 1 << 20;

/// Adds findings to a file with a decoded Pod.
pub fn check(file: &mut FileReport, version: KubeletVersion) {
    let Some(pod) = file.decoded() else { return };
    let wrong_fields = wrong_fields(&file.findings);
    let mut findings: Vec<LintFinding> =
        pod.dropped.iter().map(|dropped| dropped_field_finding(dropped, &wrong_fields, version)).collect();
    check_quantities(pod, &mut findings);
    findings.extend(mistakes(&PodField::root(&pod.pod), version));
    file.findings.extend(findings);
}

/// Reports a dropped field. The finding is an error if the field that was probably meant is among `wrong_fields`: then
/// the kubelet rejects the Pod because that field is missing.
fn dropped_field_finding(
    dropped: &DroppedField,
    wrong_fields: &HashSet<String>,
    version: KubeletVersion,
) -> LintFinding {
    let name = &dropped.name;
    let place =
        if dropped.parent.is_empty() { "at the top".to_owned() } else { format!("in {}", dropped.parent) };
    let path = joined(&dropped.parent, name);
    let minor = version.minor();
    let always: [(&str, &dyn Display); 3] = [("name", name), ("place", &place), ("minor", &minor)];
    let of = |row, more: &Places<'_>| LintFinding::of(row, &[&always, more].concat());
    let finding = match &dropped.why {
        DropReason::TooNew { since } => of("field-too-new", &[("since", since)]),
        DropReason::Removed { until } => of("field-removed", &[("last", &until.saturating_sub(1))]),
        DropReason::GateClosed { gate } => of("field-of-gate", &[("gate", gate)]),
        DropReason::Unknown { near, home } => {
            let (intended_path, fix) = intended_field(dropped, near.as_deref(), home.as_deref());
            let is_missing =
                intended_path.as_deref().is_some_and(|path| wrong_fields.contains(&without_indexes(path)));
            let row = if is_missing { "lost-field" } else { "unknown-field" };
            LintFinding { fix, ..of(row, &[]) }
        }
    };
    finding.on_field(path).at(dropped.position)
}

/// Returns the path of the field that was probably meant, and a fix. `near` is a similar name in the same object, `home`
/// the path of another object that has a field with this name.
fn intended_field(
    dropped: &DroppedField,
    near: Option<&str>,
    home: Option<&str>,
) -> (Option<String>, Option<String>) {
    if let Some(near) = near {
        return (Some(joined(&dropped.parent, near)), Some(format!("did you mean `{near}`?")));
    }
    let Some(home) = home else { return (None, None) };
    let name = &dropped.name;
    let fix = if home.is_empty() {
        format!("move `{name}` to the top of the file")
    } else {
        format!("move `{name}` into `{home}`: check the indentation")
    };
    (Some(joined(home, name)), Some(fix))
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// Returns the paths of all fields with an error, and of all objects that contain such a field.
fn wrong_fields(findings: &[LintFinding]) -> HashSet<String> {
    let mut wrong_fields = HashSet::new();
    for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
        let field = without_indexes(finding.field.as_deref().unwrap_or_default());
        for (end, _) in field.match_indices('.') {
            wrong_fields.extend(field.get(..end).map(str::to_owned));
        }
        wrong_fields.insert(field);
    }
    wrong_fields
}

/// Removes the indexes from a path: `spec.containers[0].image` becomes `spec.containers.image`.
fn without_indexes(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut inside = false;
    for character in path.chars() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => plain.push(character),
            _ => {}
        }
    }
    plain
}

/// Reports quantities of containers that are valid but probably a mistake.
fn check_quantities(pod: &DecodedPod, findings: &mut Vec<LintFinding>) {
    let spec = PodField::root(&pod.pod).get("spec");
    for container in containers(&spec) {
        check_resources(&container.get("resources"), findings);
    }
}

fn check_resources(resources: &PodField<'_>, findings: &mut Vec<LintFinding>) {
    let mut reported = Vec::new();
    for list in ["limits", "requests"] {
        let memory = resources.get(list).get("memory");
        let cpu = resources.get(list).get("cpu");
        for found in [suspicious_memory(&memory), suspicious_cpu(&cpu)].into_iter().flatten() {
            // A request that the defaults copied from the limit has the limit's position; it is reported once.
            let key = (found.line, found.column, found.fix.clone());
            if !reported.contains(&key) {
                reported.push(key);
                findings.push(found);
            }
        }
    }
}

/// Reports less than 1 MiB of memory.
fn suspicious_memory(memory: &PodField<'_>) -> Option<LintFinding> {
    let text = memory.node()?.written.as_deref()?;
    let quantity = memory.quantity();
    if quantity.is_zero() || quantity.cmp_whole(MEBIBYTE) != Ordering::Less {
        return None;
    }
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let row = if text.ends_with('m') { "memory-in-thousandths" } else { "little-memory" };
    Some(LintFinding::of(row, &[("text", &text), ("digits", &digits)]).about(memory))
}

/// Reports more than a thousand CPUs.
fn suspicious_cpu(cpu: &PodField<'_>) -> Option<LintFinding> {
    let text = cpu.node()?.written.as_deref()?;
    if cpu.quantity().cmp_whole(1000) != Ordering::Greater {
        return None;
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let row = if is_number { "many-cpus-of-number" } else { "many-cpus" };
    Some(LintFinding::of(row, &[("text", &text)]).about(cpu))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::checks::testing::{NONE, found, in_container, in_spec, with};
    use crate::{Kubelet, inspect_bytes};

    #[test]
    fn sp050_and_sp051_report_other_objects_than_pods() {
        assert_eq!(found(with("kind: Pod", "kind: ConfigMap")), [50]);
        assert_eq!(found(with("kind: Pod", "kind: pod")), [51]);
        assert_eq!(found(with("apiVersion: v1\n", "")), [51]);
    }

    #[test]
    fn sp052_and_sp055_report_wrong_types_and_quantities() {
        assert_eq!(found(with("registry.k8s.io/app:1.0", "1.20")), [52]);
        assert_eq!(found(in_container("resources: {limits: {memory: 100mi}}")), [55]);
    }

    #[test]
    fn sp053_reports_an_unknown_field() {
        assert_eq!(found(in_container("comand: [a]")), [53]);
        assert_eq!(found(in_container("command: [a]")), NONE);
    }

    #[test]
    fn a_field_of_another_release_is_reported_with_that_release() {
        let message = |field: &str| {
            let text = in_spec(field);
            let kubelet = Kubelet::new(KubeletVersion::nearest(34), "node1");
            let report = inspect_bytes(Path::new("pod.yaml"), text.as_bytes(), &kubelet);
            let pod = report.document.unwrap().pod.unwrap();
            dropped_field_finding(&pod.dropped[0], &HashSet::new(), kubelet.version).message
        };
        assert_eq!(
            message("schedulingGroup: {podGroupName: a}"),
            "kubelets know `schedulingGroup` in spec from 1.36 on; kubelet 1.34 drops it without a message"
        );
        assert_eq!(
            message("resourceClaims: [{name: a, source: {}}]"),
            "kubelets know `source` in spec.resourceClaims[0] up to 1.30; kubelet 1.34 drops it without a message"
        );
    }

    #[test]
    fn sp054_reports_a_dropped_field_without_which_the_pod_is_rejected() {
        assert_eq!(found(with("  containers:", "  Containers:")), [54, 80]);
        assert!(found(with("metadata:", "Metadata:")).contains(&54));
        let top =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\ncontainers: [{name: a, image: b:1}]\n";
        assert!(found(top).contains(&54));
        assert!(!found(in_spec("hostnetwork: true")).contains(&54));
    }

    #[test]
    fn sp056_reports_unlikely_quantities() {
        for odd in ["memory: 128m", "memory: 100", "memory: 512Ki", "cpu: 2000"] {
            assert_eq!(found(in_container(&format!("resources: {{requests: {{{odd}}}}}"))), [56], "{odd}");
        }
        for usual in ["memory: 128Mi", "cpu: 200m", "cpu: 64", "memory: 0"] {
            assert_eq!(
                found(in_container(&format!("resources: {{requests: {{{usual}}}}}"))),
                NONE,
                "{usual}"
            );
        }
    }
}
