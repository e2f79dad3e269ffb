//! What a user can do who is not on the node, and what to keep before the node is replaced.

use super::OutsideFacts;
use crate::diagnosis::report::Phase;
use crate::report::{Command, Step};

/// Returns the steps that settle what hangs.
pub fn to_settle(facts: &OutsideFacts, phase: Phase) -> Vec<Step> {
    let node = facts.node.as_str();
    let ssh = Command::new("ssh {} sudo plegctl health").arg(node);
    let shell = match facts.provider_id.as_deref().and_then(console) {
        Some(command) => {
            Step::look("open a shell on the node through the cloud, and run `plegctl health` in it")
                .with(command)
        }
        None => Step::look("on the node, by ssh or its console: which container it is").with(ssh),
    };
    // A list call that hangs keeps the kubelet from finding the container for `kubectl exec`, and a relist that hangs keeps a new
    // pod from becoming ready.
    let other = match phase {
        Phase::List => Step::look(
            "not `kubectl exec` or `kubectl debug`, which wait for the same call; `kubectl logs` works",
        ),
        Phase::Connect | Phase::Kubelet => Step::look(
            "not `kubectl exec` or `kubectl debug`, which need a kubelet and a runtime that answer",
        ),
        Phase::None => Step::look("or a debug pod on the node").with(
            Command::new("kubectl debug node/{} -it --image=IMAGE --profile=sysadmin -- /plegctl health")
                .arg(node),
        ),
        Phase::Status => Step::look(
            "or `kubectl exec` in a privileged pod of the node; a new debug pod does not become ready",
        ),
    };
    vec![shell, other]
}

/// Returns the command of a cloud that opens a shell on the machine with this id (`spec.providerID`).
fn console(id: &str) -> Option<Command> {
    let (cloud, path) = id.split_once("://")?;
    let mut parts = path.trim_start_matches('/').split('/');
    match cloud {
        "aws" => {
            let (_zone, instance) = (parts.next()?, parts.next()?);
            Some(Command::new("aws ssm start-session --target {}").arg(instance))
        }
        "gce" => {
            let (project, zone, instance) = (parts.next()?, parts.next()?, parts.next()?);
            let command = Command::new("gcloud compute ssh {} --zone {} --project {}");
            Some(command.arg(instance).arg(zone).arg(project))
        }
        "azure" => {
            let id = format!("/{}", path.trim_start_matches('/'));
            let (set, instance) =
                id.split_once("/virtualMachines/").filter(|(set, _)| set.contains("ScaleSets"))?;
            let name = set.rsplit('/').next()?;
            let group = set.split('/').skip_while(|part| *part != "resourceGroups").nth(1)?;
            let command = Command::new(
                "az vmss run-command invoke -g {} -n {} --instance-id {} --command-id RunShellScript --scripts 'plegctl health'",
            );
            Some(command.arg(group).arg(name).arg(instance))
        }
        _ => None,
    }
}

/// Returns the steps that save evidence before the node is restarted or replaced.
pub fn to_keep(facts: &OutsideFacts) -> Vec<Step> {
    let node = facts.node.as_str();
    let bundle =
        Command::new("plegctl health --node {} --no-recorder --bundle {}.tar.gz").arg(node).arg(node);
    let journal =
        Command::new("kubectl get --raw /api/v1/nodes/{}/proxy/logs/'?query=kubelet' > {}.kubelet.log");
    vec![
        Step::look("everything that can be read from here").with(bundle),
        Step::look("the kubelet's journal, where it serves it").with(journal.arg(node).arg(node)),
    ]
}
