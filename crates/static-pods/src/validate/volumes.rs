//! The rules for volumes that look at more than one field.

use super::validator::{Validator, ViolationKind};
use crate::pod_field::PodField;
use plegctl_api_values::names;
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::tree::{ManifestNode, Map, Value};

/// The name of the claim of an ephemeral volume, which has the names of the pod and of the volume.
pub fn claim_name<'a>(validator: &mut Validator<'a>, name: &PodField<'a>) {
    let claim = format!("{}-{}", validator.pod_name, name.str());
    if let (false, Some(wrong)) = (name.is_empty(), names::subdomain(&claim)) {
        validator.invalid(name, &format!("the name of the volume's claim {wrong}"));
    }
}

/// A claim that no ephemeral volume of the pod creates.
pub fn not_of_ephemeral<'a>(validator: &mut Validator<'a>, claim: &PodField<'a>) {
    let volumes = validator.spec.get("volumes").items();
    let mut ephemeral = volumes.iter().filter(|volume| volume.get("ephemeral").is_set());
    let pod = validator.pod_name;
    if ephemeral.any(|volume| format!("{pod}-{}", volume.get("name").str()) == claim.str()) {
        validator.invalid(claim, "is the claim that an ephemeral volume of this pod creates");
    }
}

/// The length of the name of an iSCSI volume's directory, which has the volume's name and the target portal.
pub fn iscsi_directory<'a>(validator: &mut Validator<'a>, name: &PodField<'a>) {
    let portal = validator.owner().get("iscsi").get("targetPortal");
    if name.str().len() + 1 + portal.str().len() > 64 {
        validator.invalid(name, "together with the target portal must be shorter than 65 characters");
    }
}

/// An amount that is not negative.
pub fn not_negative<'a>(validator: &mut Validator<'a>, amount: &PodField<'a>) {
    if amount.quantity().is_negative() {
        validator.error(ViolationKind::Forbidden, amount, "must not be negative");
    }
}

/// The options of a `FlexVolume`: no key has a domain of Kubernetes.
pub fn options_of_others<'a>(validator: &mut Validator<'a>, options: &PodField<'a>) {
    for (entry, value) in options.entries() {
        let domain = entry.key.split('/').next().unwrap_or_default().to_lowercase();
        let dotted = format!(".{domain}");
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            validator.invalid(&value, "the domains kubernetes.io and k8s.io are reserved");
        }
    }
}

/// No two files of a projected volume have the same path. The kubelet's message has the path of the volume.
pub fn unique_file<'a>(validator: &mut Validator<'a>, path: &PodField<'a>) {
    let volume = path.path().split(".sources[").next().unwrap_or_default().to_owned();
    if !validator.seen.insert(vec![volume.clone(), path.text()]) {
        let path = path.clone().called(volume);
        validator.invalid(&path, "is already the path of another file of this volume");
    }
}

/// The metadata of a claim template: only labels and annotations may be set.
pub fn labels_and_annotations_only<'a>(validator: &mut Validator<'a>, metadata: &PodField<'a>) {
    let entries = metadata.node().and_then(ManifestNode::as_map).map(Map::entries).unwrap_or_default();
    for entry in entries {
        let field = metadata.get(&entry.key);
        let is_empty = field.is_empty() && !matches!(entry.value.value, Value::Map(_) | Value::List(_));
        if !matches!(&*entry.key, "labels" | "annotations") && !is_empty {
            validator.error(ViolationKind::Forbidden, &field, "may not be set in a claim template");
        }
    }
}

/// The request for storage of a claim.
pub fn storage<'a>(validator: &mut Validator<'a>, requests: &PodField<'a>) {
    let storage = requests.key("storage");
    if !storage.is_set() {
        validator.error(ViolationKind::Required, &storage, "a request for storage is required");
    } else if storage.quantity() <= Quantity::ZERO {
        validator.invalid(&storage, "must be greater than 0");
    }
}

/// The old field `dataSource` and the new field `dataSourceRef` of a claim are equal. If the new field has a namespace, the
/// old one may not be set.
pub fn same_data_sources<'a>(validator: &mut Validator<'a>, spec: &PodField<'a>) {
    let (old, new) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    let texts = |source: &PodField<'a>| ["apiGroup", "kind", "name"].map(|field| source.get(field).text());
    let is_same = texts(&old) == texts(&new) && old.get("apiGroup").is_set() == new.get("apiGroup").is_set();
    if !new.get("namespace").is_empty() {
        let why = "may not have a dataSource together with a dataSourceRef with a namespace";
        validator.invalid(spec, why);
    } else if !is_same {
        validator.invalid(spec, "dataSource and dataSourceRef must be the same");
    }
}
