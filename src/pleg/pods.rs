//! Groups the listed sandboxes and containers into pods, in the kubelet's order, and defines the states that PLEG compares.
//!
//! The groups borrow from the lists. Unusual members are treated as the kubelet treats them: for example, a container
//! without labels belongs to the pod whose UID is empty.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use crate::cri::{Container, ContainerState, Sandbox, SandboxState, label};
use crate::kubelet::Era;
use crate::report::{PodRef, word_enum};

word_enum! {
    /// The state of a container or sandbox as PLEG compares it.
    #[derive(Hash, PartialOrd, Ord)]
    pub json enum PlegState: as_str {
        /// Running, or a sandbox that is ready.
        Running = "running",
        /// Exited, or a sandbox that is not ready.
        Exited = "exited",
        /// Created, unknown, and every number that the CRI does not define.
        Unknown = "unknown",
        /// Not listed.
        NonExistent = "non-existent",
    }
}

word_enum! {
    /// The state of a container or sandbox as the kubelet names it, for example in its metrics, in
    /// the order of the metric's documentation.
    #[derive(Hash, PartialOrd, Ord)]
    pub json enum KubeletState: as_str {
        /// A container that was never started.
        Created = "created",
        /// Running, or a sandbox that is ready.
        Running = "running",
        /// Exited, or a sandbox that is not ready.
        Exited = "exited",
        /// The runtime reports unknown, or a number that the CRI does not define.
        Unknown = "unknown",
    } ALL
}

impl KubeletState {
    /// Returns the state that PLEG derives from this state.
    pub const fn pleg(self) -> PlegState {
        match self {
            Self::Running => PlegState::Running,
            Self::Exited => PlegState::Exited,
            Self::Created | Self::Unknown => PlegState::Unknown,
        }
    }
}

impl From<ContainerState> for KubeletState {
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Created => Self::Created,
            ContainerState::Running => Self::Running,
            ContainerState::Exited => Self::Exited,
            ContainerState::Unknown => Self::Unknown,
        }
    }
}

impl From<SandboxState> for KubeletState {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Ready => Self::Running,
            SandboxState::NotReady => Self::Exited,
            SandboxState::Unknown => Self::Unknown,
        }
    }
}

/// The order of the members of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberOrder {
    /// Sandboxes by attempt and containers by creation time, newest first.
    NewestFirst,
    /// The order in which the runtime listed them.
    AsListed,
}

/// One pod of a relist.
#[derive(Clone, Debug, Default)]
pub struct ListedPod<'a> {
    /// The UID; empty for the pod of containers without a UID label.
    pub uid: &'a str,
    /// The namespace of the first sandbox or, without sandboxes, of the first container.
    pub namespace: &'a str,
    /// The name of the pod, from the same member as the namespace.
    pub name: &'a str,
    /// The creation time of the last sandbox in order; 0 without a sandbox.
    pub created_at: i64,
    /// The sandboxes, in order.
    pub sandboxes: Vec<&'a Sandbox>,
    /// The containers, in order.
    pub containers: Vec<&'a Container>,
}

impl From<Era> for MemberOrder {
    fn from(era: Era) -> Self {
        if era.holds_members_newest_first() { Self::NewestFirst } else { Self::AsListed }
    }
}

impl From<&ListedPod<'_>> for PodRef {
    fn from(pod: &ListedPod<'_>) -> Self {
        Self { uid: pod.uid.to_owned(), namespace: pod.namespace.to_owned(), name: pod.name.to_owned() }
    }
}

/// Groups the members of two lists into pods, in the kubelet's order: newest first. The kubelet's order of pods with equal
/// times is random; here the UID decides.
///
/// The kubelet sorts each list before it groups the members. Sorting the members of each pod gives the same result, unless
/// the runtime breaks the rules of the CRI: a sandbox without metadata belongs to no pod but changes how Go sorts the other
/// sandboxes, and two members with the same id and creation time have no defined order in Go.
pub fn listed_pods<'a>(
    sandboxes: &'a [Sandbox],
    containers: &'a [Container],
    order: MemberOrder,
) -> Vec<ListedPod<'a>> {
    let mut pods: HashMap<&str, ListedPod<'a>> = HashMap::new();
    for sandbox in sandboxes {
        if let Some(uid) = uid_of_sandbox(sandbox) {
            pods.entry(uid).or_default().sandboxes.push(sandbox);
        }
    }
    for container in containers {
        if let Some(uid) = uid_of_container(container) {
            pods.entry(uid).or_default().containers.push(container);
        }
    }
    let mut pods: Vec<ListedPod<'a>> =
        pods.into_iter().map(|(uid, pod)| ListedPod { uid, ..pod }.completed(order)).collect();
    // The kubelet compares the time as an unsigned number, so a time before 1970 counts as the newest.
    pods.sort_by_key(|pod| (Reverse(pod.created_at.cast_unsigned()), pod.uid));
    pods
}

impl ListedPod<'_> {
    /// Sorts the members, names the pod, and removes the members that the kubelet cannot convert.
    fn completed(mut self, order: MemberOrder) -> Self {
        if order == MemberOrder::NewestFirst {
            self.sandboxes.sort_by(|one, other| newest_sandbox_first(one, other));
            self.containers.sort_by(|one, other| newest_container_first(one, other));
        }
        // The kubelet creates the pod before it converts the first member, even if the conversion fails.
        if let Some(metadata) = self.sandboxes.first().and_then(|first| first.metadata.as_ref()) {
            (self.name, self.namespace) = (&metadata.name, &metadata.namespace);
        } else if let Some(first) = self.containers.first() {
            self.name = first.labels.get(label::POD_NAME).unwrap_or_default();
            self.namespace = first.labels.get(label::POD_NAMESPACE).unwrap_or_default();
        }
        self.sandboxes.retain(|sandbox| !sandbox.id.is_empty());
        self.containers.retain(|container| !container.id.is_empty() && container.image.is_some());
        self.created_at = self.sandboxes.last().map_or(0, |sandbox| sandbox.created_at);
        self
    }
}

/// Returns the UID of a sandbox's pod; `None` if the kubelet skips the sandbox.
fn uid_of_sandbox(sandbox: &Sandbox) -> Option<&str> {
    sandbox.metadata.as_ref().map(|metadata| metadata.uid.as_str())
}

/// Returns the UID of a container's pod, from the container's label; `None` if the kubelet skips the container.
fn uid_of_container(container: &Container) -> Option<&str> {
    container.metadata.as_ref()?;
    Some(container.labels.get(label::POD_UID).unwrap_or_default())
}

fn newest_sandbox_first(one: &Sandbox, other: &Sandbox) -> Ordering {
    let attempt = |sandbox: &Sandbox| sandbox.metadata.as_ref().map(|metadata| metadata.attempt);
    attempt(other)
        .cmp(&attempt(one))
        .then_with(|| other.created_at.cmp(&one.created_at))
        .then_with(|| one.id.cmp(&other.id))
}

fn newest_container_first(one: &Container, other: &Container) -> Ordering {
    other.created_at.cmp(&one.created_at).then_with(|| one.id.cmp(&other.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::{ContainerMetadata, Image, Labels, SandboxMetadata};

    fn sandbox(id: &str, uid: &str, attempt: u32, created_at: i64) -> Sandbox {
        Sandbox {
            id: id.into(),
            metadata: Some(SandboxMetadata {
                name: format!("{uid}-{attempt}"),
                uid: uid.into(),
                namespace: "ns".into(),
                attempt,
            }),
            state: SandboxState::Ready,
            created_at,
            labels: Labels::default(),
            annotations: Labels::default(),
        }
    }

    fn container(id: &str, uid: &str, created_at: i64) -> Container {
        Container {
            id: id.into(),
            sandbox_id: "of another pod".into(),
            metadata: Some(ContainerMetadata::default()),
            image: Some(Image::default()),
            image_ref: String::new(),
            state: ContainerState::Running,
            created_at,
            labels: [
                (label::POD_UID, uid),
                (label::POD_NAME, &format!("named by {id}")),
                (label::POD_NAMESPACE, "ns"),
            ]
            .into_iter()
            .collect(),
            annotations: Labels::default(),
        }
    }

    /// Returns each pod as `uid name created_at [sandboxes] [containers]`, in the kubelet's order.
    fn grouped(sandboxes: &[Sandbox], containers: &[Container]) -> Vec<String> {
        let pods = listed_pods(sandboxes, containers, MemberOrder::NewestFirst);
        let describe = |pod: &ListedPod<'_>| {
            let sandboxes: Vec<&str> = pod.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
            let containers: Vec<&str> =
                pod.containers.iter().map(|container| container.id.as_str()).collect();
            let (sandboxes, containers) = (sandboxes.join(","), containers.join(","));
            format!("{} {} {} [{sandboxes}] [{containers}]", pod.uid, pod.name, pod.created_at)
        };
        pods.iter().map(describe).collect()
    }

    #[test]
    fn containers_join_their_pod_by_label_and_not_by_sandbox() {
        let pods = grouped(&[sandbox("s", "a", 0, 7)], &[container("c1", "a", 1), container("c2", "a", 2)]);
        assert_eq!(pods, ["a a-0 7 [s] [c2,c1]"]);
    }

    #[test]
    fn pods_come_newest_first_and_those_without_sandboxes_last() {
        let sandboxes = [sandbox("s1", "a", 0, 10), sandbox("s2", "b", 0, 5), sandbox("s3", "c", 0, 20)];
        let pods = grouped(&sandboxes, &[container("x", "d", 99)]);
        assert_eq!(
            pods,
            ["c c-0 20 [s3] []", "a a-0 10 [s1] []", "b b-0 5 [s2] []", "d named by x 0 [] [x]"]
        );
    }

    #[test]
    fn a_pod_has_the_name_of_its_newest_sandbox_and_the_creation_time_of_its_oldest() {
        let sandboxes = [sandbox("old", "a", 0, 10), sandbox("new", "a", 1, 20), sandbox("a", "a", 1, 20)];
        assert_eq!(grouped(&sandboxes, &[]), ["a a-1 10 [a,new,old] []"]);
    }

    #[test]
    fn a_member_that_cannot_be_converted_still_creates_its_pod() {
        let imageless = Container { image: None, ..container("c", "b", 2) };
        let pods = grouped(&[sandbox("", "a", 3, 10)], &[imageless, container("d", "b", 1)]);
        assert_eq!(pods, ["a a-3 0 [] []", "b named by c 0 [] [d]"]);
    }

    #[test]
    fn a_member_without_metadata_creates_no_pod() {
        let sandbox = Sandbox { metadata: None, ..sandbox("s", "a", 0, 1) };
        let container = Container { metadata: None, ..container("c", "b", 1) };
        assert_eq!(grouped(&[sandbox], &[container]), Vec::<String>::new());
    }

    #[test]
    fn a_time_before_1970_counts_as_the_newest_as_in_the_kubelet() {
        let zero_time = -6_795_364_578_871_345_152;
        let pods = grouped(&[sandbox("s1", "a", 0, 10), sandbox("s2", "b", 0, zero_time)], &[]);
        assert_eq!(pods, [format!("b b-0 {zero_time} [s2] []"), "a a-0 10 [s1] []".into()]);
    }
}
