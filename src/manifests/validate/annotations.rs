//! Annotations that mean something to validation.

use crate::manifests::at::At;
use crate::manifests::judge::Judge;

use super::{names, scheduling};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Judges the annotations of the pod against its spec.
pub fn validate(judge: &mut Judge, meta: &At<'_>, spec: &At<'_>) {
    for (entry, value) in meta.get("annotations").entries() {
        let key = &*entry.key;
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp(judge, &value);
        } else if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(judge, &value, container, spec);
        } else if key == TOLERATIONS && !value.is_empty() {
            tolerations(judge, &value);
        } else if key == DELETION_COST && !is_cost(value.str()) {
            judge.invalid(61, &value, "must be a 32-bit integer without leading zeros or plus sign");
        }
    }
}

fn seccomp(judge: &mut Judge, value: &At<'_>) {
    match value.str() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        other => match other.strip_prefix("localhost/") {
            Some(path) => {
                if let Some(wrong) = names::descending_path(path) {
                    judge.invalid(95, value, wrong);
                }
            }
            None => {
                judge.invalid(95, value, "must be runtime/default, unconfined or localhost/<path>");
            }
        },
    }
}

fn app_armor(judge: &mut Judge, value: &At<'_>, container: &str, spec: &At<'_>) {
    let containers = || {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| spec.get(list).items())
    };
    if !containers().any(|item| item.get("name").str() == container) {
        judge.invalid(95, value, &format!("there is no container `{container}`"));
    }
    let profile = value.str();
    if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
        judge.invalid(95, value, "must be runtime/default, unconfined or localhost/<profile>");
    }
    if !judge.version.at_least(30) || spec.get("os").get("name").str() == "windows" {
        return;
    }
    let of_pod = spec.get("securityContext").get("appArmorProfile");
    for item in containers().filter(|item| item.get("name").str() == container) {
        let own = item.get("securityContext").get("appArmorProfile");
        let field = if own.is_set() { own } else { of_pod.clone() };
        let agrees = match field.get("type").str() {
            "Unconfined" => profile == "unconfined",
            "RuntimeDefault" => profile == "runtime/default",
            "Localhost" => profile.strip_prefix("localhost/") == field.get("localhostProfile").opt_str(),
            _ => true,
        };
        if field.is_set() && !agrees {
            judge.forbidden(95, &field, "does not agree with the AppArmor annotation of this container");
        }
    }
}

/// Tolerations used to be an annotation with JSON in it, and still have to be right there.
fn tolerations(judge: &mut Judge, value: &At<'_>) {
    let Some(list) = scheduling::tolerations_in(value.str()) else {
        judge.invalid(95, value, "must be a JSON list of tolerations");
        return;
    };
    let before = judge.count();
    scheduling::tolerations(judge, &At::root(&list));
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
