//! The burst of calls that the kubelet makes to get the status of a pod.
//!
//! Every call is serial, and the first failure that is not *not found* ends the burst for the whole pod.

use super::addresses;
use super::caller::Caller;
use super::calls::Failure;
use super::pods::{KubeletState, Pod};
use super::status::{ContainerDetail, MemberStatus, PodStatus, sort_newest_first};
use crate::clock::Wall;
use crate::cri::{Container, ContainerStatus, Filter, Rpc, Runtime, Sandbox, SandboxStatusAnswer};
use crate::kubelet::Era;
use crate::report::PodRef;

/// Where the ids of a pod's containers come from.
#[derive(Clone, Copy)]
enum ContainerIds<'a> {
    /// The pass listed them.
    Listed(&'a [&'a Container]),
    /// One more list call has to tell.
    ListAgain,
}

/// How a status is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetch<'a> {
    pub pod: &'a PodRef,
    pub era: Era,
    /// Whether the kubelet's `EventedPLEG` gate is on.
    pub evented_gate: bool,
    /// When the lists were made.
    pub listed_at: Wall,
}

impl Fetch<'_> {
    /// Asks for everything about the pod. `listed` is what the pass found; an era that lists again does not look at it.
    /// What was learnt before a failure is in the status nevertheless; the kubelet throws it away.
    pub async fn run<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        listed: Option<&Pod<'_, '_>>,
    ) -> (PodStatus, Result<(), Failure>) {
        let mut status = PodStatus {
            pod: self.pod.clone(),
            timestamp: if self.era.stamps_status_with_list_time() { self.listed_at } else { Wall::default() },
            ..PodStatus::default()
        };
        let result = match listed {
            Some(listed) if !self.era.lists_again_for_status() => {
                let ids: Vec<&str> = listed.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
                let containers = ContainerIds::Listed(listed.containers);
                self.members(caller, &ids, containers, &mut status).await
            }
            _ => self.list_again(caller, &mut status).await,
        };
        (status, result)
    }

    async fn list_again<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        status: &mut PodStatus,
    ) -> Result<(), Failure> {
        let rt = caller.rt;
        let filter = Filter::pod(&self.pod.uid);
        let call = rt.list_sandboxes(&filter);
        let mut sandboxes: Vec<Sandbox> =
            caller.make(Rpc::ListPodSandbox, None, Some(self.pod), call, Ok).await?;
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        let ids: Vec<&str> = sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
        self.members(caller, &ids, ContainerIds::ListAgain, status).await
    }

    async fn members<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        sandbox_ids: &[&str],
        container_ids: ContainerIds<'_>,
        status: &mut PodStatus,
    ) -> Result<(), Failure> {
        for (number, id) in sandbox_ids.iter().enumerate() {
            let answer = match self.sandbox(caller, id).await {
                Err(failure) if failure.is_not_found() => continue,
                other => other?,
            };
            let newest = number == 0;
            if let Some(sandbox) = answer.status {
                let state = KubeletState::from(sandbox.state);
                if newest && state == KubeletState::Running {
                    status.ips = addresses::of(sandbox.network.as_ref());
                }
                status.sandboxes.push(MemberStatus { id: sandbox.id, state });
            }
            if newest && self.evented_gate {
                if answer.timestamp == 0 {
                    self.containers(caller, container_ids, status).await?;
                } else {
                    // The kubelet leaves these in the runtime's order.
                    status.containers = answer.containers.into_iter().map(ContainerDetail::from).collect();
                    status.timestamp = Wall::from_nanos(answer.timestamp);
                }
            }
        }
        if self.evented_gate {
            return Ok(());
        }
        self.containers(caller, container_ids, status).await
    }

    async fn sandbox<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        id: &str,
    ) -> Result<SandboxStatusAnswer, Failure> {
        let rt = caller.rt;
        let call = rt.sandbox_status(id);
        caller.make(Rpc::PodSandboxStatus, Some(id), Some(self.pod), call, accept_sandbox).await
    }

    async fn containers<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        ids: ContainerIds<'_>,
        status: &mut PodStatus,
    ) -> Result<(), Failure> {
        let rt = caller.rt;
        let again: Vec<Container>;
        let ids: Vec<&str> = match ids {
            ContainerIds::Listed(listed) => listed.iter().map(|container| container.id.as_str()).collect(),
            ContainerIds::ListAgain => {
                let filter = Filter::pod(&self.pod.uid);
                let call = rt.list_containers(&filter);
                again = caller.make(Rpc::ListContainers, None, Some(self.pod), call, Ok).await?;
                again.iter().map(|container| container.id.as_str()).collect()
            }
        };
        for id in ids {
            let call = rt.container_status(id);
            match caller.make(Rpc::ContainerStatus, Some(id), Some(self.pod), call, accept_container).await {
                Err(failure) if failure.is_not_found() => {}
                other => status.containers.push(ContainerDetail::from(other?)),
            }
        }
        sort_newest_first(&mut status.containers);
        Ok(())
    }
}

/// What the kubelet's client demands of a sandbox status, in its words.
fn accept_sandbox(answer: SandboxStatusAnswer) -> Result<SandboxStatusAnswer, String> {
    let status = answer.status.as_ref().ok_or("pod sandbox status is nil")?;
    demand(!status.id.is_empty(), "status.Id is not set")?;
    let metadata = status.metadata.as_ref().ok_or("status.Metadata is not set")?;
    demand(
        !metadata.name.is_empty() && !metadata.namespace.is_empty() && !metadata.uid.is_empty(),
        "metadata.Name, metadata.Namespace or metadata.Uid is not in metadata",
    )?;
    demand(status.created_at != 0, "status.CreatedAt is not set")?;
    Ok(answer)
}

/// What the kubelet's client demands of a container status, in its words.
fn accept_container(answer: Option<ContainerStatus>) -> Result<ContainerStatus, String> {
    let status = answer.ok_or("container status is nil")?;
    demand(!status.id.is_empty(), "status.Id is not set")?;
    let metadata = status.metadata.as_ref().ok_or("status.Metadata is not set")?;
    demand(!metadata.name.is_empty(), "metadata.Name is not in metadata")?;
    demand(status.created_at != 0, "status.CreatedAt is not set")?;
    let image = status.image.as_ref();
    demand(image.is_some_and(|image| !image.image.is_empty()), "status.Image is not set")?;
    demand(!status.image_ref.is_empty(), "status.ImageRef is not set")?;
    Ok(status)
}

fn demand(met: bool, otherwise: &str) -> Result<(), String> {
    if met { Ok(()) } else { Err(otherwise.to_owned()) }
}
