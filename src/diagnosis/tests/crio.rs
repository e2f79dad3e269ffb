//! What CRI-O shows of itself that containerd does not, on copies of `/proc` that the tests make.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use super::node::{Made, Node, at_socket, crio, find, lost};
use super::scripted::{Behaviour, Scripted, container_id, sandbox_id};
use crate::cri::{ContainerState, Rpc};
use crate::diagnosis::proc::Ownership;
use crate::diagnosis::report::{Confidence, HealthReport, RuleId};
use crate::diagnosis::{gather, judge};

async fn diagnosed(node: &Node, script: Scripted) -> HealthReport {
    judge(&gather(&at_socket(node, script), &|_| ()).await)
}

#[tokio::test(start_paused = true)]
async fn a_lost_exit_is_counted_in_the_status_of_its_pod_too() {
    let node = crio("lost-with-events");
    let without = diagnosed(&node, lost(20, &[1, 4])).await;
    let evidence = without.primary.unwrap().evidence;
    assert!(evidence[0].contains("a relist over all of them takes 7.5 s"), "{evidence:?}");

    let wait = || Behaviour::After(Duration::from_millis(3740));
    let script = lost(20, &[1, 4]).on_id(sandbox_id(1), wait()).on_id(sandbox_id(4), wait());
    let report = diagnosed(&node, script).await;
    let primary = report.primary.as_ref().unwrap();
    assert_eq!(primary.id, RuleId::D33, "{report:#?}");
    let total = &primary.evidence[0];
    assert!(total.contains("takes 15.0 s") && total.contains("PodSandboxStatus of their pods"), "{total}");
    assert!(find(&report, RuleId::D05).is_none(), "{report:#?}");
    let remove = format!("crictl --timeout 60s rm {} (changes state)", &container_id(1)[..12]);
    assert!(primary.next.contains(&remove), "{primary:#?}");
}
