//! [`Simulation`]: answers the CRI calls to a simulated runtime, after applying the faults of its scenario.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::events::{EventDistributor, broadcast, compete};
use super::fault::{CallOutcome, FaultTarget, call_outcomes};
use super::messages::images_of;
use super::scenario::{EventDelivery, RuntimeFamily, RuntimeSettings, Scenario, ScenarioFault};
use super::seed::Seed;
use super::timeline::NodeTimeline;
use crate::clock::{Clock, Wall};
use crate::cri::server::extra::{self, ContainerUsages, StoredImage, Usage};
use crate::cri::server::{
    Answer, Bytes, CallRequest, ExtraRequest, RequestSubject, Service, ServiceError, message,
};
use crate::cri::{
    Code, Container, ContainerState, ContainerStatus, Rpc, RuntimeCondition, RuntimeStatus, Sandbox,
    SandboxStatusAnswer, Version,
};

/// A running simulation of a scenario.
pub struct Simulation {
    timeline: Arc<NodeTimeline>,
    faults: Vec<ScenarioFault>,
    seed: Seed,
    runtime: RuntimeSettings,
    images: Vec<StoredImage>,
    /// The directory in which logs of containers are written, if any.
    logs: Option<PathBuf>,
    distributor: Arc<EventDistributor>,
}

const MIB: u64 = 1024 * 1024;

/// The pod and container that a call is about.
#[derive(Default)]
struct CallSubject {
    pod: Option<String>,
    container: Option<String>,
}

impl Simulation {
    /// Starts to simulate `scenario`, in the state that it has now if it started at `start_time`. Writes the logs of
    /// containers into the directory `logs`, if there is one.
    pub fn start(
        scenario: &Scenario,
        clock: Arc<dyn Clock>,
        start_time: Wall,
        logs: Option<&Path>,
    ) -> Arc<Self> {
        Arc::new(Self {
            logs: logs.map(Path::to_path_buf),
            timeline: Arc::new(NodeTimeline::begin(scenario, clock, start_time)),
            faults: scenario.faults.clone(),
            seed: Seed::new(scenario.seed).of("faults"),
            runtime: scenario.runtime.clone(),
            images: images_of(scenario),
            distributor: Arc::default(),
        })
    }

    /// Waits, hangs or fails as the scenario's faults require for this call.
    async fn apply_faults(&self, rpc: Rpc, subject: &RequestSubject) -> Result<(), ServiceError> {
        let about = self.call_subject(rpc, subject);
        let target = FaultTarget {
            rpc,
            group: about.pod.as_deref(),
            container: about.container.as_deref(),
            id: subject.id(),
        };
        for call_outcome in call_outcomes(&self.faults, self.seed, target, self.timeline.elapsed()) {
            match call_outcome {
                CallOutcome::Waits(time) => tokio::time::sleep(time).await,
                CallOutcome::Hangs => std::future::pending().await,
                CallOutcome::Fails(code, message) => return Err(ServiceError { code, message }),
            }
        }
        Ok(())
    }

    /// Finds the pod and the container that a call is about.
    fn call_subject(&self, rpc: Rpc, subject: &RequestSubject) -> CallSubject {
        let RequestSubject::One(id) = subject else { return CallSubject::default() };
        let now = self.timeline.elapsed();
        if rpc == Rpc::PodSandboxStatus {
            let pod = self.timeline.node.find_sandbox(id, now).map(|pod| pod.group.name.clone());
            return CallSubject { pod, container: None };
        }
        let found = self.timeline.node.find_container(id, now);
        let container = found.as_ref().map(|(pod, container)| pod.container_name(container).to_owned());
        CallSubject { pod: found.map(|(pod, _)| pod.group.name.clone()), container }
    }

    fn version(&self) -> Version {
        Version {
            version: "0.1.0".into(),
            runtime_name: self.runtime.family.word().into(),
            runtime_version: self.runtime.version.clone(),
            runtime_api_version: "v1".into(),
        }
    }

    fn status(&self) -> RuntimeStatus {
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
        if self.runtime.family == RuntimeFamily::Containerd {
            conditions.push(condition("ContainerdHasNoDeprecationWarnings", true, ("", "")));
        }
        RuntimeStatus { conditions }
    }

    /// Returns the answer to a list call: one message within the runtime's limit, or batches.
    fn list(&self, rpc: Rpc, subject: &RequestSubject) -> Result<Answer, ServiceError> {
        let now = self.timeline.elapsed();
        let streamed = matches!(rpc, Rpc::StreamPodSandboxes | Rpc::StreamContainers);
        if streamed && !self.runtime.streamed_lists {
            return Err(ServiceError::unknown_method(rpc));
        }
        let items = match subject {
            RequestSubject::Sandboxes(wanted) if wanted.matches_all() && streamed => {
                return Ok(Answer::all(self.timeline.node.sandbox_batches(now)));
            }
            RequestSubject::Containers(wanted) if wanted.matches_all() && streamed => {
                return Ok(Answer::all(self.timeline.node.container_batches(now)));
            }
            RequestSubject::Sandboxes(wanted) if wanted.matches_all() => {
                self.timeline.node.all_sandboxes(now)
            }
            RequestSubject::Containers(wanted) if wanted.matches_all() => {
                self.timeline.node.all_containers(now)
            }
            RequestSubject::Sandboxes(wanted) => message::sandboxes(
                self.timeline.node.sandboxes(now, |sandbox| wanted.matches_sandbox(sandbox)),
            ),
            RequestSubject::Containers(wanted) => message::containers(
                self.timeline.node.containers(now, |container| wanted.matches_container(container)),
            ),
            RequestSubject::Runtime | RequestSubject::One(_) => Bytes::new(),
        };
        if streamed {
            // An empty list has no batch.
            return Ok(Answer::all((!items.is_empty()).then_some(items)));
        }
        self.within_limit(items)
    }

    /// Returns the answer, or the error of a Go gRPC server if the message is larger than the runtime's limit.
    fn within_limit(&self, message: Bytes) -> Result<Answer, ServiceError> {
        let (size, limit) = (message.len(), self.runtime.send_limit);
        if u64::try_from(size).is_ok_and(|size| size <= limit) {
            return Ok(Answer::one(message));
        }
        let message = format!("grpc: trying to send message larger than max ({size} vs. {limit})");
        Err(ServiceError { code: Code::ResourceExhausted, message })
    }

    fn sandbox_status(&self, id: &str) -> Result<SandboxStatusAnswer, ServiceError> {
        let now = self.timeline.elapsed();
        let pod = self.timeline.node.find_sandbox(id, now).ok_or_else(|| not_found("sandbox"))?;
        let message_builder = self.timeline.node.message_builder;
        // CRI-O adds the containers if its events are switched on.
        let with_containers =
            self.runtime.family == RuntimeFamily::CriO && self.runtime.events == EventDelivery::Broadcast;
        Ok(SandboxStatusAnswer {
            status: Some(message_builder.sandbox_status(&pod, now)),
            containers: if with_containers {
                message_builder.container_statuses(&pod, now)
            } else {
                Vec::new()
            },
            timestamp: if with_containers { message_builder.stamp(now) } else { 0 },
        })
    }

    fn container_status(&self, id: &str) -> Result<ContainerStatus, ServiceError> {
        let now = self.timeline.elapsed();
        let (pod, container) =
            self.timeline.node.find_container(id, now).ok_or_else(|| not_found("container"))?;
        let mut status = self.timeline.node.message_builder.container_status(&pod, &container, now);
        if let Some(written) = self.logs.as_deref().and_then(|logs| write_log(&status, logs)) {
            status.log_path = written;
        }
        Ok(status)
    }

    /// Returns the directory in which the runtime stores the files that containers write.
    const fn layers(&self) -> &'static str {
        match self.runtime.family {
            RuntimeFamily::Containerd => "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
            RuntimeFamily::CriO => "/var/lib/containers/storage/overlay",
        }
    }

    fn containers_of(&self, sandbox: &Sandbox) -> Vec<Container> {
        self.timeline.node.containers(self.timeline.elapsed(), |container| container.sandbox_id == sandbox.id)
    }

    /// Returns the resource usage of the running containers. The faults of `ContainerStats` apply to every
    /// RPC that asks for usage, because each of them calls the shims.
    async fn used(&self, containers: Vec<Container>) -> Result<ContainerUsages, ServiceError> {
        let mut used = Vec::new();
        for container in containers.into_iter().filter(|container| container.state == ContainerState::Running)
        {
            let subject = RequestSubject::One(container.id.clone());
            self.apply_faults(Rpc::ContainerStats, &subject).await?;
            used.push(self.usage(&container.id)?);
        }
        Ok(used)
    }

    /// Returns a container and its resource usage, derived from its seed and its age.
    fn usage(&self, id: &str) -> Result<(Container, Usage), ServiceError> {
        let now = self.timeline.elapsed();
        let node = &self.timeline.node;
        let (pod, life) = node.find_container(id, now).ok_or_else(|| not_found("container"))?;
        let seed = self.seed.of("usage").of(&pod.container_id(&life));
        let rate = 1_000_000 + seed.below(200_000_000);
        let ran = u64::try_from(now.saturating_sub(life.started)).unwrap_or_default();
        let usage = Usage {
            at: node.message_builder.stamp(now),
            processor: ran / 1_000_000_000 * rate,
            rate,
            memory: (8 + seed.nth(1).below(500)) * MIB,
            written: seed.nth(2).below(64) * MIB,
        };
        Ok((node.message_builder.container(&pod, &life, now), usage))
    }

    fn subscribe(&self) -> Result<Answer, ServiceError> {
        match self.runtime.events {
            EventDelivery::Unimplemented => {
                Err(ServiceError::new(Code::Unimplemented, "method GetContainerEvents not implemented"))
            }
            EventDelivery::Ends => Ok(Answer::all([])),
            EventDelivery::Broadcast => Ok(broadcast(&self.distributor, &self.timeline)),
            EventDelivery::Competing => Ok(compete(&self.distributor, &self.timeline)),
        }
    }
}

impl Service for Simulation {
    async fn answer(self: Arc<Self>, request: CallRequest) -> Result<Answer, ServiceError> {
        let CallRequest { rpc, subject, .. } = request;
        self.apply_faults(rpc, &subject).await?;
        let message = match rpc {
            Rpc::Version => message::version(self.version()),
            Rpc::Status => message::status(self.status()),
            Rpc::RuntimeConfig => {
                let driver = self.runtime.cgroup_driver.ok_or_else(|| ServiceError::unknown_method(rpc))?;
                message::runtime_config(driver)
            }
            Rpc::ListPodSandbox | Rpc::ListContainers | Rpc::StreamPodSandboxes | Rpc::StreamContainers => {
                return self.list(rpc, &subject);
            }
            Rpc::PodSandboxStatus => message::sandbox_status(self.sandbox_status(subject.id())?),
            Rpc::ContainerStatus => message::container_status(Some(self.container_status(subject.id())?)),
            Rpc::ContainerStats => {
                let (container, usage) = self.usage(subject.id())?;
                extra::usage(container, usage, self.layers())
            }
            Rpc::GetContainerEvents => return self.subscribe(),
        };
        Ok(Answer::one(message))
    }

    async fn answer_extra(self: Arc<Self>, target: ExtraRequest) -> Option<Result<Bytes, ServiceError>> {
        let layers = self.layers();
        let now = self.timeline.elapsed();
        let node = &self.timeline.node;
        Some(match target {
            ExtraRequest::ImageFilesystem => {
                let used = self.images.iter().map(|image| image.size).sum();
                Ok(extra::image_filesystem(node.message_builder.stamp(now), layers, used))
            }
            ExtraRequest::Images(wanted) => {
                let is_wanted =
                    |image: &&StoredImage| wanted.as_ref().is_none_or(|wanted| has_name(image, wanted));
                Ok(extra::images(self.images.iter().filter(is_wanted).cloned()))
            }
            ExtraRequest::Image(wanted) => {
                Ok(extra::image(self.images.iter().find(|image| has_name(image, &wanted)).cloned()))
            }
            ExtraRequest::ContainersUsage(wanted) => {
                let used =
                    self.used(node.containers(now, |container| wanted.matches_container(container))).await;
                used.map(|used| extra::usages(used, layers))
            }
            ExtraRequest::SandboxesUsage(wanted) => {
                let mut pods = Vec::new();
                for sandbox in node.sandboxes(now, |sandbox| wanted.matches_sandbox(sandbox)) {
                    match self.used(self.containers_of(&sandbox)).await {
                        Ok(used) => pods.push((sandbox, used)),
                        Err(refusal) => return Some(Err(refusal)),
                    }
                }
                Ok(extra::pod_usages(pods, layers))
            }
            ExtraRequest::SandboxUsage(id) => match node.find_sandbox(&id, now) {
                Some(pod) => {
                    let sandbox = node.message_builder.sandbox(&pod, now);
                    let used = self.used(self.containers_of(&sandbox)).await;
                    used.map(|used| extra::pod_usage((sandbox, used), layers))
                }
                None => Err(not_found("sandbox")),
            },
        })
    }
}

/// Writes the log of a container into `logs`, unless the log exists, and returns its path; `None` if it cannot be
/// written.
fn write_log(status: &ContainerStatus, logs: &Path) -> Option<String> {
    let path = logs.join(Path::new(&status.log_path).strip_prefix("/var/log/pods").ok()?);
    if !path.exists() {
        fs::create_dir_all(path.parent()?).ok()?;
        let line = |at: i64, text: &str| format!("{} stdout F {text}\n", Wall::from_nanos(at));
        let mut text = line(status.started_at, "started");
        if status.finished_at > 0 {
            text += &line(status.finished_at, &format!("exits with {}", status.exit_code));
        }
        fs::write(&path, text).ok()?;
    }
    Some(std::path::absolute(&path).ok()?.to_string_lossy().into_owned())
}

/// Whether an image has this tag, digest or (abbreviated) id.
fn has_name(image: &StoredImage, wanted: &str) -> bool {
    let id = image.id.trim_start_matches("sha256:");
    let of_id = wanted.trim_start_matches("sha256:");
    [&image.id, &image.tag, &image.digest].iter().any(|name| *name == wanted)
        || image.tag.strip_suffix(":v1") == Some(wanted)
        || (of_id.len() >= 4 && id.starts_with(of_id))
}

fn not_found(what: &str) -> ServiceError {
    ServiceError {
        code: Code::NotFound,
        message: format!("an error occurred when try to find {what}: not found"),
    }
}

fn condition(kind: &str, holds: bool, (reason, message): (&str, &str)) -> RuntimeCondition {
    let unless = |words: &str| if holds { String::new() } else { words.to_owned() };
    RuntimeCondition { kind: kind.to_owned(), holds, reason: unless(reason), message: unless(message) }
}
