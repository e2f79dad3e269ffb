//! Validates containers and init containers.

use std::collections::HashSet;

use super::validator::{Validator, ViolationKind};
use crate::Check;
use crate::pod_field::PodField;

use super::pod_context::PodContext;
use super::{env, mounts, names, ports, probes, resources, security};

/// Validates the regular containers.
pub fn regular(validator: &mut Validator, pod: &PodContext<'_>) {
    let at = pod.spec.get("containers");
    let containers = at.items();
    if containers.is_empty() {
        validator.required(Check::Containers, &at, "a pod needs at least one container");
        return;
    }
    let mut seen = HashSet::new();
    for container in &containers {
        common(validator, pod, container);
        let name = container.get("name");
        if !seen.insert(name.str()) {
            validator.duplicate(Check::Containers, &name);
        }
        probes::validate(validator, container, &pod.spec);
        restart_policy(validator, container, false);
    }
    ports::host_conflicts(validator, &containers);
}

/// Validates the init containers.
pub fn init(validator: &mut Validator, pod: &PodContext<'_>) {
    let regular = pod.spec.get("containers").items();
    let mut seen: HashSet<&str> = regular.iter().map(|container| container.get("name").str()).collect();
    for container in pod.spec.get("initContainers").items() {
        common(validator, pod, &container);
        restart_policy(validator, &container, true);
        let name = container.get("name");
        if seen.contains(name.str()) {
            validator.duplicate(Check::Containers, &name);
        } else if !name.is_empty() {
            seen.insert(name.str());
        }
        ports::host_conflicts(validator, std::slice::from_ref(&container));
        let is_sidecar = container.get("restartPolicy").str() == "Always";
        if is_sidecar {
            probes::validate(validator, &container, &pod.spec);
        } else {
            let forbidden = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
            for (_, field) in container.present(&forbidden) {
                validator.forbidden(
                    Check::Probe,
                    &field,
                    "may not be set for init containers without restartPolicy: Always",
                );
            }
        }
        init_resize(validator, &container.get("resizePolicy"), is_sidecar);
    }
}

/// Validates the resize policy of an init container. It is allowed only in releases that apply feature gates to files,
/// because it needs the gate `InPlacePodVerticalScaling`.
fn init_resize(validator: &mut Validator, resize: &PodField<'_>, is_sidecar: bool) {
    if !validator.applies_feature_gates() {
        if !resize.is_empty() {
            validator.invalid(Check::OtherRule, resize, "may not be set for init containers");
        }
        return;
    }
    for policy in resize.items() {
        let restart = policy.get("restartPolicy");
        if !is_sidecar && restart.str() == "RestartContainer" {
            validator.invalid(
                Check::OtherRule,
                &restart,
                "may not be `RestartContainer` for this init container",
            );
        }
    }
}

/// Validates the fields that have the same rules for all containers.
fn common(validator: &mut Validator, pod: &PodContext<'_>, container: &PodField<'_>) {
    let name = container.get("name");
    validator.required_text(Check::Containers, &name, "a container needs a name", names::label);
    let image = container.get("image");
    if image.is_empty() {
        validator.required(Check::Containers, &image, "a container needs an image");
    } else if image.str().trim().len() != image.str().len() {
        validator.invalid(Check::Containers, &image, "must not start or end with white space");
    }
    validator.one_of(
        Check::NotAllowedValue,
        &container.get("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports::validate(validator, &container.get("ports"));
    env::validate(validator, container, &pod.spec);
    mounts::validate(validator, pod, container);
    mounts::devices(validator, pod, container);
    validator.one_of(
        Check::NotAllowedValue,
        &container.get("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    resources::validate(validator, &container.get("resources"), &pod.claims);
    resize_policy(validator, &container.get("resizePolicy"), &pod.spec);
    security::container(validator, &container.get("securityContext"), pod.host_users());
}

/// Validates the restart policy and the restart rules of a container. Before 1.35, where the feature gate
/// `ContainerRestartRules` is off, only init containers may have a restart policy.
fn restart_policy(validator: &mut Validator, container: &PodField<'_>, is_init: bool) {
    let policy = container.get("restartPolicy");
    let rules = container.get("restartPolicyRules");
    if !validator.applies_feature_gates() {
        if policy.is_set() && is_init {
            validator.one_of(Check::NotAllowedValue, &policy, &["Always"]);
        } else if policy.is_set() {
            validator
                .forbidden(
                    Check::OtherRule,
                    &policy,
                    "may not be set for containers that are not init containers",
                )
                .fix("remove restartPolicy here and set spec.restartPolicy");
        }
        return;
    }
    if policy.is_set() {
        validator.one_of(Check::NotAllowedValue, &policy, &["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        validator.required(Check::OtherRule, &policy, "is required with restart rules");
    }
    if rules.len() > 20 {
        validator.violation(Check::OtherRule, &rules, ViolationKind::TooMany, "may have at most 20 rules");
    }
    for rule in rules.items() {
        restart_rule(validator, &rule);
    }
}

fn restart_rule(validator: &mut Validator, rule: &PodField<'_>) {
    // The feature gate `RestartAllContainersOnContainerExits` is on from 1.36.
    let actions: &[&str] =
        if validator.version.at_least(36) { &["Restart", "RestartAllContainers"] } else { &["Restart"] };
    validator.one_of(Check::OtherRule, &rule.get("action"), actions);
    let codes = rule.get("exitCodes");
    if !codes.is_set() {
        validator.required(Check::OtherRule, &codes, "a restart rule needs exit codes");
        return;
    }
    validator.one_of(Check::OtherRule, &codes.get("operator"), &["In", "NotIn"]);
    let values = codes.get("values");
    if values.len() > 255 {
        validator.violation(
            Check::OtherRule,
            &values,
            ViolationKind::TooMany,
            "may have at most 255 exit codes",
        );
    }
}

fn resize_policy(validator: &mut Validator, policies: &PodField<'_>, spec: &PodField<'_>) {
    let never = spec.get("restartPolicy").str() == "Never";
    let mut seen = HashSet::new();
    for policy in policies.items() {
        let resource = policy.get("resourceName");
        if !seen.insert(resource.str()) {
            validator.duplicate(Check::OtherRule, &resource);
        }
        validator.one_of(Check::OtherRule, &resource, &["cpu", "memory"]);
        let restart = policy.get("restartPolicy");
        validator.one_of(Check::OtherRule, &restart, &["NotRequired", "RestartContainer"]);
        if never && validator.version.at_least(29) && restart.str() != "NotRequired" {
            validator.invalid(
                Check::OtherRule,
                &restart,
                "must be `NotRequired` when the pod's restartPolicy is `Never`",
            );
        }
    }
}
