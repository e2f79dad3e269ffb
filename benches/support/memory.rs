//! A node in memory for the benches: any number of containers, two in each pod, with a kubelet's labels and
//! annotations.

use std::sync::Mutex;
use std::time::Duration;

use plegctl_engine::cri::{
    Call, CgroupDriver, Container, ContainerMetadata, ContainerState, ContainerStatus, Error, EventStream,
    Filter, Image, Labels, Network, Rpc, Runtime, RuntimeStatus, Sandbox, SandboxMetadata, SandboxState,
    SandboxStatus, SandboxStatusAnswer, Version, label,
};

/// The number of containers in each pod.
pub const CONTAINERS_A_POD: usize = 2;

/// The answers to both list calls.
pub type Lists = (Vec<Sandbox>, Vec<Container>);

/// Returns the lists of a node with this number of containers, whose pods are numbered from `first_pod`.
pub fn lists(containers: usize, first_pod: usize) -> Lists {
    let pods = first_pod..first_pod + containers.div_ceil(CONTAINERS_A_POD);
    let members =
        pods.clone().flat_map(|pod| (0..CONTAINERS_A_POD).map(move |number| container(pod, number)));
    (pods.map(sandbox).collect(), members.take(containers).collect())
}

/// A runtime that returns the lists that `load` has set, so that a bench does not measure their creation.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Lists>);

impl Memory {
    /// Sets the answers to the next two list calls.
    pub fn load(&self, lists: Lists) {
        *self.0.lock().expect("nobody panics with it") = lists;
    }
}

/// Creates the result of a successful call.
fn answer<T>(rpc: Rpc, value: T) -> Call<T> {
    Call { rpc, duration: Duration::from_millis(1), response_bytes: 1, stream: None, result: Ok(value) }
}

impl Runtime for Memory {
    async fn version(&self) -> Call<Version> {
        answer(Rpc::Version, Version::default())
    }

    async fn status(&self) -> Call<RuntimeStatus> {
        answer(Rpc::Status, RuntimeStatus::default())
    }

    async fn cgroup_driver(&self) -> Call<Option<CgroupDriver>> {
        answer(Rpc::RuntimeConfig, None)
    }

    async fn list_sandboxes(&self, _filter: &Filter<SandboxState>) -> Call<Vec<Sandbox>> {
        let sandboxes = std::mem::take(&mut self.0.lock().expect("nobody panics with it").0);
        answer(Rpc::ListPodSandbox, sandboxes)
    }

    async fn list_containers(&self, _filter: &Filter<ContainerState>) -> Call<Vec<Container>> {
        let containers = std::mem::take(&mut self.0.lock().expect("nobody panics with it").1);
        answer(Rpc::ListContainers, containers)
    }

    async fn sandbox_status(&self, id: &str) -> Call<SandboxStatusAnswer> {
        let (pod, _) = numbers(id);
        let Sandbox { id, metadata, state, created_at, labels, annotations } = sandbox(pod);
        let network = Some(Network { ip: "10.0.0.1".to_owned(), additional_ips: Vec::new() });
        let host_network = Some(false);
        let status =
            SandboxStatus { id, metadata, state, created_at, network, host_network, labels, annotations };
        let answered = SandboxStatusAnswer { status: Some(status), containers: Vec::new(), timestamp: 0 };
        answer(Rpc::PodSandboxStatus, answered)
    }

    async fn container_status(&self, id: &str) -> Call<Option<ContainerStatus>> {
        let (pod, number) = numbers(id);
        let Container { id, metadata, image, image_ref, state, created_at, labels, annotations, .. } =
            container(pod, number);
        let status = ContainerStatus {
            id,
            metadata,
            state,
            created_at,
            started_at: created_at,
            finished_at: 0,
            exit_code: 0,
            image,
            image_ref,
            reason: String::new(),
            message: String::new(),
            labels,
            annotations,
            mounts: Vec::new(),
            log_path: format!("app-{number}/0.log"),
        };
        answer(Rpc::ContainerStatus, Some(status))
    }

    async fn container_stats(&self, _id: &str) -> Call<()> {
        answer(Rpc::ContainerStats, ())
    }

    async fn container_events(&self) -> Result<EventStream, Error> {
        Err(Error::Unimplemented { rpc: Rpc::GetContainerEvents, message: "in memory".to_owned() })
    }
}

/// Returns an id of 64 digits, as a runtime creates: from the number of the pod, then of the container.
fn id(pod: usize, number: usize) -> String {
    format!("{pod:032x}{number:032x}")
}

/// Returns the numbers of the pod and of the container in an id.
fn numbers(id: &str) -> (usize, usize) {
    let number = |digits| usize::from_str_radix(digits, 16).expect("an id of ours");
    (number(&id[..32]), number(&id[32..]))
}

/// Returns the labels of a pod.
fn pod_labels(pod: usize) -> Vec<(String, String)> {
    [
        (label::POD_UID, uid(pod)),
        (label::POD_NAME, name(pod)),
        (label::POD_NAMESPACE, "production".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn uid(pod: usize) -> String {
    format!("5f1c7a30-8b1d-4c6e-9d50-{pod:012x}")
}

fn name(pod: usize) -> String {
    format!("web-6d4cf56db6-{pod:05x}")
}

fn created_at(pod: usize) -> i64 {
    1_790_000_000_000_000_000 + i64::try_from(pod).expect("a number of pods")
}

fn sandbox(pod: usize) -> Sandbox {
    let mut labels = pod_labels(pod);
    labels.push(("app".to_owned(), "web".to_owned()));
    labels.push(("pod-template-hash".to_owned(), "6d4cf56db6".to_owned()));
    let annotations = [
        ("kubernetes.io/config.seen", "2026-11-20T00:00:00.000000000Z"),
        ("kubernetes.io/config.source", "api"),
    ];
    Sandbox {
        // No container has this number.
        id: id(pod, CONTAINERS_A_POD),
        metadata: Some(SandboxMetadata {
            name: name(pod),
            uid: uid(pod),
            namespace: "production".to_owned(),
            attempt: 0,
        }),
        state: SandboxState::Ready,
        created_at: created_at(pod),
        labels: labels.into_iter().collect(),
        annotations: annotations.into_iter().collect(),
    }
}

fn container(pod: usize, number: usize) -> Container {
    let app = format!("app-{number}");
    let mut labels = pod_labels(pod);
    labels.push((label::CONTAINER_NAME.to_owned(), app.clone()));
    let annotations: Labels = [
        ("io.kubernetes.container.hash", "5a8f3c21"),
        ("io.kubernetes.container.restartCount", "0"),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "File"),
        ("io.kubernetes.pod.terminationGracePeriod", "30"),
    ]
    .into_iter()
    .collect();
    Container {
        id: id(pod, number),
        sandbox_id: id(pod, CONTAINERS_A_POD),
        metadata: Some(ContainerMetadata { name: app, attempt: 0 }),
        image: Some(Image {
            image: format!("sha256:{:064x}", 7),
            user_specified: "registry.local/web:1".to_owned(),
        }),
        image_ref: format!("sha256:{:064x}", 7),
        state: ContainerState::Running,
        created_at: created_at(pod),
        labels: labels.into_iter().collect(),
        annotations,
    }
}
