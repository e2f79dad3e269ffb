//! The status of a pod that the kubelet keeps in its cache after the status calls or an event: IP addresses, sandboxes and
//! containers.

use super::pods::KubeletState;
use crate::clock::Wall;
use crate::cri::ContainerStatus;
use crate::report::PodRef;

/// The status of a pod in the kubelet's cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// The pod.
    pub pod: PodRef,
    /// The IP addresses, unchanged from the runtime's answer.
    pub ips: Vec<String>,
    /// The sandboxes, in the order of the status calls.
    pub sandboxes: Vec<MemberStatus>,
    /// The containers, newest first.
    pub containers: Vec<ContainerDetail>,
    /// The time for which the status is valid.
    pub timestamp: Wall,
}

impl PodStatus {
    /// Creates the kubelet's status for an unknown pod, which has only the UID.
    pub fn unknown(uid: &str) -> Self {
        Self { pod: PodRef { uid: uid.to_owned(), ..PodRef::default() }, ..Self::default() }
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let PodRef { uid, namespace, name } = &self.pod;
        let texts = |texts: &[&String]| texts.iter().map(|text| text.len()).sum::<usize>();
        let ips: usize = self.ips.iter().map(|ip| size_of::<String>() + ip.len()).sum();
        let sandboxes = self.sandboxes.iter().map(|member| size_of::<MemberStatus>() + member.id.len());
        let containers = self.containers.iter().map(|container| {
            let ContainerDetail { id, name, reason, message, .. } = container;
            size_of::<ContainerDetail>() + texts(&[id, name, reason, message])
        });
        let own = size_of::<Self>() + texts(&[uid, namespace, name]) + ips;
        u64::try_from(own + sandboxes.sum::<usize>() + containers.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// Returns the status of one container.
    pub fn container(&self, id: &str) -> Option<&ContainerDetail> {
        self.containers.iter().find(|container| container.id == id)
    }
}

/// The id and state of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The full id.
    pub id: String,
    /// The state.
    pub state: KubeletState,
}

/// The fields of a container's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerDetail {
    /// The full id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The state.
    pub state: KubeletState,
    /// The creation time in Unix nanoseconds, unchanged from the runtime's answer.
    pub created_at: i64,
    /// When the container started.
    pub started_at: Option<Wall>,
    /// When the container finished.
    pub finished_at: Option<Wall>,
    /// The exit code of an exited container.
    pub exit_code: Option<i32>,
    /// The runtime's one-word reason.
    pub reason: String,
    /// The runtime's message.
    pub message: String,
}

impl From<ContainerStatus> for ContainerDetail {
    fn from(status: ContainerStatus) -> Self {
        let state = KubeletState::from(status.state);
        Self {
            id: status.id,
            name: status.metadata.map(|metadata| metadata.name).unwrap_or_default(),
            state,
            created_at: status.created_at,
            started_at: Wall::known(status.started_at),
            finished_at: Wall::known(status.finished_at),
            exit_code: (state == KubeletState::Exited).then_some(status.exit_code),
            reason: status.reason,
            message: status.message,
        }
    }
}

pub(super) fn sort_newest_first(containers: &mut [ContainerDetail]) {
    containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
}
