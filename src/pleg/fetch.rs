//! Fetches the status of one pod with the same calls as the kubelet, in the same order.
//!
//! The calls are made one after the other. The first failure other than *not found* ends the fetch for the whole pod.

use super::addresses;
use super::caller::Caller;
use super::calls::CallFailure;
use super::pods::{KubeletState, ListedPod};
use super::status::{ContainerDetail, MemberStatus, PodStatus, sort_newest_first};
use crate::clock::Wall;
use crate::cri::{Container, ContainerStatus, Filter, Rpc, Runtime, Sandbox, SandboxStatusAnswer};
use crate::kubelet::Era;
use crate::report::PodRef;

/// The source of the ids of a pod's containers.
#[derive(Clone, Copy)]
enum ContainerIds<'a> {
    /// The relist's own list call returned them.
    Listed(&'a [&'a Container]),
    /// The releases that list again for the status need one more list call.
    ListAgain,
}

/// A status fetch for one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatusFetch<'a> {
    pub pod: &'a PodRef,
    pub era: Era,
    /// Whether the kubelet's `EventedPLEG` gate is on.
    pub evented_gate: bool,
    /// When the list calls were made.
    pub listed_at: Wall,
}

impl StatusFetch<'_> {
    /// Fetches the status of the pod's sandboxes and containers. `listed` is the pod as the relist listed it; releases that
    /// list again ignore it. After a failure, the returned status has the answers from before the failure; the kubelet
    /// discards them.
    pub async fn run<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        listed: Option<&ListedPod<'_>>,
    ) -> (PodStatus, Result<(), CallFailure>) {
        let mut status = PodStatus {
            pod: self.pod.clone(),
            timestamp: if self.era.stamps_status_with_list_time() { self.listed_at } else { Wall::default() },
            ..PodStatus::default()
        };
        let result = match listed {
            Some(listed) if !self.era.lists_again_for_status() => {
                let ids: Vec<&str> = listed.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
                let containers = ContainerIds::Listed(&listed.containers);
                self.fetch_members(caller, &ids, containers, &mut status).await
            }
            _ => self.list_again(caller, &mut status).await,
        };
        (status, result)
    }

    /// Lists the pod's sandboxes again, and fetches the status of its members.
    async fn list_again<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        status: &mut PodStatus,
    ) -> Result<(), CallFailure> {
        let rt = caller.rt;
        let [sandboxes_by, _] = rt.list_rpcs();
        let filter = Filter::pod(&self.pod.uid);
        let call = rt.list_sandboxes(&filter);
        let mut sandboxes: Vec<Sandbox> = caller.make(sandboxes_by, None, Some(self.pod), call, Ok).await?;
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        let ids: Vec<&str> = sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
        self.fetch_members(caller, &ids, ContainerIds::ListAgain, status).await
    }

    /// Fetches the status of the sandboxes, and of the containers.
    async fn fetch_members<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        sandbox_ids: &[&str],
        container_ids: ContainerIds<'_>,
        status: &mut PodStatus,
    ) -> Result<(), CallFailure> {
        for (number, id) in sandbox_ids.iter().enumerate() {
            let answer = match self.fetch_sandbox(caller, id).await {
                Err(failure) if failure.is_not_found() => continue,
                other => other?,
            };
            let newest = number == 0;
            if let Some(sandbox) = answer.status {
                let state = KubeletState::from(sandbox.state);
                if newest && state == KubeletState::Running {
                    status.ips = addresses::pod_addresses(sandbox.network.as_ref());
                }
                status.sandboxes.push(MemberStatus { id: sandbox.id, state });
            }
            if newest && self.evented_gate {
                if answer.timestamp == 0 {
                    self.fetch_containers(caller, container_ids, status).await?;
                } else {
                    // The kubelet does not sort the containers of a sandbox status.
                    status.containers = answer.containers.into_iter().map(ContainerDetail::from).collect();
                    status.timestamp = Wall::from_nanos(answer.timestamp);
                }
            }
        }
        if self.evented_gate {
            return Ok(());
        }
        self.fetch_containers(caller, container_ids, status).await
    }

    async fn fetch_sandbox<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        id: &str,
    ) -> Result<SandboxStatusAnswer, CallFailure> {
        let rt = caller.rt;
        let call = rt.sandbox_status(id);
        caller.make(Rpc::PodSandboxStatus, Some(id), Some(self.pod), call, accept_sandbox).await
    }

    /// Fetches the status of the containers with these ids.
    async fn fetch_containers<R: Runtime>(
        self,
        caller: &mut Caller<'_, R>,
        ids: ContainerIds<'_>,
        status: &mut PodStatus,
    ) -> Result<(), CallFailure> {
        let rt = caller.rt;
        let listed_again: Vec<Container>;
        let ids: Vec<&str> = match ids {
            ContainerIds::Listed(listed) => listed.iter().map(|container| container.id.as_str()).collect(),
            ContainerIds::ListAgain => {
                let filter = Filter::pod(&self.pod.uid);
                let call = rt.list_containers(&filter);
                listed_again = caller.make(Rpc::ListContainers, None, Some(self.pod), call, Ok).await?;
                listed_again.iter().map(|container| container.id.as_str()).collect()
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

/// Applies the checks of the kubelet's client to a sandbox status, with its error texts.
fn accept_sandbox(answer: SandboxStatusAnswer) -> Result<SandboxStatusAnswer, String> {
    let status = answer.status.as_ref().ok_or("pod sandbox status is nil")?;
    require(!status.id.is_empty(), "status.Id is not set")?;
    let metadata = status.metadata.as_ref().ok_or("status.Metadata is not set")?;
    require(
        !metadata.name.is_empty() && !metadata.namespace.is_empty() && !metadata.uid.is_empty(),
        "metadata.Name, metadata.Namespace or metadata.Uid is not in metadata",
    )?;
    require(status.created_at != 0, "status.CreatedAt is not set")?;
    Ok(answer)
}

/// Applies the checks of the kubelet's client to a container status, with its error texts.
fn accept_container(answer: Option<ContainerStatus>) -> Result<ContainerStatus, String> {
    let status = answer.ok_or("container status is nil")?;
    require(!status.id.is_empty(), "status.Id is not set")?;
    let metadata = status.metadata.as_ref().ok_or("status.Metadata is not set")?;
    require(!metadata.name.is_empty(), "metadata.Name is not in metadata")?;
    require(status.created_at != 0, "status.CreatedAt is not set")?;
    let image = status.image.as_ref();
    require(image.is_some_and(|image| !image.image.is_empty()), "status.Image is not set")?;
    require(!status.image_ref.is_empty(), "status.ImageRef is not set")?;
    Ok(status)
}

/// Returns an error with the text `otherwise` unless the condition is met.
fn require(met: bool, otherwise: &str) -> Result<(), String> {
    if met { Ok(()) } else { Err(otherwise.to_owned()) }
}
