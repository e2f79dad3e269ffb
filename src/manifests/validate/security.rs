//! Security contexts of pods and containers.

use std::collections::HashSet;

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::{names, windows};

/// Judges a container's security context.
pub fn container(judge: &mut Judge, context: &Place<'_>, host_users: bool) {
    if !context.is_set() {
        return;
    }
    let proc_mount = context.get("procMount");
    if proc_mount.is_set() {
        judge.one_of(Check::NotAllowedWord, &proc_mount, &["Default", "Unmasked"]);
        if host_users && proc_mount.str() == "Unmasked" && judge.version.at_least(30) {
            judge.invalid(Check::OtherRule, &proc_mount, "`Unmasked` needs hostUsers: false");
        }
    }
    id(judge, &context.get("runAsUser"));
    id(judge, &context.get("runAsGroup"));
    seccomp(judge, &context.get("seccompProfile"));
    app_armor(judge, &context.get("appArmorProfile"));
    windows::options(judge, &context.get("windowsOptions"));
    if context.get("allowPrivilegeEscalation").opt_bool() == Some(false) {
        let escalation = context.get("allowPrivilegeEscalation");
        if context.get("privileged").is_true() {
            judge.invalid(Check::OtherRule, &escalation, "may not be false for a privileged container");
        }
        let added = context.get("capabilities").get("add").items();
        if added.iter().any(|capability| capability.str() == "CAP_SYS_ADMIN") {
            judge.invalid(
                Check::OtherRule,
                &escalation,
                "may not be false for a container with CAP_SYS_ADMIN",
            );
        }
    }
}

/// Judges the pod's security context and the namespaces it shares.
pub fn pod(judge: &mut Judge, spec: &Place<'_>) {
    let context = spec.get("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(judge, &context.get(name));
    }
    for group in context.get("supplementalGroups").items() {
        id(judge, &group);
    }
    if spec.get("shareProcessNamespace").is_true() && spec.get("hostPID").is_true() {
        judge.invalid(
            Check::OtherRule,
            &spec.get("shareProcessNamespace"),
            "may not be true together with hostPID",
        );
    }
    sysctls(judge, spec, &context.get("sysctls"));
    for (name, allowed) in [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
    ] {
        let policy = context.get(name);
        if policy.is_set() {
            judge.one_of(Check::NotAllowedWord, &policy, &allowed);
        }
    }
    selinux_change(judge, &context.get("seLinuxChangePolicy"));
    seccomp(judge, &context.get("seccompProfile"));
    app_armor(judge, &context.get("appArmorProfile"));
    windows::options(judge, &context.get("windowsOptions"));
}

/// While the gate `SELinuxMount` is closed, a file source that honours gates takes one value only.
fn selinux_change(judge: &mut Judge, policy: &Place<'_>) {
    let allowed: &[&str] = if judge.relaxed() { &["Recursive"] } else { &["MountOption", "Recursive"] };
    if policy.is_set() {
        judge.one_of(Check::NotAllowedWord, policy, allowed);
    }
}

fn id(judge: &mut Judge, at: &Place<'_>) {
    if let Some(wrong) = at.opt_int().and_then(names::id_number) {
        judge.invalid(Check::OtherRule, at, wrong);
    }
}

fn seccomp(judge: &mut Judge, profile: &Place<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    profile_type(judge, &kind);
    if kind.str() == "Localhost" {
        if !local.is_set() {
            judge.required(Check::OtherRule, &local, "a profile of type Localhost needs its path");
        } else if let Some(wrong) = names::descending_path(local.str()) {
            judge.invalid(Check::OtherRule, &local, wrong);
        }
    } else if local.is_set() {
        judge.invalid(Check::OtherRule, &local, "may be set for type Localhost only");
    }
}

fn app_armor(judge: &mut Judge, profile: &Place<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    profile_type(judge, &kind);
    if kind.str() != "Localhost" {
        if local.is_set() && matches!(kind.str(), "RuntimeDefault" | "Unconfined") {
            judge.invalid(Check::OtherRule, &local, "may be set for type Localhost only");
        }
        return;
    }
    let text = local.str();
    if text.trim().is_empty() {
        judge.required(Check::OtherRule, &local, "a profile of type Localhost needs its name");
    } else if text.trim() != text {
        judge.invalid(Check::OtherRule, &local, "must not start or end with white space");
    } else if text.len() > 4095 {
        judge.object(Check::OtherRule, &local, Objection::TooLong, "may have at most 4095 bytes");
    }
}

fn profile_type(judge: &mut Judge, kind: &Place<'_>) {
    if kind.is_empty() {
        judge.required(Check::OtherRule, kind, "the type of the profile is required");
    } else {
        judge.one_of(Check::NotAllowedWord, kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
}

fn sysctls(judge: &mut Judge, spec: &Place<'_>, sysctls: &Place<'_>) {
    let mut seen = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.get("name");
        if name.is_empty() {
            judge.required(Check::OtherRule, &name, "a sysctl needs a name");
        } else if !is_sysctl(name.str()) {
            judge.invalid(
                Check::OtherRule,
                &name,
                "must be lower-case letters, digits, `-`, `_`, with `.` or `/` between the parts",
            );
        } else if !seen.insert(name.str()) {
            judge.duplicate(Check::OtherRule, &name);
        }
        // Since 1.29 sysctls of a namespace that the pod shares with the host are refused.
        if judge.version.at_least(29) {
            let dotted = dotted(name.str());
            let ipc =
                ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix))
                    || dotted == "kernel.sem";
            if ipc && spec.get("hostIPC").is_true() {
                judge.invalid(Check::OtherRule, &name, "may not be set together with hostIPC");
            }
            if dotted.starts_with("net.") && spec.get("hostNetwork").is_true() {
                judge.invalid(Check::OtherRule, &name, "may not be set together with hostNetwork");
            }
        }
    }
}

/// The same name with dots, whichever of `.` and `/` comes first being the separator.
fn dotted(name: &str) -> String {
    let slash_first = name.find(['.', '/']).and_then(|at| name.as_bytes().get(at)) == Some(&b'/');
    if !slash_first {
        return name.to_owned();
    }
    let swap = |letter| match letter {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    name.chars().map(swap).collect()
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
