//! Validates requests, limits and resource claims of containers and of the pod.

use std::collections::HashSet;

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;
use crate::pod_resources::is_pod_level;
use plegctl_api_values::quantity::Quantity;

use super::names;

/// Validates the resources of a container.
pub fn validate(validator: &mut Validator, resources: &PodField<'_>, claims: &HashSet<&str>) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    resource_list(validator, &limits, container_resource);
    resource_list(validator, &requests, container_resource);
    requests_and_limits(validator, &limits, &requests);
    claim_names(validator, &resources.get("claims"), claims);
}

/// Validates `overhead`. The kubelet validates it as limits, so its message has a path that ends with `.limits`.
pub fn overhead(validator: &mut Validator, overhead: &PodField<'_>) {
    let as_limits = overhead.clone().called(format!("{}.limits", overhead.path()));
    resource_list(validator, &as_limits, container_resource);
    if has(overhead, is_huge) && !has(overhead, is_compute) {
        validator.forbidden(Check::Resources, overhead, "huge pages also need cpu or memory");
    }
}

/// Validates pod-level resources (feature gate `PodLevelResources`).
pub fn pod_level(validator: &mut Validator, spec: &PodField<'_>) {
    let resources = spec.get("resources");
    if !resources.is_set() {
        return;
    }
    if spec.get("os").get("name").str() == "windows" {
        validator.forbidden(Check::Resources, &resources, "may not be set for a Windows pod");
        return;
    }
    if resources.get("claims").is_set() {
        validator.forbidden(
            Check::Resources,
            &resources.get("claims"),
            "claims are not supported at pod level",
        );
    }
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    resource_list(validator, &limits, pod_resource);
    resource_list(validator, &requests, pod_resource);
    requests_and_limits(validator, &limits, &requests);
    for (entry, request) in requests.entries() {
        if total(spec, "requests", &entry.key) > request.quantity() {
            let request = request.called(requests.path().to_owned());
            validator.invalid(
                Check::Resources,
                &request,
                "must be at least the sum of the containers' requests",
            );
        }
    }
    for (entry, limit) in limits.entries() {
        if is_huge(&entry.key) && total(spec, "limits", &entry.key) > limit.quantity() {
            validator.invalid(Check::Resources, &limit, "must be at least the sum of the containers' limits");
        }
    }
    for (index, container) in spec.get("containers").items().iter().enumerate() {
        for (entry, limit) in container.get("resources").get("limits").entries() {
            let pod_limit = limits.key(&entry.key);
            if pod_limit.is_set() && limit.quantity() > pod_limit.quantity() {
                let limit = limit.called(format!("spec.resources.containers[{index}][{}].limits", entry.key));
                validator.invalid(Check::Resources, &limit, "must not be above the limit of the pod");
            }
        }
    }
}

/// Returns the total of one resource over all containers, for the list `requests` or `limits`.
///
/// Regular containers and sidecars (init containers that always restart) run at the same time, so their amounts are added.
/// Another init container runs together only with the sidecars before it; the total is at least that sum.
fn total(spec: &PodField<'_>, list: &str, name: &str) -> Quantity {
    let amount = |container: &PodField<'_>| container.get("resources").get(list).key(name).quantity();
    let mut sum =
        spec.get("containers").items().iter().fold(Quantity::ZERO, |sum, item| sum.plus(&amount(item)));
    let mut sidecars = Quantity::ZERO;
    let mut peak = Quantity::ZERO;
    for container in spec.get("initContainers").items() {
        if container.get("restartPolicy").str() == "Always" {
            sum = sum.plus(&amount(&container));
            sidecars = sidecars.plus(&amount(&container));
            peak = peak.max(sidecars.clone());
        } else {
            peak = peak.max(sidecars.plus(&amount(&container)));
        }
    }
    sum.max(peak)
}

/// Validates the names and amounts of a resource list. `name_rule` validates a name.
fn resource_list(validator: &mut Validator, amounts: &PodField<'_>, name_rule: names::TextRule) {
    for (entry, amount) in amounts.entries() {
        let amount = amount.called(format!("{}[{}]", amounts.kubelet_path(), entry.key));
        if let Some(wrong) = name_rule(&entry.key) {
            validator.invalid(Check::Resources, &amount, &format!("the name `{}` {wrong}", entry.key));
        }
        let quantity = amount.quantity();
        if quantity.is_negative() {
            validator.invalid(Check::Resources, &amount, "must be greater than or equal to 0");
        }
        if is_extended(&entry.key) && !quantity.is_whole() {
            validator.invalid(Check::Resources, &amount, "must be a whole number");
        }
        if let Some(size) = entry.key.strip_prefix("hugepages-") {
            let size = Quantity::parse(size).unwrap_or_default();
            if !size.is_whole() || size <= Quantity::ZERO || !quantity.is_multiple_of(&size) {
                validator.invalid(Check::Resources, &amount, "must be a whole multiple of the page size");
            }
        }
    }
}

/// Validates that each request fits its limit, and that huge pages come with cpu or memory.
fn requests_and_limits(validator: &mut Validator, limits: &PodField<'_>, requests: &PodField<'_>) {
    for (entry, request) in requests.entries() {
        let limit = limits.key(&entry.key);
        let (requested, allowed) = (request.quantity(), limit.quantity());
        let may_be_below_limit = is_native(&entry.key) && !is_huge(&entry.key);
        // In these errors, the kubelet's path is the path of the list, without the resource.
        let request = request.called(requests.path().to_owned());
        if !limit.is_set() {
            if !may_be_below_limit {
                let why = format!("{} needs a limit that is equal to its request", entry.key);
                validator.required(Check::Resources, &limit.called(limits.path().to_owned()), &why);
            }
        } else if !may_be_below_limit && requested != allowed {
            validator.invalid(
                Check::Resources,
                &request,
                &format!("must be equal to the limit of {allowed}"),
            );
        } else if requested > allowed {
            validator.invalid(
                Check::Resources,
                &request,
                &format!("must not be above the limit of {allowed}"),
            );
        }
    }
    let huge = has(limits, is_huge) || has(requests, is_huge);
    if huge && !has(limits, is_compute) && !has(requests, is_compute) {
        let resources = limits.path().trim_end_matches(".limits").to_owned();
        let limits = limits.clone().called(resources);
        validator.forbidden(Check::Resources, &limits, "huge pages also need cpu or memory");
    }
}

/// Validates the claims of a container: no claim is used twice, and each is a claim of the pod.
fn claim_names(validator: &mut Validator, used: &PodField<'_>, known: &HashSet<&str>) {
    let mut seen = HashSet::new();
    for claim in used.items() {
        let (name, request) = (claim.get("name"), claim.get("request"));
        if !validator.not_empty(Check::Resources, &name, "a claim needs a name") {
            continue;
        }
        // A claim without a request means all requests of the claim.
        let all_used = seen.contains(&(name.str(), ""));
        let any_used = seen.iter().any(|(other, _)| *other == name.str());
        if !seen.insert((name.str(), request.str())) || all_used || (request.is_empty() && any_used) {
            validator.duplicate(Check::Resources, &claim);
        }
        validator.optional_text(Check::Resources, &request, names::label);
        if !known.contains(name.str()) {
            validator.not_found(Check::Resources, &name, "is not a claim of spec.resourceClaims");
        }
    }
}

/// Whether a list has a resource for which `condition` is true.
fn has(amounts: &PodField<'_>, condition: fn(&str) -> bool) -> bool {
    amounts.entries().iter().any(|(entry, _)| condition(&entry.key))
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_compute(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

/// Whether a resource name has no domain or the domain of Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is an extended resource, whose name has another domain.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_none()
}

/// Validates the name of a container's resource.
fn container_resource(name: &str) -> names::FormatProblem {
    if let Some(wrong) = names::qualified(name) {
        return Some(wrong);
    }
    if !name.contains('/') {
        let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge(name);
        return (!standard)
            .then_some("must be cpu, memory, ephemeral-storage, hugepages-<size> or have a domain");
    }
    (!is_native(name) && !is_extended(name)).then_some("does not follow the rules for extended resources")
}

/// Validates the name of a pod-level resource.
fn pod_resource(name: &str) -> names::FormatProblem {
    (!is_pod_level(name)).then_some("must be cpu, memory or hugepages-<size> at pod level")
}
