//! The status of a pod: what the kubelet knows of it after asking.

use super::pods::KubeletState;
use crate::clock::Wall;
use crate::cri::ContainerStatus;
use crate::report::PodRef;

/// What the kubelet knows of a pod after asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// Which pod.
    pub pod: PodRef,
    /// Its addresses, as the runtime wrote them.
    pub ips: Vec<String>,
    /// Its sandboxes, in the order they were asked about.
    pub sandboxes: Vec<MemberStatus>,
    /// Its containers, newest first.
    pub containers: Vec<ContainerDetail>,
    /// As of when.
    pub timestamp: Wall,
}

impl PodStatus {
    /// A status that says nothing but the UID: the kubelet's answer for a pod that it does not know.
    pub fn unknown(uid: &str) -> Self {
        Self { pod: PodRef { uid: uid.to_owned(), ..PodRef::default() }, ..Self::default() }
    }

    /// What it takes in memory, about.
    pub fn weight(&self) -> u64 {
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

    /// The status of one container.
    pub fn container(&self, id: &str) -> Option<&ContainerDetail> {
        self.containers.iter().find(|container| container.id == id)
    }
}

/// Id and state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Full id.
    pub id: String,
    /// Its state.
    pub state: KubeletState,
}

/// What a container's own status adds to the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerDetail {
    /// Full id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: KubeletState,
    /// Unix nanoseconds as sent.
    pub created_at: i64,
    /// When it started.
    pub started_at: Option<Wall>,
    /// When it finished.
    pub finished_at: Option<Wall>,
    /// Exit code of an exited container.
    pub exit_code: Option<i32>,
    /// The runtime's word for why.
    pub reason: String,
    /// The runtime's sentence.
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
