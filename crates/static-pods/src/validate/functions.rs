//! The rules of the table that look at more than one field.

use std::collections::HashSet;
use std::slice;

use super::validator::{Validator, ViolationKind};
use super::{annotations, metadata, resources, selectors, volumes};
use crate::pod_field::PodField;
use plegctl_api_values::names;
use plegctl_api_values::tree::Value;

/// A rule for a field of the object `Validator::owner`, which reports its errors.
pub type FieldFunction = for<'a> fn(&mut Validator<'a>, &PodField<'a>);

/// Returns the function with this name in the table.
pub fn function(name: &str) -> Option<FieldFunction> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

const FUNCTIONS: &[(&str, FieldFunction)] = &[
    ("annotation-keys", metadata::annotation_keys),
    ("annotation-size", metadata::annotation_size),
    ("claim-name", volumes::claim_name),
    ("claimed-once", resources::claimed_once),
    ("container-resources", resources::container),
    ("deletion-cost", annotations::deletion_cost),
    ("env-field", |validator, path| selectors::field_path(validator, path, selectors::ENV_FIELDS)),
    ("full-name", metadata::full_name),
    ("host-network-port", host_network_port),
    ("host-ports", host_ports),
    ("host-process", host_process),
    ("iscsi-directory", volumes::iscsi_directory),
    ("labels", metadata::labels),
    ("labels-and-annotations-only", volumes::labels_and_annotations_only),
    ("node-name", metadata::node_name),
    ("not-negative", volumes::not_negative),
    ("not-of-ephemeral", volumes::not_of_ephemeral),
    ("one-controller", metadata::one_controller),
    ("options-of-others", volumes::options_of_others),
    ("overhead", resources::overhead),
    ("own-host-ports", |validator, container| unique_host_ports(validator, slice::from_ref(container))),
    ("pod-resources", resources::pod),
    ("port", port),
    ("profile-annotations", annotations::profiles),
    ("repeated-keys", selectors::repeated_keys),
    ("same-data-sources", volumes::same_data_sources),
    ("search-length", search_length),
    ("selected-keys", selectors::selected_keys),
    ("sleep", sleep),
    ("storage", volumes::storage),
    ("tolerations-annotation", annotations::tolerations),
    ("unique-file", volumes::unique_file),
    ("volume-field", |validator, path| selectors::field_path(validator, path, selectors::VOLUME_FIELDS)),
];

/// No two containers use the same port of the host.
fn host_ports<'a>(validator: &mut Validator<'a>, containers: &PodField<'a>) {
    unique_host_ports(validator, &containers.items());
}

/// No two ports of these containers use the same port of the host.
fn unique_host_ports<'a>(validator: &mut Validator<'a>, containers: &[PodField<'a>]) {
    let mut used = HashSet::new();
    for port in containers.iter().flat_map(|container| container.get("ports").items()) {
        let host = port.get("hostPort");
        let key = (port.get("protocol").text(), port.get("hostIP").text(), host.int());
        if host.int() != 0 && !used.insert(key) {
            validator.error(ViolationKind::Duplicate, &host, "is given more than once");
        }
    }
}

/// A port of the host equals the container's port, because the container has the host's network.
fn host_network_port<'a>(validator: &mut Validator<'a>, port: &PodField<'a>) {
    let host = port.get("hostPort");
    if host.int() != port.get("containerPort").int() {
        validator.invalid(&host, "must equal containerPort when hostNetwork is true");
    }
}

/// A port is a number, or the name of a port. A number in quotes is not a valid name.
fn port<'a>(validator: &mut Validator<'a>, port: &PodField<'a>) {
    let wrong = match port.node().map(|node| &node.value) {
        Some(Value::Str(name)) => names::port(name),
        _ => names::port_number(port.int()),
    };
    if let Some(wrong) = wrong {
        let is_quoted = port.str().parse::<u16>().is_ok();
        validator.fix = is_quoted.then(|| "write the number without quotes".to_owned());
        validator.invalid(port, wrong);
    }
}

/// A hook sleeps no longer than the pod may take to end. Zero seconds are allowed only in releases that apply feature gates
/// to files.
fn sleep<'a>(validator: &mut Validator<'a>, sleep: &PodField<'a>) {
    let longest = validator.spec.get("terminationGracePeriodSeconds").int();
    let shortest = i64::from(!validator.version.at_least(35));
    if !(shortest..=longest).contains(&sleep.get("seconds").int()) {
        let why = format!("must be between {shortest} and the pod's grace period of {longest} seconds");
        validator.invalid(sleep, &why);
    }
}

/// The search paths have at most 2048 characters together. Each counts one more, for its separator.
fn search_length<'a>(validator: &mut Validator<'a>, searches: &PodField<'a>) {
    let length: usize = searches.items().iter().map(|item| item.str().len().saturating_add(1)).sum();
    if length > 2049 {
        validator.invalid(searches, "may have at most 2048 characters together");
    }
}

/// All containers or none are host-process containers of Windows, which need the host's network.
fn host_process<'a>(validator: &mut Validator<'a>, spec: &PodField<'a>) {
    let setting = |owner: &PodField<'a>| {
        let options = owner.get("securityContext").get("windowsOptions");
        options.get("hostProcess")
    };
    let of_pod = setting(spec).opt_bool();
    let lists = ["initContainers", "containers"].map(|list| spec.get(list).items());
    let settings: Vec<PodField<'a>> = lists.iter().flatten().map(setting).collect();
    for own in &settings {
        if of_pod.is_some_and(|of_pod| own.opt_bool().is_some_and(|own| own != of_pod)) {
            validator.invalid(own, "must be equal to hostProcess of the pod");
        }
    }
    let count = settings.iter().filter(|own| own.opt_bool().or(of_pod) == Some(true)).count();
    if count > 0 && count != settings.len() {
        validator.invalid(spec, "either all containers must be host-process containers, or none");
    }
    if count > 0 && !spec.get("hostNetwork").is_true() {
        validator.invalid(&spec.get("hostNetwork"), "must be true for host-process containers");
    }
}
