//! References to a container's requests and limits.

use crate::manifests::at::At;
use crate::manifests::judge::{Judge, Objection};
use crate::manifests::quantity::Quantity;

/// Judges a `resourceFieldRef`; in a volume it must name its container.
pub fn validate(judge: &mut Judge, reference: &At<'_>, in_volume: bool) {
    let container = reference.get("containerName");
    let resource = reference.get("resource");
    if in_volume && container.is_empty() {
        judge.required(95, &container, "the container is required in a volume");
        return;
    }
    if resource.is_empty() {
        judge.required(95, &resource, "the resource is required");
        return;
    }
    let name = resource.str().split_once('.').filter(|(list, _)| matches!(*list, "limits" | "requests"));
    let Some((_, name)) = name.filter(|(_, name)| {
        matches!(*name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
    }) else {
        judge.object(
            95,
            &resource,
            Objection::Unsupported,
            "must be limits or requests of cpu, memory, ephemeral-storage or hugepages",
        );
        return;
    };
    divisor(judge, name, &reference.get("divisor"));
}

fn divisor(judge: &mut Judge, resource: &str, at: &At<'_>) {
    if at.quantity().is_zero() {
        return;
    }
    let (good, why) = if resource == "cpu" {
        let allowed = ["1", "1m"].iter().any(|text| Quantity::parse(text) == Ok(at.quantity()));
        (allowed, "the divisor of cpu must be 1 or 1m")
    } else {
        (
            is_unit(at.str(), at.quantity()),
            "the divisor must be 1 or one of the units k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei",
        )
    };
    if !good {
        judge.invalid(95, at, why);
    }
}

/// One of a unit, in the notation that the text uses.
fn is_unit(text: &str, amount: Quantity) -> bool {
    let exponent = text.bytes().any(|byte| matches!(byte, b'e' | b'E')) && !text.ends_with(['E', 'i']);
    let units: &[&str] = if text.ends_with('i') {
        &["1", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
    } else if exponent {
        &["1"]
    } else {
        &["1", "1k", "1M", "1G", "1T", "1P", "1E"]
    };
    units.iter().any(|unit| Quantity::parse(unit) == Ok(amount))
}
