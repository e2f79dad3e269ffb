//! Validates requests, limits and claims.

use std::collections::HashSet;

use super::validator::Validator;
use crate::manifests::Check;
use crate::manifests::pod_field::PodField;
use crate::manifests::pod_resources::is_pod_level;
use crate::manifests::quantity::Quantity;

use super::names;

/// Validates the resources of a container.
pub fn validate(validator: &mut Validator, resources: &PodField<'_>, claims: &HashSet<&str>) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    list(validator, &limits, container_resource);
    list(validator, &requests, container_resource);
    against_limits(validator, &limits, &requests);
    claim_names(validator, &resources.get("claims"), claims);
}

/// Validates `overhead`, which has the format of limits without requests.
pub fn overhead(validator: &mut Validator, overhead: &PodField<'_>) {
    list_called(validator, overhead, &format!("{}.limits", overhead.path()), container_resource);
    if has(overhead, is_huge) && !has(overhead, is_compute) {
        validator.forbidden(Check::Resources, overhead, "huge pages also need cpu or memory");
    }
}

/// Validates pod-level resources (gate `PodLevelResources`).
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
    list(validator, &limits, pod_resource);
    list(validator, &requests, pod_resource);
    against_limits(validator, &limits, &requests);
    for (entry, request) in requests.entries() {
        if total(spec, "requests", &entry.key) > request.quantity() {
            let request = request.called(requests.path().to_owned());
            validator.invalid(
                Check::Resources,
                &request,
                "must be at least what the containers request together",
            );
        }
    }
    for (entry, limit) in limits.entries() {
        if is_huge(&entry.key) && total(spec, "limits", &entry.key) > limit.quantity() {
            validator.invalid(
                Check::Resources,
                &limit,
                "must be at least what the limits of the containers add up to",
            );
        }
    }
    for (number, container) in spec.get("containers").items().iter().enumerate() {
        for (entry, limit) in container.get("resources").get("limits").entries() {
            let of_pod = limits.key(&entry.key);
            if of_pod.is_set() && limit.quantity() > of_pod.quantity() {
                let limit =
                    limit.called(format!("spec.resources.containers[{number}][{}].limits", entry.key));
                validator.invalid(Check::Resources, &limit, "must not be above the limit of the pod");
            }
        }
    }
}

/// Returns the sum of the containers' requests or limits. Sidecars (init containers that always restart) count as
/// containers; any other init container counts with the sidecars before it, if that is more than the sum.
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

fn list(validator: &mut Validator, amounts: &PodField<'_>, named: fn(&str) -> names::NameProblem) {
    list_called(validator, amounts, amounts.path(), named);
}

/// Validates a list under the path that the kubelet's log uses.
fn list_called(
    validator: &mut Validator,
    amounts: &PodField<'_>,
    path: &str,
    named: fn(&str) -> names::NameProblem,
) {
    for (entry, amount) in amounts.entries() {
        let amount = amount.called(format!("{path}[{}]", entry.key));
        if let Some(wrong) = named(&entry.key) {
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

fn against_limits(validator: &mut Validator, limits: &PodField<'_>, requests: &PodField<'_>) {
    for (entry, request) in requests.entries() {
        let limit = limits.key(&entry.key);
        let (requested, allowed) = (request.quantity(), limit.quantity());
        let overcommit = is_native(&entry.key) && !is_huge(&entry.key);
        // For these errors the kubelet reports the list and not the resource.
        let request = request.called(requests.path().to_owned());
        if !limit.is_set() {
            if !overcommit {
                let why = format!("{} needs a limit that is equal to its request", entry.key);
                validator.required(Check::Resources, &limit.called(limits.path().to_owned()), &why);
            }
        } else if !overcommit && requested != allowed {
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

fn claim_names(validator: &mut Validator, used: &PodField<'_>, known: &HashSet<&str>) {
    let mut seen = HashSet::new();
    for claim in used.items() {
        let (name, request) = (claim.get("name"), claim.get("request"));
        if name.is_empty() {
            validator.required(Check::Resources, &name, "a claim needs a name");
            continue;
        }
        let whole = seen.contains(&(name.str(), ""));
        let any = seen.iter().any(|(other, _)| *other == name.str());
        if !seen.insert((name.str(), request.str())) || whole || (request.is_empty() && any) {
            validator.duplicate(Check::Resources, &claim);
        }
        if !request.is_empty()
            && let Some(wrong) = names::label(request.str())
        {
            validator.invalid(Check::Resources, &request, wrong);
        }
        if !known.contains(name.str()) {
            validator.violation(
                Check::Resources,
                &name,
                super::validator::ViolationKind::NotFound,
                "is not a claim of spec.resourceClaims",
            );
        }
    }
}

fn has(amounts: &PodField<'_>, wanted: fn(&str) -> bool) -> bool {
    amounts.entries().iter().any(|(entry, _)| wanted(&entry.key))
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_compute(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

/// Whether a resource name has no domain, or Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_none()
}

fn container_resource(name: &str) -> names::NameProblem {
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

fn pod_resource(name: &str) -> names::NameProblem {
    (!is_pod_level(name)).then_some("must be cpu, memory or hugepages-<size> at pod level")
}
