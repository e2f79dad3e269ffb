//! A scenario being played: what the runtime answers now.

use std::sync::Arc;

use super::events::{Stage, broadcast, compete};
use super::fault::{Asked, Fate, fates};
use super::scenario::{Delivery, Family, Fault, Runtime, Scenario};
use super::seed::Seed;
use super::story::Story;
use crate::clock::Clock;
use crate::cri::server::{Answer, Bytes, Question, Refusal, Service, Subject, message};
use crate::cri::{Code, Condition, ContainerStatus, Rpc, RuntimeStatus, SandboxStatusAnswer, Version};

/// A scenario being played.
pub struct Simulation {
    story: Arc<Story>,
    faults: Vec<Fault>,
    seed: Seed,
    runtime: Runtime,
    stage: Arc<Stage>,
}

/// What a call is about.
#[derive(Default)]
struct About {
    pod: Option<String>,
    container: Option<String>,
}

impl Simulation {
    /// Starts to play `scenario` now.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            story: Arc::new(Story::begin(scenario, clock)),
            faults: scenario.faults.clone(),
            seed: Seed::new(scenario.seed).of("faults"),
            runtime: scenario.runtime.clone(),
            stage: Arc::default(),
        })
    }

    async fn suffer(&self, rpc: Rpc, subject: &Subject) -> Result<(), Refusal> {
        let about = self.about(rpc, subject);
        let asked =
            Asked { rpc, pod: about.pod.as_deref(), container: about.container.as_deref(), id: subject.id() };
        for fate in fates(&self.faults, self.seed, asked, self.story.elapsed()) {
            match fate {
                Fate::Waits(time) => tokio::time::sleep(time).await,
                Fate::Hangs => std::future::pending().await,
                Fate::Fails(code, message) => return Err(Refusal { code, message }),
            }
        }
        Ok(())
    }

    fn about(&self, rpc: Rpc, subject: &Subject) -> About {
        let Subject::One(id) = subject else { return About::default() };
        let now = self.story.elapsed();
        if rpc == Rpc::PodSandboxStatus {
            let pod = self.story.node().find_sandbox(id, now).map(|pod| pod.group.name.clone());
            return About { pod, container: None };
        }
        let found = self.story.node().find_container(id, now);
        let container = found.as_ref().map(|(pod, container)| pod.container_name(container).to_owned());
        About { pod: found.map(|(pod, _)| pod.group.name.clone()), container }
    }

    fn version(&self) -> Version {
        Version {
            version: "0.1.0".into(),
            runtime_name: match self.runtime.family {
                Family::Containerd => "containerd".into(),
                Family::CriO => "cri-o".into(),
            },
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
        if self.runtime.family == Family::Containerd {
            conditions.push(condition("ContainerdHasNoDeprecationWarnings", true, ("", "")));
        }
        RuntimeStatus { conditions }
    }

    /// The answer to a list call: one message, within what the runtime sends, or batches.
    fn list(&self, rpc: Rpc, subject: &Subject) -> Result<Answer, Refusal> {
        let now = self.story.elapsed();
        let streamed = matches!(rpc, Rpc::StreamPodSandboxes | Rpc::StreamContainers);
        if streamed && !self.runtime.streamed_lists {
            return Err(Refusal::unknown_method(rpc));
        }
        let items = match subject {
            Subject::Sandboxes(wanted) if wanted.is_everything() && streamed => {
                return Ok(Answer::all(self.story.node().sandbox_batches(now)));
            }
            Subject::Containers(wanted) if wanted.is_everything() && streamed => {
                return Ok(Answer::all(self.story.node().container_batches(now)));
            }
            Subject::Sandboxes(wanted) if wanted.is_everything() => self.story.node().all_sandboxes(now),
            Subject::Containers(wanted) if wanted.is_everything() => self.story.node().all_containers(now),
            Subject::Sandboxes(wanted) => {
                message::sandboxes(self.story.node().sandboxes(now, |sandbox| wanted.sandbox(sandbox)))
            }
            Subject::Containers(wanted) => message::containers(
                self.story.node().containers(now, |container| wanted.container(container)),
            ),
            Subject::Runtime | Subject::One(_) => Bytes::new(),
        };
        if streamed {
            // An empty list has no batch.
            return Ok(Answer::all((!items.is_empty()).then_some(items)));
        }
        self.within_limit(items)
    }

    /// What a gRPC server of Go says of its own message that is too large to be sent.
    fn within_limit(&self, message: Bytes) -> Result<Answer, Refusal> {
        let (size, limit) = (message.len(), self.runtime.send_limit);
        if u64::try_from(size).is_ok_and(|size| size <= limit) {
            return Ok(Answer::one(message));
        }
        let message = format!("grpc: trying to send message larger than max ({size} vs. {limit})");
        Err(Refusal { code: Code::ResourceExhausted, message })
    }

    fn sandbox_status(&self, id: &str) -> Result<SandboxStatusAnswer, Refusal> {
        let now = self.story.elapsed();
        let pod = self.story.node().find_sandbox(id, now).ok_or_else(|| not_found("sandbox"))?;
        let scribe = self.story.node().scribe();
        // CRI-O tells of the containers too, once it has been told to make events.
        let tells_all = self.runtime.family == Family::CriO && self.runtime.events == Delivery::Broadcast;
        Ok(SandboxStatusAnswer {
            status: Some(scribe.sandbox_status(&pod, now)),
            containers: if tells_all { scribe.container_statuses(&pod, now) } else { Vec::new() },
            timestamp: if tells_all { scribe.stamp(now) } else { 0 },
        })
    }

    fn container_status(&self, id: &str) -> Result<ContainerStatus, Refusal> {
        let now = self.story.elapsed();
        let (pod, container) =
            self.story.node().find_container(id, now).ok_or_else(|| not_found("container"))?;
        Ok(self.story.node().scribe().container_status(&pod, &container, now))
    }

    fn subscribe(&self) -> Result<Answer, Refusal> {
        match self.runtime.events {
            Delivery::Unimplemented => {
                Err(Refusal::new(Code::Unimplemented, "method GetContainerEvents not implemented"))
            }
            Delivery::Ends => Ok(Answer::all([])),
            Delivery::Broadcast => Ok(broadcast(&self.stage, &self.story)),
            Delivery::Competing => Ok(compete(&self.stage, &self.story)),
        }
    }
}

impl Service for Simulation {
    async fn answer(self: Arc<Self>, question: Question) -> Result<Answer, Refusal> {
        let Question { rpc, subject, .. } = question;
        self.suffer(rpc, &subject).await?;
        let message = match rpc {
            Rpc::Version => message::version(self.version()),
            Rpc::Status => message::status(self.status()),
            Rpc::RuntimeConfig => {
                let driver = self.runtime.cgroup_driver.ok_or_else(|| Refusal::unknown_method(rpc))?;
                message::runtime_config(driver)
            }
            Rpc::ListPodSandbox | Rpc::ListContainers | Rpc::StreamPodSandboxes | Rpc::StreamContainers => {
                return self.list(rpc, &subject);
            }
            Rpc::PodSandboxStatus => message::sandbox_status(self.sandbox_status(subject.id())?),
            Rpc::ContainerStatus => message::container_status(Some(self.container_status(subject.id())?)),
            Rpc::ContainerStats => {
                self.container_status(subject.id())?;
                message::container_stats()
            }
            Rpc::GetContainerEvents => return self.subscribe(),
        };
        Ok(Answer::one(message))
    }
}

fn not_found(what: &str) -> Refusal {
    Refusal { code: Code::NotFound, message: format!("an error occurred when try to find {what}: not found") }
}

fn condition(kind: &str, holds: bool, (reason, message): (&str, &str)) -> Condition {
    let unless = |words: &str| if holds { String::new() } else { words.to_owned() };
    Condition { kind: kind.to_owned(), holds, reason: unless(reason), message: unless(message) }
}
