//! The rules for names, labels, annotations and owners that look at more than one field.

use super::validator::{Validator, ViolationKind};
use crate::pod_field::PodField;
use plegctl_api_values::names;

/// The kubelet's limit for all annotations together (`TotalAnnotationSizeLimitB` in apimachinery).
const ANNOTATION_BYTES: usize = 256 * 1024;
/// The key of the annotation with the pod's hash, which the kubelet adds before validation.
const HASH_KEY: &str = "kubernetes.io/config.hash";
/// The number of digits of this hash.
const HASH_DIGITS: usize = 32;

/// The pod's name, to which the kubelet has appended the node's name.
pub fn full_name<'a>(validator: &mut Validator<'a>, at: &PodField<'a>) {
    let name = validator.pod_name;
    if let Some(wrong) = names::subdomain(name) {
        let what = format!("the pod's name together with the node's name, `{name}`,");
        validator.wrong_text(at, name, &what, wrong);
    }
}

/// The node's name, which the kubelet copies into the spec unchanged. An upper-case letter is invalid.
pub fn node_name<'a>(validator: &mut Validator<'a>, at: &PodField<'a>) {
    let name = validator.node_name;
    if let Some(wrong) = names::subdomain(name) {
        validator.wrong_text(at, name, &format!("the kubelet's node name `{name}`"), wrong);
    }
}

/// The keys and the values of labels.
pub fn labels<'a>(validator: &mut Validator<'a>, labels: &PodField<'a>) {
    for (entry, value) in labels.entries() {
        let value = value.called(labels.path().to_owned());
        key(validator, &value, &entry.key, names::qualified(&entry.key));
        if let Some(wrong) = names::label_value(value.str()) {
            validator.invalid(&value, wrong);
        }
    }
}

/// The keys of annotations.
pub fn annotation_keys<'a>(validator: &mut Validator<'a>, annotations: &PodField<'a>) {
    for (entry, value) in annotations.entries() {
        let value = value.called(annotations.path().to_owned());
        key(validator, &value, &entry.key, names::qualified(&entry.key.to_lowercase()));
    }
}

fn key<'a>(validator: &mut Validator<'a>, at: &PodField<'a>, key: &str, problem: names::FormatProblem) {
    if let Some(wrong) = problem {
        validator.wrong_text(at, key, &format!("the key `{key}`"), wrong);
    }
}

/// The size of all annotations, including the one that the kubelet adds.
pub fn annotation_size<'a>(validator: &mut Validator<'a>, annotations: &PodField<'a>) {
    let entries = annotations.entries();
    let others = entries.iter().filter(|(entry, _)| &*entry.key != HASH_KEY);
    let in_file: usize = others.map(|(entry, value)| entry.key.len().saturating_add(value.str().len())).sum();
    let hash = match validator.owner().get("uid").str().len() {
        0 => HASH_DIGITS,
        length => length,
    };
    if in_file + HASH_KEY.len() + hash > ANNOTATION_BYTES {
        let why = "all annotations together may have at most 262144 bytes";
        validator.error(ViolationKind::TooLong, annotations, why);
    }
}

/// At most one owner is the controller.
pub fn one_controller<'a>(validator: &mut Validator<'a>, owners: &PodField<'a>) {
    if owners.items().iter().filter(|owner| owner.get("controller").is_true()).count() > 1 {
        validator.invalid(owners, "only one owner may be the controller");
    }
}
