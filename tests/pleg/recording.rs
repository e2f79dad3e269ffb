//! Reads recordings of real kubelets: the nodes that the kubelets saw, one step for each relist.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use plegctl_engine::cri::{
    Code, Container, ContainerMetadata, ContainerState, Image, Labels, Network, Sandbox, SandboxMetadata,
    SandboxState,
};
use serde::Deserialize;

use crate::pleg::scripted::{Fault, State};

#[derive(Debug, Deserialize)]
pub struct RecordedStep {
    #[serde(default)]
    sandboxes: Option<Vec<RecordedSandbox>>,
    #[serde(default)]
    containers: Option<Vec<RecordedContainer>>,
    #[serde(default)]
    faults: Option<HashMap<String, serde_json::Value>>,
}

#[derive(Debug, Deserialize)]
pub struct RecordedSandbox {
    id: String,
    name: String,
    uid: String,
    namespace: String,
    attempt: u32,
    state: String,
    created_at: i64,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    ip: String,
    #[serde(default)]
    no_metadata: bool,
}

#[derive(Debug, Deserialize)]
pub struct RecordedContainer {
    id: String,
    sandbox: String,
    name: String,
    attempt: u32,
    state: String,
    created_at: i64,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    exit_code: i32,
    #[serde(default)]
    no_metadata: bool,
}

impl RecordedSandbox {
    pub fn sandbox(&self) -> Sandbox {
        Sandbox {
            id: self.id.clone(),
            metadata: (!self.no_metadata).then(|| SandboxMetadata {
                name: self.name.clone(),
                uid: self.uid.clone(),
                namespace: self.namespace.clone(),
                attempt: self.attempt,
            }),
            state: match self.state.as_str() {
                "READY" => SandboxState::Ready,
                "NOTREADY" => SandboxState::NotReady,
                other => panic!("sandbox state {other}"),
            },
            created_at: self.created_at,
            labels: self.labels.iter().flatten().collect_labels(),
            annotations: Labels::default(),
        }
    }

    pub fn network(&self) -> Network {
        Network { ip: self.ip.clone(), additional_ips: Vec::new() }
    }
}

impl RecordedContainer {
    pub fn container(&self) -> Container {
        Container {
            id: self.id.clone(),
            sandbox_id: self.sandbox.clone(),
            metadata: (!self.no_metadata)
                .then(|| ContainerMetadata { name: self.name.clone(), attempt: self.attempt }),
            image: Some(Image { image: "img:1".into(), user_specified: String::new() }),
            image_ref: "sha256:0".into(),
            state: match self.state.as_str() {
                "CREATED" => ContainerState::Created,
                "RUNNING" => ContainerState::Running,
                "EXITED" => ContainerState::Exited,
                "UNKNOWN" => ContainerState::Unknown,
                other => panic!("container state {other}"),
            },
            created_at: self.created_at,
            labels: self.labels.iter().flatten().collect_labels(),
            annotations: Labels::default(),
        }
    }

    pub fn exit_code(&self) -> i32 {
        self.exit_code
    }
}

trait CollectLabels {
    fn collect_labels(self) -> Labels;
}

impl<'a, I: Iterator<Item = (&'a String, &'a String)>> CollectLabels for I {
    fn collect_labels(self) -> Labels {
        self.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
}

pub fn code(name: &str) -> Code {
    match name {
        "NOT_FOUND" => Code::NotFound,
        "UNKNOWN" => Code::Unknown,
        "UNAVAILABLE" => Code::Unavailable,
        "INTERNAL" => Code::Internal,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "DEADLINE_EXCEEDED" => Code::DeadlineExceeded,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        other => panic!("status code {other}"),
    }
}

impl RecordedStep {
    /// Makes a scripted runtime answer as recorded in this step.
    pub fn play(&self, state: &mut State) {
        let sandboxes = self.sandboxes.as_deref().unwrap_or_default();
        let containers = self.containers.as_deref().unwrap_or_default();
        state.sandboxes = sandboxes.iter().map(RecordedSandbox::sandbox).collect();
        state.networks = sandboxes.iter().map(|item| (item.id.clone(), item.network())).collect();
        state.containers = containers.iter().map(RecordedContainer::container).collect();
        state.exit_codes = containers.iter().map(|item| (item.id.clone(), item.exit_code)).collect();
        state.faults = self
            .faults
            .iter()
            .flatten()
            .map(|(key, value)| match key.strip_prefix("nil:") {
                Some(id) => (id.to_owned(), Fault::Nil),
                None => (key.clone(), Fault::Code(code(value["code"].as_str().unwrap()))),
            })
            .collect();
    }
}

/// Reads the lines of one recording.
pub fn lines<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
