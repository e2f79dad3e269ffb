//! Applies the kubelet's validation of a new pod to a static pod, one file for each area.
//!
//! Each error has the field, the kubelet's kind of error and a text in plain words.

mod annotations;
mod claim_template;
mod containers;
mod env;
mod meta;
mod mounts;
mod names;
mod pod_context;
mod ports;
mod probes;
mod projected;
mod resource_field;
mod resources;
mod scheduling;
mod security;
mod spec;
mod validator;
mod volumes;
mod windows;

use super::Kubelet;
use super::finding::LintFinding;
use super::pod_field::PodField;
use super::report::PodIdentity;
use crate::manifests::Check;
use validator::Validator;

/// Returns the kubelet's error message and the findings; `None` if the pod is valid.
pub fn validate(
    pod: &PodField<'_>,
    identity: &PodIdentity,
    kubelet: &Kubelet,
) -> Option<(String, Vec<LintFinding>)> {
    let mut validator = Validator::new(kubelet.version);
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    meta::validate(&mut validator, &metadata, identity);
    annotations::validate(&mut validator, &metadata, &spec);
    let volumes = volumes::validate(&mut validator, &spec, &identity.name);
    let claims = spec::claims(&mut validator, &spec);
    let context = pod_context::PodContext { spec: spec.clone(), volumes, claims };
    containers::regular(&mut validator, &context);
    containers::init(&mut validator, &context);
    if validator.relaxed() {
        resources::pod_level(&mut validator, &spec);
    }
    ports::host_network(&mut validator, &spec);
    spec::validate(&mut validator, &spec);
    node_name(&mut validator, &spec, &kubelet.node_name);
    security::pod(&mut validator, &spec);
    scheduling::affinity(&mut validator, &spec.get("affinity"));
    scheduling::tolerations(&mut validator, &spec.get("tolerations"));
    scheduling::spread(&mut validator, &spec.get("topologySpreadConstraints"));
    scheduling::gates(&mut validator, &spec);
    windows::host_process(&mut validator, &spec);
    windows::os(&mut validator, &spec);
    projected::tokens_without_account(&mut validator, &spec);
    validator.finish()
}

/// The node name is copied into the spec unchanged, including upper case.
fn node_name(validator: &mut Validator, spec: &PodField<'_>, node_name: &str) {
    if let Some(wrong) = names::subdomain(node_name) {
        validator.invalid(
            Check::BadMetadata,
            &spec.get("nodeName"),
            &format!("the kubelet's node name `{node_name}` {wrong}"),
        );
    }
}
