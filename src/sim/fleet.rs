//! The plan of a simulated fleet: the names of its nodes, what is wrong with each of them, and their pods. The same number
//! of nodes and the same seed always give the same plan.

use super::scenario::{Owner, Scenario};
use super::seed::Seed;
use super::{NODE_NAME, node_at};
use crate::clock::Wall;
use crate::cri::{SandboxMetadata, SandboxState};
use crate::report::PodRef;

/// How the API server reaches the kubelet of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletAccess {
    /// Every document is answered.
    Answers,
    /// `/metrics` waits for a list call that hangs; the other documents are answered.
    MetricsHang,
    /// The user has no right to read it.
    Forbidden,
    /// No connection to the node can be opened.
    Unreachable,
}

/// What is wrong with some nodes of a fleet.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// The word for these nodes.
    pub name: &'static str,
    /// The built-in scenario that the runtime of these nodes plays.
    pub scenario: &'static str,
    /// Whether these nodes have a recorder.
    pub has_recorder: bool,
    /// How their kubelets are reached.
    pub kubelet: KubeletAccess,
    /// The number of these nodes among a thousand. The nodes that remain have the first shape.
    per_mille: usize,
}

/// The shapes. A small fleet has the first ones only.
pub const SHAPES: [NodeShape; 10] = [
    shape("healthy", "quiet", true, KubeletAccess::Answers, 0),
    shape("hung", "hung-list", true, KubeletAccess::MetricsHang, 20),
    shape("slow", "slow-disk", true, KubeletAccess::Answers, 30),
    shape("NotReady", "stale-kubelet", true, KubeletAccess::Answers, 10),
    shape("silent", "hung-list", false, KubeletAccess::MetricsHang, 10),
    shape("unreachable", "quiet", true, KubeletAccess::Unreachable, 10),
    shape("forbidden", "quiet", false, KubeletAccess::Forbidden, 10),
    shape("without runtime", "runtime-down", true, KubeletAccess::Answers, 5),
    shape("with two hung pods", "hung-two-pods", true, KubeletAccess::Answers, 10),
    shape("without recorder", "quiet", false, KubeletAccess::Answers, 60),
];

const fn shape(
    name: &'static str,
    scenario: &'static str,
    has_recorder: bool,
    kubelet: KubeletAccess,
    per_mille: usize,
) -> NodeShape {
    NodeShape { name, scenario, has_recorder, kubelet, per_mille }
}

/// A node of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetNode {
    /// The name.
    pub name: String,
    /// The number of the node, from zero.
    pub number: usize,
    /// What is wrong with it.
    pub shape: &'static NodeShape,
    /// The name of its recorder's pod, if it has a recorder.
    pub recorder: Option<String>,
    /// Whether the node belongs to the smaller of the two pools.
    pub is_batch: bool,
}

/// Plans a fleet. At least one node has each shape, if there are enough nodes.
pub fn plan(nodes: usize, seed: u64) -> Vec<FleetNode> {
    let seed = Seed::new(seed).of("fleet");
    let mut order: Vec<usize> = (0..nodes).collect();
    let key = |number: &usize| seed.nth(u64::try_from(*number).unwrap_or_default()).below(u64::MAX);
    order.sort_by_key(key);
    let [healthy, others @ ..] = &SHAPES;
    let count_of = |shape: &'static NodeShape| (shape.per_mille * nodes / 1000).max(1);
    let sick = others.iter().flat_map(|shape| std::iter::repeat_n(shape, count_of(shape)));
    let shapes = [healthy].into_iter().chain(sick).chain(std::iter::repeat(healthy));
    let mut planned: Vec<(usize, &NodeShape)> = order.into_iter().zip(shapes).collect();
    planned.sort_by_key(|(number, _)| *number);
    let width = nodes.to_string().len().max(3);
    planned
        .into_iter()
        .map(|(number, shape)| {
            let name = format!("node-{:0width$}", number + 1);
            let own = seed.of(&name);
            let recorder = shape.has_recorder.then(|| format!("plegctl-{}", own.suffix(5)));
            let is_batch = shape.scenario == "hung-list" || own.below(8) == 0;
            FleetNode { name, number, shape, recorder, is_batch }
        })
        .collect()
}

impl FleetNode {
    /// Returns the names that differ from node to node, each with the name that it has in every simulation of the scenario: the
    /// node's, and those of its `StatefulSets`' pods, of which a cluster has each name only once.
    pub fn names(&self, scenario: &Scenario) -> Vec<(String, String)> {
        let sets = scenario.groups.iter().filter(|group| group.owner == Owner::StatefulSet);
        let pods = sets.flat_map(|group| {
            let (stem, count) = (group.pod_name.as_ref().unwrap_or(&group.name), group.count);
            let first = u64::try_from(self.number).unwrap_or_default() * u64::from(count);
            (0..count)
                .map(move |index| (format!("{stem}-{index}"), format!("{stem}-{}", first + u64::from(index))))
        });
        [(NODE_NAME.to_owned(), self.name.clone())].into_iter().chain(pods).collect()
    }
}

/// A pod of a simulated node, as the API server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPod {
    /// The pod.
    pub pod: PodRef,
    /// The value of its label `app`.
    pub app: String,
    /// Whether it is a static pod.
    pub is_static: bool,
    /// The names of its containers, and their images.
    pub containers: Vec<(String, String)>,
}

/// Returns the pods that run at `now`.
pub fn running_pods(scenario: &Scenario, now: Wall) -> Vec<ListedPod> {
    let (node, at) = node_at(scenario, now);
    let sandboxes = node.sandboxes(at, |sandbox| sandbox.state == SandboxState::Ready).into_iter();
    let pods = sandboxes.filter_map(|sandbox| {
        let SandboxMetadata { name, uid, namespace, .. } = sandbox.metadata?;
        let containers = node.containers(at, |container| container.sandbox_id == sandbox.id);
        let named = containers.into_iter().filter_map(|container| {
            Some((container.metadata?.name, container.image.unwrap_or_default().user_specified))
        });
        Some(ListedPod {
            pod: PodRef { uid, namespace, name },
            app: sandbox.labels.get("app").unwrap_or_default().to_owned(),
            is_static: sandbox.annotations.get("kubernetes.io/config.source") == Some("file"),
            containers: named.collect(),
        })
    });
    pods.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::load;

    fn count(nodes: &[FleetNode], shape: &str) -> usize {
        nodes.iter().filter(|node| node.shape.name == shape).count()
    }

    #[test]
    fn a_seed_places_the_same_number_of_each_shape_on_other_nodes() {
        let (one, other) = (plan(200, 1), plan(200, 2));
        assert_eq!(one, plan(200, 1));
        assert_ne!(one, other);
        for (shape, expected) in
            [("healthy", 167), ("hung", 4), ("slow", 6), ("silent", 2), ("without recorder", 12)]
        {
            assert_eq!((count(&one, shape), count(&other, shape)), (expected, expected), "{shape}");
        }
        assert_eq!((one[0].name.as_str(), one[199].name.as_str()), ("node-001", "node-200"));
        assert_eq!(plan(2000, 1)[1999].name, "node-2000");
    }

    #[test]
    fn a_small_fleet_has_the_first_shapes() {
        let ten = plan(10, 7);
        assert!(SHAPES.iter().all(|shape| count(&ten, shape.name) == 1), "{ten:?}");
        let two = plan(2, 7);
        assert_eq!((count(&two, "healthy"), count(&two, "hung")), (1, 1));
        assert!(plan(0, 7).is_empty());
    }

    #[test]
    fn no_two_nodes_have_a_pod_of_the_same_name() {
        let scenario = load("hung-list").unwrap();
        let names: Vec<_> = plan(20, 1).iter().flat_map(|node| node.names(&scenario)).collect();
        let mut changed: Vec<_> = names.iter().map(|(_, name)| name).collect();
        changed.sort();
        changed.dedup();
        assert_eq!(changed.len(), names.len());
        assert!(names.contains(&("queue-0".to_owned(), "queue-19".to_owned())), "{names:?}");
    }

    #[test]
    fn listed_pods_have_their_sources_and_images() {
        let pods = running_pods(&load("quiet").unwrap(), Wall::from_nanos(1_795_262_400_000_000_000));
        let of = |app: &str| pods.iter().find(|pod| pod.app == app).unwrap();
        assert!(of("kube-apiserver").is_static && !of("web").is_static);
        assert!(of("web").containers.iter().all(|(name, image)| !name.is_empty() && !image.is_empty()));
    }
}
