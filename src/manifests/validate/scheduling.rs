//! Affinity, tolerations, spread constraints, gates.

use std::collections::HashSet;
use std::sync::Arc;

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;
use crate::manifests::tree::{Node, Value};

use super::{meta, names};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Judges `affinity`.
pub fn affinity(judge: &mut Judge, affinity: &Place<'_>) {
    let node = affinity.get("nodeAffinity");
    if node.get(REQUIRED).is_set() {
        let terms = node.get(REQUIRED).get("nodeSelectorTerms");
        if terms.is_empty() {
            judge.required(Check::OtherRule, &terms, "must have at least one term");
        }
        for term in terms.items() {
            node_term(judge, &term);
            required_values(judge, &term);
        }
    }
    for preferred in node.get(PREFERRED).items() {
        weight(judge, &preferred.get("weight"));
        node_term(judge, &preferred.get("preference"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(kind);
        for term in pods.get(REQUIRED).items() {
            pod_term(judge, &term);
        }
        for weighted in pods.get(PREFERRED).items() {
            weight(judge, &weighted.get("weight"));
            pod_term(judge, &weighted.get("podAffinityTerm"));
        }
    }
}

fn weight(judge: &mut Judge, at: &Place<'_>) {
    if !(1..=100).contains(&at.int()) {
        judge.invalid(Check::OtherRule, at, "must be between 1 and 100");
    }
}

fn node_term(judge: &mut Judge, term: &Place<'_>) {
    for requirement in term.get("matchExpressions").items() {
        let values = requirement.get("values");
        match requirement.get("operator").str() {
            "In" | "NotIn" if values.is_empty() => {
                judge.required(Check::OtherRule, &values, "In and NotIn need values");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                judge.forbidden(Check::OtherRule, &values, "Exists and DoesNotExist take no values");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                judge.required(Check::OtherRule, &values, "Gt and Lt need exactly one value");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => {
                judge.invalid(
                    Check::OtherRule,
                    &requirement.get("operator"),
                    "must be In, NotIn, Exists, DoesNotExist, Gt or Lt",
                );
            }
        }
        label_key(judge, &requirement.get("key"));
    }
    for requirement in term.get("matchFields").items() {
        let values = requirement.get("values");
        match requirement.get("operator").str() {
            "In" | "NotIn" if values.len() == 1 => {}
            "In" | "NotIn" => {
                judge.required(Check::OtherRule, &values, "must have exactly one value");
            }
            _ => {
                judge.invalid(Check::OtherRule, &requirement.get("operator"), "must be In or NotIn");
            }
        }
        if requirement.get("key").str() == "metadata.name" {
            for value in values.items() {
                if let Some(wrong) = names::subdomain(value.str()) {
                    judge.invalid(Check::OtherRule, &value, wrong);
                }
            }
        } else {
            judge.invalid(Check::OtherRule, &requirement.get("key"), "must be metadata.name");
        }
    }
}

/// Values of required terms are label values, which releases before 1.33 did not ask for.
fn required_values(judge: &mut Judge, term: &Place<'_>) {
    if !judge.version.at_least(33) {
        return;
    }
    for value in term.get("matchExpressions").items().iter().flat_map(|item| item.get("values").items()) {
        if let Some(wrong) = names::label_value(value.str()) {
            judge.invalid(Check::OtherRule, &value, wrong);
        }
    }
}

fn label_key(judge: &mut Judge, key: &Place<'_>) {
    if let Some(wrong) = names::qualified(key.str()) {
        judge.invalid(Check::OtherRule, key, wrong);
    }
}

fn pod_term(judge: &mut Judge, term: &Place<'_>) {
    label_selector(judge, &term.get("labelSelector"));
    label_selector(judge, &term.get("namespaceSelector"));
    for namespace in term.get("namespaces").items() {
        if let Some(wrong) = names::label(namespace.str()) {
            judge.invalid(Check::OtherRule, &namespace, wrong);
        }
    }
    let (matching, other) = (term.get("matchLabelKeys"), term.get("mismatchLabelKeys"));
    for keys in [&matching, &other] {
        selector_keys(judge, keys, &term.get("labelSelector"));
    }
    repeated_keys(judge, &matching, &term.get("labelSelector"));
    for key in matching.items() {
        if other.items().iter().any(|item| item.str() == key.str()) {
            judge.invalid(Check::OtherRule, &key, "stands in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    topology_key(judge, &term.get("topologyKey"));
}

fn selector_keys(judge: &mut Judge, keys: &Place<'_>, selector: &Place<'_>) {
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        judge.forbidden(Check::OtherRule, keys, "may not be given without labelSelector");
        return;
    }
    for key in keys.items() {
        label_key(judge, &key);
    }
}

/// A key to match may stand in the selector once, because the API server puts it there itself, but not again.
fn repeated_keys(judge: &mut Judge, keys: &Place<'_>, selector: &Place<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    let labels = selector.get("matchLabels").entries();
    seen.extend(labels.iter().map(|(entry, _)| &*entry.key));
    for requirement in selector.get("matchExpressions").items() {
        let key = requirement.get("key");
        if !seen.insert(key.str()) && keys.items().iter().any(|item| item.str() == key.str()) {
            judge.invalid(Check::OtherRule, &key, "stands in both matchLabelKeys and labelSelector");
        }
    }
}

fn topology_key(judge: &mut Judge, key: &Place<'_>) {
    if key.is_empty() {
        judge.required(Check::OtherRule, key, "the topology key is required");
    } else {
        label_key(judge, key);
    }
}

/// Judges a label selector; an absent one is fine.
pub fn label_selector(judge: &mut Judge, selector: &Place<'_>) {
    meta::labels(judge, Check::OtherRule, &selector.get("matchLabels"));
    for requirement in selector.get("matchExpressions").items() {
        let values = requirement.get("values");
        match requirement.get("operator").str() {
            "In" | "NotIn" if values.is_empty() => {
                judge.required(Check::OtherRule, &values, "In and NotIn need values");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                judge.forbidden(Check::OtherRule, &values, "Exists and DoesNotExist take no values");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                judge.invalid(
                    Check::OtherRule,
                    &requirement.get("operator"),
                    "must be In, NotIn, Exists or DoesNotExist",
                );
            }
        }
        label_key(judge, &requirement.get("key"));
        for value in values.items() {
            if let Some(wrong) = names::label_value(value.str()) {
                judge.invalid(Check::OtherRule, &value, wrong);
            }
        }
    }
}

/// Judges a list of tolerations.
pub fn tolerations(judge: &mut Judge, list: &Place<'_>) {
    for toleration in list.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if key.is_empty() {
            if operator.str() != "Exists" {
                judge.invalid(Check::OtherRule, &operator, "must be Exists where the key is empty");
            }
        } else {
            label_key(judge, &key);
        }
        if toleration.get("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
            judge.invalid(Check::OtherRule, &effect, "must be NoExecute where tolerationSeconds is given");
        }
        match operator.str() {
            "" | "Equal" => {
                if let Some(wrong) = names::label_value(value.str()) {
                    judge.invalid(Check::OtherRule, &value, wrong);
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                judge.invalid(Check::OtherRule, &value, "must be empty where the operator is Exists");
            }
            _ => {
                judge.one_of(Check::NotAllowedWord, &operator, &["Equal", "Exists"]);
            }
        }
        if !effect.is_empty() {
            judge.one_of(Check::NotAllowedWord, &effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}

/// The tolerations in the JSON of an annotation.
pub fn tolerations_in(text: &str) -> Option<Node> {
    let wrapped = format!("{{\"spec\":{{\"tolerations\":{text}}}}}");
    let root = crate::manifests::reader::read(wrapped.as_bytes()).root.ok()?;
    let decoded = crate::manifests::decode::decode(&root, true, crate::manifests::KubeletVersion::NEWEST);
    if !decoded.errors.is_empty() {
        return None;
    }
    // JSON's `null` is no tolerations.
    let none = || Node::new(root.position, Value::List(Arc::default()));
    Some(decoded.pod.get("spec")?.get("tolerations").cloned().unwrap_or_else(none))
}

/// Judges topology spread constraints.
pub fn spread(judge: &mut Judge, constraints: &Place<'_>) {
    let mut seen = HashSet::new();
    for constraint in constraints.items() {
        let skew = constraint.get("maxSkew");
        if skew.int() <= 0 {
            judge.invalid(Check::OtherRule, &skew, "must be greater than 0");
        }
        let (key, action) = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        if key.is_empty() {
            judge.required(Check::OtherRule, &key, "the topology key is required");
        }
        judge.one_of(Check::NotAllowedWord, &action, &["DoNotSchedule", "ScheduleAnyway"]);
        if !seen.insert((key.str(), action.str())) {
            judge.object(
                Check::OtherRule,
                &constraint,
                Objection::Duplicate,
                "the same topologyKey and whenUnsatisfiable twice",
            );
        }
        let domains = constraint.get("minDomains");
        if domains.is_set() {
            if domains.int() <= 0 {
                judge.invalid(Check::OtherRule, &domains, "must be greater than 0");
            }
            if action.str() != "DoNotSchedule" {
                judge.invalid(
                    Check::OtherRule,
                    &domains,
                    "may be given only with whenUnsatisfiable: DoNotSchedule",
                );
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if constraint.get(name).is_set() {
                judge.one_of(Check::NotAllowedWord, &constraint.get(name), &["Honor", "Ignore"]);
            }
        }
        let selector = constraint.get("labelSelector");
        label_selector(judge, &selector);
        spread_keys(judge, &constraint.get("matchLabelKeys"), &selector);
    }
}

/// A file source that honours gates merges keys to match into the selector before they are compared.
fn spread_keys(judge: &mut Judge, keys: &Place<'_>, selector: &Place<'_>) {
    selector_keys(judge, keys, selector);
    if judge.relaxed() {
        repeated_keys(judge, keys, selector);
        return;
    }
    for key in keys.items() {
        let in_labels = selector.get("matchLabels").key(key.str()).is_set();
        let in_expressions =
            selector.get("matchExpressions").items().iter().any(|item| item.get("key").str() == key.str());
        if in_labels || in_expressions {
            judge.invalid(Check::OtherRule, &key, "stands in both matchLabelKeys and labelSelector");
        }
    }
}

/// Judges scheduling gates, which a static pod cannot have at all: its node is fixed.
pub fn gates(judge: &mut Judge, spec: &Place<'_>) {
    let gates = spec.get("schedulingGates");
    let mut seen = HashSet::new();
    for gate in gates.items() {
        let name = gate.get("name");
        label_key(judge, &name);
        if !seen.insert(name.str()) {
            judge.duplicate(Check::OtherRule, &name);
        }
    }
    if !gates.is_empty() {
        judge
            .forbidden(
                Check::ForbiddenField,
                &gates.called("spec.nodeName".to_owned()),
                "a static pod has its node already, so it cannot be held back by gates",
            )
            .fix("remove schedulingGates");
    }
}
