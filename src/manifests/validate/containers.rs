//! Containers and init containers.

use std::collections::HashSet;

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::pod::Pod;
use super::{env, mounts, names, ports, probes, resources, security};

/// Judges the regular containers.
pub fn regular(judge: &mut Judge, pod: &Pod<'_>) {
    let at = pod.spec.get("containers");
    let containers = at.items();
    if containers.is_empty() {
        judge.required(Check::Containers, &at, "a pod needs at least one container");
        return;
    }
    let mut seen = HashSet::new();
    for container in &containers {
        common(judge, pod, container);
        let name = container.get("name");
        if !seen.insert(name.str()) {
            judge.duplicate(Check::Containers, &name);
        }
        probes::validate(judge, container, &pod.spec);
        restart_policy(judge, container, false);
    }
    ports::host_conflicts(judge, &containers);
}

/// Judges the init containers.
pub fn init(judge: &mut Judge, pod: &Pod<'_>) {
    let regular = pod.spec.get("containers").items();
    let mut seen: HashSet<&str> = regular.iter().map(|container| container.get("name").str()).collect();
    for container in pod.spec.get("initContainers").items() {
        common(judge, pod, &container);
        restart_policy(judge, &container, true);
        let name = container.get("name");
        if seen.contains(name.str()) {
            judge.duplicate(Check::Containers, &name);
        } else if !name.is_empty() {
            seen.insert(name.str());
        }
        ports::host_conflicts(judge, std::slice::from_ref(&container));
        let sidecar = container.get("restartPolicy").str() == "Always";
        if sidecar {
            probes::validate(judge, &container, &pod.spec);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.get(field).is_set() {
                    judge.forbidden(
                        Check::Probe,
                        &container.get(field),
                        "may not be set for init containers without restartPolicy: Always",
                    );
                }
            }
        }
        init_resize(judge, &container.get("resizePolicy"), sidecar);
    }
}

/// The gate `InPlacePodVerticalScaling` lets init containers have a policy, where the file source honours gates.
fn init_resize(judge: &mut Judge, resize: &Place<'_>, sidecar: bool) {
    if !judge.relaxed() {
        if !resize.is_empty() {
            judge.invalid(Check::OtherRule, resize, "may not be set for init containers");
        }
        return;
    }
    for policy in resize.items() {
        let restart = policy.get("restartPolicy");
        if !sidecar && restart.str() == "RestartContainer" {
            judge.invalid(
                Check::OtherRule,
                &restart,
                "may not be `RestartContainer` for this init container",
            );
        }
    }
}

fn common(judge: &mut Judge, pod: &Pod<'_>, container: &Place<'_>) {
    let name = container.get("name");
    if name.is_empty() {
        judge.required(Check::Containers, &name, "a container needs a name");
    } else if let Some(wrong) = names::label(name.str()) {
        judge.invalid(Check::Containers, &name, wrong);
    }
    let image = container.get("image");
    if image.is_empty() {
        judge.required(Check::Containers, &image, "a container needs an image");
    } else if image.str().trim().len() != image.str().len() {
        judge.invalid(Check::Containers, &image, "must not start or end with white space");
    }
    judge.one_of(
        Check::NotAllowedWord,
        &container.get("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports::validate(judge, &container.get("ports"));
    env::validate(judge, container, &pod.spec);
    mounts::validate(judge, pod, container);
    mounts::devices(judge, pod, container);
    judge.one_of(
        Check::NotAllowedWord,
        &container.get("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    resources::validate(judge, &container.get("resources"), &pod.claims);
    resize_policy(judge, &container.get("resizePolicy"), &pod.spec);
    security::container(judge, &container.get("securityContext"), pod.host_users());
}

/// Before `ContainerRestartRules`, which opens in 1.35, only init containers may be restarted on their own.
fn restart_policy(judge: &mut Judge, container: &Place<'_>, init: bool) {
    let policy = container.get("restartPolicy");
    let rules = container.get("restartPolicyRules");
    if !judge.relaxed() {
        if policy.is_set() && init {
            judge.one_of(Check::NotAllowedWord, &policy, &["Always"]);
        } else if policy.is_set() {
            judge
                .forbidden(
                    Check::OtherRule,
                    &policy,
                    "may not be set for containers that are not init containers",
                )
                .fix("remove restartPolicy here; the pod's own restartPolicy counts");
        }
        return;
    }
    if policy.is_set() {
        judge.one_of(Check::NotAllowedWord, &policy, &["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        judge.required(Check::OtherRule, &policy, "must be given where restart rules are used");
    }
    if rules.len() > 20 {
        judge.object(Check::OtherRule, &rules, Objection::TooMany, "may have at most 20 rules");
    }
    for rule in rules.items() {
        restart_rule(judge, &rule);
    }
}

fn restart_rule(judge: &mut Judge, rule: &Place<'_>) {
    // The gate `RestartAllContainersOnContainerExits` opens in 1.36.
    let actions: &[&str] =
        if judge.version.at_least(36) { &["Restart", "RestartAllContainers"] } else { &["Restart"] };
    judge.one_of(Check::OtherRule, &rule.get("action"), actions);
    let codes = rule.get("exitCodes");
    if !codes.is_set() {
        judge.required(Check::OtherRule, &codes, "a restart rule needs exit codes");
        return;
    }
    judge.one_of(Check::OtherRule, &codes.get("operator"), &["In", "NotIn"]);
    let values = codes.get("values");
    if values.len() > 255 {
        judge.object(Check::OtherRule, &values, Objection::TooMany, "may have at most 255 exit codes");
    }
}

fn resize_policy(judge: &mut Judge, policies: &Place<'_>, spec: &Place<'_>) {
    let never = spec.get("restartPolicy").str() == "Never";
    let mut seen = HashSet::new();
    for policy in policies.items() {
        let resource = policy.get("resourceName");
        if !seen.insert(resource.str()) {
            judge.duplicate(Check::OtherRule, &resource);
        }
        judge.one_of(Check::OtherRule, &resource, &["cpu", "memory"]);
        let restart = policy.get("restartPolicy");
        judge.one_of(Check::OtherRule, &restart, &["NotRequired", "RestartContainer"]);
        if never && judge.version.at_least(29) && restart.str() != "NotRequired" {
            judge.invalid(
                Check::OtherRule,
                &restart,
                "must be `NotRequired` when the pod's restartPolicy is `Never`",
            );
        }
    }
}
