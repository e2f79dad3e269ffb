//! Validates affinity, tolerations, spread constraints and scheduling gates.

use std::collections::HashSet;
use std::sync::Arc;

use super::validator::{Validator, ViolationKind};
use crate::Check;
use crate::pod_field::PodField;
use plegctl_api_values::tree::{ManifestNode, Value};

use super::{meta, names};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates `affinity`.
pub fn affinity(validator: &mut Validator, affinity: &PodField<'_>) {
    let node = affinity.get("nodeAffinity");
    if node.get(REQUIRED).is_set() {
        let terms = node.get(REQUIRED).get("nodeSelectorTerms");
        validator.not_empty(Check::OtherRule, &terms, "must have at least one term");
        for term in terms.items() {
            node_term(validator, &term);
            required_values(validator, &term);
        }
    }
    for preferred in node.get(PREFERRED).items() {
        weight(validator, &preferred.get("weight"));
        node_term(validator, &preferred.get("preference"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(kind);
        for term in pods.get(REQUIRED).items() {
            pod_term(validator, &term);
        }
        for weighted in pods.get(PREFERRED).items() {
            weight(validator, &weighted.get("weight"));
            pod_term(validator, &weighted.get("podAffinityTerm"));
        }
    }
}

fn weight(validator: &mut Validator, at: &PodField<'_>) {
    if !(1..=100).contains(&at.int()) {
        validator.invalid(Check::OtherRule, at, "must be between 1 and 100");
    }
}

/// Validates a term of a node selector.
fn node_term(validator: &mut Validator, term: &PodField<'_>) {
    for requirement in term.get("matchExpressions").items() {
        expression(validator, &requirement, true);
    }
    for requirement in term.get("matchFields").items() {
        let values = requirement.get("values");
        match requirement.get("operator").str() {
            "In" | "NotIn" if values.len() == 1 => {}
            "In" | "NotIn" => {
                validator.required(Check::OtherRule, &values, "must have exactly one value");
            }
            _ => {
                validator.invalid(Check::OtherRule, &requirement.get("operator"), "must be In or NotIn");
            }
        }
        if requirement.get("key").str() == "metadata.name" {
            for value in values.items() {
                validator.text(Check::OtherRule, &value, names::subdomain);
            }
        } else {
            validator.invalid(Check::OtherRule, &requirement.get("key"), "must be metadata.name");
        }
    }
}

/// Validates the operator, the number of values and the key of an expression. Only node selectors allow `Gt` and `Lt`.
fn expression(validator: &mut Validator, requirement: &PodField<'_>, of_node: bool) {
    let values = requirement.get("values");
    match requirement.get("operator").str() {
        "In" | "NotIn" => {
            validator.not_empty(Check::OtherRule, &values, "In and NotIn need values");
        }
        "Exists" | "DoesNotExist" if values.is_empty() => {}
        "Exists" | "DoesNotExist" => {
            validator.forbidden(Check::OtherRule, &values, "Exists and DoesNotExist allow no values");
        }
        "Gt" | "Lt" if of_node && values.len() == 1 => {}
        "Gt" | "Lt" if of_node => {
            validator.required(Check::OtherRule, &values, "Gt and Lt need exactly one value");
        }
        _ => {
            let why = if of_node {
                "must be In, NotIn, Exists, DoesNotExist, Gt or Lt"
            } else {
                "must be In, NotIn, Exists or DoesNotExist"
            };
            validator.invalid(Check::OtherRule, &requirement.get("operator"), why);
        }
    }
    validator.text(Check::OtherRule, &requirement.get("key"), names::qualified);
}

/// Validates the values of a required term as label values. Only releases from 1.33 on do this.
fn required_values(validator: &mut Validator, term: &PodField<'_>) {
    if !validator.version.at_least(33) {
        return;
    }
    for value in term.get("matchExpressions").items().iter().flat_map(|item| item.get("values").items()) {
        validator.text(Check::OtherRule, &value, names::label_value);
    }
}

/// Validates a term of a pod affinity.
fn pod_term(validator: &mut Validator, term: &PodField<'_>) {
    label_selector(validator, &term.get("labelSelector"));
    label_selector(validator, &term.get("namespaceSelector"));
    for namespace in term.get("namespaces").items() {
        validator.text(Check::OtherRule, &namespace, names::label);
    }
    let (match_keys, mismatch_keys) = (term.get("matchLabelKeys"), term.get("mismatchLabelKeys"));
    for keys in [&match_keys, &mismatch_keys] {
        selector_keys(validator, keys, &term.get("labelSelector"));
    }
    repeated_keys(validator, &match_keys, &term.get("labelSelector"));
    for key in match_keys.items() {
        if mismatch_keys.items().iter().any(|item| item.str() == key.str()) {
            validator.invalid(Check::OtherRule, &key, "is in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    let topology = term.get("topologyKey");
    validator.required_text(Check::OtherRule, &topology, "the topology key is required", names::qualified);
}

/// Validates `matchLabelKeys` or `mismatchLabelKeys`.
fn selector_keys(validator: &mut Validator, keys: &PodField<'_>, selector: &PodField<'_>) {
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        validator.forbidden(Check::OtherRule, keys, "may not be given without labelSelector");
        return;
    }
    for key in keys.items() {
        validator.text(Check::OtherRule, &key, names::qualified);
    }
}

/// Validates that no key of `matchLabelKeys` occurs twice in the selector. A key may occur once there, because the API
/// server adds these keys to the selector.
fn repeated_keys(validator: &mut Validator, keys: &PodField<'_>, selector: &PodField<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    let labels = selector.get("matchLabels").entries();
    seen.extend(labels.iter().map(|(entry, _)| &*entry.key));
    for requirement in selector.get("matchExpressions").items() {
        let key = requirement.get("key");
        if !seen.insert(key.str()) && keys.items().iter().any(|item| item.str() == key.str()) {
            validator.invalid(Check::OtherRule, &key, "is in both matchLabelKeys and labelSelector");
        }
    }
}

/// Validates a label selector; an absent selector is valid.
pub fn label_selector(validator: &mut Validator, selector: &PodField<'_>) {
    meta::labels(validator, Check::OtherRule, &selector.get("matchLabels"));
    for requirement in selector.get("matchExpressions").items() {
        expression(validator, &requirement, false);
        for value in requirement.get("values").items() {
            validator.text(Check::OtherRule, &value, names::label_value);
        }
    }
}

/// Validates a list of tolerations.
pub fn tolerations(validator: &mut Validator, list: &PodField<'_>) {
    for toleration in list.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if key.is_empty() {
            if operator.str() != "Exists" {
                validator.invalid(Check::OtherRule, &operator, "must be Exists if the key is empty");
            }
        } else {
            validator.text(Check::OtherRule, &key, names::qualified);
        }
        if toleration.get("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
            validator.invalid(Check::OtherRule, &effect, "must be NoExecute if tolerationSeconds is set");
        }
        match operator.str() {
            "" | "Equal" => validator.text(Check::OtherRule, &value, names::label_value),
            "Exists" if value.is_empty() => {}
            "Exists" => {
                validator.invalid(Check::OtherRule, &value, "must be empty if the operator is Exists");
            }
            _ => {
                validator.one_of(Check::NotAllowedValue, &operator, &["Equal", "Exists"]);
            }
        }
        if !effect.is_empty() {
            validator.one_of(
                Check::NotAllowedValue,
                &effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
    }
}

/// Parses the JSON of an annotation with tolerations. Returns `None` if the JSON is not a list of tolerations.
pub fn tolerations_in(text: &str) -> Option<ManifestNode> {
    let wrapped = format!("{{\"spec\":{{\"tolerations\":{text}}}}}");
    let root = plegctl_api_values::reader::read(wrapped.as_bytes()).root.ok()?;
    let decoded = crate::decode::decode(&root, true, crate::KubeletVersion::NEWEST);
    if !decoded.errors.is_empty() {
        return None;
    }
    // `null` means an empty list.
    let empty_list = || ManifestNode::new(root.position, Value::List(Arc::default()));
    Some(decoded.pod.get("spec")?.get("tolerations").cloned().unwrap_or_else(empty_list))
}

/// Validates topology spread constraints.
pub fn spread(validator: &mut Validator, constraints: &PodField<'_>) {
    let mut seen = HashSet::new();
    for constraint in constraints.items() {
        let skew = constraint.get("maxSkew");
        if skew.int() <= 0 {
            validator.invalid(Check::OtherRule, &skew, "must be greater than 0");
        }
        let (key, action) = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        validator.not_empty(Check::OtherRule, &key, "the topology key is required");
        validator.one_of(Check::NotAllowedValue, &action, &["DoNotSchedule", "ScheduleAnyway"]);
        if !seen.insert((key.str(), action.str())) {
            validator.violation(
                Check::OtherRule,
                &constraint,
                ViolationKind::Duplicate,
                "another constraint has the same topologyKey and whenUnsatisfiable",
            );
        }
        let domains = constraint.get("minDomains");
        if domains.is_set() {
            if domains.int() <= 0 {
                validator.invalid(Check::OtherRule, &domains, "must be greater than 0");
            }
            if action.str() != "DoNotSchedule" {
                validator.invalid(
                    Check::OtherRule,
                    &domains,
                    "may be given only with whenUnsatisfiable: DoNotSchedule",
                );
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(name);
            validator.optional_one_of(Check::NotAllowedValue, &policy, &["Honor", "Ignore"]);
        }
        let selector = constraint.get("labelSelector");
        label_selector(validator, &selector);
        spread_keys(validator, &constraint.get("matchLabelKeys"), &selector);
    }
}

/// Validates `matchLabelKeys` of a spread constraint. A release that applies feature gates to files adds these keys to the
/// selector before validation, so a key may occur there once.
fn spread_keys(validator: &mut Validator, keys: &PodField<'_>, selector: &PodField<'_>) {
    selector_keys(validator, keys, selector);
    if validator.applies_feature_gates() {
        repeated_keys(validator, keys, selector);
        return;
    }
    for key in keys.items() {
        let in_labels = selector.get("matchLabels").key(key.str()).is_set();
        let in_expressions =
            selector.get("matchExpressions").items().iter().any(|item| item.get("key").str() == key.str());
        if in_labels || in_expressions {
            validator.invalid(Check::OtherRule, &key, "is in both matchLabelKeys and labelSelector");
        }
    }
}

/// Validates that a static pod has no scheduling gates, because it already has its node.
pub fn gates(validator: &mut Validator, spec: &PodField<'_>) {
    let gates = spec.get("schedulingGates");
    let mut seen = HashSet::new();
    for gate in gates.items() {
        let name = gate.get("name");
        validator.text(Check::OtherRule, &name, names::qualified);
        if !seen.insert(name.str()) {
            validator.duplicate(Check::OtherRule, &name);
        }
    }
    if !gates.is_empty() {
        validator
            .forbidden(
                Check::ForbiddenField,
                &gates.called("spec.nodeName".to_owned()),
                "a static pod already has its node, so it may not have scheduling gates",
            )
            .fix("remove schedulingGates");
    }
}
