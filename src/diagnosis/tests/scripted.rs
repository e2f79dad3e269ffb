//! A runtime in memory for the tests of `health`. It answers each call as the test specifies, and records the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::cri::{
    Call, CgroupDriver, Code, Container, ContainerMetadata, ContainerState, ContainerStatus, Error,
    EventStream, Filter, Image, Labels, Rpc, Runtime, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxMetadata, SandboxState, SandboxStatus, SandboxStatusAnswer, StreamedAnswer, Version, label,
    report_progress, report_stream,
};
use crate::kubelet::ListCalls;

/// How a call behaves.
#[derive(Clone, Debug, Default)]
pub(crate) enum Behaviour {
    #[default]
    Answers,
    /// The answer comes after this time.
    After(Duration),
    Hangs,
    /// A mebibyte of the answer arrives in each interval of this length, this many times. Then the call hangs.
    Arrives(Duration, usize),
    Fails(Error),
    Panics,
}

/// The runtime: its sandboxes and containers, and how its calls behave.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) containers: Vec<Container>,
    pub(crate) by_rpc: BTreeMap<Rpc, Behaviour>,
    /// By the id of a sandbox or container, or by the name of a filter from [`filter_name`].
    pub(crate) by_id: BTreeMap<String, Behaviour>,
    /// The size of the answer to `ListContainers` without a filter.
    pub(crate) list_bytes: Option<u64>,
    /// Refuses a list whose texts have more bytes, as containerd and CRI-O do.
    pub(crate) refuses_over: Option<usize>,
    pub(crate) conditions: Vec<RuntimeCondition>,
    /// Containers whose status call is answered with "not found".
    pub(crate) gone: BTreeSet<String>,
    /// Whether only the first call of each RPC follows the script.
    pub(crate) recovers: bool,
    /// The recorded calls. The text is the id of the sandbox or container; for a list call, it is the name of the
    /// filter from [`filter_name`].
    pub(crate) calls: Mutex<Vec<(Rpc, String)>>,
    /// The number of calls without an answer.
    pub(crate) open: AtomicUsize,
    /// The largest number of calls without an answer at one time.
    pub(crate) most_open: AtomicUsize,
    /// When the test created this runtime, in nanoseconds since the Unix epoch. Tests compute creation times from it.
    pub(crate) now: i64,
    /// Whether Version answers with the name of CRI-O.
    pub(crate) crio: bool,
    /// The entries of each message of a streamed list; `None` if the runtime does not implement such lists.
    pub(crate) streams: Option<usize>,
    /// Whether the lists are streamed.
    pub(crate) lists_with_streams: AtomicBool,
    /// Exit codes other than 0.
    pub(crate) exit_codes: BTreeMap<String, i32>,
    /// The index of each container in `containers`, computed on first use.
    container_indexes: OnceLock<BTreeMap<String, usize>>,
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
    /// Creates a node with this number of pods. Each pod has one sandbox and one container, created an hour ago.
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

    /// Returns the same sandboxes and containers, but all calls are answered normally.
    pub(crate) fn same_node(&self) -> Self {
        Self {
            sandboxes: self.sandboxes.clone(),
            containers: self.containers.clone(),
            conditions: self.conditions.clone(),
            now: self.now,
            ..Self::default()
        }
    }

    /// Returns the same node whose runtime streams lists in messages of so many entries, or does not implement such lists.
    pub(crate) fn with_streams(mut self, batch: Option<usize>) -> Self {
        self.streams = batch;
        self
    }

    /// Returns the same node with CRI-O as its runtime.
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

    fn index_of(&self, container_id: &str) -> Option<usize> {
        let indexes = self.container_indexes.get_or_init(|| {
            let numbered = self.containers.iter().enumerate();
            numbered.map(|(index, container)| (container.id.clone(), index)).collect()
        });
        indexes.get(container_id).copied()
    }

    /// Returns the number of calls of `rpc` for this id.
    pub(crate) fn times_called(&self, rpc: Rpc, id: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, about)| *called == rpc && about == id).count()
    }

    /// Returns the size of a list: that of its texts if a large list is refused, otherwise `estimated`.
    fn bytes_of(&self, texts: usize, estimated: u64) -> u64 {
        if self.refuses_over.is_some() { texts as u64 } else { estimated }
    }

    /// Returns the error of a list whose texts have too many bytes, or that the runtime does not implement.
    fn refusal(&self, rpc: Rpc, texts: usize) -> Option<Error> {
        if rpc.is_streamed_list() {
            let message = "unknown method".to_owned();
            return self.streams.is_none().then_some(Error::Unimplemented { rpc, message });
        }
        let limit = self.refuses_over.filter(|limit| texts > *limit)?;
        Some(Error::TooLarge { rpc, message: format!("larger than max ({texts} vs. {limit})") })
    }

    /// Adds to the answer of a streamed list how it arrived.
    fn streamed<T>(&self, call: Call<Vec<T>>) -> Call<Vec<T>> {
        let items = call.result.as_ref().map_or(0, Vec::len) as u64;
        let most = self.streams.map_or(0, |most| items.min(most as u64));
        let largest_message_bytes = call.response_bytes * most / items.max(1);
        let stream = StreamedAnswer { entries: items, largest_message_bytes };
        Call { stream: call.rpc.is_streamed_list().then_some(stream), ..call }
    }

    async fn answer<T>(
        &self,
        rpc: Rpc,
        id: &str,
        bytes: u64,
        answer: impl FnOnce() -> Result<T, Error>,
    ) -> Call<T> {
        let has_recovered =
            self.recovers && self.calls.lock().unwrap().iter().any(|(called, _)| *called == rpc);
        self.calls.lock().unwrap().push((rpc, id.to_owned()));
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        let behaviour =
            self.by_id.get(id).filter(|_| !id.is_empty()).or_else(|| self.by_rpc.get(&rpc)).cloned();
        let behaviour = behaviour.filter(|_| !has_recovered).unwrap_or_default();
        let (duration, result) = match behaviour {
            Behaviour::Answers => (Duration::from_micros(500), answer()),
            Behaviour::After(duration) => (duration, answer()),
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Arrives(every, times) => {
                let mut entries = 0;
                for _ in 0..times {
                    tokio::time::sleep(every).await;
                    report_progress(1 << 20);
                    if rpc.is_streamed_list() {
                        entries += 1000;
                        let largest_message_bytes = 1 << 20;
                        report_stream(StreamedAnswer { entries, largest_message_bytes });
                    }
                }
                std::future::pending().await
            }
            Behaviour::Panics => panic!("a bug in plegctl"),
            Behaviour::Fails(why) => (Duration::from_micros(300), Err(why)),
        };
        tokio::time::sleep(duration).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        let response_bytes = if result.is_ok() { bytes } else { 0 };
        Call { rpc, duration, response_bytes, stream: None, result }
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

/// Returns the name of a filter. A list call has no id, so a test uses this name to choose how list calls with such a
/// filter behave.
fn filter_name<S>(filter: &Filter<S>) -> &'static str {
    match (filter.labels.is_empty(), &filter.state) {
        (false, _) => "by-label",
        (true, Some(_)) => "by-state",
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
    fn list_calls(&self) -> ListCalls {
        let streams = self.lists_with_streams.load(Ordering::Relaxed);
        if streams { ListCalls::Stream } else { ListCalls::Unary }
    }

    fn list_with(&self, calls: ListCalls) {
        self.lists_with_streams.store(calls == ListCalls::Stream, Ordering::Relaxed);
    }

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
        let texts = items.iter().map(|item| item.labels.text_bytes() + item.annotations.text_bytes()).sum();
        let bytes = self.bytes_of(texts, 500 * items.len() as u64);
        let [rpc, _] = self.list_rpcs();
        let refusal = self.refusal(rpc, texts);
        let call = self.answer(rpc, filter_name(filter), bytes, || refusal.map_or(Ok(items), Err));
        async { self.streamed(call.await) }
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
        let texts = items.iter().map(|item| item.labels.text_bytes() + item.annotations.text_bytes()).sum();
        let list_bytes = self.list_bytes.filter(|_| filter_name(filter).is_empty());
        let bytes = list_bytes.unwrap_or_else(|| self.bytes_of(texts, 800 * items.len() as u64));
        let [_, rpc] = self.list_rpcs();
        let refusal = self.refusal(rpc, texts);
        let call = self.answer(rpc, filter_name(filter), bytes, || refusal.map_or(Ok(items), Err));
        async { self.streamed(call.await) }
    }

    async fn sandbox_status(&self, sandbox_id: &str) -> Call<SandboxStatusAnswer> {
        self.answer(Rpc::PodSandboxStatus, sandbox_id, 400, || {
            let found = self.sandboxes.iter().find(|sandbox| sandbox.id == sandbox_id);
            let sandbox = found.ok_or_else(|| not_found(Rpc::PodSandboxStatus))?;
            Ok(SandboxStatusAnswer {
                status: Some(SandboxStatus {
                    id: sandbox.id.clone(),
                    metadata: sandbox.metadata.clone(),
                    state: sandbox.state,
                    created_at: sandbox.created_at,
                    labels: sandbox.labels.clone(),
                    annotations: sandbox.annotations.clone(),
                    ..SandboxStatus::default()
                }),
                containers: Vec::new(),
                timestamp: 0,
            })
        })
        .await
    }

    async fn container_status(&self, container_id: &str) -> Call<Option<ContainerStatus>> {
        self.answer(Rpc::ContainerStatus, container_id, 600, || {
            let found = self.index_of(container_id).and_then(|index| self.containers.get(index));
            let gone = self.gone.contains(container_id);
            let container = found.filter(|_| !gone).ok_or_else(|| not_found(Rpc::ContainerStatus))?;
            Ok(Some(ContainerStatus {
                id: container.id.clone(),
                metadata: container.metadata.clone(),
                state: container.state,
                created_at: container.created_at,
                started_at: container.created_at,
                exit_code: self.exit_codes.get(container_id).copied().unwrap_or_default(),
                image: container.image.clone(),
                image_ref: container.image_ref.clone(),
                labels: container.labels.clone(),
                annotations: container.annotations.clone(),
                ..ContainerStatus::default()
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

/// Returns the inputs of a run against `script` that reads nothing of this machine.
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
