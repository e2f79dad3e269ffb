//! A runtime in memory that answers as the test specifies, and records the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::cri::{
    Call, CgroupDriver, Code, Container, ContainerMetadata, ContainerState, ContainerStatus, Error,
    EventStream, Filter, Image, Labels, Rpc, Runtime, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxMetadata, SandboxState, SandboxStatus, SandboxStatusAnswer, Version, label, report_progress,
};

/// How a call behaves.
#[derive(Clone, Debug, Default)]
pub(crate) enum Behaviour {
    #[default]
    Answers,
    After(Duration),
    Hangs,
    /// A mebibyte of its answer comes every so often; after so many of them it hangs.
    Arrives(Duration, usize),
    Fails(Error),
    Panics,
}

/// The script and the population.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) containers: Vec<Container>,
    pub(crate) by_rpc: BTreeMap<Rpc, Behaviour>,
    pub(crate) by_id: BTreeMap<String, Behaviour>,
    /// Bytes of an answer to a list of everything.
    pub(crate) list_bytes: Option<u64>,
    pub(crate) conditions: Vec<RuntimeCondition>,
    /// Ids whose status has no creation time and so on are not needed; these fail with "not found".
    pub(crate) gone: BTreeSet<String>,
    /// Only the first call of each RPC follows the script.
    pub(crate) recovers: bool,
    pub(crate) asked: Mutex<Vec<(Rpc, String)>>,
    pub(crate) now: i64,
    /// It calls itself CRI-O.
    pub(crate) crio: bool,
    /// Exit codes other than 0.
    pub(crate) exit_codes: BTreeMap<String, i32>,
    /// Where a container is, made when the first one is asked for.
    places: OnceLock<BTreeMap<String, usize>>,
}

pub(crate) fn id(number: usize, kind: char) -> String {
    format!("{kind}{number:063x}")
}

pub(crate) fn sandbox_id(pod: usize) -> String {
    id(pod, 'a')
}

pub(crate) fn container_id(pod: usize) -> String {
    id(pod, 'c')
}

impl Scripted {
    /// A node with this many pods of one sandbox and one container each, all old.
    pub(crate) fn with_pods(pods: usize) -> Self {
        let now = SystemClock::start().wall().nanos();
        let old = now - 3_600_000_000_000;
        let mut script = Self {
            now,
            conditions: vec![condition("RuntimeReady", true), condition("NetworkReady", true)],
            ..Self::default()
        };
        for pod in 0..pods {
            script.sandboxes.push(sandbox(pod, SandboxState::Ready, old));
            script.containers.push(container(pod, ContainerState::Running, old));
        }
        script
    }

    /// The same population, without the script.
    pub(crate) fn same_node(&self) -> Self {
        Self {
            sandboxes: self.sandboxes.clone(),
            containers: self.containers.clone(),
            conditions: self.conditions.clone(),
            now: self.now,
            ..Self::default()
        }
    }

    /// The same node under CRI-O.
    pub(crate) fn under_crio(mut self) -> Self {
        self.crio = true;
        self
    }

    pub(crate) fn on(mut self, rpc: Rpc, behaviour: Behaviour) -> Self {
        self.by_rpc.insert(rpc, behaviour);
        self
    }

    pub(crate) fn on_id(mut self, id: String, behaviour: Behaviour) -> Self {
        self.by_id.insert(id, behaviour);
        self
    }

    fn place_of(&self, container_id: &str) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            let numbered = self.containers.iter().enumerate();
            numbered.map(|(place, container)| (container.id.clone(), place)).collect()
        });
        places.get(container_id).copied()
    }

    pub(crate) fn times_asked(&self, rpc: Rpc, id: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(asked, about)| *asked == rpc && about == id).count()
    }

    async fn answer<T>(
        &self,
        rpc: Rpc,
        id: &str,
        bytes: u64,
        answer: impl FnOnce() -> Result<T, Error>,
    ) -> Call<T> {
        let earlier = self.recovers && self.asked.lock().unwrap().iter().any(|(asked, _)| *asked == rpc);
        self.asked.lock().unwrap().push((rpc, id.to_owned()));
        let behaviour =
            self.by_id.get(id).filter(|_| !id.is_empty()).or_else(|| self.by_rpc.get(&rpc)).cloned();
        let behaviour = behaviour.filter(|_| !earlier).unwrap_or_default();
        let (duration, result) = match behaviour {
            Behaviour::Answers => (Duration::from_micros(500), answer()),
            Behaviour::After(duration) => (duration, answer()),
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Arrives(every, times) => {
                for _ in 0..times {
                    tokio::time::sleep(every).await;
                    report_progress(1 << 20);
                }
                std::future::pending().await
            }
            Behaviour::Panics => panic!("a fault of our own"),
            Behaviour::Fails(why) => (Duration::from_micros(300), Err(why)),
        };
        tokio::time::sleep(duration).await;
        let response_bytes = if result.is_ok() { bytes } else { 0 };
        Call { rpc, duration, response_bytes, result }
    }
}

pub(crate) fn condition(kind: &str, holds: bool) -> RuntimeCondition {
    RuntimeCondition {
        kind: kind.into(),
        holds,
        reason: if holds { String::new() } else { "SomeReason".into() },
        message: if holds { String::new() } else { "some message".into() },
    }
}

fn pod_labels(pod: usize) -> Vec<(&'static str, String)> {
    vec![
        (label::POD_UID, format!("uid-{pod}")),
        (label::POD_NAME, format!("web-{pod}")),
        (label::POD_NAMESPACE, "default".into()),
    ]
}

pub(crate) fn sandbox(pod: usize, state: SandboxState, created_at: i64) -> Sandbox {
    Sandbox {
        id: sandbox_id(pod),
        metadata: Some(SandboxMetadata {
            name: format!("web-{pod}"),
            uid: format!("uid-{pod}"),
            namespace: "default".into(),
            attempt: 0,
        }),
        state,
        created_at,
        labels: pod_labels(pod).into_iter().collect::<Labels>(),
        annotations: Labels::default(),
    }
}

pub(crate) fn container(pod: usize, state: ContainerState, created_at: i64) -> Container {
    Container {
        id: container_id(pod),
        sandbox_id: sandbox_id(pod),
        metadata: Some(ContainerMetadata { name: "app".into(), attempt: 0 }),
        image: Some(Image { image: "app:1".into(), user_specified: String::new() }),
        image_ref: "sha256:1".into(),
        state,
        created_at,
        labels: pod_labels(pod).into_iter().collect::<Labels>(),
        annotations: Labels::default(),
    }
}

/// What a list is scripted by: nothing for everything, `part` for a state of it, `shard` for a selection by label.
fn part_of<S>(filter: &Filter<S>) -> &'static str {
    match (filter.labels.is_empty(), &filter.state) {
        (false, _) => "shard",
        (true, Some(_)) => "part",
        (true, None) => "",
    }
}

fn matches(labels: &Labels, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

pub(crate) fn not_found(rpc: Rpc) -> Error {
    Error::Runtime { rpc, code: Code::NotFound, message: "not found".into() }
}

impl Runtime for Scripted {
    fn version(&self) -> impl Future<Output = Call<Version>> + Send {
        self.answer(Rpc::Version, "", 40, || {
            Ok(Version {
                version: "0.1.0".into(),
                runtime_name: if self.crio { "cri-o" } else { "containerd" }.into(),
                runtime_version: if self.crio { "1.37.0" } else { "2.1.9" }.into(),
                runtime_api_version: "v1".into(),
            })
        })
    }

    fn cgroup_driver(&self) -> impl Future<Output = Call<Option<CgroupDriver>>> + Send {
        self.answer(Rpc::RuntimeConfig, "", 4, || Ok(Some(CgroupDriver::Systemd)))
    }

    fn status(&self) -> impl Future<Output = Call<RuntimeStatus>> + Send {
        self.answer(Rpc::Status, "", 60, || Ok(RuntimeStatus { conditions: self.conditions.clone() }))
    }

    fn list_sandboxes(
        &self,
        filter: &Filter<SandboxState>,
    ) -> impl Future<Output = Call<Vec<Sandbox>>> + Send {
        let items: Vec<Sandbox> = self
            .sandboxes
            .iter()
            .filter(|sandbox| filter.state.is_none_or(|state| sandbox.state == state))
            .filter(|sandbox| matches(&sandbox.labels, &filter.labels))
            .cloned()
            .collect();
        let bytes = 500 * items.len() as u64;
        self.answer(Rpc::ListPodSandbox, part_of(filter), bytes, || Ok(items))
    }

    fn list_containers(
        &self,
        filter: &Filter<ContainerState>,
    ) -> impl Future<Output = Call<Vec<Container>>> + Send {
        let items: Vec<Container> = self
            .containers
            .iter()
            .filter(|container| filter.state.is_none_or(|state| container.state == state))
            .filter(|container| matches(&container.labels, &filter.labels))
            .cloned()
            .collect();
        let bytes =
            self.list_bytes.filter(|_| part_of(filter).is_empty()).unwrap_or(800 * items.len() as u64);
        self.answer(Rpc::ListContainers, part_of(filter), bytes, || Ok(items))
    }

    async fn sandbox_status(&self, sandbox_id: &str) -> Call<SandboxStatusAnswer> {
        self.answer(Rpc::PodSandboxStatus, sandbox_id, 400, || {
            let found = self.sandboxes.iter().find(|sandbox| sandbox.id == sandbox_id);
            let sandbox = found.ok_or_else(|| not_found(Rpc::PodSandboxStatus))?;
            Ok(SandboxStatusAnswer {
                status: Some(SandboxStatus::from_list(sandbox)),
                containers: Vec::new(),
                timestamp: 0,
            })
        })
        .await
    }

    async fn container_status(&self, container_id: &str) -> Call<Option<ContainerStatus>> {
        self.answer(Rpc::ContainerStatus, container_id, 600, || {
            let found = self.place_of(container_id).and_then(|place| self.containers.get(place));
            let gone = self.gone.contains(container_id);
            let container = found.filter(|_| !gone).ok_or_else(|| not_found(Rpc::ContainerStatus))?;
            Ok(Some(ContainerStatus {
                started_at: container.created_at,
                exit_code: self.exit_codes.get(container_id).copied().unwrap_or_default(),
                ..ContainerStatus::from_list(container)
            }))
        })
        .await
    }

    async fn container_stats(&self, container_id: &str) -> Call<()> {
        self.answer(Rpc::ContainerStats, container_id, 100, || Ok(())).await
    }

    async fn container_events(&self) -> Result<EventStream, Error> {
        Err(not_found(Rpc::GetContainerEvents))
    }
}

/// Inputs of a run against `script`, with nothing of this machine in them.
pub(crate) fn inputs(script: Scripted) -> crate::diagnosis::Inputs<Scripted> {
    let runtime = Arc::new(script);
    let mut inputs =
        crate::diagnosis::Inputs::new(Arc::clone(&runtime), runtime, Arc::new(SystemClock::start()));
    inputs.host_root = "/plegctl-test-no-such-root".into();
    inputs.proc = None;
    inputs.cpu_time = || None;
    inputs.slowdown = || None;
    inputs.endpoint = "unix:///run/test.sock".into();
    inputs.node = "n1".into();
    inputs
}
