//! Groups the two lists into pods, in the kubelet's order.
//!
//! Grouping borrows from the lists and allocates only a few vectors, whatever the number of containers. Nothing is
//! repaired: a container without labels belongs to the pod whose UID is empty, as in the kubelet.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::cri::{Container, ContainerState, Sandbox, SandboxState, label};
use crate::kubelet::Era;
use crate::report::PodRef;

/// The state of a container or sandbox as PLEG compares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlegState {
    /// Running, or a sandbox that is ready.
    Running,
    /// Exited, or a sandbox that is not ready.
    Exited,
    /// Created, unknown, and every number that the CRI does not define.
    Unknown,
    /// Not listed.
    NonExistent,
}

impl PlegState {
    /// The name in JSON and in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
            Self::NonExistent => "non-existent",
        }
    }
}

/// The state of a container or sandbox as the kubelet names it, for example in its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KubeletState {
    /// A container that was never started.
    Created,
    /// Running, or a sandbox that is ready.
    Running,
    /// Exited, or a sandbox that is not ready.
    Exited,
    /// The runtime reports unknown, or a number that the CRI does not define.
    Unknown,
}

impl KubeletState {
    /// All states, in the order of the metric's documentation.
    pub const ALL: [Self; 4] = [Self::Created, Self::Running, Self::Exited, Self::Unknown];

    /// The name in JSON and in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
        }
    }

    /// The state that PLEG derives from this state.
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
#[derive(Clone, Copy, Debug)]
pub struct ListedPod<'g, 'a> {
    /// UID; empty for the pod of containers without a UID label.
    pub uid: &'a str,
    /// Namespace of the first member seen.
    pub namespace: &'a str,
    /// Name of the first member seen.
    pub name: &'a str,
    /// Creation time of the last sandbox in order; 0 without a sandbox.
    pub created_at: i64,
    /// Its sandboxes, in order.
    pub sandboxes: &'g [&'a Sandbox],
    /// Its containers, in order.
    pub containers: &'g [&'a Container],
}

impl From<Era> for MemberOrder {
    fn from(era: Era) -> Self {
        if era.holds_members_newest_first() { Self::NewestFirst } else { Self::AsListed }
    }
}

impl From<&ListedPod<'_, '_>> for PodRef {
    fn from(pod: &ListedPod<'_, '_>) -> Self {
        Self { uid: pod.uid.to_owned(), namespace: pod.namespace.to_owned(), name: pod.name.to_owned() }
    }
}

/// The pods of a relist. The pods have no order among themselves.
#[derive(Debug, Default)]
pub struct ListedPods<'a> {
    groups: Vec<GroupedPod<'a>>,
    sandboxes: Vec<&'a Sandbox>,
    containers: Vec<&'a Container>,
}

#[derive(Debug)]
struct GroupedPod<'a> {
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
    created_at: i64,
    sandboxes: Range<usize>,
    containers: Range<usize>,
}

impl<'a> GroupedPod<'a> {
    const fn new(uid: &'a str) -> Self {
        Self { uid, namespace: "", name: "", created_at: 0, sandboxes: 0..0, containers: 0..0 }
    }
}

impl<'a> ListedPods<'a> {
    /// Groups the members of two lists into pods.
    ///
    /// The kubelet sorts each list before it groups the members. Sorting the members of each pod gives the same result,
    /// unless the runtime breaks the CRI. A sandbox without metadata belongs to no pod but changes how Go sorts the
    /// others, and two members with one id and one creation time have no defined order in Go.
    pub fn group(
        sandboxes: impl IntoIterator<Item = &'a Sandbox>,
        containers: impl IntoIterator<Item = &'a Container>,
        order: MemberOrder,
    ) -> Self {
        let mut index = PodIndex::default();
        let sandbox_buckets = Buckets::fill(sandboxes, uid_of_sandbox, &mut index);
        let with_sandbox = index.groups.len();
        let container_buckets = Buckets::fill(containers, uid_of_container, &mut index);

        let mut groups = index.groups;
        let mut pods = Self {
            groups: Vec::new(),
            sandboxes: Vec::with_capacity(sandbox_buckets.items.len()),
            containers: Vec::with_capacity(container_buckets.items.len()),
        };
        for (number, group) in groups.iter_mut().enumerate() {
            group.sandboxes = gather(
                &mut pods.sandboxes,
                sandbox_buckets.of(number),
                order,
                newest_sandbox_first,
                |first| {
                    if let Some(metadata) = &first.metadata {
                        (group.name, group.namespace) = (&metadata.name, &metadata.namespace);
                    }
                },
                is_sandbox_kept,
            );
            group.created_at = pods
                .sandboxes
                .get(group.sandboxes.clone())
                .map_or(0, |own| own.last().map_or(0, |sandbox| sandbox.created_at));
            group.containers = gather(
                &mut pods.containers,
                container_buckets.of(number),
                order,
                newest_container_first,
                |first| {
                    if number >= with_sandbox {
                        group.name = first.labels.get(label::POD_NAME).unwrap_or_default();
                        group.namespace = first.labels.get(label::POD_NAMESPACE).unwrap_or_default();
                    }
                },
                is_container_kept,
            );
        }
        pods.groups = groups;
        pods
    }

    /// The number of pods.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no pod.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The pod with this number, in no particular order.
    pub fn get(&self, number: usize) -> Option<ListedPod<'_, 'a>> {
        self.groups.get(number).map(|group| self.pod(group))
    }

    /// All pods, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = ListedPod<'_, 'a>> {
        self.groups.iter().map(|group| self.pod(group))
    }

    /// All pods in the kubelet's order, newest first. The kubelet does not define the order of equal times; here
    /// the UID does.
    pub fn newest_first(&self) -> Vec<ListedPod<'_, 'a>> {
        let mut pods: Vec<_> = self.iter().collect();
        pods.sort_unstable_by(ListedPod::newest_first);
        pods
    }

    fn pod(&self, group: &GroupedPod<'a>) -> ListedPod<'_, 'a> {
        ListedPod {
            uid: group.uid,
            namespace: group.namespace,
            name: group.name,
            created_at: group.created_at,
            sandboxes: self.sandboxes.get(group.sandboxes.clone()).unwrap_or_default(),
            containers: self.containers.get(group.containers.clone()).unwrap_or_default(),
        }
    }
}

impl ListedPod<'_, '_> {
    /// The kubelet's order of pods, and the UID for equal times. The kubelet compares the time as an unsigned
    /// number, so a time before 1970 counts as the newest.
    pub fn newest_first(&self, other: &Self) -> Ordering {
        other
            .created_at
            .cast_unsigned()
            .cmp(&self.created_at.cast_unsigned())
            .then_with(|| self.uid.cmp(other.uid))
    }
}

/// Finds the index of a pod by its UID.
#[derive(Default)]
struct PodIndex<'a> {
    groups: Vec<GroupedPod<'a>>,
    numbers: HashMap<&'a str, usize>,
    last: Option<(&'a str, usize)>,
}

impl<'a> PodIndex<'a> {
    fn number(&mut self, uid: &'a str) -> usize {
        // Runtimes often list the members of one pod next to each other.
        if let Some((last, number)) = self.last
            && last == uid
        {
            return number;
        }
        let groups = &mut self.groups;
        let number = *self.numbers.entry(uid).or_insert_with(|| {
            groups.push(GroupedPod::new(uid));
            groups.len() - 1
        });
        self.last = Some((uid, number));
        number
    }
}

/// Members grouped by pod index: a stable counting sort.
struct Buckets<'a, T> {
    items: Vec<Option<&'a T>>,
    ends: Vec<usize>,
}

impl<'a, T> Buckets<'a, T> {
    fn fill(
        items: impl IntoIterator<Item = &'a T>,
        uid: fn(&T) -> Option<&str>,
        index: &mut PodIndex<'a>,
    ) -> Self {
        let numbered: Vec<(usize, &T)> =
            items.into_iter().filter_map(|item| uid(item).map(|uid| (index.number(uid), item))).collect();
        let mut ends = vec![0_usize; index.groups.len()];
        for (number, _) in &numbered {
            if let Some(count) = ends.get_mut(*number) {
                *count += 1;
            }
        }
        let mut start = 0;
        for end in &mut ends {
            (*end, start) = (start, start + *end);
        }
        // `ends` holds the starts now. Placing an item increments the start of its bucket, until it is the end.
        let mut placed = vec![None; start];
        for (number, item) in numbered {
            if let Some(next) = ends.get_mut(number)
                && let Some(slot) = placed.get_mut(*next)
            {
                *slot = Some(item);
                *next += 1;
            }
        }
        Self { items: placed, ends }
    }

    fn of(&self, number: usize) -> &[Option<&'a T>] {
        let Some(&end) = self.ends.get(number) else {
            return &[];
        };
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        self.items.get(start.unwrap_or(0)..end).unwrap_or_default()
    }
}

/// The UID of a sandbox's pod; `None` if the kubelet skips the sandbox.
fn uid_of_sandbox(sandbox: &Sandbox) -> Option<&str> {
    sandbox.metadata.as_ref().map(|metadata| metadata.uid.as_str())
}

/// The UID of a container's pod, from its label; `None` if the kubelet skips the container.
fn uid_of_container(container: &Container) -> Option<&str> {
    container.metadata.as_ref()?;
    Some(container.labels.get(label::POD_UID).unwrap_or_default())
}

/// Whether the kubelet can convert a sandbox.
fn is_sandbox_kept(sandbox: &Sandbox) -> bool {
    !sandbox.id.is_empty()
}

/// Whether the kubelet can convert a container.
fn is_container_kept(container: &Container) -> bool {
    !container.id.is_empty() && container.image.is_some()
}

/// Appends the members of one pod to `all`, in order, without those that the kubelet cannot convert. `first`
/// receives the first member even if the kubelet cannot convert it, because the kubelet creates the pod before it
/// converts the member.
fn gather<'a, T>(
    all: &mut Vec<&'a T>,
    members: &[Option<&'a T>],
    order: MemberOrder,
    compare: fn(&T, &T) -> Ordering,
    first: impl FnOnce(&'a T),
    kept: fn(&T) -> bool,
) -> Range<usize> {
    let start = all.len();
    all.extend(members.iter().flatten());
    let Some(own) = all.get_mut(start..) else {
        return start..start;
    };
    if order == MemberOrder::NewestFirst {
        sort(own, compare);
    }
    if let Some(group) = own.first() {
        first(group);
    }
    if !own.iter().all(|member| kept(member)) {
        let good: Vec<&T> = own.iter().copied().filter(|member| kept(member)).collect();
        all.truncate(start);
        all.extend(good);
    }
    start..all.len()
}

/// Not part of [`gather`], so that the compiler makes one copy for each kind of member and not for each caller.
fn sort<T>(members: &mut [&T], compare: fn(&T, &T) -> Ordering) {
    members.sort_by(|one, other| compare(one, other));
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

    /// Each pod as `uid name created_at [sandboxes] [containers]`, in the kubelet's order.
    fn grouped(sandboxes: &[Sandbox], containers: &[Container]) -> Vec<String> {
        let pods = ListedPods::group(sandboxes, containers, MemberOrder::NewestFirst);
        let describe = |pod: &ListedPod<'_, '_>| {
            let sandboxes: Vec<&str> = pod.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
            let containers: Vec<&str> =
                pod.containers.iter().map(|container| container.id.as_str()).collect();
            let (sandboxes, containers) = (sandboxes.join(","), containers.join(","));
            format!("{} {} {} [{sandboxes}] [{containers}]", pod.uid, pod.name, pod.created_at)
        };
        pods.newest_first().iter().map(describe).collect()
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
