//! Annotations that mean something to validation.

use super::judge::Judge;
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::{names, scheduling};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Judges the annotations of the pod against its spec.
pub fn validate(judge: &mut Judge, meta: &Place<'_>, spec: &Place<'_>) {
    for (entry, value) in meta.get("annotations").entries() {
        let key = &*entry.key;
        if key == SECCOMP_POD {
            seccomp(judge, &value, std::slice::from_ref(spec));
        } else if let Some(name) = key.strip_prefix(SECCOMP_CONTAINER) {
            seccomp(judge, &value, &named(spec, name));
        } else if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(judge, &value, container, spec);
        } else if key == TOLERATIONS && !value.is_empty() {
            tolerations(judge, &value);
        } else if key == DELETION_COST && !is_cost(value.str()) {
            judge.invalid(
                Check::BadMetadata,
                &value,
                "must be a 32-bit integer without leading zeros or plus sign",
            );
        }
    }
}

/// Containers of every kind with this name.
fn named<'a>(spec: &Place<'a>, name: &str) -> Vec<Place<'a>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| spec.get(list).items());
    all.filter(|container| container.get("name").str() == name).collect()
}

/// True if a profile in an annotation and one in a field say the same.
fn agrees(annotation: &str, field: &Place<'_>) -> bool {
    match field.get("type").str() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => matches!(annotation, "runtime/default" | "docker/default"),
        "Localhost" => annotation.strip_prefix("localhost/") == field.get("localhostProfile").opt_str(),
        _ => true,
    }
}

fn seccomp(judge: &mut Judge, value: &Place<'_>, owners: &[Place<'_>]) {
    let profile = value.str();
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        other => match other.strip_prefix("localhost/") {
            Some(path) => {
                if let Some(wrong) = names::descending_path(path) {
                    judge.invalid(Check::OtherRule, value, wrong);
                }
            }
            None => {
                judge.invalid(
                    Check::OtherRule,
                    value,
                    "must be runtime/default, unconfined or localhost/<path>",
                );
            }
        },
    }
    for owner in owners {
        let field = owner.get("securityContext").get("seccompProfile");
        if field.is_set() && !agrees(profile, &field) {
            judge.forbidden(Check::OtherRule, &field, "does not agree with the seccomp annotation");
        }
    }
}

fn app_armor(judge: &mut Judge, value: &Place<'_>, container: &str, spec: &Place<'_>) {
    let owners = named(spec, container);
    if owners.is_empty() {
        judge.invalid(Check::OtherRule, value, &format!("there is no container `{container}`"));
    }
    let profile = value.str();
    if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
        judge.invalid(Check::OtherRule, value, "must be runtime/default, unconfined or localhost/<profile>");
    }
    if !judge.version.at_least(30) || spec.get("os").get("name").str() == "windows" {
        return;
    }
    let of_pod = spec.get("securityContext").get("appArmorProfile");
    for owner in owners {
        let own = owner.get("securityContext").get("appArmorProfile");
        let field = if own.is_set() { own } else { of_pod.clone() };
        // The old name of seccomp's default profile means nothing here.
        if field.is_set() && (profile == "docker/default" || !agrees(profile, &field)) {
            judge.forbidden(
                Check::OtherRule,
                &field,
                "does not agree with the AppArmor annotation of this container",
            );
        }
    }
}

/// Tolerations used to be an annotation with JSON in it, and still have to be right there.
fn tolerations(judge: &mut Judge, value: &Place<'_>) {
    let Some(list) = scheduling::tolerations_in(value.str()) else {
        judge.invalid(Check::OtherRule, value, "must be a JSON list of tolerations");
        return;
    };
    let before = judge.count();
    scheduling::tolerations(judge, &Place::root(&list));
    if judge.count() > before {
        judge.fix("remove the annotation; spec.tolerations replaced it");
    }
}

fn is_cost(text: &str) -> bool {
    let first_ok = match text.as_bytes() {
        [b'0', _, ..] | [] => false,
        [first, ..] => *first == b'-' || first.is_ascii_digit(),
    };
    first_ok && text.parse::<i32>().is_ok()
}
