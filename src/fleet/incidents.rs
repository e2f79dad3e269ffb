//! Joins the incidents that the recorders of all nodes have kept: by cause and by the culprit's container. Says of each
//! group what all its nodes share, and on how many other nodes the same is found; claims nothing that only some share.
//!
//! Times are corrected by the API server's dates, because the clocks of nodes differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::recorder::RecorderPod;
use super::recorders::{RecorderFinding, check_document, clock_ahead, corrected, shortened};
use super::{FleetRequest, ListedNode, RecorderPods, read_each};
use crate::capture::recorder_verdict::{IncidentList, KnownIncident};
use crate::clock::Wall;
use crate::kubelet::http::{HttpSession, encoded};
use crate::kubelet::kubeconfig::Cluster;
use crate::report::{PodRef, fits_in_memory};

/// The maximum number of incidents of one recorder. A recorder keeps twenty.
const MAX_INCIDENTS: usize = 100;

/// The maximum number of pods whose image is requested.
const MAX_PODS: usize = 500;

/// The largest pod in bytes.
const MAX_POD: usize = 2 << 20;

/// The incidents of all nodes of a cluster.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct FleetIncidents {
    /// When the last recorder was asked.
    pub taken_at: Wall,
    /// The API server.
    pub server: String,
    /// The kubeconfig context.
    pub context: String,
    /// The beginning of the period.
    pub from: Wall,
    /// The number of nodes.
    pub counts: IncidentCounts,
    /// The incidents with one cause and one culprit; the group with most nodes first.
    pub groups: Vec<IncidentGroup>,
    /// The nodes whose recorder gave no answer.
    pub not_answered: Vec<UnansweredNode>,
}

/// The number of nodes with and without incidents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct IncidentCounts {
    /// All nodes.
    pub nodes: u64,
    /// The nodes with at least one incident.
    pub with_incidents: u64,
    /// The nodes whose recorder kept no incident of the period.
    pub without_incidents: u64,
    /// The nodes without a running pod of a recorder.
    pub no_recorder: u64,
    /// The nodes whose recorder gave no answer that can be used.
    pub no_answer: u64,
}

/// A node whose recorder gave no answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnansweredNode {
    /// The node's name.
    pub node: String,
    /// The reason.
    pub why: String,
}

/// Incidents with the same cause and the same culprit.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct IncidentGroup {
    /// The rule's id; absent if the incidents have no finding.
    pub id: Option<String>,
    /// The title of the finding, if it is the same on all nodes.
    pub title: Option<String>,
    /// The beginning of the first incident, by the API server's clock.
    pub from: Wall,
    /// The end of the last incident; absent if the end of one of them is not known.
    pub to: Option<Wall>,
    /// The number of nodes on which such an incident still lasts.
    pub open: u64,
    /// What all nodes of the group share.
    pub shared: Vec<SharedFact>,
    /// The nodes, by name.
    pub nodes: Vec<IncidentNode>,
}

/// Something that all nodes of a group share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SharedFact {
    /// What it is: `container`, `image`, `owner`, `runtime`, `kernel`, `kubelet` or `pool`.
    pub what: &'static str,
    /// Its name or release.
    pub value: String,
    /// The number of other nodes of the cluster with the same; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_nodes: Option<u64>,
}

/// A node of a group.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct IncidentNode {
    /// The node's name.
    pub name: String,
    /// The numbers of the incidents in the node's capture.
    pub incidents: Vec<u64>,
    /// The beginning of the first of them, by the API server's clock.
    pub from: Wall,
    /// The end of the last of them; absent if it still lasts, or if the end of one is not known.
    pub to: Option<Wall>,
    /// Whether one of them still lasts.
    pub open: bool,
    /// The culprit's pod, as namespace and name.
    pub pod: Option<String>,
    /// The culprit's container, as namespace and name in the pod.
    pub container: Option<String>,
    /// The image of this container, if the pod still exists.
    pub image: Option<String>,
    /// Who keeps a task in the kernel waiting.
    pub owner: Option<String>,
    /// The name and version of the container runtime.
    pub runtime: Option<String>,
    /// The release of the kernel.
    pub kernel: Option<String>,
    /// The version of the kubelet.
    pub kubelet_version: Option<String>,
    /// The node pool, by the label of the cloud, else the type of the machine.
    pub pool: Option<String>,
    /// How far the node's clock is ahead of the API server's, from five seconds on.
    pub clock_ahead_seconds: Option<f64>,
    /// The title of the finding of each incident.
    #[serde(skip)]
    titles: BTreeSet<String>,
}

/// The incidents of one node, or why they are not known.
#[derive(Clone, Debug)]
pub struct IncidentReading {
    pub(super) listed: ListedNode,
    /// The pod that was asked, and its answer; `None` if the node has no recorder.
    pub(super) answer: Option<(RecorderPod, Result<RecorderIncidents, String>)>,
}

/// The incidents that one recorder knows, by the API server's clock.
#[derive(Clone, Debug)]
pub struct RecorderIncidents {
    pub(super) list: IncidentList<RecorderFinding>,
    pub(super) clock_ahead: f64,
}

impl RecorderIncidents {
    fn parse(text: &str, date: Option<f64>) -> Result<Self, String> {
        check_document(text, "IncidentList")?;
        let mut list: IncidentList<RecorderFinding> =
            serde_json::from_str(text).map_err(|why| why.to_string())?;
        let clock_ahead = clock_ahead(list.taken_at, date);
        list.incidents.truncate(MAX_INCIDENTS);
        for incident in &mut list.incidents {
            incident.primary = incident.primary.take().map(RecorderFinding::shortened);
            incident.from = corrected(incident.from, clock_ahead);
            incident.to = incident.to.map(|to| corrected(to, clock_ahead));
        }
        list.taken_at = corrected(list.taken_at, clock_ahead);
        Ok(Self { list, clock_ahead })
    }
}

/// Names of a pod: the namespace and its name in it.
type PodKey = (String, String);

/// Reads the images of a pod's containers.
async fn images_of(
    session: &mut HttpSession<'_>,
    server: &str,
    pod: PodKey,
    timeout: Duration,
) -> Option<(PodKey, BTreeMap<String, String>)> {
    #[derive(Deserialize)]
    struct Pod {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        containers: Vec<SpecContainer>,
    }
    #[derive(Deserialize)]
    struct SpecContainer {
        name: String,
        #[serde(default)]
        image: String,
    }
    let (namespace, name) = (encoded(&pod.0), encoded(&pod.1));
    let url = format!("{server}/api/v1/namespaces/{namespace}/pods/{name}");
    let answer = session.get_at_most(&url, MAX_POD, timeout).await;
    let text = answer.and_then(|answer| answer.document(&url)).ok()?;
    let read: Pod = fits_in_memory(text.as_bytes()).then(|| serde_json::from_str(&text).ok()).flatten()?;
    let containers = read.spec.containers.into_iter();
    let images = containers.map(|container| (container.name, shortened(container.image)));
    Some((pod, images.filter(|(_, image)| !image.is_empty()).collect()))
}

/// The incidents of all nodes, and the images of their culprits.
#[derive(Clone, Debug)]
pub struct IncidentReadings {
    pub(super) readings: Vec<IncidentReading>,
    images: BTreeMap<PodKey, BTreeMap<String, String>>,
}

/// Reads the incidents of the last `since` from the recorder of every node. Calls `done` after each node.
pub async fn read_incidents(
    cluster: &Arc<Cluster>,
    nodes: Vec<ListedNode>,
    recorders: RecorderPods,
    since: Duration,
    request: &FleetRequest,
    done: impl Fn(),
) -> IncidentReadings {
    let timeout = request.timeout;
    let page = format!("incidents?since={}s", since.as_secs().max(1));
    let readings = read_each(
        cluster,
        nodes,
        request,
        |_| done(),
        async move |session, server, listed| {
            let read =
                recorders.read(session, server, &listed.name, &page, timeout, RecorderIncidents::parse);
            let answer = read.await.map(|(pod, answer)| (pod.clone(), answer));
            IncidentReading { listed, answer }
        },
    )
    .await;
    IncidentReadings { readings, images: BTreeMap::new() }
}

/// Reads the images of the culprits.
pub async fn read_images(cluster: &Arc<Cluster>, readings: &mut IncidentReadings, request: &FleetRequest) {
    let timeout = request.timeout;
    let found = readings.readings.iter().filter_map(|reading| reading.answer.as_ref()?.1.as_ref().ok());
    let pods = found.flat_map(|found| &found.list.incidents).filter_map(|incident| {
        let PodRef { namespace, name, .. } = incident.primary.as_ref()?.pod.clone()?;
        (!namespace.is_empty() && !name.is_empty()).then_some((namespace, name))
    });
    let pods: Vec<PodKey> = pods.collect::<BTreeSet<_>>().into_iter().take(MAX_PODS).collect();
    let images = read_each(
        cluster,
        pods,
        request,
        |_| (),
        async move |session, server, pod| images_of(session, server, pod, timeout).await,
    )
    .await;
    readings.images = images.into_iter().flatten().collect();
}

/// Joins the incidents of all nodes.
pub fn join(
    readings: &IncidentReadings,
    taken_at: Wall,
    since: Duration,
    server: &str,
    context: &str,
) -> FleetIncidents {
    let mut counts = IncidentCounts::default();
    let mut not_answered = Vec::new();
    let mut groups = BTreeMap::<(Option<String>, Option<String>), BTreeMap<&str, IncidentNode>>::new();
    for IncidentReading { listed, answer } in &readings.readings {
        counts.nodes += 1;
        match answer {
            None => counts.no_recorder += 1,
            Some((_, Err(why))) => {
                counts.no_answer += 1;
                not_answered.push(UnansweredNode { node: listed.name.clone(), why: shortened(why.clone()) });
            }
            Some((_, Ok(found))) if found.list.incidents.is_empty() => counts.without_incidents += 1,
            Some((_, Ok(found))) => {
                counts.with_incidents += 1;
                for incident in &found.list.incidents {
                    let node = node_of(incident, listed, found.clock_ahead, &readings.images);
                    let id = incident.primary.as_ref().map(|primary| primary.id.clone());
                    let members = groups.entry((id, node.container.clone())).or_default();
                    match members.get_mut(listed.name.as_str()) {
                        Some(known) => known.add(node),
                        None => drop(members.insert(&listed.name, node)),
                    }
                }
            }
        }
    }
    let listed: Vec<&ListedNode> = readings.readings.iter().map(|reading| &reading.listed).collect();
    let groups = groups.into_iter();
    let mut groups: Vec<IncidentGroup> =
        groups.map(|((id, _), nodes)| group(id, nodes.into_values().collect(), &listed)).collect();
    groups.sort_by(|one, other| {
        other
            .nodes
            .len()
            .cmp(&one.nodes.len())
            .then(other.open.cmp(&one.open))
            .then(one.from.cmp(&other.from))
    });
    not_answered.sort_by(|one, other| one.node.cmp(&other.node));
    FleetIncidents {
        taken_at,
        server: server.to_owned(),
        context: context.to_owned(),
        from: taken_at.minus(since),
        counts,
        groups,
        not_answered,
    }
}

fn node_of(
    incident: &KnownIncident<RecorderFinding>,
    listed: &ListedNode,
    clock_ahead: f64,
    images: &BTreeMap<PodKey, BTreeMap<String, String>>,
) -> IncidentNode {
    let primary = incident.primary.as_ref();
    let pod = primary.and_then(|primary| primary.pod.as_ref()).filter(|pod| !pod.name.is_empty());
    let container = primary.and_then(|primary| primary.container.as_ref());
    let container = container.map(|container| container.name.as_str()).filter(|name| !name.is_empty());
    let image = pod.zip(container).and_then(|(pod, container)| {
        images.get(&(pod.namespace.clone(), pod.name.clone()))?.get(container).cloned()
    });
    let owner = primary.and_then(|primary| primary.kernel_reason.as_ref()?.owner.clone());
    IncidentNode {
        name: listed.name.clone(),
        incidents: vec![incident.number],
        from: incident.from,
        to: incident.to.filter(|_| !incident.open),
        open: incident.open,
        pod: pod.map(PodRef::to_string),
        container: pod.zip(container).map(|(pod, container)| format!("{}/{container}", pod.namespace)),
        image,
        owner: owner.map(|owner| shortened(without_pid(owner))),
        runtime: runtime_of(listed),
        kernel: listed.kernel.clone(),
        kubelet_version: listed.kubelet_version.clone(),
        pool: listed.pool.clone(),
        clock_ahead_seconds: (clock_ahead != 0.0).then_some(clock_ahead),
        titles: primary.map(|primary| primary.title.clone()).into_iter().collect(),
    }
}

/// Removes the process id from `falcon-sensor[812]`, because it differs on each node.
fn without_pid(owner: String) -> String {
    match owner.split_once('[') {
        Some((name, pid)) if pid.trim_end_matches(']').bytes().all(|byte| byte.is_ascii_digit()) => {
            name.to_owned()
        }
        _ => owner,
    }
}

fn runtime_of(listed: &ListedNode) -> Option<String> {
    listed.runtime.as_ref().map(|runtime| format!("{} {}", runtime.name, runtime.version))
}

impl IncidentNode {
    /// Adds a further incident of the node. What differs between them is left out.
    fn add(&mut self, other: Self) {
        self.incidents.extend(other.incidents);
        self.from = self.from.min(other.from);
        self.to = self.to.zip(other.to).map(|(one, other)| one.max(other));
        self.open |= other.open;
        self.titles.extend(other.titles);
        for (own, others) in
            [(&mut self.pod, other.pod), (&mut self.image, other.image), (&mut self.owner, other.owner)]
        {
            if *own != others {
                *own = None;
            }
        }
    }
}

/// Describes the incidents with one cause and one culprit.
fn group(id: Option<String>, nodes: Vec<IncidentNode>, listed: &[&ListedNode]) -> IncidentGroup {
    let in_all = |value: fn(&IncidentNode) -> Option<&String>| {
        let first = nodes.first().and_then(value)?;
        nodes.iter().all(|node| value(node) == Some(first)).then(|| first.clone())
    };
    let mut shared = Vec::new();
    for (what, value) in [
        ("container", in_all(|node| node.container.as_ref())),
        ("image", in_all(|node| node.image.as_ref())),
        ("owner", in_all(|node| node.owner.as_ref())),
    ] {
        shared.extend(value.map(|value| SharedFact { what, value, other_nodes: None }));
    }
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    for (what, value, of) in [
        ("runtime", in_all(|node| node.runtime.as_ref()), runtime_of as fn(&ListedNode) -> Option<String>),
        ("kernel", in_all(|node| node.kernel.as_ref()), |listed| listed.kernel.clone()),
        ("kubelet", in_all(|node| node.kubelet_version.as_ref()), |listed| listed.kubelet_version.clone()),
        ("pool", in_all(|node| node.pool.as_ref()), |listed| listed.pool.clone()),
    ] {
        let Some(value) = value else { continue };
        let all = listed.iter().filter(|listed| of(listed).as_ref() == Some(&value)).count();
        let other_nodes = Some(number(all.saturating_sub(nodes.len())));
        shared.push(SharedFact { what, value, other_nodes });
    }
    let titles: BTreeSet<&String> = nodes.iter().flat_map(|node| &node.titles).collect();
    let title = titles.first().filter(|_| titles.len() == 1).map(|title| (*title).clone());
    IncidentGroup {
        id,
        title: title.filter(|title| !title.is_empty()),
        from: nodes.iter().map(|node| node.from).min().unwrap_or_default(),
        to: nodes.iter().map(|node| node.to).try_fold(Wall::default(), |last, to| Some(last.max(to?))),
        open: number(nodes.iter().filter(|node| node.open).count()),
        shared,
        nodes,
    }
}

impl FleetIncidents {
    /// Returns the names of the nodes with incidents, each once.
    pub fn node_names(&self) -> BTreeSet<&str> {
        let nodes = self.groups.iter().flat_map(|group| &group.nodes);
        nodes.map(|node| node.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, runtime: &str, pool: &str) -> ListedNode {
        ListedNode {
            name: name.to_owned(),
            runtime: super::super::NodeRuntime::parse(&format!("containerd://{runtime}")),
            kernel: Some("6.1.0".to_owned()),
            pool: Some(pool.to_owned()),
            ..ListedNode::default()
        }
    }

    fn incident(number: u64, minute: u32, pod: &str, container: &str) -> String {
        format!(
            r#"{{"number":{number},"from":"2026-11-21T02:{minute:02}:00Z","to":"2026-11-21T02:59:00Z","open":false,"why":"w","primary":{{"id":"D02","title":"t",
            "pod":{{"namespace":"kube-system","name":"{pod}"}},"container":{{"id":"c","name":"{container}"}},
            "kernelReason":{{"id":"KR01","owner":"rclone[{number}]"}}}}}}"#
        )
    }

    /// A recorder's list; its clock is this number of seconds ahead of the server's.
    fn list(ahead: f64, incidents: &[String]) -> RecorderIncidents {
        let incidents = incidents.join(",");
        let text = format!(
            r#"{{"apiVersion":"plegctl/v1","kind":"IncidentList","takenAt":"2026-11-21T12:00:00Z","from":"2026-11-20T12:00:00Z","incidents":[{incidents}]}}"#
        );
        RecorderIncidents::parse(&text, Some(1_795_262_400.0 - ahead)).unwrap()
    }

    fn joined(readings: Vec<IncidentReading>) -> FleetIncidents {
        let image = |pod: &str, image: &str| {
            let images = BTreeMap::from([("csi-nfs".to_owned(), image.to_owned())]);
            (("kube-system".to_owned(), pod.to_owned()), images)
        };
        let images = BTreeMap::from([image("csi-a", "nfs:v4"), image("csi-b", "nfs:v4")]);
        let day = Duration::from_secs(86_400);
        join(&IncidentReadings { readings, images }, Wall::from_nanos(0).plus(day), day, "s", "c")
    }

    /// The answer of a recorder, with its pod.
    fn answered(
        answer: Option<Result<RecorderIncidents, String>>,
    ) -> Option<(RecorderPod, Result<RecorderIncidents, String>)> {
        answer.map(|answer| (RecorderPod::default(), answer))
    }

    fn facts(group: &IncidentGroup) -> Vec<String> {
        let facts = group.shared.iter();
        facts
            .map(|fact| match fact.other_nodes {
                Some(others) => format!("{} {} {others}", fact.what, fact.value),
                None => format!("{} {}", fact.what, fact.value),
            })
            .collect()
    }

    #[test]
    fn group_says_what_all_its_nodes_share_and_nothing_that_only_some_do() {
        let reading = |name: &str, runtime: &str, pool: &str, answer| IncidentReading {
            listed: listed(name, runtime, pool),
            answer: answered(answer),
        };
        let report = joined(vec![
            reading("a", "2.3.2", "gpu", Some(Ok(list(0.0, &[incident(1, 10, "csi-a", "csi-nfs")])))),
            // Ten minutes ahead: the incident began before that of `a`.
            reading("b", "2.3.2", "cpu", Some(Ok(list(600.0, &[incident(7, 15, "csi-b", "csi-nfs")])))),
            reading("c", "2.3.1", "cpu", Some(Ok(list(0.0, &[])))),
            reading("d", "2.3.1", "cpu", None),
            reading("e", "2.3.1", "cpu", Some(Err("silent".to_owned()))),
        ]);
        assert_eq!(
            report.counts,
            IncidentCounts {
                nodes: 5,
                with_incidents: 2,
                without_incidents: 1,
                no_recorder: 1,
                no_answer: 1
            }
        );
        let [group] = &report.groups[..] else { panic!("{report:#?}") };
        assert_eq!(
            facts(group),
            [
                "container kube-system/csi-nfs",
                "image nfs:v4",
                "owner rclone",
                "runtime containerd 2.3.2 0",
                "kernel 6.1.0 3"
            ]
        );
        assert_eq!(group.from.to_string(), "2026-11-21T02:05:00.000000000Z");
        assert_eq!(group.nodes[1].clock_ahead_seconds, Some(600.0));
        assert_eq!(report.not_answered[0].node, "e");
    }

    #[test]
    fn image_that_is_not_known_on_one_node_is_not_claimed() {
        let reading = |name: &str, pod: &str| IncidentReading {
            listed: listed(name, "2.3.2", "gpu"),
            answer: answered(Some(Ok(list(0.0, &[incident(1, 10, pod, "csi-nfs")])))),
        };
        let report = joined(vec![reading("a", "csi-a"), reading("b", "deleted")]);
        assert!(!facts(&report.groups[0]).iter().any(|fact| fact.starts_with("image")), "{report:#?}");
    }

    #[test]
    fn other_culprits_and_other_causes_are_other_groups_and_the_largest_is_first() {
        let other = incident(2, 20, "x", "app");
        let undiagnosed = r#"{"number":3,"from":"2026-11-21T02:30:00Z","open":true,"why":"w"}"#.to_owned();
        let nfs = |minute| incident(1, minute, "csi-a", "csi-nfs");
        let reading = |name: &str, answer| IncidentReading {
            listed: listed(name, "2.3.2", "gpu"),
            answer: answered(answer),
        };
        let report = joined(vec![
            reading("a", Some(Ok(list(0.0, &[other, undiagnosed, nfs(1), nfs(50)])))),
            reading("b", Some(Ok(list(0.0, &[nfs(10)])))),
        ]);
        let groups: Vec<_> =
            report.groups.iter().map(|group| (group.id.as_deref(), group.nodes.len(), group.open)).collect();
        assert_eq!(groups, [(Some("D02"), 2, 0), (None, 1, 1), (Some("D02"), 1, 0)]);
        let node = &report.groups[0].nodes[0];
        assert_eq!((node.incidents.as_slice(), node.open), (&[1, 1][..], false));
        assert!(report.groups[0].to.is_some() && report.groups[1].to.is_none());
        assert_eq!(report.node_names().len(), 2);
    }
}
