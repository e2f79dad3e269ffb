//! Finds the texts of a diagnosis that [`super::phrases`] does not know, so that an anonymised export would replace them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::phrases::{NameReplacer, anonymise_phrase, length_of_text};
use crate::cri::{Error, Rpc};
use crate::diagnosis::report::HealthReport;
use crate::diagnosis::tests::scripted::{
    Behaviour, Scripted, condition, container_id, inputs, not_found, sandbox_id,
};
use crate::diagnosis::{gather, judge};

/// Accepts the names and ids of a scripted runtime.
struct ScriptedNames;

impl NameReplacer for ScriptedNames {
    fn pod(&self, text: &str) -> Option<String> {
        (text.starts_with("default/web-") && !text.contains([' ', ':'])).then(|| "POD".to_owned())
    }

    fn id(&self, text: &str) -> Option<String> {
        let is_id = text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| "ID".to_owned())
    }

    fn endpoint(&self, _: &str) -> String {
        "ENDPOINT".to_owned()
    }
}

/// Returns the summary, the titles and the evidence, and what was not checked.
fn texts(report: HealthReport) -> Vec<String> {
    let not_checked = report.not_checked.into_iter().flat_map(|skipped| [skipped.what, skipped.why]);
    let findings = report.findings.into_iter().flat_map(|found| [vec![found.title], found.evidence].concat());
    [report.summary].into_iter().chain(findings).chain(not_checked).collect()
}

#[tokio::test(start_paused = true)]
async fn every_text_of_a_diagnosis_of_the_runtime_stays_in_an_anonymised_export() {
    let node = || Scripted::with_pods(9);
    let after = |millis| Behaviour::After(Duration::from_millis(millis));
    let refused = Error::Refused { endpoint: "unix:///run/test.sock".into() };
    let message = "grpc: received message larger than max (20035360 vs. 16777216)".to_owned();
    let mut crowded = node();
    crowded.list_bytes = Some(20 << 20);
    let mut down = node();
    down.conditions = vec![condition("RuntimeReady", false), condition("NetworkReady", true)];
    let mut offline = node();
    offline.conditions = vec![condition("RuntimeReady", true), condition("NetworkReady", false)];
    let mut restarted = node();
    for container in &mut restarted.containers {
        container.metadata.as_mut().unwrap().attempt = 7;
    }
    let faults = [
        node(),
        restarted,
        node().on_id(container_id(1), Behaviour::Hangs),
        node().on_id(container_id(1), Behaviour::Hangs).on_id(sandbox_id(2), Behaviour::Hangs),
        node().on(Rpc::ListContainers, Behaviour::Hangs),
        node().on(Rpc::ListPodSandbox, Behaviour::Hangs).on(Rpc::ListContainers, Behaviour::Hangs),
        node().on(Rpc::Version, Behaviour::Hangs),
        node().on(Rpc::Version, Behaviour::Fails(refused)),
        node()
            .on(Rpc::ListContainers, Behaviour::Fails(Error::TooLarge { rpc: Rpc::ListContainers, message })),
        node().on(Rpc::ListContainers, Behaviour::Fails(not_found(Rpc::ListContainers))),
        node().on(Rpc::ListContainers, after(1500)),
        node().on(Rpc::Status, Behaviour::Hangs),
        node().on_id(container_id(3), after(4000)),
        node().on(Rpc::ContainerStatus, after(900)).on(Rpc::PodSandboxStatus, after(900)),
        crowded,
        down,
        offline,
    ];
    let mut lost = BTreeSet::new();
    for fault in faults {
        for text in texts(judge(&gather(&inputs(fault), &|_| ()).await)) {
            if anonymise_phrase(&text, &ScriptedNames) == length_of_text(&text) {
                lost.insert(text);
            }
        }
    }
    assert!(lost.is_empty(), "add these texts to phrases.txt:\n{lost:#?}");
}
