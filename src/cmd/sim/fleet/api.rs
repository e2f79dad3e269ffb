//! [`SimulatedCluster`]: answers the requests to the API server of a simulated fleet, and through its proxies those to its
//! kubelets and recorders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::goroutines;
use super::objects::{self, RECORDER_LABEL, RECORDER_PORT};
use super::scenario_run::ScenarioRun;
use crate::capture::Renames;
use crate::clock::{Clock, Wall};
use crate::cmd::serve::metrics_server::{HttpReply, HttpRequest, PageReply, ServedPages};
use crate::cmd::serve::recorder_exports::Exports;
use crate::cmd::serve::recorder_pages;
use crate::fleet::NAMESPACE;
use crate::manifests::podconfig::Selector;
use crate::pleg::metrics::MetricNames;
use crate::sim::fleet::{FleetNode, KubeletAccess, ListedPod, running_pods};

const NOT_FOUND: &str = "404 Not Found";
const FORBIDDEN: &str = "403 Forbidden";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// The nodes of a cluster, and the recorded scenarios that they share.
pub struct SimulatedCluster {
    nodes: Vec<FleetNode>,
    runs: BTreeMap<&'static str, ScenarioRun>,
    token: PathBuf,
    clock: Arc<dyn Clock>,
}

/// A node with the run of its scenario.
#[derive(Clone, Copy)]
struct RunningNode<'a> {
    node: &'a FleetNode,
    run: &'a ScenarioRun,
}

/// The parameters of a list.
#[derive(Default)]
struct ListRequest {
    labels: Selector,
    node: Option<String>,
    limit: Option<usize>,
    start: usize,
}

impl SimulatedCluster {
    /// Creates a cluster whose recorders have the token in this file.
    pub fn new(
        nodes: Vec<FleetNode>,
        runs: BTreeMap<&'static str, ScenarioRun>,
        token: &Path,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { nodes, runs, token: token.to_path_buf(), clock }
    }

    /// Answers a request.
    pub fn answer(&self, request: &HttpRequest<'_>) -> PageReply {
        let path = request.path.strip_prefix("/api/v1/").unwrap_or_default();
        let segments: Vec<String> = path.split('/').map(decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match *segments.as_slice() {
            ["nodes"] => list(request, |wanted| self.nodes_page(wanted)),
            ["nodes", name] => answer_of(self.node(name), name, |node| node.object(self.clock.wall()).into()),
            ["nodes", name, "proxy", ref rest @ ..] => {
                answer_of(self.node(name), name, |node| node.kubelet(&rest.join("/"), self.clock.wall()))
            }
            ["pods"] => list(request, |wanted| self.pods_page(wanted, None)),
            ["namespaces", namespace, "pods"] => {
                list(request, |wanted| self.pods_page(wanted, Some(namespace)))
            }
            ["namespaces", namespace, "pods", name] => self.pod(namespace, name).into(),
            ["namespaces", NAMESPACE, "pods", pod, "proxy", ref rest @ ..] => {
                let name = pod.strip_suffix(&format!(":{RECORDER_PORT}")).unwrap_or(pod);
                let page = format!("/{}", rest.join("/"));
                answer_of(self.recorder(name), name, |node| node.recorder(&request.at(&page), &self.token))
            }
            _ if request.path == "/readyz" => HttpReply::text("ok".to_owned()).into(),
            _ => status(NOT_FOUND, "NotFound", "the server could not find the requested resource").into(),
        }
    }

    fn node(&self, name: &str) -> Option<RunningNode<'_>> {
        self.running(self.nodes.iter().find(|node| node.name == name)?)
    }

    /// Returns the node whose recorder's pod has this name.
    fn recorder(&self, name: &str) -> Option<RunningNode<'_>> {
        self.running(self.nodes.iter().find(|node| node.recorder.as_deref() == Some(name))?)
    }

    fn running<'a>(&'a self, node: &'a FleetNode) -> Option<RunningNode<'a>> {
        Some(RunningNode { node, run: self.runs.get(node.shape.scenario)? })
    }

    fn running_nodes(&self) -> impl Iterator<Item = RunningNode<'_>> {
        self.nodes.iter().filter_map(|node| self.running(node))
    }

    fn nodes_page(&self, wanted: &ListRequest) -> HttpReply {
        let now = self.clock.wall();
        let conditions: BTreeMap<_, _> =
            self.runs.iter().map(|(name, run)| (*name, objects::ready(run, now))).collect();
        let matching =
            self.running_nodes().filter(|RunningNode { node, .. }| wanted.has(&objects::node_labels(node)));
        let object = |RunningNode { node, run }: RunningNode<'_>| {
            let condition = conditions.get(node.shape.scenario).unwrap_or(&Value::Null);
            objects::node_object(node, &run.scenario, condition, now)
        };
        wanted.page("NodeList", matching, object)
    }

    fn pods_page(&self, wanted: &ListRequest, namespace: Option<&str>) -> HttpReply {
        let pods = self.pods();
        let is_on_node = |node: &FleetNode| wanted.node.as_ref().is_none_or(|wanted| *wanted == node.name);
        let all = self.running_nodes().filter(|running| is_on_node(running.node));
        let all = all.flat_map(|running| running.pods(&pods));
        let matching = all.filter(|pod| {
            namespace.is_none_or(|wanted| wanted == pod.namespace()) && wanted.has(&[pod.label()])
        });
        wanted.page("PodList", matching, FleetPod::object)
    }

    /// Returns the pods of each scenario.
    fn pods(&self) -> BTreeMap<&'static str, Vec<ListedPod>> {
        let now = self.clock.wall();
        self.runs.iter().map(|(name, run)| (*name, running_pods(&run.scenario, now))).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> HttpReply {
        let pods = self.pods();
        let mut all = self.running_nodes().flat_map(|running| running.pods(&pods));
        match all.find(|pod| pod.namespace() == namespace && pod.may_be(name) && pod.name() == name) {
            Some(pod) => HttpReply::json(&pod.object()),
            None => status(NOT_FOUND, "NotFound", &format!("pods \"{name}\" not found")),
        }
    }
}

/// A pod of a node.
enum FleetPod<'a> {
    Recorder(&'a FleetNode, &'a str),
    Listed(RunningNode<'a>, &'a ListedPod),
}

impl FleetPod<'_> {
    fn namespace(&self) -> &str {
        match self {
            Self::Recorder(..) => NAMESPACE,
            Self::Listed(_, listed) => &listed.pod.namespace,
        }
    }

    fn label(&self) -> (&'static str, &str) {
        match self {
            Self::Recorder(..) => RECORDER_LABEL,
            Self::Listed(_, listed) => ("app", &listed.app),
        }
    }

    /// Whether the pod may have this name. A name on the node differs only after the first word, and is expensive.
    fn may_be(&self, name: &str) -> bool {
        let own = match self {
            Self::Recorder(_, name) => name,
            Self::Listed(_, listed) => listed.pod.name.as_str(),
        };
        own.split('-').next() == name.split('-').next()
    }

    fn name(&self) -> String {
        match self {
            Self::Recorder(_, name) => (*name).to_owned(),
            Self::Listed(running, listed) => running.renames().text(&listed.pod.name),
        }
    }

    fn object(self) -> Value {
        match self {
            Self::Recorder(node, name) => objects::recorder_object(node, name),
            Self::Listed(running, listed) => objects::pod_object(running.node, listed, &self.name()),
        }
    }
}

impl<'a> RunningNode<'a> {
    fn renames(self) -> Renames {
        Renames::new(self.node.names(&self.run.scenario))
    }

    fn object(self, now: Wall) -> HttpReply {
        let condition = objects::ready(self.run, now);
        HttpReply::json(&objects::node_object(self.node, &self.run.scenario, &condition, now))
    }

    /// Returns the pods of the node: its recorder, and those of its scenario.
    fn pods(self, pods: &'a BTreeMap<&'static str, Vec<ListedPod>>) -> impl Iterator<Item = FleetPod<'a>> {
        let recorder = self.node.recorder.iter().map(move |name| FleetPod::Recorder(self.node, name));
        let listed = pods.get(self.node.shape.scenario).map(Vec::as_slice).unwrap_or_default();
        recorder.chain(listed.iter().map(move |listed| FleetPod::Listed(self, listed)))
    }

    /// Answers a request through the proxy of the node.
    fn kubelet(self, document: &str, now: Wall) -> PageReply {
        let Self { node, run } = self;
        match (node.shape.kubelet, document) {
            (KubeletAccess::Unreachable, _) => self.no_route(10250).into(),
            (KubeletAccess::Forbidden, _) => {
                let why = "User \"sim-fleet\" cannot get resource \"nodes/proxy\" in API group \"\" at the cluster scope";
                status(FORBIDDEN, "Forbidden", &format!("nodes \"{}\" is forbidden: {why}", node.name)).into()
            }
            (KubeletAccess::MetricsHang, "metrics") => PageReply::Silence,
            (_, "metrics") => HttpReply::metrics(objects::kubelet_metrics(run)).into(),
            (_, "configz") => HttpReply::json(&objects::configz(node, &run.scenario)).into(),
            // It answers while a list call hangs.
            (reach, "debug/pprof/goroutine") => {
                let last = run.last_relist().filter(|_| reach == KubeletAccess::MetricsHang);
                HttpReply::text(goroutines::dump(last.map(|last| now.duration_since(last)))).into()
            }
            (_, "healthz") => HttpReply::text("ok".to_owned()).into(),
            // The setting `enableSystemLogQuery` is off, so the kubelet lists its directory.
            (_, "logs/") => HttpReply::text("<!doctype html>\n<pre>\n</pre>\n".to_owned()).into(),
            _ => HttpReply::error(NOT_FOUND, "404 page not found").into(),
        }
    }

    /// Answers a request to the node's recorder.
    fn recorder(self, request: &HttpRequest<'_>, token: &Path) -> PageReply {
        let Self { node, run } = self;
        if node.shape.kubelet == KubeletAccess::Unreachable {
            return self.no_route(RECORDER_PORT).into();
        }
        let (recorder, renames) = (&run.recorder, self.renames());
        let names = (node.name.clone(), recorder.endpoint.clone());
        let (view, metrics) = (recorder.view.clone(), Arc::clone(&recorder.metrics));
        let exports =
            Exports::new(view.clone(), names.clone(), run.capture.clone(), Some(token.to_path_buf()))
                .with_renames(renames.clone());
        let pages = ServedPages {
            shared_state: Arc::clone(&recorder.shared_state),
            names: MetricNames::Plegctl,
            metrics,
            more: recorder_pages::pages(view, names, Arc::new(exports)),
        };
        match pages.reply(request) {
            PageReply::Ready(reply) => reply.with_body(|text| renames.text(text)).into(),
            slow => slow,
        }
    }

    fn no_route(self, port: u16) -> HttpReply {
        let address = objects::address(self.node);
        let why =
            format!("error trying to reach service: dial tcp {address}:{port}: connect: no route to host");
        status(UNAVAILABLE, "ServiceUnavailable", &why)
    }
}

impl ListRequest {
    fn parse(request: &HttpRequest<'_>) -> Result<Self, String> {
        let mut wanted = Self::default();
        for (name, value) in request.parameters() {
            let value = decoded(value);
            match name {
                "labelSelector" => wanted.labels = value.parse()?,
                "fieldSelector" => {
                    let node = value.strip_prefix("spec.nodeName=");
                    wanted.node = Some(node.ok_or("only the field spec.nodeName is simulated")?.to_owned());
                }
                "limit" => wanted.limit = value.parse().ok().filter(|limit| *limit > 0),
                "continue" => wanted.start = value.parse().map_err(|_| "continue is not a number")?,
                _ => {}
            }
        }
        Ok(wanted)
    }

    fn has(&self, labels: &[(&str, &str)]) -> bool {
        self.labels.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    /// Returns one page of the items, and where the next one begins.
    fn page<T>(&self, kind: &str, items: impl Iterator<Item = T>, object: impl Fn(T) -> Value) -> HttpReply {
        let mut items = items.skip(self.start);
        let page: Vec<Value> = items.by_ref().take(self.limit.unwrap_or(usize::MAX)).map(object).collect();
        let next = items.next().map(|_| (self.start + page.len()).to_string());
        let metadata = json!({"continue": next.unwrap_or_default()});
        HttpReply::json(&json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "items": page}))
    }
}

/// Answers with the page of a list, or that its parameters are wrong.
fn list(request: &HttpRequest<'_>, page: impl FnOnce(&ListRequest) -> HttpReply) -> PageReply {
    let refused = |why: String| status("400 Bad Request", "BadRequest", &why);
    ListRequest::parse(request).map_or_else(refused, |wanted| page(&wanted)).into()
}

/// Answers with what `answer` makes of a node, or that nothing has this name.
fn answer_of(
    node: Option<RunningNode<'_>>,
    name: &str,
    answer: impl FnOnce(RunningNode<'_>) -> PageReply,
) -> PageReply {
    let not_found = || status(NOT_FOUND, "NotFound", &format!("\"{name}\" not found")).into();
    node.map_or_else(not_found, answer)
}

/// Answers as the API server refuses a request.
fn status(status: &'static str, reason: &str, message: &str) -> HttpReply {
    let code = status.get(..3).and_then(|code| code.parse::<u16>().ok());
    let document = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason,
        "message": message, "code": code});
    HttpReply::json(&document).with_status(status)
}

/// Decodes a part of a URL. A wrong code stays as it is.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = after.get(if code.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_decoded_and_lists_have_pages() {
        assert_eq!(decoded("spec.nodeName%3Dnode-001%2c%zz%"), "spec.nodeName=node-001,%zz%");
        let page = |query: &str| {
            let wanted = ListRequest::parse(&HttpRequest::for_page("/", query)).unwrap();
            let Some(PageReply::Ready(reply)) = Some(wanted.page("List", 0..5, Value::from).into()) else {
                panic!()
            };
            reply.with_body(|text| {
                let page: Value = serde_json::from_str(text).unwrap();
                format!("{} {}", page["items"], page["metadata"]["continue"])
            })
        };
        assert_eq!(page(""), HttpReply::json(&0).with_body(|_| "[0,1,2,3,4] \"\"".to_owned()));
        assert_eq!(page("limit=2&continue=2"), HttpReply::json(&0).with_body(|_| "[2,3] \"4\"".to_owned()));
        assert_eq!(page("limit=2&continue=4"), HttpReply::json(&0).with_body(|_| "[4] \"\"".to_owned()));
        for query in ["fieldSelector=status.phase%3DRunning", "continue=x", "labelSelector=%3D"] {
            assert!(ListRequest::parse(&HttpRequest::for_page("/", query)).is_err(), "{query}");
        }
    }
}
