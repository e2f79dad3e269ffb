//! Validates the fields of the pod spec outside of containers and volumes: policies, names, DNS, resource claims and more.

use std::collections::HashSet;

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;

use super::{meta, names, resources};

/// Validates the fields of the spec that no other file validates, except the resource claims.
pub fn validate(validator: &mut Validator, spec: &PodField<'_>) {
    validator.one_of(Check::NotAllowedValue, &spec.get("restartPolicy"), &["Always", "OnFailure", "Never"]);
    validator.one_of(
        Check::NotAllowedValue,
        &spec.get("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    let preemption = spec.get("preemptionPolicy");
    validator.optional_one_of(Check::NotAllowedValue, &preemption, &["PreemptLowerPriority", "Never"]);
    meta::labels(validator, Check::OtherRule, &spec.get("nodeSelector"));
    for (field, rule) in [
        ("serviceAccountName", names::subdomain as names::TextRule),
        ("hostname", names::label),
        ("subdomain", names::label),
        ("priorityClassName", names::subdomain),
    ] {
        let at = spec.get(field);
        validator.optional_text(Check::OtherRule, &at, rule);
    }
    let runtime_class = spec.get("runtimeClassName");
    validator.problem(Check::OtherRule, &runtime_class, runtime_class.opt_str().and_then(names::subdomain));
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.opt_int().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        validator.invalid(Check::OtherRule, &deadline, "must be between 1 and 2147483647");
    }
    for gate in spec.get("readinessGates").items() {
        let kind = gate.get("conditionType");
        validator.text(Check::OtherRule, &kind, names::qualified);
    }
    for alias in spec.get("hostAliases").items() {
        address(validator, &alias.get("ip"));
        for name in alias.get("hostnames").items() {
            validator.text(Check::OtherRule, &name, names::subdomain);
        }
    }
    if spec.get("overhead").is_set() {
        resources::overhead(validator, &spec.get("overhead"));
    }
    if !spec.get("ephemeralContainers").is_empty() {
        validator
            .forbidden(
                Check::ForbiddenField,
                &spec.get("ephemeralContainers"),
                "may not be set when a pod is created",
            )
            .fix("remove ephemeralContainers");
    }
    host_users(validator, spec);
    dns(validator, spec);
    hostname_override(validator, spec);
    scheduling_group(validator, &spec.get("schedulingGroup"));
}

/// Validates that a pod with its own user namespace uses no other namespace of the host and, from 1.34 on, no devices.
fn host_users(validator: &mut Validator, spec: &PodField<'_>) {
    if spec.get("hostUsers").opt_bool() != Some(false) {
        return;
    }
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec.get(field).is_true() {
            validator.forbidden(
                Check::OtherRule,
                &spec.get(field),
                "may not be true when hostUsers is false",
            );
        }
    }
    if !validator.version.at_least(34) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get(list).items() {
            if !container.get("volumeDevices").is_empty() {
                validator.forbidden(
                    Check::OtherRule,
                    &container.get("volumeDevices"),
                    "may not be given when hostUsers is false",
                );
            }
        }
    }
}

/// Validates the scheduling group.
fn scheduling_group(validator: &mut Validator, group: &PodField<'_>) {
    if !group.is_set() {
        return;
    }
    let name = group.get("podGroupName");
    if !name.is_set() {
        validator.invalid(Check::OtherRule, &name, "the name of the pod group is required");
    } else if let Some(wrong) = names::subdomain(name.str()) {
        validator.invalid(Check::OtherRule, &name, wrong);
    }
}

/// Validates an IP address. From 1.36 on, only its canonical spelling is valid (feature gate `StrictIPCIDRValidation`).
fn address(validator: &mut Validator, at: &PodField<'_>) {
    let is_strict = validator.version.at_least(36);
    let strict = || if is_strict { names::strict_ip(at.str()) } else { None };
    validator.problem(Check::OtherRule, at, names::ip(at.str()).or_else(strict));
}

/// Validates `dnsConfig`.
fn dns(validator: &mut Validator, spec: &PodField<'_>) {
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").str() == "None" {
        if !config.is_set() {
            validator.required(Check::OtherRule, &config, "must be given when dnsPolicy is None");
            return;
        }
        let missing = "at least one name server is required when dnsPolicy is None";
        if !validator.not_empty(Check::OtherRule, &servers, missing) {
            return;
        }
    }
    if servers.len() > 3 {
        validator.invalid(Check::OtherRule, &servers, "may have at most 3 name servers");
    }
    for server in servers.items() {
        address(validator, &server);
    }
    searches(validator, &config.get("searches"));
    for option in config.get("options").items() {
        if option.get("name").is_empty() {
            validator.required(Check::OtherRule, &option, "an option needs a name");
        }
    }
}

/// Validates the DNS search paths.
fn searches(validator: &mut Validator, searches: &PodField<'_>) {
    let items = searches.items();
    if items.len() > 32 {
        validator.invalid(Check::OtherRule, searches, "may have at most 32 search paths");
    }
    // Each item counts one more character for its separator.
    let length: usize = items.iter().map(|item| item.str().len().saturating_add(1)).sum();
    if length > 2049 {
        validator.invalid(Check::OtherRule, searches, "may have at most 2048 characters together");
    }
    let is_relaxed = validator.applies_feature_gates();
    for item in &items {
        if is_relaxed && item.str() == "." {
            continue;
        }
        let text = item.str().strip_suffix('.').unwrap_or(item.str());
        let wrong = if is_relaxed { names::relaxed_search(text) } else { names::subdomain(text) };
        validator.problem(Check::OtherRule, item, wrong);
    }
}

/// Validates `hostnameOverride`. A release whose feature gate is off drops the field before (schema/pod.txt).
fn hostname_override(validator: &mut Validator, spec: &PodField<'_>) {
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if name.str().len() > 64 {
        validator.invalid(Check::OtherRule, &name, "must be no more than 64 characters long");
    }
    validator.text(Check::OtherRule, &name, names::subdomain);
    if spec.get("hostNetwork").is_true() {
        validator.forbidden(Check::OtherRule, &name, "may not be set together with hostNetwork");
    }
    if spec.get("setHostnameAsFQDN").is_true() {
        validator.forbidden(
            Check::OtherRule,
            &spec.get("setHostnameAsFQDN"),
            "may not be true when hostnameOverride is set",
        );
    }
}

/// Validates `resourceClaims`. Returns the names that containers may use.
pub fn claims<'a>(validator: &mut Validator, spec: &PodField<'a>) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for claim in spec.get("resourceClaims").items() {
        let name = claim.get("name");
        if validator.not_empty(Check::OtherRule, &name, "a resource claim needs a name") {
            validator.text(Check::OtherRule, &name, names::label);
            if !seen.insert(name.str()) {
                validator.duplicate(Check::OtherRule, &name);
            }
        }
        let source = if validator.version.at_least(31) { claim.clone() } else { claim.get("source") };
        let (direct, template) = (source.get("resourceClaimName"), source.get("resourceClaimTemplateName"));
        if direct.is_set() == template.is_set() {
            validator.invalid(
                Check::OtherRule,
                &claim,
                "must have either resourceClaimName or resourceClaimTemplateName",
            );
        }
        for at in [&direct, &template] {
            validator.problem(Check::OtherRule, at, at.opt_str().and_then(names::subdomain));
        }
    }
    seen
}
