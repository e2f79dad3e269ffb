//! What a user can do who is not on the node, and what to keep before the node is replaced.

use super::OutsideFacts;
use crate::diagnosis::report::Phase;
use crate::diagnosis::rules::steps::{Place, steps_of};
use crate::report::Step;

/// Returns the steps that settle what hangs.
pub fn to_settle(facts: &OutsideFacts, phase: Phase) -> Vec<Step> {
    let node = [("node", Place::word(&facts.node))];
    let shell = facts.provider_id.as_deref().and_then(console);
    let shell = shell.unwrap_or_else(|| steps_of("ssh", &node));
    // A list call that hangs keeps the kubelet from finding the container for `kubectl exec`, and a relist that hangs keeps a new
    // pod from becoming ready.
    let other = match phase {
        Phase::List => "noExecWhileListHangs",
        Phase::Connect | Phase::Kubelet => "noExec",
        Phase::None => "debugPod",
        Phase::Status => "exec",
    };
    [shell, steps_of(other, &node)].concat()
}

/// Returns the step that opens a shell on the machine with this id (`spec.providerID`) through its cloud.
fn console(id: &str) -> Option<Vec<Step>> {
    let (cloud, path) = id.split_once("://")?;
    let mut parts = path.trim_start_matches('/').split('/');
    let mut next = || parts.next().map(Place::word);
    match cloud {
        "aws" => {
            let (_zone, instance) = (next()?, next()?);
            Some(steps_of("aws", &[("instance", instance)]))
        }
        "gce" => {
            let (project, zone, instance) = (next()?, next()?, next()?);
            Some(steps_of("gce", &[("instance", instance), ("zone", zone), ("project", project)]))
        }
        "azure" => {
            let id = format!("/{}", path.trim_start_matches('/'));
            let (set, instance) =
                id.split_once("/virtualMachines/").filter(|(set, _)| set.contains("ScaleSets"))?;
            let name = set.rsplit('/').next()?;
            let group = set.split('/').skip_while(|part| *part != "resourceGroups").nth(1)?;
            let [group, name, instance] = [group, name, instance].map(Place::word);
            Some(steps_of("azure", &[("group", group), ("name", name), ("instance", instance)]))
        }
        _ => None,
    }
}

/// Returns the steps that save evidence before the node is restarted or replaced.
pub fn to_keep(facts: &OutsideFacts) -> Vec<Step> {
    steps_of("keepFromOutside", &[("node", Place::word(&facts.node))])
}
