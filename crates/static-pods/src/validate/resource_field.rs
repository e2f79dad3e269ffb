//! Validates references to a container's requests and limits (`resourceFieldRef`).

use super::validator::{Validator, ViolationKind};
use crate::Check;
use crate::pod_field::PodField;

/// Validates a `resourceFieldRef`. In a volume, it must name the container.
pub fn validate(validator: &mut Validator, reference: &PodField<'_>, in_volume: bool) {
    let container = reference.get("containerName");
    let resource = reference.get("resource");
    if in_volume && container.is_empty() {
        validator.required(Check::OtherRule, &container, "the container is required in a volume");
        return;
    }
    if resource.is_empty() {
        validator.required(Check::OtherRule, &resource, "the resource is required");
        return;
    }
    let name = resource.str().split_once('.').filter(|(list, _)| matches!(*list, "limits" | "requests"));
    let Some((_, name)) = name.filter(|(_, name)| {
        matches!(*name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
    }) else {
        validator.violation(
            Check::OtherRule,
            &resource,
            ViolationKind::Unsupported,
            "must be limits or requests of cpu, memory, ephemeral-storage or hugepages",
        );
        return;
    };
    divisor(validator, name, &reference.get("divisor"));
}

fn divisor(validator: &mut Validator, resource: &str, at: &PodField<'_>) {
    if at.quantity().is_zero() {
        return;
    }
    // The kubelet compares the text of the quantity, so it rejects `+1` and `1e0`, although they equal `1`.
    let written = at.quantity().to_string();
    let (good, why) = if resource == "cpu" {
        (matches!(&*written, "1" | "1m"), "the divisor of cpu must be 1 or 1m")
    } else {
        const UNITS: &[&str] =
            &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
        let why = "the divisor must be 1 or one of the units k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei";
        (UNITS.contains(&&*written), why)
    };
    if !good {
        validator.invalid(Check::OtherRule, at, why);
    }
}
