//! Runs pods on a private containerd, with the fields that a kubelet sets and by default in the host's network.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;

use super::TIME_LIMIT;
use super::calls::{Client, image_named, within};
use super::daemon::{BUSYBOX_IMAGE, RealRuntime};
use super::messages::{
    Container, ContainerConfig, ContainerMetadata, ContainerState, ContainerStatus, CreateContainerRequest,
    DnsConfig, LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext, Mount, NamespaceMode, NamespaceOption, Pair, PodSandbox, PodSandboxConfig,
    PodSandboxMetadata, PodSandboxState, RemoveContainerRequest, RemovePodSandboxRequest,
    RunPodSandboxRequest, StartContainerRequest, StopContainerRequest, StopPodSandboxRequest,
};
use super::wait_for;

/// The number of pods that [`RealRuntime::run_pods`] starts at a time.
const PODS_AT_A_TIME: usize = 8;

/// A pod to run.
#[derive(Clone, Debug)]
#[must_use]
pub struct PodSpec {
    name: String,
    namespace: String,
    uid: String,
    attempt: u32,
    labels: HashMap<String, String>,
    annotations: HashMap<String, String>,
    network: NamespaceMode,
    pid: NamespaceMode,
    privileged: bool,
}

impl PodSpec {
    /// Creates a pod with this name in the namespace `default`, with its own UID.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: fresh_uid(),
            attempt: 0,
            labels: HashMap::new(),
            annotations: HashMap::new(),
            network: NamespaceMode::Node,
            pid: NamespaceMode::Container,
            privileged: false,
        }
    }

    /// Gives the pod its own network, so that the runtime calls its network plugin.
    pub fn own_network(mut self) -> Self {
        self.network = NamespaceMode::Pod;
        self
    }

    /// Gives the pod the machine's PID namespace.
    pub fn host_pid(mut self) -> Self {
        self.pid = NamespaceMode::Node;
        self
    }

    /// Allows privileged containers in the pod.
    pub fn privileged(mut self) -> Self {
        self.privileged = true;
        self
    }

    /// Sets the namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// Sets the UID, for a second sandbox of the same pod.
    pub fn uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    /// Sets the attempt, for a second sandbox of the same pod.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets the fields that the kubelet sets for a static pod: the UID is the manifest's hash, and annotations have the
    /// source.
    pub fn static_pod(self, manifest_hash: &str) -> Self {
        self.uid(manifest_hash)
            .annotation("kubernetes.io/config.source", "file")
            .annotation("kubernetes.io/config.hash", manifest_hash)
            .annotation("kubernetes.io/config.seen", "2026-01-01T00:00:00.000000000Z")
    }

    fn config(&self, runtime: &RealRuntime) -> PodSandboxConfig {
        let log_directory =
            runtime.directory().join("logs").join(format!("{}_{}_{}", self.namespace, self.name, self.uid));
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: self.name.clone(),
                uid: self.uid.clone(),
                namespace: self.namespace.clone(),
                attempt: self.attempt,
            }),
            log_directory: log_directory.display().to_string(),
            dns_config: Some(DnsConfig {}),
            labels: self.kubelet_labels(),
            annotations: self.annotations.clone(),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: format!("/{}/pod{}", runtime.name(), self.uid),
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(NamespaceOption {
                        network: self.network.into(),
                        pid: self.pid.into(),
                        ipc: NamespaceMode::Pod.into(),
                    }),
                    privileged: self.privileged,
                }),
            }),
        }
    }

    fn kubelet_labels(&self) -> HashMap<String, String> {
        let mut labels = self.labels.clone();
        for (key, value) in [
            ("io.kubernetes.pod.name", &self.name),
            ("io.kubernetes.pod.namespace", &self.namespace),
            ("io.kubernetes.pod.uid", &self.uid),
        ] {
            labels.insert(key.to_owned(), value.clone());
        }
        labels
    }
}

/// A container to run in a pod.
#[derive(Clone, Debug)]
#[must_use]
pub struct ContainerSpec {
    name: String,
    attempt: u32,
    command: Vec<String>,
    labels: HashMap<String, String>,
    annotations: HashMap<String, String>,
    more: ContainerConfig,
}

impl ContainerSpec {
    /// Creates a container that sleeps. It ignores SIGTERM, because it is the first process of its namespace.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            attempt: 0,
            command: vec!["/bin/sleep".to_owned(), "1000000".to_owned()],
            labels: HashMap::new(),
            annotations: HashMap::new(),
            more: ContainerConfig::default(),
        }
        .annotation("io.kubernetes.container.hash", "0")
        .annotation("io.kubernetes.container.restartCount", "0")
    }

    /// Runs a line of shell instead of sleeping.
    pub fn shell(mut self, line: &str) -> Self {
        self.command = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
        self
    }

    /// Runs the image's own program with these arguments.
    pub fn of_image(mut self, image: &str, arguments: &[&str]) -> Self {
        self.command.clear();
        self.more.image = Some(image_named(image));
        self.more.args = arguments.iter().copied().map(str::to_owned).collect();
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.more.envs.push(Pair { key: key.to_owned(), value: value.to_owned() });
        self
    }

    /// Mounts a directory of the machine, read-only.
    pub fn mount(mut self, host: &Path, inside: &str) -> Self {
        self.more.mounts.push(Mount {
            container_path: inside.to_owned(),
            host_path: host.display().to_string(),
            readonly: true,
        });
        self
    }

    /// Sets the security context.
    pub fn secured(mut self, context: LinuxContainerSecurityContext) -> Self {
        self.more.linux = Some(LinuxContainerConfig { security_context: Some(context) });
        self
    }

    /// Sets the attempt, with which the kubelet counts restarts.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self.annotation("io.kubernetes.container.restartCount", &attempt.to_string())
    }

    /// Sets the hash that the kubelet compares with its spec's hash.
    pub fn hash(self, hash: &str) -> Self {
        self.annotation("io.kubernetes.container.hash", hash)
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn config(&self, pod: &PodSandboxConfig) -> ContainerConfig {
        let mut labels = self.labels.clone();
        labels.extend(pod.labels.clone());
        labels.insert("io.kubernetes.container.name".to_owned(), self.name.clone());
        ContainerConfig {
            metadata: Some(ContainerMetadata { name: self.name.clone(), attempt: self.attempt }),
            image: self.more.image.clone().or_else(|| Some(image_named(BUSYBOX_IMAGE))),
            command: self.command.clone(),
            labels,
            annotations: self.annotations.clone(),
            log_path: format!("{}_{}.log", self.name, self.attempt),
            linux: Some(self.more.linux.clone().unwrap_or_default()),
            ..self.more.clone()
        }
    }
}

/// Returns the output of a container, without the prefix that the CRI log format adds to each line.
pub fn written(runtime: &RealRuntime, pod: &Pod, container: &str) -> String {
    let metadata = pod.config.metadata.as_ref().unwrap();
    let folder = Path::new(&pod.config.log_directory);
    assert!(folder.starts_with(runtime.directory()), "{metadata:?}");
    let log = std::fs::read_to_string(folder.join(format!("{container}_0.log"))).unwrap_or_default();
    let line = |line: &str| {
        // TIME STREAM F|P TEXT
        let mut parts = line.splitn(4, ' ').skip(2);
        let (whole, text) = (parts.next() == Some("F"), parts.next().unwrap_or_default());
        format!("{text}{}", if whole { "\n" } else { "" })
    };
    log.lines().map(line).collect()
}

/// A pod that runs or has run.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its sandbox.
    pub sandbox_id: String,
    /// Its containers, in the order of their specs.
    pub containers: Vec<String>,
    /// Its UID.
    pub uid: String,
    config: PodSandboxConfig,
}

impl RealRuntime {
    /// Runs a pod and all its containers.
    pub fn run_pod(&self, pod: &PodSpec, containers: &[ContainerSpec]) -> Pod {
        let client = self.calls.client();
        let run = run_pod(&client, pod.config(self), containers.to_vec());
        self.calls.block_on(run).unwrap()
    }

    /// Runs this number of pods, named `pod-0` and so on, with this number of containers each, a few at a time.
    pub fn run_pods(&self, pods: usize, containers_each: usize) -> Vec<Pod> {
        let containers: Vec<ContainerSpec> =
            (0..containers_each).map(|number| ContainerSpec::new(&format!("container-{number}"))).collect();
        let turns = Arc::new(Semaphore::new(PODS_AT_A_TIME));
        let mut running = JoinSet::new();
        self.calls.block_on(async {
            for number in 0..pods {
                let config = PodSpec::new(&format!("pod-{number}")).config(self);
                let containers = containers.clone();
                let client = self.calls.client();
                let turns = Arc::clone(&turns);
                running.spawn(async move {
                    let _turn = turns.acquire().await;
                    run_pod(&client, config, containers).await.unwrap()
                });
            }
            running.join_all().await
        })
    }

    /// Requests a pod; the call may never be answered.
    pub fn start_pod_in_background(&self, pod: &PodSpec) -> JoinHandle<()> {
        let (client, config) = (self.calls.client(), pod.config(self));
        self.calls.spawn(async move {
            let _ = client.send(RunPodSandboxRequest { config: Some(config) }).await;
        })
    }

    /// Requests the end of a container; the call may never be answered.
    pub fn stop_container_in_background(&self, container_id: &str) -> JoinHandle<()> {
        let client = self.calls.client();
        let request = StopContainerRequest { container_id: container_id.to_owned(), timeout: 0 };
        self.calls.spawn(async move {
            let _ = client.send(request).await;
        })
    }

    /// Creates a container without starting it.
    pub fn create_container(&self, pod: &Pod, container: &ContainerSpec) -> String {
        let client = self.calls.client();
        let create = create_container(&client, &pod.sandbox_id, &pod.config, container);
        self.calls.block_on(create).unwrap()
    }

    /// Tries to create a container; returns whether this worked within the time limit.
    pub fn can_create_container(&self, pod: &Pod, container: &ContainerSpec, time_limit: Duration) -> bool {
        let client = self.calls.client();
        let create = create_container(&client, &pod.sandbox_id, &pod.config, container);
        self.calls
            .block_on(async { tokio::time::timeout(time_limit, create).await })
            .is_ok_and(|made| made.is_ok())
    }

    /// Starts a created container.
    pub fn start_container(&self, container_id: &str) {
        let client = self.calls.client();
        let start = start_container(&client, container_id);
        self.calls.block_on(start).unwrap();
    }

    /// Stops a container without a grace period.
    pub fn stop_container(&self, container_id: &str) {
        let client = self.calls.client();
        let call = client.send(StopContainerRequest { container_id: container_id.to_owned(), timeout: 0 });
        self.calls.block_on(within(TIME_LIMIT, call)).unwrap();
    }

    /// Removes a container.
    pub fn remove_container(&self, container_id: &str) {
        let client = self.calls.client();
        let call = client.send(RemoveContainerRequest { container_id: container_id.to_owned() });
        self.calls.block_on(within(TIME_LIMIT, call)).unwrap();
    }

    /// Stops a pod and its containers. Repeats a failed call like a kubelet, because a shim that ends meanwhile causes
    /// one error.
    pub fn stop_pod(&self, sandbox_id: &str) {
        wait_for(&format!("{sandbox_id} to be stopped"), || {
            let client = self.calls.client();
            let request = StopPodSandboxRequest { pod_sandbox_id: sandbox_id.to_owned() };
            self.calls.block_on(within(TIME_LIMIT, client.send(request))).ok()
        });
        // containerd 2 answers StopPodSandbox a moment before its monitor marks the sandbox as not ready.
        wait_for(&format!("{sandbox_id} to be not ready"), || {
            let pods = self.calls.list_pods(TIME_LIMIT).ok()?;
            let ready =
                |pod: &PodSandbox| pod.id == sandbox_id && pod.state() == PodSandboxState::SandboxReady;
            (!pods.iter().any(ready)).then_some(())
        });
    }

    /// Removes a pod and its containers. Repeats a failed call too.
    pub fn remove_pod(&self, sandbox_id: &str) {
        wait_for(&format!("{sandbox_id} to be removed"), || {
            let client = self.calls.client();
            let request = RemovePodSandboxRequest { pod_sandbox_id: sandbox_id.to_owned() };
            self.calls.block_on(within(TIME_LIMIT, client.send(request))).ok()
        });
    }

    /// Returns all sandboxes.
    pub fn list_pods(&self) -> Vec<PodSandbox> {
        self.calls.list_pods(TIME_LIMIT).unwrap()
    }

    /// Returns all containers.
    pub fn list_containers(&self) -> Vec<Container> {
        self.calls.list_containers(TIME_LIMIT).unwrap()
    }

    /// Waits until the container has that state.
    pub fn wait_for_state(&self, container_id: &str, state: ContainerState) -> ContainerStatus {
        wait_for(&format!("{container_id} to be {}", state.as_str_name()), || {
            let status = self.calls.container_status(container_id, TIME_LIMIT).unwrap();
            (status.state() == state).then_some(status)
        })
    }
}

async fn run_pod(
    client: &Client,
    config: PodSandboxConfig,
    containers: Vec<ContainerSpec>,
) -> Result<Pod, Status> {
    let request = RunPodSandboxRequest { config: Some(config.clone()) };
    let sandbox_id = within(TIME_LIMIT, client.send(request)).await?.pod_sandbox_id;
    let mut container_ids = Vec::new();
    for container in &containers {
        let container_id = create_container(client, &sandbox_id, &config, container).await?;
        start_container(client, &container_id).await?;
        container_ids.push(container_id);
    }
    let uid = config.metadata.as_ref().map(|metadata| metadata.uid.clone());
    Ok(Pod { sandbox_id, containers: container_ids, uid: uid.unwrap_or_default(), config })
}

async fn create_container(
    client: &Client,
    sandbox_id: &str,
    pod: &PodSandboxConfig,
    container: &ContainerSpec,
) -> Result<String, Status> {
    let call = client.send(CreateContainerRequest {
        pod_sandbox_id: sandbox_id.to_owned(),
        config: Some(container.config(pod)),
        sandbox_config: Some(pod.clone()),
    });
    Ok(within(TIME_LIMIT, call).await?.container_id)
}

async fn start_container(client: &Client, container_id: &str) -> Result<(), Status> {
    let call = client.send(StartContainerRequest { container_id: container_id.to_owned() });
    within(TIME_LIMIT, call).await.map(drop)
}

/// Returns a UID like the API server's, different for each pod of this process.
fn fresh_uid() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("00000000-0000-4000-8000-{:012x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
