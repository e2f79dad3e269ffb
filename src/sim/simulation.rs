//! A scenario being played: what the runtime answers now.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;

use super::events::Stage;
use super::fault::{Asked, Fate, fates};
use super::life::Nanos;
use super::node::{Event, Node};
use super::scenario::{Delivery, Family, Fault, Runtime, Scenario};
use super::seed::Seed;
use crate::clock::{Clock, Mono};
use crate::cri::generated as wire;
use crate::cri::{CgroupDriver, Code, Rpc};

/// A scenario being played.
pub struct Simulation {
    node: Node,
    faults: Vec<Fault>,
    seed: Seed,
    runtime: Runtime,
    clock: Arc<dyn Clock>,
    started: Mono,
    stage: Stage,
}

/// What a call is answered with.
#[derive(Debug)]
pub enum Answer {
    /// These messages, and the end.
    Messages(Vec<Bytes>),
    /// Messages as they come.
    Feed(mpsc::Receiver<Bytes>),
}

/// The error that a call is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// gRPC status.
    pub code: Code,
    /// The runtime's words.
    pub message: String,
}

/// What a call is about.
#[derive(Default)]
struct About {
    id: String,
    pod: Option<String>,
    container: Option<String>,
}

impl Simulation {
    /// Starts to play `scenario` now.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            node: Node::new(scenario, clock.wall().nanos()),
            faults: scenario.faults.clone(),
            seed: Seed::new(scenario.seed).of("faults"),
            runtime: scenario.runtime.clone(),
            started: clock.mono(),
            clock,
            stage: Stage::default(),
        })
    }

    /// Simulated time.
    pub fn elapsed(&self) -> Nanos {
        super::life::nanos(self.clock.mono().since(self.started))
    }

    /// Whose manners are played.
    pub fn family(&self) -> Family {
        self.runtime.family
    }

    /// Where the listeners of the event stream meet.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The events after `from` and up to `to` that are not lost.
    pub fn events(&self, from: Nanos, to: Nanos) -> Vec<Event> {
        let mut events = self.node.events(from, to);
        events.retain(|event| !self.is_lost(event));
        events
    }

    /// How long until something happens after `at`; `None` if nothing will.
    pub fn until_next(&self, at: Nanos) -> Option<Duration> {
        let next = self.node.next_after(at)?;
        Some(Duration::from_nanos(u64::try_from(next - at).unwrap_or_default()))
    }

    fn is_lost(&self, event: &Event) -> bool {
        let kind = u64::try_from(event.message.container_event_type).unwrap_or_default();
        let every = u64::from(self.runtime.loses_every);
        every > 0 && self.seed.of(&event.message.container_id).nth(kind).below(every) == 0
    }

    /// Answers one call, when the faults let it.
    pub async fn answer(self: Arc<Self>, rpc: Rpc, request: Bytes) -> Result<Answer, Refusal> {
        self.suffer(rpc, &request).await?;
        match rpc {
            Rpc::Version => Ok(one(&self.version())),
            Rpc::Status => Ok(one(&self.status())),
            Rpc::RuntimeConfig => self.runtime_config(),
            Rpc::ListPodSandbox => self.within_limit(self.list_sandboxes(request)?),
            Rpc::ListContainers => self.within_limit(self.list_containers(request)?),
            Rpc::StreamPodSandboxes => self.stream_sandboxes(request),
            Rpc::StreamContainers => self.stream_containers(request),
            Rpc::PodSandboxStatus => self.sandbox_status(request),
            Rpc::ContainerStatus => self.container_status(request),
            Rpc::ContainerStats => self.container_stats(request),
            Rpc::GetContainerEvents => self.subscribe(),
        }
    }

    async fn suffer(&self, rpc: Rpc, request: &Bytes) -> Result<(), Refusal> {
        let about = self.about(rpc, request.clone())?;
        let asked =
            Asked { rpc, pod: about.pod.as_deref(), container: about.container.as_deref(), id: &about.id };
        for fate in fates(&self.faults, self.seed, asked, self.elapsed()) {
            match fate {
                Fate::Waits(time) => tokio::time::sleep(time).await,
                Fate::Hangs => std::future::pending().await,
                Fate::Fails(code, message) => return Err(Refusal { code, message }),
            }
        }
        Ok(())
    }

    fn about(&self, rpc: Rpc, request: Bytes) -> Result<About, Refusal> {
        let now = self.elapsed();
        let id = match rpc {
            Rpc::PodSandboxStatus => decoded::<wire::PodSandboxStatusRequest>(request)?.pod_sandbox_id,
            Rpc::ContainerStatus => decoded::<wire::ContainerStatusRequest>(request)?.container_id,
            Rpc::ContainerStats => decoded::<wire::ContainerStatsRequest>(request)?.container_id,
            _ => return Ok(About::default()),
        };
        if rpc == Rpc::PodSandboxStatus {
            let pod = self.node.find_sandbox(&id, now).map(|pod| pod.group.name.clone());
            return Ok(About { id, pod, container: None });
        }
        let found = self.node.find_container(&id, now);
        let container = found.as_ref().map(|(pod, container)| pod.container_name(container).to_owned());
        Ok(About { id, pod: found.map(|(pod, _)| pod.group.name.clone()), container })
    }

    fn version(&self) -> wire::VersionResponse {
        wire::VersionResponse {
            version: "0.1.0".into(),
            runtime_name: match self.runtime.family {
                Family::Containerd => "containerd".into(),
                Family::CriO => "cri-o".into(),
            },
            runtime_version: self.runtime.version.clone(),
            runtime_api_version: "v1".into(),
        }
    }

    fn status(&self) -> wire::StatusResponse {
        let runtime = condition(
            "RuntimeReady",
            self.runtime.ready.runtime,
            ("ContainerRuntimeNotReady", "the container runtime is not ready"),
        );
        let network = condition(
            "NetworkReady",
            self.runtime.ready.network,
            ("NetworkPluginNotReady", "Network plugin returns error: cni plugin not initialized"),
        );
        let mut conditions = vec![runtime, network];
        if self.runtime.family == Family::Containerd {
            conditions.push(condition("ContainerdHasNoDeprecationWarnings", true, ("", "")));
        }
        wire::StatusResponse { status: Some(wire::RuntimeStatus { conditions }) }
    }

    fn runtime_config(&self) -> Result<Answer, Refusal> {
        let driver = match self.runtime.cgroup_driver {
            Some(CgroupDriver::Systemd) => wire::CgroupDriver::Systemd,
            Some(CgroupDriver::Cgroupfs) => wire::CgroupDriver::Cgroupfs,
            None => return Err(unknown_method(Rpc::RuntimeConfig)),
        };
        let linux = wire::LinuxRuntimeConfiguration { cgroup_driver: driver.into() };
        Ok(one(&wire::RuntimeConfigResponse { linux: Some(linux) }))
    }

    fn list_sandboxes(&self, request: Bytes) -> Result<Bytes, Refusal> {
        let filter = decoded::<wire::ListPodSandboxRequest>(request)?.filter.unwrap_or_default();
        let now = self.elapsed();
        if filter == wire::PodSandboxFilter::default() {
            return Ok(self.node.all_sandboxes(now));
        }
        let items = self.node.sandboxes(now, |sandbox| lets_sandbox(&filter, sandbox));
        Ok(wire::ListPodSandboxResponse { items }.encode_to_vec().into())
    }

    fn list_containers(&self, request: Bytes) -> Result<Bytes, Refusal> {
        let filter = decoded::<wire::ListContainersRequest>(request)?.filter.unwrap_or_default();
        let now = self.elapsed();
        if filter == wire::ContainerFilter::default() {
            return Ok(self.node.all_containers(now));
        }
        let containers = self.node.containers(now, |container| lets_container(&filter, container));
        Ok(wire::ListContainersResponse { containers }.encode_to_vec().into())
    }

    /// What a gRPC server of Go says of its own message that is too large to be sent.
    fn within_limit(&self, message: Bytes) -> Result<Answer, Refusal> {
        let (size, limit) = (message.len(), self.runtime.send_limit);
        if u64::try_from(size).is_ok_and(|size| size <= limit) {
            return Ok(Answer::Messages(vec![message]));
        }
        let message = format!("grpc: trying to send message larger than max ({size} vs. {limit})");
        Err(Refusal { code: Code::ResourceExhausted, message })
    }

    fn stream_sandboxes(&self, request: Bytes) -> Result<Answer, Refusal> {
        if !self.runtime.streamed_lists {
            return Err(unknown_method(Rpc::StreamPodSandboxes));
        }
        let filter = decoded::<wire::StreamPodSandboxesRequest>(request)?.filter.unwrap_or_default();
        let now = self.elapsed();
        if filter == wire::PodSandboxFilter::default() {
            return Ok(Answer::Messages(self.node.sandbox_batches(now)));
        }
        let pod_sandboxes = self.node.sandboxes(now, |sandbox| lets_sandbox(&filter, sandbox));
        Ok(unless_empty(&wire::StreamPodSandboxesResponse { pod_sandboxes }))
    }

    fn stream_containers(&self, request: Bytes) -> Result<Answer, Refusal> {
        if !self.runtime.streamed_lists {
            return Err(unknown_method(Rpc::StreamContainers));
        }
        let filter = decoded::<wire::StreamContainersRequest>(request)?.filter.unwrap_or_default();
        let now = self.elapsed();
        if filter == wire::ContainerFilter::default() {
            return Ok(Answer::Messages(self.node.container_batches(now)));
        }
        let containers = self.node.containers(now, |container| lets_container(&filter, container));
        Ok(unless_empty(&wire::StreamContainersResponse { containers }))
    }

    fn sandbox_status(&self, request: Bytes) -> Result<Answer, Refusal> {
        let id = decoded::<wire::PodSandboxStatusRequest>(request)?.pod_sandbox_id;
        let now = self.elapsed();
        let pod = self.node.find_sandbox(&id, now).ok_or_else(|| not_found("sandbox"))?;
        let scribe = self.node.scribe();
        // CRI-O tells of the containers too, once it has been told to make events.
        let tells_all = self.runtime.family == Family::CriO && self.runtime.events == Delivery::Broadcast;
        Ok(one(&wire::PodSandboxStatusResponse {
            status: Some(scribe.sandbox_status(&pod, now)),
            containers_statuses: if tells_all { scribe.container_statuses(&pod, now) } else { Vec::new() },
            timestamp: if tells_all { scribe.stamp(now) } else { 0 },
        }))
    }

    fn container_status(&self, request: Bytes) -> Result<Answer, Refusal> {
        let id = decoded::<wire::ContainerStatusRequest>(request)?.container_id;
        let now = self.elapsed();
        let (pod, container) = self.node.find_container(&id, now).ok_or_else(|| not_found("container"))?;
        let status = self.node.scribe().container_status(&pod, &container, now);
        Ok(one(&wire::ContainerStatusResponse { status: Some(status) }))
    }

    fn container_stats(&self, request: Bytes) -> Result<Answer, Refusal> {
        let id = decoded::<wire::ContainerStatsRequest>(request)?.container_id;
        self.node.find_container(&id, self.elapsed()).ok_or_else(|| not_found("container"))?;
        Ok(one(&wire::ContainerStatsResponse {}))
    }

    fn subscribe(self: Arc<Self>) -> Result<Answer, Refusal> {
        match self.runtime.events {
            Delivery::Unimplemented => Err(unimplemented("method GetContainerEvents not implemented".into())),
            Delivery::Ends => Ok(Answer::Messages(Vec::new())),
            Delivery::Broadcast => Ok(Answer::Feed(super::events::broadcast(self))),
            Delivery::Competing => Ok(Answer::Feed(super::events::compete(self))),
        }
    }
}

fn one(message: &impl Message) -> Answer {
    Answer::Messages(vec![message.encode_to_vec().into()])
}

/// One batch of a streamed list; an empty list has none.
fn unless_empty(batch: &impl Message) -> Answer {
    if batch.encoded_len() == 0 { Answer::Messages(Vec::new()) } else { one(batch) }
}

fn decoded<M: Message + Default>(request: Bytes) -> Result<M, Refusal> {
    M::decode(request).map_err(|why| Refusal {
        code: Code::Internal,
        message: format!("grpc: error unmarshalling request: {why}"),
    })
}

fn not_found(what: &str) -> Refusal {
    Refusal { code: Code::NotFound, message: format!("an error occurred when try to find {what}: not found") }
}

fn unimplemented(message: String) -> Refusal {
    Refusal { code: Code::Unimplemented, message }
}

/// What a gRPC server of Go says of a method that it was not built with.
fn unknown_method(rpc: Rpc) -> Refusal {
    unimplemented(format!("unknown method {rpc} for service runtime.v1.RuntimeService"))
}

fn condition(kind: &str, holds: bool, (reason, message): (&str, &str)) -> wire::RuntimeCondition {
    let unless = |words: &str| if holds { String::new() } else { words.to_owned() };
    wire::RuntimeCondition {
        r#type: kind.to_owned(),
        status: holds,
        reason: unless(reason),
        message: unless(message),
    }
}

/// Every selector is among the labels, word for word.
fn lets_labels(selectors: &[wire::Pair], labels: &[wire::Pair]) -> bool {
    selectors.iter().all(|selector| labels.contains(selector))
}

fn lets_sandbox(filter: &wire::PodSandboxFilter, sandbox: &wire::PodSandbox) -> bool {
    sandbox.id.starts_with(&filter.id)
        && filter.state.is_none_or(|wanted| wanted.state == sandbox.state)
        && lets_labels(&filter.label_selector, &sandbox.labels)
}

fn lets_container(filter: &wire::ContainerFilter, container: &wire::Container) -> bool {
    container.id.starts_with(&filter.id)
        && container.pod_sandbox_id.starts_with(&filter.pod_sandbox_id)
        && filter.state.is_none_or(|wanted| wanted.state == container.state)
        && lets_labels(&filter.label_selector, &container.labels)
}
