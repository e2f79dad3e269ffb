//! Ports of containers.

use std::collections::HashSet;

use super::judge::Judge;
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::names;

/// Judges the ports of one container.
pub fn validate(judge: &mut Judge, ports: &Place<'_>) {
    let mut seen = HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.is_empty() {
            if let Some(wrong) = names::port(name.str()) {
                judge.invalid(Check::Port, &name, wrong);
            } else if !seen.insert(name.str()) {
                judge.duplicate(Check::Port, &name);
            }
        }
        let number = port.get("containerPort");
        if number.int() == 0 {
            judge.required(Check::Port, &number, "a container port is required");
        } else if let Some(wrong) = names::port_number(number.int()) {
            judge.invalid(Check::Port, &number, wrong);
        }
        let host = port.get("hostPort");
        if let (true, Some(wrong)) = (host.int() != 0, names::port_number(host.int())) {
            judge.invalid(Check::Port, &host, wrong);
        }
        judge.one_of(Check::Port, &port.get("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// No two ports of these containers take the same port of the host.
pub fn host_conflicts(judge: &mut Judge, containers: &[Place<'_>]) {
    let mut taken = HashSet::new();
    for port in containers.iter().flat_map(|container| container.get("ports").items()) {
        let host = port.get("hostPort");
        if host.int() == 0 {
            continue;
        }
        let key = (port.get("protocol").str(), port.get("hostIP").str(), host.int());
        if !taken.insert(key) {
            judge.duplicate(Check::HostPortTwice, &host).fix(
                "give the ports different numbers; with hostNetwork each containerPort is a port of the host",
            );
        }
    }
}

/// With the host's network a port cannot have another number outside.
pub fn host_network(judge: &mut Judge, spec: &Place<'_>) {
    if !spec.get("hostNetwork").is_true() {
        return;
    }
    for port in spec.get("containers").items().iter().flat_map(|container| container.get("ports").items()) {
        let host = port.get("hostPort");
        if host.int() != port.get("containerPort").int() {
            judge
                .invalid(Check::HostPortTwice, &host, "must equal containerPort when hostNetwork is true")
                .fix("remove hostPort");
        }
    }
}
