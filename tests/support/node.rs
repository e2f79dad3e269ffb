//! Builds the node that the fake runtime reports.
//!
//! ```ignore
//! Node::new()
//!     .pod("default/web-0", "uid-1")
//!     .sandbox("s1")
//!     .container("c1", "web")
//!     .container("c2", "init").exited(0)
//! ```
//!
//! A method that describes a sandbox or a container (`exited`, `not_ready`, `annotation`, …) applies to the last one
//! that was added.

use std::collections::HashMap;
use std::sync::OnceLock;

use prost::Message;
use prost::bytes::Bytes;

use super::wire::{self, ContainerState, ContainerStatus, PodSandboxState, PodSandboxStatus, pair};

/// The creation time of the first object; each further sandbox or container is a second younger.
pub const EPOCH_NANOS: i64 = 1_700_000_000_000_000_000;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The state of a node.
#[derive(Debug, Default)]
#[must_use]
pub struct Node {
    sandboxes: Vec<PodSandboxStatus>,
    containers: Vec<ContainerInSandbox>,
    pod: Option<Pod>,
    last: LastAdded,
    /// The number of objects that got a creation time.
    created: i64,
    index: OnceLock<Index>,
}

/// A container with its sandbox.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerInSandbox {
    /// The sandbox's id.
    pub sandbox_id: String,
    /// The answer to its status call; the list entry has the same values.
    pub status: ContainerStatus,
}

/// The pod to which further sandboxes and containers are added.
#[derive(Clone, Debug)]
struct Pod {
    namespace: String,
    name: String,
    uid: String,
    sandboxes: u32,
}

/// Which kind of object was added last.
#[derive(Clone, Copy, Debug, Default)]
enum LastAdded {
    #[default]
    Sandbox,
    Container,
}

/// The encoded lists, and the place of each object by its id. Built at the first call, because a node of 50 000 containers
/// gets many calls.
#[derive(Debug)]
struct Index {
    sandboxes: HashMap<String, usize>,
    containers: HashMap<String, usize>,
    sandbox_list: Bytes,
    container_list: Bytes,
}

impl Node {
    /// Creates a node without pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a node with `pods` pods, each with one sandbox and `containers` running containers. Pod 7 is
    /// `default/pod-7` with UID `uid-7`, sandbox `s7` and containers `c7-0`, `c7-1`, ….
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

    /// Begins a pod; `name` is `namespace/name`.
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

    /// Adds a ready sandbox with an address; a further sandbox of the same pod is one attempt later.
    pub fn sandbox(mut self, id: &str) -> Self {
        let created_at = self.next_creation_time();
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

    /// Adds a running container to the last sandbox.
    pub fn container(mut self, id: &str, name: &str) -> Self {
        let created_at = self.next_creation_time();
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

    /// Adds a complete sandbox.
    pub fn add_sandbox(mut self, sandbox: PodSandboxStatus) -> Self {
        self.sandboxes.push(sandbox);
        self.last = LastAdded::Sandbox;
        self
    }

    /// Adds a complete container.
    pub fn add_container(mut self, container: ContainerInSandbox) -> Self {
        self.containers.push(container);
        self.last = LastAdded::Container;
        self
    }

    /// Changes the last sandbox.
    pub fn edit_sandbox(mut self, edit: impl FnOnce(&mut PodSandboxStatus)) -> Self {
        edit(self.sandboxes.last_mut().expect("no sandbox yet"));
        self
    }

    /// Changes the last container.
    pub fn edit_container(mut self, edit: impl FnOnce(&mut ContainerStatus)) -> Self {
        edit(&mut self.containers.last_mut().expect("no container yet").status);
        self
    }

    /// Makes the sandbox not ready.
    pub fn not_ready(self) -> Self {
        self.edit_sandbox(|sandbox| sandbox.state = PodSandboxState::SandboxNotready.into())
    }

    /// Sets the sandbox's address; `""` is a network without an address.
    pub fn ip(self, ip: &str) -> Self {
        self.edit_sandbox(|sandbox| {
            ip.clone_into(&mut sandbox.network.get_or_insert_default().ip);
        })
    }

    /// Puts the sandbox into the node's network, without an address.
    pub fn host_network(self) -> Self {
        self.ip("").edit_sandbox(|sandbox| sandbox.linux = Some(linux(wire::NamespaceMode::Node)))
    }

    /// Makes the container created but not started.
    pub fn created(self) -> Self {
        self.edit_container(|container| {
            container.state = ContainerState::ContainerCreated.into();
            container.started_at = 0;
        })
    }

    /// Makes the container exited, ten seconds after its start.
    pub fn exited(self, code: i32) -> Self {
        self.edit_container(|container| {
            container.state = ContainerState::ContainerExited.into();
            container.exit_code = code;
            container.finished_at = container.started_at + 10 * NANOS_PER_SECOND;
            let reason = if code == 0 { "Completed" } else { "Error" };
            reason.clone_into(&mut container.reason);
        })
    }

    /// Makes the container's state unknown.
    pub fn unknown(self) -> Self {
        self.edit_container(|container| container.state = ContainerState::ContainerUnknown.into())
    }

    /// Sets the attempt of the last sandbox or container.
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

    /// Sets the creation time of the last sandbox or container, in Unix nanoseconds.
    pub fn created_at(self, nanos: i64) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.created_at = nanos),
            LastAdded::Container => self.edit_container(|container| container.created_at = nanos),
        }
    }

    /// Adds an annotation to the last sandbox or container.
    pub fn annotation(self, key: &str, value: &str) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.annotations.push(pair(key, value))),
            LastAdded::Container => {
                self.edit_container(|container| container.annotations.push(pair(key, value)))
            }
        }
    }

    /// Adds a label to the last sandbox or container.
    pub fn label(self, key: &str, value: &str) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.labels.push(pair(key, value))),
            LastAdded::Container => self.edit_container(|container| container.labels.push(pair(key, value))),
        }
    }

    /// Removes all labels of the last sandbox or container, as if no kubelet had created it.
    pub fn without_labels(self) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.labels.clear()),
            LastAdded::Container => self.edit_container(|container| container.labels.clear()),
        }
    }

    /// Removes the metadata of the last sandbox or container.
    pub fn without_metadata(self) -> Self {
        match self.last {
            LastAdded::Sandbox => self.edit_sandbox(|sandbox| sandbox.metadata = None),
            LastAdded::Container => self.edit_container(|container| container.metadata = None),
        }
    }

    /// Returns the creation time of the next object.
    fn next_creation_time(&mut self) -> i64 {
        let time = EPOCH_NANOS + self.created * NANOS_PER_SECOND;
        self.created += 1;
        time
    }
}

/// The accessors for the fake runtime.
impl Node {
    /// Finds a sandbox by id.
    pub fn find_sandbox(&self, id: &str) -> Option<&PodSandboxStatus> {
        self.index().sandboxes.get(id).map(|place| &self.sandboxes[*place])
    }

    /// Finds a container by id.
    pub fn find_container(&self, id: &str) -> Option<&ContainerInSandbox> {
        self.index().containers.get(id).map(|place| &self.containers[*place])
    }

    /// Returns the statuses of a sandbox's containers.
    pub fn containers_of(&self, sandbox_id: &str) -> Vec<ContainerStatus> {
        let of_it = self.containers.iter().filter(|container| container.sandbox_id == sandbox_id);
        of_it.map(|container| container.status.clone()).collect()
    }

    /// Returns the list entries of the sandboxes that pass the filter.
    pub fn list_sandboxes(&self, filter: &wire::PodSandboxFilter) -> Vec<wire::PodSandbox> {
        let passing = self.sandboxes.iter().filter(|sandbox| {
            (filter.id.is_empty() || filter.id == sandbox.id)
                && filter.state.is_none_or(|wanted| wanted.state == sandbox.state)
                && has_labels(&sandbox.labels, &filter.label_selector)
        });
        passing.map(sandbox_entry).collect()
    }

    /// Returns the list entries of the containers that pass the filter.
    pub fn list_containers(&self, filter: &wire::ContainerFilter) -> Vec<wire::Container> {
        let passing = self.containers.iter().filter(|ContainerInSandbox { sandbox_id, status }| {
            (filter.id.is_empty() || filter.id == status.id)
                && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == *sandbox_id)
                && filter.state.is_none_or(|wanted| wanted.state == status.state)
                && has_labels(&status.labels, &filter.label_selector)
        });
        passing.map(container_entry).collect()
    }

    /// Returns the encoded answer to an unfiltered `ListPodSandbox`.
    pub fn sandbox_list(&self) -> Bytes {
        self.index().sandbox_list.clone()
    }

    /// Returns the encoded answer to an unfiltered `ListContainers`.
    pub fn container_list(&self) -> Bytes {
        self.index().container_list.clone()
    }

    /// Returns the index, which the first call builds.
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
    /// Returns the labels that the kubelet gives to a sandbox of this pod.
    fn labels(&self) -> Vec<wire::Pair> {
        vec![
            pair("io.kubernetes.pod.name", &self.name),
            pair("io.kubernetes.pod.namespace", &self.namespace),
            pair("io.kubernetes.pod.uid", &self.uid),
        ]
    }
}

/// Returns a message in its encoded form.
pub fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// Maps each id to its index.
fn places<'a>(ids: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    ids.enumerate().map(|(place, id)| (id.clone(), place)).collect()
}

/// Whether the labels contain all labels of the selector.
fn has_labels(labels: &[wire::Pair], selector: &[wire::Pair]) -> bool {
    selector.iter().all(|wanted| labels.contains(wanted))
}

/// Creates the part of a sandbox status that says which network the sandbox uses.
fn linux(network: wire::NamespaceMode) -> wire::LinuxPodSandboxStatus {
    let options = wire::NamespaceOption { network: network.into() };
    wire::LinuxPodSandboxStatus { namespaces: Some(wire::Namespace { options: Some(options) }) }
}

/// Creates the list entry of a sandbox.
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

/// Creates the list entry of a container.
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
