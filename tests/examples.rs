//! Runs each program under `examples/` once and checks its output.

use std::path::Path;

use plegctl_engine::manifests::{Kubelet, KubeletVersion};

#[path = "../examples/incidents.rs"]
pub mod incidents;
#[path = "../examples/relist.rs"]
pub mod relist;
#[path = "../examples/static_pod.rs"]
pub mod static_pod;

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn relist_prints_the_events_of_the_first_relist() {
    let mut out = Vec::new();
    relist::run("sim:quiet", &mut out).await.unwrap();
    let text = text(out);
    let started = text.lines().filter(|line| line.starts_with("ContainerStarted ")).count();
    assert!(started > 10 && text.contains(" kube-system/") && text.contains(" calls in "), "{text}");
    assert!(relist::run("/nowhere.sock", &mut Vec::new()).await.is_err());
}

#[test]
fn static_pod_prints_verdict_and_uid() {
    let mut out = Vec::new();
    let kubelet = Kubelet {
        manifest_dir: Some("/etc/kubernetes/manifests".into()),
        ..Kubelet::new(KubeletVersion::CONFIRMED, "node1")
    };
    static_pod::run(Path::new("docs/examples/manifests/kube-scheduler.yaml"), &kubelet, &mut out).unwrap();
    let text = text(out);
    let (_, uid) = text.trim_end().rsplit_once(", UID ").unwrap_or_else(|| panic!("no UID in {text}"));
    assert_eq!(uid.len(), 32, "{text}");
    assert!(text.contains("Loaded as kube-system/kube-scheduler-node1"), "{text}");
}

#[test]
fn incidents_prints_the_incidents_of_a_capture() {
    let mut out = Vec::new();
    incidents::run(Path::new("tests/captures/0.1.0.plegcap"), &mut out).unwrap();
    let text = text(out);
    assert!(text.starts_with("1 20") && text.contains(" incidents, "), "{text}");
}
