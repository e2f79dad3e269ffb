//! What a node looks like to its runtime, built in a few words.
//!
//! ```ignore
//! Node::new()
//!     .pod("default/web-0", "uid-1")
//!     .sandbox("s1")
//!     .container("c1", "web")
//!     .container("c2", "init").exited(0)
//! ```
//!
//! What follows a sandbox or a container (`exited`, `not_ready`, `annotation`, …) is about the last one named.

use std::collections::HashMap;
use std::sync::OnceLock;

use prost::Message;
use prost::bytes::Bytes;

use super::wire::{self, ContainerState, ContainerStatus, PodSandboxState, PodSandboxStatus, pair};

/// First creation time of a built node; each further sandbox or container is a second younger.
pub const EPOCH_NANOS: i64 = 1_700_000_000_000_000_000;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// One state of a node.
#[derive(Debug, Default)]
#[must_use]
pub struct Node {
    sandboxes: Vec<PodSandboxStatus>,
    containers: Vec<ContainerInSandbox>,
    pod: Option<Pod>,
    last: LastAdded,
    born: i64,
    index: OnceLock<Index>,
}

/// A container and the sandbox it runs in.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerInSandbox {
    /// The sandbox's id.
    pub sandbox_id: String,
    /// What its status call answers; the list entry is made from it.
    pub status: ContainerStatus,
}

#[derive(Clone, Debug)]
struct Pod {
    namespace: String,
    name: String,
    uid: String,
    sandboxes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum LastAdded {
    #[default]
    Sandbox,
    Container,
}

/// Built at the first call, because a node of 50 000 containers gets many calls.
#[derive(Debug)]
struct Index {
    sandboxes: HashMap<String, usize>,
    containers: HashMap<String, usize>,
    sandbox_list: Bytes,
    container_list: Bytes,
}

impl Node {
    /// A node with nothing on it.
    pub fn new() -> Self {
        Self::default()
    }

    /// `pods` pods of one sandbox and `containers` running containers each.
    ///
    /// Pod 7 is `default/pod-7` with UID `uid-7`, its sandbox `s7`, its containers `c7-0`, `c7-1`, ….
    pub fn many(pods: usize, containers: usize) -> Self {
        let mut node = Self::new();
        for pod in 0..pods {
            node = node.pod(&format!("default/pod-{pod}"), &format!("uid-{pod}")).sandbox(&format!("s{pod}"));
            for container in 0..containers {
                node = node.container(&format!("c{pod}-{container}"), &format!("c{container}"));
            }
        }
        node
    }

    /// Starts a pod; `name` is `namespace/name`.
    pub fn pod(mut self, name: &str, uid: &str) -> Self {
        let (namespace, name) = name.split_once('/').expect("a pod is named namespace/name");
        self.pod = Some(Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            sandboxes: 0,
        });
        self
    }

    /// A ready sandbox of the pod: with an address, and each further one of the same pod one attempt later.
    pub fn sandbox(mut self, id: &str) -> Self {
        let created_at = self.next_birth();
        let number = self.sandboxes.len() + 1;
        let pod = self.pod.as_mut().expect("a sandbox needs a pod");
        let metadata = wire::PodSandboxMetadata {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            attempt: pod.sandboxes,
        };
        pod.sandboxes += 1;
        let labels = pod.labels();
        self.add_sandbox(PodSandboxStatus {
            id: id.to_owned(),
            metadata: Some(metadata),
            state: PodSandboxState::SandboxReady.into(),
            created_at,
            network: Some(wire::PodSandboxNetworkStatus {
                ip: format!("10.{}.{}.{}", number / 65536 % 256, number / 256 % 256, number % 256),
                additional_ips: Vec::new(),
            }),
            linux: Some(linux(wire::NamespaceMode::Pod)),
            labels,
            annotations: Vec::new(),
        })
    }

    /// A running container in the sandbox last named.
    pub fn container(mut self, id: &str, name: &str) -> Self {
        let created_at = self.next_birth();
        let sandbox_id = self.sandboxes.last().expect("a container needs a sandbox").id.clone();
        let mut labels = self.pod.as_ref().expect("a container needs a pod").labels();
        labels.push(pair("io.kubernetes.container.name", name));
        let status = ContainerStatus {
            id: id.to_owned(),
            metadata: Some(wire::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            state: ContainerState::ContainerRunning.into(),
            created_at,
            started_at: created_at + NANOS_PER_SECOND / 2,
            image: Some(wire::ImageSpec {
                image: "registry.local/app:1".to_owned(),
                user_specified_image: String::new(),
            }),
            image_ref: "sha256:0".to_owned(),
            labels,
            ..ContainerStatus::default()
        };
        self.add_container(ContainerInSandbox { sandbox_id, status })
    }

    /// A sandbox given in full.
    pub fn add_sandbox(mut self, sandbox: PodSandboxStatus) -> Self {
        self.sandboxes.push(sandbox);
        self.last = LastAdded::Sandbox;
        self
    }

    /// A container given in full.
    pub fn add_container(mut self, container: ContainerInSandbox) -> Self {
        self.containers.push(container);
        self.last = LastAdded::Container;
        self
    }

    /// Anything else about the sandbox last named.
    pub fn edit_sandbox(mut self, edit: impl FnOnce(&mut PodSandboxStatus)) -> Self {
        edit(self.sandboxes.last_mut().expect("no sandbox yet"));
        self
    }

    /// Anything else about the container last named.
    pub fn edit_container(mut self, edit: impl FnOnce(&mut ContainerStatus)) -> Self {
        edit(&mut self.containers.last_mut().expect("no container yet").status);
        self
    }

    /// The sandbox is not ready.
    pub fn not_ready(self) -> Self {
        self.edit_sandbox(|sandbox| sandbox.state = PodSandboxState::SandboxNotready.into())
    }

    /// The sandbox has this address; `""` is a network without one.
    pub fn ip(self, ip: &str) -> Self {
        self.edit_sandbox(|sandbox| {
            ip.clone_into(&mut sandbox.network.get_or_insert_default().ip);
        })
    }

    /// The sandbox uses the node's network and has no address of its own.
    pub fn host_network(self) -> Self {
        self.ip("").edit_sandbox(|sandbox| sandbox.linux = Some(linux(wire::NamespaceMode::Node)))
    }

    /// The container is created and not started.
    pub fn created(self) -> Self {
        self.edit_container(|container| {
            container.state = ContainerState::ContainerCreated.into();
            container.started_at = 0;
        })
    }

    /// The container has exited, ten seconds after its start.
    pub fn exited(self, code: i32) -> Self {
        self.edit_container(|container| {
            container.state = ContainerState::ContainerExited.into();
            container.exit_code = code;
            container.finished_at = container.started_at + 10 * NANOS_PER_SECOND;
            let reason = if code == 0 { "Completed" } else { "Error" };
            reason.clone_into(&mut container.reason);
        })
    }

    /// The runtime does not know the container's state.
    pub fn unknown(self) -> Self {
        self.edit_container(|container| container.state = ContainerState::ContainerUnknown.into())
    }

    /// Attempt of the sandbox or container last named.
    pub fn attempt(mut self, attempt: u32) -> Self {
        match self.last {
            LastAdded::Sandbox => {
                self.edit_sandbox(|sandbox| sandbox.metadata.get_or_insert_default().attempt = attempt)
            }
            LastAdded::Container => {
                let container = self.containers.last_mut().expect("no container yet");
                container.status.metadata.get_or_insert_default().attempt = attempt;
                self
            }
        }
    }

    /// Creation time, in Unix nanoseconds, of the sandbox or container last named.
    pub fn created_at(self, nanos: i64) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.created_at = nanos),
            LastAdded::Container => self.edit_container(|container| container.created_at = nanos),
        }
    }

    /// One more annotation on the sandbox or container last named.
    pub fn annotation(self, key: &str, value: &str) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.annotations.push(pair(key, value))),
            LastAdded::Container => {
                self.edit_container(|container| container.annotations.push(pair(key, value)))
            }
        }
    }

    /// One more label on the sandbox or container last named.
    pub fn label(self, key: &str, value: &str) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.labels.push(pair(key, value))),
            LastAdded::Container => self.edit_container(|container| container.labels.push(pair(key, value))),
        }
    }

    /// The sandbox or container last named has no labels, as if something else than a kubelet had made it.
    pub fn without_labels(self) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.labels.clear()),
            LastAdded::Container => self.edit_container(|container| container.labels.clear()),
        }
    }

    /// The sandbox or container last named has no metadata.
    pub fn without_metadata(self) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.metadata = None),
            LastAdded::Container => self.edit_container(|container| container.metadata = None),
        }
    }

    fn next_birth(&mut self) -> i64 {
        let born = EPOCH_NANOS + self.born * NANOS_PER_SECOND;
        self.born += 1;
        born
    }
}

/// What the runtime answers from.
impl Node {
    /// A sandbox by id.
    pub fn find_sandbox(&self, id: &str) -> Option<&PodSandboxStatus> {
        self.index().sandboxes.get(id).map(|place| &self.sandboxes[*place])
    }

    /// A container by id.
    pub fn find_container(&self, id: &str) -> Option<&ContainerInSandbox> {
        self.index().containers.get(id).map(|place| &self.containers[*place])
    }

    /// Statuses of a sandbox's containers.
    pub fn containers_of(&self, sandbox_id: &str) -> Vec<ContainerStatus> {
        let of_it = self.containers.iter().filter(|container| container.sandbox_id == sandbox_id);
        of_it.map(|container| container.status.clone()).collect()
    }

    /// List entries of the sandboxes that pass the filter.
    pub fn list_sandboxes(&self, filter: &wire::PodSandboxFilter) -> Vec<wire::PodSandbox> {
        let passing = self.sandboxes.iter().filter(|sandbox| {
            (filter.id.is_empty() || filter.id == sandbox.id)
                && filter.state.is_none_or(|wanted| wanted.state == sandbox.state)
                && has_labels(&sandbox.labels, &filter.label_selector)
        });
        passing.map(sandbox_entry).collect()
    }

    /// List entries of the containers that pass the filter.
    pub fn list_containers(&self, filter: &wire::ContainerFilter) -> Vec<wire::Container> {
        let passing = self.containers.iter().filter(|ContainerInSandbox { sandbox_id, status }| {
            (filter.id.is_empty() || filter.id == status.id)
                && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == *sandbox_id)
                && filter.state.is_none_or(|wanted| wanted.state == status.state)
                && has_labels(&status.labels, &filter.label_selector)
        });
        passing.map(container_entry).collect()
    }

    /// The encoded answer of an unfiltered `ListPodSandbox`.
    pub fn sandbox_list(&self) -> Bytes {
        self.index().sandbox_list.clone()
    }

    /// The encoded answer of an unfiltered `ListContainers`.
    pub fn container_list(&self) -> Bytes {
        self.index().container_list.clone()
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index {
            sandboxes: places(self.sandboxes.iter().map(|sandbox| &sandbox.id)),
            containers: places(self.containers.iter().map(|container| &container.status.id)),
            sandbox_list: encode(&wire::ListPodSandboxResponse {
                items: self.sandboxes.iter().map(sandbox_entry).collect(),
            }),
            container_list: encode(&wire::ListContainersResponse {
                containers: self.containers.iter().map(container_entry).collect(),
            }),
        })
    }
}

impl Pod {
    fn labels(&self) -> Vec<wire::Pair> {
        vec![
            pair("io.kubernetes.pod.name", &self.name),
            pair("io.kubernetes.pod.namespace", &self.namespace),
            pair("io.kubernetes.pod.uid", &self.uid),
        ]
    }
}

/// A message as it goes over the wire.
pub fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn places<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.enumerate().map(|(place, id)| (id.clone(), place)).collect()
}

fn has_labels(labels: &[wire::Pair], selector: &[wire::Pair]) -> bool {
    selector.iter().all(|wanted| labels.contains(wanted))
}

fn linux(network: wire::NamespaceMode) -> wire::LinuxPodSandboxStatus {
    let options = wire::NamespaceOption { network: network.into() };
    wire::LinuxPodSandboxStatus { namespaces: Some(wire::Namespace { options: Some(options) }) }
}

fn sandbox_entry(status: &PodSandboxStatus) -> wire::PodSandbox {
    wire::PodSandbox {
        id: status.id.clone(),
        metadata: status.metadata.clone(),
        state: status.state,
        created_at: status.created_at,
        labels: status.labels.clone(),
        annotations: status.annotations.clone(),
    }
}

fn container_entry(ContainerInSandbox { sandbox_id, status }: &ContainerInSandbox) -> wire::Container {
    wire::Container {
        id: status.id.clone(),
        pod_sandbox_id: sandbox_id.clone(),
        metadata: status.metadata.clone(),
        image: status.image.clone(),
        image_ref: status.image_ref.clone(),
        state: status.state,
        created_at: status.created_at,
        labels: status.labels.clone(),
        annotations: status.annotations.clone(),
    }
}
