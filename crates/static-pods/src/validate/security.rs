//! Validates security contexts of pods and containers.

use std::collections::HashSet;

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;
use crate::sysctl::dotted;

use super::{names, windows};

/// Validates a container's security context.
pub fn container(validator: &mut Validator, context: &PodField<'_>, host_users: bool) {
    if !context.is_set() {
        return;
    }
    let proc_mount = context.get("procMount");
    if proc_mount.is_set() {
        validator.one_of(Check::NotAllowedValue, &proc_mount, &["Default", "Unmasked"]);
        if host_users && proc_mount.str() == "Unmasked" && validator.version.at_least(30) {
            validator.invalid(Check::OtherRule, &proc_mount, "`Unmasked` needs hostUsers: false");
        }
    }
    id(validator, &context.get("runAsUser"));
    id(validator, &context.get("runAsGroup"));
    seccomp(validator, &context.get("seccompProfile"));
    app_armor(validator, &context.get("appArmorProfile"));
    windows::options(validator, &context.get("windowsOptions"));
    if context.get("allowPrivilegeEscalation").opt_bool() == Some(false) {
        let escalation = context.get("allowPrivilegeEscalation");
        if context.get("privileged").is_true() {
            validator.invalid(Check::OtherRule, &escalation, "may not be false for a privileged container");
        }
        let added = context.get("capabilities").get("add").items();
        if added.iter().any(|capability| capability.str() == "CAP_SYS_ADMIN") {
            validator.invalid(
                Check::OtherRule,
                &escalation,
                "may not be false for a container with CAP_SYS_ADMIN",
            );
        }
    }
}

/// Validates the pod's security context and the host namespaces that it uses.
pub fn pod(validator: &mut Validator, spec: &PodField<'_>) {
    let context = spec.get("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(validator, &context.get(name));
    }
    for group in context.get("supplementalGroups").items() {
        id(validator, &group);
    }
    if spec.get("shareProcessNamespace").is_true() && spec.get("hostPID").is_true() {
        validator.invalid(
            Check::OtherRule,
            &spec.get("shareProcessNamespace"),
            "may not be true together with hostPID",
        );
    }
    sysctls(validator, spec, &context.get("sysctls"));
    for (name, allowed) in [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
    ] {
        let policy = context.get(name);
        validator.optional_one_of(Check::NotAllowedValue, &policy, &allowed);
    }
    selinux_change(validator, &context.get("seLinuxChangePolicy"));
    seccomp(validator, &context.get("seccompProfile"));
    app_armor(validator, &context.get("appArmorProfile"));
    windows::options(validator, &context.get("windowsOptions"));
}

/// Validates `seLinuxChangePolicy`. A release that applies feature gates to files allows only one value, because the gate
/// `SELinuxMount` is off.
fn selinux_change(validator: &mut Validator, policy: &PodField<'_>) {
    let allowed: &[&str] =
        if validator.applies_feature_gates() { &["Recursive"] } else { &["MountOption", "Recursive"] };
    validator.optional_one_of(Check::NotAllowedValue, policy, allowed);
}

fn id(validator: &mut Validator, at: &PodField<'_>) {
    validator.problem(Check::OtherRule, at, at.opt_int().and_then(names::id_number));
}

fn seccomp(validator: &mut Validator, profile: &PodField<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    profile_type(validator, &kind);
    if kind.str() == "Localhost" {
        if !local.is_set() {
            validator.required(Check::OtherRule, &local, "a profile of type Localhost needs its path");
        } else if let Some(wrong) = names::descending_path(local.str()) {
            validator.invalid(Check::OtherRule, &local, wrong);
        }
    } else if local.is_set() {
        validator.invalid(Check::OtherRule, &local, "may be set only for the type Localhost");
    }
}

fn app_armor(validator: &mut Validator, profile: &PodField<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    profile_type(validator, &kind);
    if kind.str() != "Localhost" {
        if local.is_set() && matches!(kind.str(), "RuntimeDefault" | "Unconfined") {
            validator.invalid(Check::OtherRule, &local, "may be set only for the type Localhost");
        }
        return;
    }
    let text = local.str();
    if text.trim().is_empty() {
        validator.required(Check::OtherRule, &local, "a profile of type Localhost needs its name");
    } else if text.trim() != text {
        validator.invalid(Check::OtherRule, &local, "must not start or end with white space");
    } else if text.len() > 4095 {
        validator.too_long(Check::OtherRule, &local, "may have at most 4095 bytes");
    }
}

fn profile_type(validator: &mut Validator, kind: &PodField<'_>) {
    if validator.not_empty(Check::OtherRule, kind, "the type of the profile is required") {
        validator.one_of(Check::NotAllowedValue, kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
}

fn sysctls(validator: &mut Validator, spec: &PodField<'_>, sysctls: &PodField<'_>) {
    let mut seen = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.get("name");
        if name.is_empty() {
            validator.required(Check::OtherRule, &name, "a sysctl needs a name");
        } else if !is_sysctl(name.str()) {
            validator.invalid(
                Check::OtherRule,
                &name,
                "must be lower-case letters, digits, `-`, `_`, with `.` or `/` between the parts",
            );
        } else if !seen.insert(name.str()) {
            validator.duplicate(Check::OtherRule, &name);
        }
        // Since 1.29, the kubelet rejects a sysctl of a namespace that the pod shares with the host.
        if validator.version.at_least(29) {
            let dotted = dotted(name.str());
            let is_of_ipc =
                ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix))
                    || dotted == "kernel.sem";
            if is_of_ipc && spec.get("hostIPC").is_true() {
                validator.invalid(Check::OtherRule, &name, "may not be set together with hostIPC");
            }
            if dotted.starts_with("net.") && spec.get("hostNetwork").is_true() {
                validator.invalid(Check::OtherRule, &name, "may not be set together with hostNetwork");
            }
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let segment = |segment: &str| {
        let bytes = segment.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(segment)
}
