//! Validates Windows options, host-process pods, and fields that are forbidden for an operating system.

use super::validator::Validator;
use crate::Check;
use crate::image_name::is_host_label;
use crate::pod_field::PodField;

use super::names;

/// Validates `windowsOptions`.
pub fn options(validator: &mut Validator, options: &PodField<'_>) {
    if !options.is_set() {
        return;
    }
    let spec_name = options.get("gmsaCredentialSpecName");
    validator.problem(Check::OtherRule, &spec_name, spec_name.opt_str().and_then(names::subdomain));
    let spec = options.get("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        validator.invalid(Check::OtherRule, &spec, "may not be empty");
    } else if spec.str().len() > 64 * 1024 {
        validator.too_long(Check::OtherRule, &spec, "may have at most 65536 bytes");
    }
    let user = options.get("runAsUserName");
    validator.problem(Check::OtherRule, &user, user.opt_str().and_then(user_name));
}

/// Validates a Windows user name, with or without a domain.
fn user_name(text: &str) -> names::FormatProblem {
    if text.is_empty() {
        return Some("may not be empty");
    }
    if text.chars().any(|letter| letter.is_ascii_control()) {
        return Some("may not contain control characters");
    }
    let parts: Vec<&str> = text.split('\\').collect();
    let (domain, user) = match *parts.as_slice() {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return Some("may contain one backslash at most"),
    };
    if domain.is_some_and(|domain| !is_domain(domain)) {
        return Some("must have a NetBIOS or DNS name before the backslash");
    }
    if user.is_empty() || user.len() > 104 {
        return Some("must have a user name of 1 to 104 characters");
    }
    let forbidden =
        user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']);
    let blank = user.trim_matches(['.', ' ']).is_empty();
    (forbidden || blank).then_some("must have a user name without any of \" / \\ [ ] : ; | = , + * ? < > @")
}

/// Whether a text is a `NetBIOS` name or a DNS name.
fn is_domain(text: &str) -> bool {
    if text.is_empty() || text.len() > 255 {
        return false;
    }
    let netbios = text.len() <= 15
        && !text.starts_with('.')
        && !text.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
    netbios || text.split('.').all(is_host_label)
}

/// Validates host-process pods: all containers or none must be host-process containers, and the pod must use the host
/// network.
pub fn host_process(validator: &mut Validator, spec: &PodField<'_>) {
    let of_pod = spec.get("securityContext").get("windowsOptions").get("hostProcess");
    let mut host_process_containers = 0_usize;
    let mut all = 0_usize;
    for container in all_containers(spec) {
        all += 1;
        let own = container.get("securityContext").get("windowsOptions").get("hostProcess");
        if let (Some(of_pod), Some(of_container)) = (of_pod.opt_bool(), own.opt_bool())
            && of_pod != of_container
        {
            validator.invalid(Check::OtherRule, &own, "must be equal to hostProcess of the pod");
        }
        if own.opt_bool().or(of_pod.opt_bool()) == Some(true) {
            host_process_containers += 1;
        }
    }
    if host_process_containers == 0 {
        return;
    }
    if host_process_containers != all {
        validator.invalid(
            Check::OtherRule,
            spec,
            "either all containers must be host-process containers, or none",
        );
    }
    if !spec.get("hostNetwork").is_true() {
        validator.invalid(
            Check::OtherRule,
            &spec.get("hostNetwork"),
            "must be true for host-process containers",
        );
    }
}

fn all_containers<'a>(spec: &PodField<'a>) -> Vec<PodField<'a>> {
    ["initContainers", "containers"].iter().flat_map(|list| spec.get(list).items()).collect()
}

/// Fields of the spec that a Windows pod must not set.
const SPEC_FIELDS: &[&str] = &["hostUsers", "shareProcessNamespace"];
/// Fields of the spec that must not be true in a Windows pod.
const SPEC_FLAGS: &[&str] = &["hostPID", "hostIPC"];
/// Fields of the pod's security context that a Windows pod must not set.
const POD_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
/// Fields of a container's security context that a Windows pod must not set.
const CONTAINER_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates `os`, and forbids the fields of the other operating system.
pub fn os(validator: &mut Validator, spec: &PodField<'_>) {
    let os = spec.get("os");
    if !os.is_set() {
        return;
    }
    let name = os.get("name");
    if !validator.not_empty(Check::OtherRule, &name, "the name of the operating system is required")
        || !validator.one_of(Check::NotAllowedValue, &name, &["linux", "windows"])
    {
        return;
    }
    let context = spec.get("securityContext");
    let containers: Vec<PodField<'_>> =
        all_containers(spec).iter().map(|item| item.get("securityContext")).collect();
    if name.str() == "linux" {
        for context in containers.iter().chain([&context]) {
            forbid(validator, &context.get("windowsOptions"), "may not be set for a Linux pod");
        }
        return;
    }
    let why = "may not be set for a Windows pod";
    for field in POD_CONTEXT {
        forbid(validator, &context.get(field), why);
    }
    if !context.get("sysctls").is_empty() {
        forbid(validator, &context.get("sysctls"), why);
    }
    for field in SPEC_FIELDS {
        forbid(validator, &spec.get(field), why);
    }
    for flag in SPEC_FLAGS {
        if spec.get(flag).is_true() {
            forbid(validator, &spec.get(flag), why);
        }
    }
    for context in &containers {
        for field in CONTAINER_CONTEXT {
            forbid(validator, &context.get(field), why);
        }
    }
}

fn forbid(validator: &mut Validator, at: &PodField<'_>, why: &str) {
    if at.is_set() {
        validator.forbidden(Check::OtherRule, at, why);
    }
}
