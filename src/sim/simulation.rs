//! A scenario being played: what the runtime answers now.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::events::{Stage, broadcast, compete};
use super::fault::{Asked, Fate, fates};
use super::scenario::{Delivery, Family, Fault, Runtime, Scenario};
use super::scribe::images_of;
use super::seed::Seed;
use super::story::Story;
use crate::clock::{Clock, Wall};
use crate::cri::server::courtesy::{self, StoredImage, Usage, Used};
use crate::cri::server::{Answer, Bytes, Courtesy, Question, Refusal, Service, Subject, message};
use crate::cri::{
    Code, Condition, Container, ContainerState, ContainerStatus, Rpc, RuntimeStatus, Sandbox,
    SandboxStatusAnswer, Version,
};

/// A scenario being played.
pub struct Simulation {
    story: Arc<Story>,
    faults: Vec<Fault>,
    seed: Seed,
    runtime: Runtime,
    images: Vec<StoredImage>,
    /// Where logs of containers are written, if anywhere.
    logs: Option<PathBuf>,
    stage: Arc<Stage>,
}

const MIB: u64 = 1024 * 1024;

/// What a call is about.
#[derive(Default)]
struct About {
    pod: Option<String>,
    container: Option<String>,
}

impl Simulation {
    /// Plays `scenario` from now on, as it has come to be since `begun`.
    pub fn start(scenario: &Scenario, clock: Arc<dyn Clock>, begun: Wall) -> Arc<Self> {
        Self::start_with(scenario, clock, begun, None)
    }

    /// The same, with the logs of containers below `logs`.
    pub fn start_with(
        scenario: &Scenario,
        clock: Arc<dyn Clock>,
        begun: Wall,
        logs: Option<&Path>,
    ) -> Arc<Self> {
        Arc::new(Self {
            logs: logs.map(Path::to_path_buf),
            story: Arc::new(Story::begin(scenario, clock, begun)),
            faults: scenario.faults.clone(),
            seed: Seed::new(scenario.seed).of("faults"),
            runtime: scenario.runtime.clone(),
            images: images_of(scenario),
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
        let mut status = self.story.node().scribe().container_status(&pod, &container, now);
        if let Some(written) = self.logs.as_deref().and_then(|logs| log_of(&status, logs)) {
            status.log_path = written;
        }
        Ok(status)
    }

    /// Where the runtime keeps what containers write.
    const fn layers(&self) -> &'static str {
        match self.runtime.family {
            Family::Containerd => "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
            Family::CriO => "/var/lib/containers/storage/overlay",
        }
    }

    fn containers_of(&self, sandbox: &Sandbox) -> Vec<Container> {
        self.story.node().containers(self.story.elapsed(), |container| container.sandbox_id == sandbox.id)
    }

    /// What those of them use that run; whoever reaches their shims suffers what `ContainerStats` suffers.
    async fn used(&self, containers: Vec<Container>) -> Result<Used, Refusal> {
        let mut used = Vec::new();
        for container in containers.into_iter().filter(|container| container.state == ContainerState::Running)
        {
            let subject = Subject::One(container.id.clone());
            self.suffer(Rpc::ContainerStats, &subject).await?;
            used.push(self.usage(&container.id)?);
        }
        Ok(used)
    }

    /// A container and what it uses: as much as its seed has it, for as long as it has been there.
    fn usage(&self, id: &str) -> Result<(Container, Usage), Refusal> {
        let now = self.story.elapsed();
        let node = self.story.node();
        let (pod, life) = node.find_container(id, now).ok_or_else(|| not_found("container"))?;
        let seed = self.seed.of("usage").of(&pod.container_id(&life));
        let rate = 1_000_000 + seed.below(200_000_000);
        let ran = u64::try_from(now.saturating_sub(life.started)).unwrap_or_default();
        let usage = Usage {
            at: node.scribe().stamp(now),
            processor: ran / 1_000_000_000 * rate,
            rate,
            memory: (8 + seed.nth(1).below(500)) * MIB,
            written: seed.nth(2).below(64) * MIB,
        };
        Ok((node.scribe().container(&pod, &life, now), usage))
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
                let (container, usage) = self.usage(subject.id())?;
                courtesy::usage(container, usage, self.layers())
            }
            Rpc::GetContainerEvents => return self.subscribe(),
        };
        Ok(Answer::one(message))
    }

    async fn oblige(self: Arc<Self>, asked: Courtesy) -> Option<Result<Bytes, Refusal>> {
        let layers = self.layers();
        let now = self.story.elapsed();
        let node = self.story.node();
        Some(match asked {
            Courtesy::ImageFilesystem => {
                let used = self.images.iter().map(|image| image.size).sum();
                Ok(courtesy::image_filesystem(node.scribe().stamp(now), layers, used))
            }
            Courtesy::Images(wanted) => {
                let is_wanted =
                    |image: &&StoredImage| wanted.as_ref().is_none_or(|wanted| is_called(image, wanted));
                Ok(courtesy::images(self.images.iter().filter(is_wanted).cloned()))
            }
            Courtesy::Image(wanted) => {
                Ok(courtesy::image(self.images.iter().find(|image| is_called(image, &wanted)).cloned()))
            }
            Courtesy::ContainersUsage(wanted) => {
                let used = self.used(node.containers(now, |container| wanted.container(container))).await;
                used.map(|used| courtesy::usages(used, layers))
            }
            Courtesy::SandboxesUsage(wanted) => {
                let mut pods = Vec::new();
                for sandbox in node.sandboxes(now, |sandbox| wanted.sandbox(sandbox)) {
                    match self.used(self.containers_of(&sandbox)).await {
                        Ok(used) => pods.push((sandbox, used)),
                        Err(refusal) => return Some(Err(refusal)),
                    }
                }
                Ok(courtesy::pod_usages(pods, layers))
            }
            Courtesy::SandboxUsage(id) => match node.find_sandbox(&id, now) {
                Some(pod) => {
                    let sandbox = node.scribe().sandbox(&pod, now);
                    let used = self.used(self.containers_of(&sandbox)).await;
                    used.map(|used| courtesy::pod_usage((sandbox, used), layers))
                }
                None => Err(not_found("sandbox")),
            },
        })
    }
}

/// Writes what a container has said below `logs`, unless that was done already; where that is. A disk that is full keeps
/// nobody from asking.
fn log_of(status: &ContainerStatus, logs: &Path) -> Option<String> {
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

fn is_called(image: &StoredImage, wanted: &str) -> bool {
    let id = image.id.trim_start_matches("sha256:");
    let of_id = wanted.trim_start_matches("sha256:");
    [&image.id, &image.tag, &image.digest].iter().any(|name| *name == wanted)
        || image.tag.strip_suffix(":v1") == Some(wanted)
        || (of_id.len() >= 4 && id.starts_with(of_id))
}

fn not_found(what: &str) -> Refusal {
    Refusal { code: Code::NotFound, message: format!("an error occurred when try to find {what}: not found") }
}

fn condition(kind: &str, holds: bool, (reason, message): (&str, &str)) -> Condition {
    let unless = |words: &str| if holds { String::new() } else { words.to_owned() };
    Condition { kind: kind.to_owned(), holds, reason: unless(reason), message: unless(message) }
}
