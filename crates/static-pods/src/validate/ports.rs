//! Validates container ports.

use std::collections::HashSet;

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;

use super::names;

/// Validates the ports of one container.
pub fn validate(validator: &mut Validator, ports: &PodField<'_>) {
    let mut seen = HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.is_empty() {
            if let Some(wrong) = names::port(name.str()) {
                validator.invalid(Check::Port, &name, wrong);
            } else if !seen.insert(name.str()) {
                validator.duplicate(Check::Port, &name);
            }
        }
        let number = port.get("containerPort");
        if number.int() == 0 {
            validator.required(Check::Port, &number, "a container port is required");
        } else if let Some(wrong) = names::port_number(number.int()) {
            validator.invalid(Check::Port, &number, wrong);
        }
        let host = port.get("hostPort");
        if let (true, Some(wrong)) = (host.int() != 0, names::port_number(host.int())) {
            validator.invalid(Check::Port, &host, wrong);
        }
        validator.one_of(Check::Port, &port.get("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// Validates that no two ports of these containers use the same host port.
pub fn host_conflicts(validator: &mut Validator, containers: &[PodField<'_>]) {
    let mut used = HashSet::new();
    for port in containers.iter().flat_map(|container| container.get("ports").items()) {
        let host = port.get("hostPort");
        if host.int() == 0 {
            continue;
        }
        let key = (port.get("protocol").str(), port.get("hostIP").str(), host.int());
        if !used.insert(key) {
            validator.duplicate(Check::HostPortTwice, &host).fix(
                "give the ports different numbers; with hostNetwork each containerPort is a port of the host",
            );
        }
    }
}

/// Validates that the host port equals the container port if the pod uses the host network.
pub fn host_network(validator: &mut Validator, spec: &PodField<'_>) {
    if !spec.get("hostNetwork").is_true() {
        return;
    }
    for port in spec.get("containers").items().iter().flat_map(|container| container.get("ports").items()) {
        let host = port.get("hostPort");
        if host.int() != port.get("containerPort").int() {
            validator
                .invalid(Check::HostPortTwice, &host, "must equal containerPort when hostNetwork is true")
                .fix("remove hostPort");
        }
    }
}
