//! The rules of the pod spec that concern no container and no volume.

use std::collections::HashSet;

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::{meta, names, resources};

/// Judges fields with a fixed set of values, names and numbers of the spec.
pub fn validate(judge: &mut Judge, spec: &Place<'_>) {
    judge.one_of(Check::NotAllowedWord, &spec.get("restartPolicy"), &["Always", "OnFailure", "Never"]);
    judge.one_of(
        Check::NotAllowedWord,
        &spec.get("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    if spec.get("preemptionPolicy").is_set() {
        judge.one_of(
            Check::NotAllowedWord,
            &spec.get("preemptionPolicy"),
            &["PreemptLowerPriority", "Never"],
        );
    }
    meta::labels(judge, Check::OtherRule, &spec.get("nodeSelector"));
    for (field, rule) in [
        ("serviceAccountName", names::subdomain as fn(&str) -> names::Wrong),
        ("hostname", names::label),
        ("subdomain", names::label),
        ("priorityClassName", names::subdomain),
    ] {
        let at = spec.get(field);
        if let (false, Some(wrong)) = (at.is_empty(), rule(at.str())) {
            judge.invalid(Check::OtherRule, &at, wrong);
        }
    }
    if let Some(wrong) = spec.get("runtimeClassName").opt_str().and_then(names::subdomain) {
        judge.invalid(Check::OtherRule, &spec.get("runtimeClassName"), wrong);
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.opt_int().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        judge.invalid(Check::OtherRule, &deadline, "must be between 1 and 2147483647");
    }
    for gate in spec.get("readinessGates").items() {
        let kind = gate.get("conditionType");
        if let Some(wrong) = names::qualified(kind.str()) {
            judge.invalid(Check::OtherRule, &kind, wrong);
        }
    }
    for alias in spec.get("hostAliases").items() {
        if let Some(wrong) = ip(judge, alias.get("ip").str()) {
            judge.invalid(Check::OtherRule, &alias.get("ip"), wrong);
        }
        for name in alias.get("hostnames").items() {
            if let Some(wrong) = names::subdomain(name.str()) {
                judge.invalid(Check::OtherRule, &name, wrong);
            }
        }
    }
    if spec.get("overhead").is_set() {
        resources::overhead(judge, &spec.get("overhead"));
    }
    if !spec.get("ephemeralContainers").is_empty() {
        judge
            .forbidden(
                Check::ForbiddenField,
                &spec.get("ephemeralContainers"),
                "may not be set when a pod is created",
            )
            .fix("remove ephemeralContainers");
    }
    host_users(judge, spec);
    dns(judge, spec);
    hostname_override(judge, spec);
    scheduling_group(judge, &spec.get("schedulingGroup"));
}

/// A user namespace of its own excludes the host's other namespaces.
fn host_users(judge: &mut Judge, spec: &Place<'_>) {
    if spec.get("hostUsers").opt_bool() != Some(false) {
        return;
    }
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec.get(field).is_true() {
            judge.forbidden(Check::OtherRule, &spec.get(field), "may not be true when hostUsers is false");
        }
    }
    if !judge.version.at_least(34) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get(list).items() {
            if !container.get("volumeDevices").is_empty() {
                judge.forbidden(
                    Check::OtherRule,
                    &container.get("volumeDevices"),
                    "may not be given when hostUsers is false",
                );
            }
        }
    }
}

/// The group that a pod is scheduled with.
fn scheduling_group(judge: &mut Judge, group: &Place<'_>) {
    if !group.is_set() {
        return;
    }
    let name = group.get("podGroupName");
    if !name.is_set() {
        judge.invalid(Check::OtherRule, &name, "the name of the pod group is required");
    } else if let Some(wrong) = names::subdomain(name.str()) {
        judge.invalid(Check::OtherRule, &name, wrong);
    }
}

/// An address that stands alone; since 1.36 in one spelling only (gate `StrictIPCIDRValidation`).
fn ip(judge: &Judge, text: &str) -> names::Wrong {
    names::ip(text).or_else(|| if judge.version.at_least(36) { names::strict_ip(text) } else { None })
}

fn dns(judge: &mut Judge, spec: &Place<'_>) {
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").str() == "None" {
        if !config.is_set() {
            judge.required(Check::OtherRule, &config, "must be given when dnsPolicy is None");
            return;
        }
        if servers.is_empty() {
            judge.required(
                Check::OtherRule,
                &servers,
                "at least one name server is required when dnsPolicy is None",
            );
            return;
        }
    }
    if servers.len() > 3 {
        judge.invalid(Check::OtherRule, &servers, "may have at most 3 name servers");
    }
    for server in servers.items() {
        if let Some(wrong) = ip(judge, server.str()) {
            judge.invalid(Check::OtherRule, &server, wrong);
        }
    }
    searches(judge, &config.get("searches"));
    for option in config.get("options").items() {
        if option.get("name").is_empty() {
            judge.required(Check::OtherRule, &option, "an option needs a name");
        }
    }
}

fn searches(judge: &mut Judge, searches: &Place<'_>) {
    let items = searches.items();
    if items.len() > 32 {
        judge.invalid(Check::OtherRule, searches, "may have at most 32 search paths");
    }
    let length: usize = items.iter().map(|item| item.str().len().saturating_add(1)).sum();
    if length > 2049 {
        judge.invalid(Check::OtherRule, searches, "may have at most 2048 characters together");
    }
    let relaxed = judge.relaxed();
    for item in &items {
        if relaxed && item.str() == "." {
            continue;
        }
        let text = item.str().strip_suffix('.').unwrap_or(item.str());
        let wrong = if relaxed { names::relaxed_search(text) } else { names::subdomain(text) };
        if let Some(wrong) = wrong {
            judge.invalid(Check::OtherRule, item, wrong);
        }
    }
}

/// `HostnameOverride` opens in 1.35.
fn hostname_override(judge: &mut Judge, spec: &Place<'_>) {
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if name.str().len() > 64 {
        judge.invalid(Check::OtherRule, &name, "must be no more than 64 characters long");
    }
    if let Some(wrong) = names::subdomain(name.str()) {
        judge.invalid(Check::OtherRule, &name, wrong);
    }
    if spec.get("hostNetwork").is_true() {
        judge.forbidden(Check::OtherRule, &name, "may not be set together with hostNetwork");
    }
    if spec.get("setHostnameAsFQDN").is_true() {
        judge.forbidden(
            Check::OtherRule,
            &spec.get("setHostnameAsFQDN"),
            "may not be true when hostnameOverride is set",
        );
    }
}

/// Judges `resourceClaims` and gives back the names that containers may use.
pub fn claims<'a>(judge: &mut Judge, spec: &Place<'a>) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for claim in spec.get("resourceClaims").items() {
        let name = claim.get("name");
        if name.is_empty() {
            judge.required(Check::OtherRule, &name, "a resource claim needs a name");
        } else {
            if let Some(wrong) = names::label(name.str()) {
                judge.invalid(Check::OtherRule, &name, wrong);
            }
            if !seen.insert(name.str()) {
                judge.duplicate(Check::OtherRule, &name);
            }
        }
        let source = if judge.version.at_least(31) { claim.clone() } else { claim.get("source") };
        let (direct, template) = (source.get("resourceClaimName"), source.get("resourceClaimTemplateName"));
        if direct.is_set() == template.is_set() {
            judge.object(
                Check::OtherRule,
                &claim,
                Objection::Invalid,
                "must have either resourceClaimName or resourceClaimTemplateName",
            );
        }
        for at in [&direct, &template] {
            if let Some(wrong) = at.opt_str().and_then(names::subdomain) {
                judge.invalid(Check::OtherRule, at, wrong);
            }
        }
    }
    seen
}
