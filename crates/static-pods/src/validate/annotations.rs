//! Validates the annotations whose values the kubelet checks: seccomp and `AppArmor` profiles, tolerations, deletion cost.

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;

use super::{names, scheduling};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates the annotations of the pod. A profile must be equal to the profile in the spec.
pub fn validate(validator: &mut Validator, meta: &PodField<'_>, spec: &PodField<'_>) {
    for (entry, value) in meta.get("annotations").entries() {
        let key = &*entry.key;
        if key == SECCOMP_POD {
            seccomp(validator, &value, std::slice::from_ref(spec));
        } else if let Some(name) = key.strip_prefix(SECCOMP_CONTAINER) {
            seccomp(validator, &value, &named(spec, name));
        } else if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(validator, &value, container, spec);
        } else if key == TOLERATIONS && !value.is_empty() {
            tolerations(validator, &value);
        } else if key == DELETION_COST && !is_cost(value.str()) {
            validator.invalid(
                Check::BadMetadata,
                &value,
                "must be a 32-bit integer without leading zeros or plus sign",
            );
        }
    }
}

/// Returns the containers of any kind with this name.
fn named<'a>(spec: &PodField<'a>, name: &str) -> Vec<PodField<'a>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| spec.get(list).items());
    all.filter(|container| container.get("name").str() == name).collect()
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

/// Validates a seccomp profile of the pod or of containers (`owners`).
fn seccomp(validator: &mut Validator, value: &PodField<'_>, owners: &[PodField<'_>]) {
    let profile = value.str();
    if let Some(path) = profile.strip_prefix("localhost/") {
        validator.problem(Check::OtherRule, value, names::descending_path(path));
    } else if !matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        validator.invalid(Check::OtherRule, value, "must be runtime/default, unconfined or localhost/<path>");
    }
    for owner in owners {
        let field = owner.get("securityContext").get("seccompProfile");
        if field.is_set() && !agrees(profile, &field) {
            validator.forbidden(Check::OtherRule, &field, "differs from the seccomp annotation");
        }
    }
}

/// Validates the `AppArmor` profile of a container.
fn app_armor(validator: &mut Validator, value: &PodField<'_>, container: &str, spec: &PodField<'_>) {
    let owners = named(spec, container);
    if owners.is_empty() {
        let name = format!("`{container}`");
        validator.wrong_text(Check::OtherRule, value, container, "the pod has no container", &name);
    }
    let profile = value.str();
    if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
        validator.invalid(
            Check::OtherRule,
            value,
            "must be runtime/default, unconfined or localhost/<profile>",
        );
    }
    if !validator.version.at_least(30) || spec.get("os").get("name").str() == "windows" {
        return;
    }
    let of_pod = spec.get("securityContext").get("appArmorProfile");
    for owner in owners {
        let own = owner.get("securityContext").get("appArmorProfile");
        let field = if own.is_set() { own } else { of_pod.clone() };
        // `docker/default` is an old name of seccomp's default profile, but not of AppArmor's.
        if field.is_set() && (profile == "docker/default" || !agrees(profile, &field)) {
            validator.forbidden(
                Check::OtherRule,
                &field,
                "differs from the AppArmor annotation of this container",
            );
        }
    }
}

/// Validates the old annotation for tolerations, which contains JSON. Today, `spec.tolerations` has them.
fn tolerations(validator: &mut Validator, value: &PodField<'_>) {
    let Some(list) = scheduling::tolerations_in(value.str()) else {
        validator.invalid(Check::OtherRule, value, "must be a JSON list of tolerations");
        return;
    };
    let before = validator.count();
    scheduling::tolerations(validator, &PodField::root(&list));
    if validator.count() > before {
        validator.fix("remove the annotation; spec.tolerations replaced it");
    }
}

/// Whether a text is a valid deletion cost.
fn is_cost(text: &str) -> bool {
    let first_ok = match text.as_bytes() {
        [b'0', _, ..] | [] => false,
        [first, ..] => *first == b'-' || first.is_ascii_digit(),
    };
    first_ok && text.parse::<i32>().is_ok()
}
