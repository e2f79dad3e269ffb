//! What the kubelet's pod-create validation says of a static pod.
//!
//! One file for each area. Each rule names the field, the kubelet's kind of error and our own words.

mod annotations;
mod claim_template;
mod containers;
mod env;
mod judge;
mod meta;
mod mounts;
mod names;
mod pod;
mod ports;
mod probes;
mod projected;
mod resource_field;
mod resources;
mod scheduling;
mod security;
mod spec;
mod volumes;
mod windows;

use super::Kubelet;
use super::finding::Finding;
use super::place::Place;
use super::report::PodIdentity;
use crate::manifests::Check;
use judge::Judge;

/// All objections, in words of the kubelet and as findings; nothing if the pod is good.
pub fn validate(
    pod: &Place<'_>,
    identity: &PodIdentity,
    kubelet: &Kubelet,
) -> Option<(String, Vec<Finding>)> {
    let mut judge = Judge::new(kubelet.version);
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    meta::validate(&mut judge, &metadata, identity);
    annotations::validate(&mut judge, &metadata, &spec);
    let volumes = volumes::validate(&mut judge, &spec, &identity.name);
    let claims = spec::claims(&mut judge, &spec);
    let context = pod::Pod { spec: spec.clone(), volumes, claims };
    containers::regular(&mut judge, &context);
    containers::init(&mut judge, &context);
    if judge.relaxed() {
        resources::pod_level(&mut judge, &spec);
    }
    ports::host_network(&mut judge, &spec);
    spec::validate(&mut judge, &spec);
    node_name(&mut judge, &spec, &kubelet.node_name);
    security::pod(&mut judge, &spec);
    scheduling::affinity(&mut judge, &spec.get("affinity"));
    scheduling::tolerations(&mut judge, &spec.get("tolerations"));
    scheduling::spread(&mut judge, &spec.get("topologySpreadConstraints"));
    scheduling::gates(&mut judge, &spec);
    windows::host_process(&mut judge, &spec);
    windows::os(&mut judge, &spec);
    projected::tokens_without_account(&mut judge, &spec);
    judge.objections()
}

/// The node name goes into the spec as it is, upper case and all.
fn node_name(judge: &mut Judge, spec: &Place<'_>, node_name: &str) {
    if let Some(wrong) = names::subdomain(node_name) {
        judge.invalid(
            Check::BadMetadata,
            &spec.get("nodeName"),
            &format!("the kubelet's node name `{node_name}` {wrong}"),
        );
    }
}
