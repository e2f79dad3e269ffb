//! The rules for requests, limits and resource claims of containers and of the pod.

use super::names;
use super::validator::{Validator, ViolationKind};
use crate::pod_field::PodField;
use crate::pod_resources::{is_pod_level, totals};
use plegctl_api_values::quantity::Quantity;

/// The resources of a container.
pub fn container<'a>(validator: &mut Validator<'a>, resources: &PodField<'a>) {
    amounts(validator, resources, container_resource);
}

/// The overhead. The kubelet validates it as limits, so its message has a path that ends with `.limits`.
pub fn overhead<'a>(validator: &mut Validator<'a>, overhead: &PodField<'a>) {
    let as_limits = overhead.clone().called(format!("{}.limits", overhead.path()));
    resource_list(validator, &as_limits, container_resource);
    if has(overhead, is_huge) && !has(overhead, is_compute) {
        validator.error(ViolationKind::Forbidden, overhead, "huge pages also need cpu or memory");
    }
}

/// The resources of the pod (feature gate `PodLevelResources`).
pub fn pod<'a>(validator: &mut Validator<'a>, resources: &PodField<'a>) {
    if validator.spec.get("os").get("name").str() == "windows" {
        validator.error(ViolationKind::Forbidden, resources, "may not be set for a Windows pod");
        return;
    }
    let claims = resources.get("claims");
    if claims.is_set() {
        validator.error(ViolationKind::Forbidden, &claims, "claims are not supported at pod level");
    }
    amounts(validator, resources, pod_resource);
    sums(validator, resources);
    container_limits(validator, &resources.get("limits"));
}

/// The pod's requests, and its limits of huge pages, are at least the sums of those of the containers.
fn sums<'a>(validator: &mut Validator<'a>, resources: &PodField<'a>) {
    let Some(spec) = validator.spec.node() else { return };
    for list in ["requests", "limits"] {
        let sums = totals(spec, list);
        let own = resources.get(list);
        for (entry, amount) in own.entries() {
            let sum = sums.iter().find(|(name, _)| *name == entry.key).map(|(_, sum)| sum.clone());
            if sum.unwrap_or_default() > amount.quantity() && (list == "requests" || is_huge(&entry.key)) {
                let amount = if list == "requests" { amount.called(own.path().to_owned()) } else { amount };
                validator.invalid(&amount, &format!("must be at least the sum of the containers' {list}"));
            }
        }
    }
}

/// The limit of a container is not above that of the pod.
fn container_limits<'a>(validator: &mut Validator<'a>, pod_limits: &PodField<'a>) {
    for (index, container) in validator.spec.get("containers").items().iter().enumerate() {
        for (entry, limit) in container.get("resources").get("limits").entries() {
            let pod_limit = pod_limits.key(&entry.key);
            if pod_limit.is_set() && limit.quantity() > pod_limit.quantity() {
                let limit = limit.called(format!("spec.resources.containers[{index}][{}].limits", entry.key));
                validator.invalid(&limit, "must not be above the limit of the pod");
            }
        }
    }
}

/// The names and amounts of limits and requests. `name_rule` validates a name.
fn amounts<'a>(validator: &mut Validator<'a>, resources: &PodField<'a>, name_rule: names::TextRule) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    resource_list(validator, &limits, name_rule);
    resource_list(validator, &requests, name_rule);
    for (entry, request) in requests.entries() {
        request_and_limit(validator, &entry.key, &request.called(requests.path().to_owned()), &limits);
    }
    let has_any = |condition| has(&limits, condition) || has(&requests, condition);
    if has_any(is_huge) && !has_any(is_compute) {
        validator.error(ViolationKind::Forbidden, resources, "huge pages also need cpu or memory");
    }
}

fn resource_list<'a>(validator: &mut Validator<'a>, amounts: &PodField<'a>, name_rule: names::TextRule) {
    for (entry, amount) in amounts.entries() {
        let amount = amount.called(format!("{}[{}]", amounts.kubelet_path(), entry.key));
        if let Some(wrong) = name_rule(&entry.key) {
            validator.invalid(&amount, &format!("the name `{}` {wrong}", entry.key));
        }
        if let Some(wrong) = wrong_amount(&entry.key, &amount.quantity()) {
            validator.invalid(&amount, wrong);
        }
    }
}

/// Returns what is wrong with an amount of a resource.
fn wrong_amount(name: &str, amount: &Quantity) -> names::FormatProblem {
    if amount.is_negative() {
        return Some("must be greater than or equal to 0");
    }
    if is_extended(name) && !amount.is_whole() {
        return Some("must be a whole number");
    }
    let size = Quantity::parse(name.strip_prefix("hugepages-")?).unwrap_or_default();
    let is_whole = size.is_whole() && size > Quantity::ZERO && amount.is_multiple_of(&size);
    (!is_whole).then_some("must be a whole multiple of the page size")
}

/// A request fits its limit. Only an amount that nodes can overcommit may be below it, or have none.
fn request_and_limit<'a>(
    validator: &mut Validator<'a>,
    name: &str,
    request: &PodField<'a>,
    limits: &PodField<'a>,
) {
    let limit = limits.key(name);
    let (requested, allowed) = (request.quantity(), limit.quantity());
    let may_be_below = is_native(name) && !is_huge(name);
    if !limit.is_set() && !may_be_below {
        let limit = limit.called(limits.path().to_owned());
        validator.error(ViolationKind::Required, &limit, "must be given and equal to the request");
    } else if limit.is_set() && !may_be_below && requested != allowed {
        validator.invalid(request, &format!("must be equal to the limit of {allowed}"));
    } else if limit.is_set() && requested > allowed {
        validator.invalid(request, &format!("must not be above the limit of {allowed}"));
    }
}

/// No request of a claim is used twice. A use without a request means all of them.
pub fn claimed_once<'a>(validator: &mut Validator<'a>, claim: &PodField<'a>) {
    let uses = validator.owner().get("claims").items();
    let earlier = uses.iter().take_while(|other| other.path() != claim.path());
    let (name, request) = (claim.get("name").str(), claim.get("request").str());
    let mut same_claim = earlier.filter(|other| other.get("name").str() == name);
    let overlaps = |other: &PodField<'_>| {
        let other = other.get("request").str();
        other == request || other.is_empty() || request.is_empty()
    };
    if same_claim.any(overlaps) {
        validator.error(ViolationKind::Duplicate, claim, "is given more than once");
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

/// The name of a container's resource.
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

/// The name of a pod-level resource.
fn pod_resource(name: &str) -> names::FormatProblem {
    (!is_pod_level(name)).then_some("must be cpu, memory or hugepages-<size> at pod level")
}
