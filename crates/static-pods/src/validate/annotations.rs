//! The rules for annotations that the kubelet reads: seccomp and `AppArmor` profiles, tolerations, deletion cost.

use std::sync::Arc;

use super::names;
use super::validator::{Validator, ViolationKind};
use crate::pod_field::PodField;
use plegctl_api_values::tree::{ManifestNode, Value};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The profiles in annotations. Each must be equal to the profile in the spec.
pub fn profiles<'a>(validator: &mut Validator<'a>, annotations: &PodField<'a>) {
    for (entry, value) in annotations.entries() {
        let key = &*entry.key;
        if key == SECCOMP_POD {
            let pod = validator.spec.clone();
            seccomp(validator, &value, &[pod]);
        } else if let Some(name) = key.strip_prefix(SECCOMP_CONTAINER) {
            let containers = named(&validator.spec, name);
            seccomp(validator, &value, &containers);
        } else if let Some(name) = key.strip_prefix(APP_ARMOR) {
            app_armor(validator, &value, name);
        }
    }
}

/// Returns the containers of any kind with this name.
fn named<'a>(spec: &PodField<'a>, name: &str) -> Vec<PodField<'a>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| spec.get(list).items());
    all.filter(|container| container.get("name").str() == name).collect()
}

/// Returns a field of the security context of the pod or of a container.
fn profile_of<'a>(owner: &PodField<'a>, name: &str) -> PodField<'a> {
    owner.get("securityContext").get(name)
}

/// Whether a profile in an annotation equals a profile in a field.
fn agrees(annotation: &str, field: &PodField<'_>) -> bool {
    match field.get("type").str() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => matches!(annotation, "runtime/default" | "docker/default"),
        "Localhost" => annotation.strip_prefix("localhost/") == field.get("localhostProfile").opt_str(),
        _ => true,
    }
}

/// A seccomp profile of the pod or of containers (`owners`).
fn seccomp(validator: &mut Validator<'_>, value: &PodField<'_>, owners: &[PodField<'_>]) {
    let profile = value.str();
    if let Some(path) = profile.strip_prefix("localhost/") {
        if let Some(wrong) = names::descending_path(path) {
            validator.invalid(value, wrong);
        }
    } else if !matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        validator.invalid(value, "must be runtime/default, unconfined or localhost/<path>");
    }
    for owner in owners {
        let field = profile_of(owner, "seccompProfile");
        if field.is_set() && !agrees(profile, &field) {
            validator.error(ViolationKind::Forbidden, &field, "differs from the seccomp annotation");
        }
    }
}

/// The `AppArmor` profile of a container.
fn app_armor(validator: &mut Validator<'_>, value: &PodField<'_>, container: &str) {
    let owners = named(&validator.spec, container);
    if owners.is_empty() {
        let name = format!("`{container}`");
        validator.wrong_text(value, container, "the pod has no container", &name);
    }
    let profile = value.str();
    if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
        validator.invalid(value, "must be runtime/default, unconfined or localhost/<profile>");
    }
    if !validator.version.at_least(30) || validator.spec.get("os").get("name").str() == "windows" {
        return;
    }
    for owner in owners {
        let own = profile_of(&owner, "appArmorProfile");
        let field = if own.is_set() { own } else { profile_of(&validator.spec, "appArmorProfile") };
        // `docker/default` is an old name of seccomp's default profile, but not of AppArmor's.
        if field.is_set() && (profile == "docker/default" || !agrees(profile, &field)) {
            let why = "differs from the AppArmor annotation of this container";
            validator.error(ViolationKind::Forbidden, &field, why);
        }
    }
}

/// The old annotation for tolerations, which contains JSON. Today, `spec.tolerations` has them.
pub fn tolerations<'a>(validator: &mut Validator<'a>, annotations: &PodField<'a>) {
    let value = annotations.key(TOLERATIONS);
    if value.is_empty() {
        return;
    }
    let Some(list) = tolerations_in(value.str()) else {
        validator.invalid(&value, "must be a JSON list of tolerations");
        return;
    };
    let mut errors =
        Validator::new(validator.version, PodField::root(&list), validator.pod_name, validator.node_name);
    for toleration in errors.spec.items() {
        errors.object("Toleration", &toleration);
    }
    validator.append(errors, "remove the annotation; spec.tolerations replaced it");
}

/// Parses the JSON of an annotation with tolerations. Returns `None` if the JSON is not a list of tolerations.
fn tolerations_in(text: &str) -> Option<ManifestNode> {
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

/// The cost of deleting the pod.
pub fn deletion_cost<'a>(validator: &mut Validator<'a>, annotations: &PodField<'a>) {
    let cost = annotations.key(DELETION_COST);
    let is_plain = cost.str() == "0" || !cost.str().starts_with(['0', '+']);
    if cost.is_set() && !(is_plain && cost.str().parse::<i32>().is_ok()) {
        validator.invalid(&cost, "must be a 32-bit integer without leading zeros or plus sign");
    }
}
