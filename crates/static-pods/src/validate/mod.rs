//! Applies the kubelet's validation to a static pod. Each module here validates one part of the Pod.
//!
//! The rules are the rules of the given kubelet release. Each error produces two texts: a finding, which names the
//! field and describes the error in plain words, and a part of the message that the kubelet writes into its log.

mod annotations;
mod claim_template;
mod containers;
mod env;
mod meta;
mod mounts;
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
use crate::Check;
use plegctl_api_values::names;
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
    // Resources of the whole pod need a feature gate, and earlier releases ignore feature gates here.
    if validator.applies_feature_gates() {
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

/// Validates the node's name, which the kubelet copies into the spec unchanged. An upper-case letter is invalid.
fn node_name(validator: &mut Validator, spec: &PodField<'_>, node_name: &str) {
    // `names::subdomain` returns what is wrong with the name.
    if let Some(problem) = names::subdomain(node_name) {
        let what = format!("the kubelet's node name `{node_name}`");
        validator.wrong_text(Check::BadMetadata, &spec.get("nodeName"), node_name, &what, problem);
    }
}
