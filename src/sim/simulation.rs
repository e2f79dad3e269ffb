//! [`Simulation`]: answers the CRI calls to a simulated runtime, after applying the faults of its scenario.

use std::sync::Arc;

use super::events::{EventDistributor, broadcast, compete};
use super::fault::{CallOutcome, FaultTarget, call_outcomes};
use super::scenario::{EventDelivery, RuntimeFamily, RuntimeSettings, Scenario, ScenarioFault};
use super::seed::Seed;
use super::timeline::NodeTimeline;
use crate::clock::{Clock, Wall};
use crate::cri::server::{Answer, Bytes, CallRequest, RequestSubject, Service, ServiceError, message};
use crate::cri::{
    CgroupDriver, Code, ContainerStatus, Rpc, RuntimeCondition, RuntimeStatus, SandboxStatusAnswer, Version,
};

/// A running simulation of a scenario.
pub struct Simulation {
    timeline: Arc<NodeTimeline>,
    faults: Vec<ScenarioFault>,
    seed: Seed,
    runtime: RuntimeSettings,
    distributor: Arc<EventDistributor>,
}

/// The pod and container that a call is about.
#[derive(Default)]
struct CallSubject {
    pod: Option<String>,
    container: Option<String>,
}

impl Simulation {
    /// Starts to simulate `scenario`, in the state that it has now if it started at `start_time`.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>, start_time: Wall) -> Arc<Self> {
        Arc::new(Self {
            timeline: Arc::new(NodeTimeline::begin(scenario, clock, start_time)),
            faults: scenario.faults.clone(),
            seed: Seed::new(scenario.seed).of("faults"),
            runtime: scenario.runtime.clone(),
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
            self.runtime.ready,
            ("ContainerRuntimeNotReady", "the container runtime is not ready"),
        );
        let mut conditions = vec![runtime, condition("NetworkReady", true, ("", ""))];
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
        let (size, limit) = (message.len(), send_limit(self.runtime.family));
        if size <= limit {
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
        Ok(self.timeline.node.message_builder.container_status(&pod, &container, now))
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
            Rpc::RuntimeConfig => message::runtime_config(CgroupDriver::Systemd),
            Rpc::ListPodSandbox | Rpc::ListContainers | Rpc::StreamPodSandboxes | Rpc::StreamContainers => {
                return self.list(rpc, &subject);
            }
            Rpc::PodSandboxStatus => message::sandbox_status(self.sandbox_status(subject.id())?),
            Rpc::ContainerStatus => message::container_status(Some(self.container_status(subject.id())?)),
            Rpc::ContainerStats => {
                self.container_status(subject.id())?;
                // plegctl looks only at whether there is an answer.
                Bytes::new()
            }
            Rpc::GetContainerEvents => return self.subscribe(),
        };
        Ok(Answer::one(message))
    }
}

/// Returns the size of the largest message that a runtime sends.
const fn send_limit(family: RuntimeFamily) -> usize {
    match family {
        RuntimeFamily::Containerd => 16 << 20,
        RuntimeFamily::CriO => 80 << 20,
    }
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
