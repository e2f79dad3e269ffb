//! The pods of a node, as the API server and the kubelet describe them.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::clock::Wall;
use crate::diagnosis::facts::PodChange;
use crate::diagnosis::failing_pods::{FailingPod, FailingStep, FailureCause};
use crate::kubelet::MeasuredContainer;
use crate::kubelet::pod_status::{
    WaitingContainer, container_statuses, entries, has_ended, moment, transition,
};
use crate::report::{ContainerRef, PodRef};
use crate::stacks::kubelet::{PodShape, WaitingWorker, WorkerTask};

/// The annotations by which the API server's copy of a static pod names the UID that the kubelet uses.
const STATIC_UIDS: [&str; 2] = ["kubernetes.io/config.mirror", "kubernetes.io/config.hash"];

/// The call that creates a pod's sandbox.
const CREATE_SANDBOX: &str = "RunPodSandbox";

/// For how long the state of a pod must be overdue, so that it is a reason to suspect the pod.
const LONG_STATE: Duration = Duration::from_secs(30);

/// A pod of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsidePod {
    /// The pod, with the UID that the kubelet uses.
    pub pod: PodRef,
    /// The times of its changes.
    pub changes: Vec<(PodChange, Wall)>,
    /// Whether the pod is to end.
    pub is_ending: bool,
    /// Whether the runtime has created something of it.
    pub has_started: bool,
    /// Its containers; those that were never created have no id.
    pub containers: Vec<ContainerRef>,
    /// The containers that run, and since when.
    pub running: Vec<(String, Wall)>,
    /// The containers of these that the kubelet no longer measures.
    pub gone: Vec<String>,
    /// The containers that wait for their image, their configuration or their next start.
    pub waiting: Vec<String>,
    /// The containers that the runtime fails to create or to start.
    pub failing_containers: Vec<String>,
    /// Since when it has its sandbox, if it has one and this is known.
    pub sandbox_since: Option<Wall>,
    /// Its network.
    pub network: PodNetwork,
    /// The containers, other than init containers, that do not run.
    pub not_running: Vec<String>,
    /// Since when a container that is to be started again has ended.
    pub restart_due: Option<Wall>,
    /// What the kubelet reports of calls for the pod that had no answer.
    pub no_answer: Vec<String>,
    /// Whether the kubelet still has the pod and the API server does not.
    pub is_only_in_kubelet: bool,
}

/// The network of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodNetwork {
    /// Made by a network plugin.
    #[default]
    Own,
    /// The node's own, which needs no plugin.
    OfNode,
}

impl OutsidePod {
    /// Returns the pods of a `PodList`.
    pub fn all_of(list: &Value) -> Vec<Self> {
        let items = list.get("items").and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Self::of).collect()
    }

    /// Adds the pods of the kubelet's list that the API server does not have.
    pub fn add_kubelets(known: &mut Vec<Self>, kubelets: Vec<Self>) {
        let is_known = |pod: &Self| known.iter().any(|known| known.pod.uid == pod.pod.uid);
        let only: Vec<Self> = kubelets.into_iter().filter(|pod| !is_known(pod)).collect();
        known.extend(only.into_iter().map(|pod| Self { is_only_in_kubelet: true, ..pod }));
    }

    /// Finds the containers that have run for a while and that the kubelet does not measure. A kubelet that measures only a few
    /// containers shows nothing.
    pub fn compare(pods: &mut [Self], measured: &HashSet<MeasuredContainer>, now: Wall) {
        for pod in &mut *pods {
            let PodRef { namespace, name, .. } = &pod.pod;
            let is_measured = |container: &str| {
                let (namespace, pod) = (namespace.clone(), name.clone());
                measured.contains(&MeasuredContainer { namespace, pod, container: container.to_owned() })
            };
            let old = pod.running.iter().filter(|(_, since)| now.duration_since(*since) >= LONG_STATE);
            pod.gone = old.filter(|(name, _)| !is_measured(name)).map(|(name, _)| name.clone()).collect();
        }
        let gone: usize = pods.iter().map(|pod| pod.gone.len()).sum();
        if gone * 2 > measured.len() {
            for pod in pods {
                pod.gone.clear();
            }
        }
    }

    /// Returns the pod of an object of the API.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let annotations = object.pointer("/metadata/annotations");
        let static_uid = STATIC_UIDS.iter().find_map(|name| annotations?.get(name)?.as_str());
        let none = Value::Null;
        let status = object.get("status").unwrap_or(&none);
        let deletion = moment(object.pointer("/metadata/deletionTimestamp"));
        let uses_hosts = object.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
        let containers: Vec<ContainerRef> = container_statuses(status).filter_map(container).collect();
        let waiting: Vec<WaitingContainer> = WaitingContainer::all(status).collect();
        let messages = waiting.iter().map(|container| &container.message);
        let all = entries(status, "containerStatuses");
        let not_running = all.filter(|container| container.pointer("/state/running").is_none());
        Some(Self {
            pod: PodRef {
                uid: static_uid.or_else(|| text("/metadata/uid"))?.to_owned(),
                namespace: text("/metadata/namespace")?.to_owned(),
                name: text("/metadata/name")?.to_owned(),
            },
            changes: changes(object, status),
            is_ending: deletion.is_some() || has_ended(status),
            has_started: text("/status/podIP").is_some() && !uses_hosts
                || containers.iter().any(|container| !container.id.is_empty()),
            containers,
            running: container_statuses(status).filter_map(running).collect(),
            gone: Vec::new(),
            not_running: not_running.filter_map(name).collect(),
            restart_due: restart_due(object, status),
            no_answer: messages.filter(|message| has_no_answer(message)).cloned().collect(),
            failing_containers: failing_containers(&waiting),
            sandbox_since: sandbox_since(status),
            network: if uses_hosts { PodNetwork::OfNode } else { PodNetwork::Own },
            waiting: waiting.into_iter().map(|container| container.name).collect(),
            is_only_in_kubelet: false,
        })
    }
}

/// Returns the containers that the runtime fails to create or to start; none if a container misses its configuration.
fn failing_containers(waiting: &[WaitingContainer]) -> Vec<String> {
    let with = |reasons: &[&str]| {
        let found = waiting.iter().filter(|container| reasons.contains(&container.reason.as_str()));
        found.map(|container| container.name.clone()).collect::<Vec<String>>()
    };
    if with(&["CreateContainerConfigError"]).is_empty() {
        with(&["CreateContainerError", "RunContainerError"])
    } else {
        Vec::new()
    }
}

/// Returns since when a pod has its sandbox: by its condition, or, of a kubelet before 1.28, since the first start of a container.
fn sandbox_since(status: &Value) -> Option<Wall> {
    const CONDITION: &str = "PodReadyToStartContainers";
    let has = |condition: &Value, key, value: &str| condition.get(key).is_some_and(|own| own == value);
    if let Some(condition) = entries(status, "conditions").find(|one| has(one, "type", CONDITION)) {
        return transition(status, CONDITION).filter(|_| has(condition, "status", "True"));
    }
    let was_never_restarted =
        |container: &&Value| container.get("restartCount").is_some_and(|count| count == 0);
    container_statuses(status).filter(was_never_restarted).filter_map(started).min()
}

/// Returns when a container was started that runs or has ended.
fn started(container: &Value) -> Option<Wall> {
    let at = |state: &str| moment(container.pointer(&format!("/state/{state}/startedAt")));
    at("running").or_else(|| at("terminated"))
}

/// Returns the name of a container and, if it was created, its id.
fn container(status: &Value) -> Option<ContainerRef> {
    let name = name(status)?;
    let id = status.get("containerID").and_then(Value::as_str).unwrap_or_default();
    let id = id.split_once("://").map_or("", |(_, id)| id).to_owned();
    Some(ContainerRef { id, name })
}

/// Returns the name of a container that runs, and since when.
fn running(status: &Value) -> Option<(String, Wall)> {
    let since = moment(status.pointer("/state/running/startedAt"))?;
    Some((name(status)?, since))
}

fn name(status: &Value) -> Option<String> {
    status.get("name")?.as_str().map(str::to_owned)
}

/// Returns when the first container ended that the kubelet starts again.
fn restart_due(object: &Value, status: &Value) -> Option<Wall> {
    object.pointer("/spec/restartPolicy").is_none_or(|policy| policy == "Always").then_some(())?;
    let ended = |container| moment(Value::pointer(container, "/state/terminated/finishedAt"));
    entries(status, "containerStatuses").filter_map(ended).min()
}

/// Returns the times of a pod's changes.
fn changes(object: &Value, status: &Value) -> Vec<(PodChange, Wall)> {
    let mut changes = Vec::new();
    let mut add = |what, at: Option<Wall>| changes.extend(at.map(|at| (what, at)));
    let start = status.get("startTime").or_else(|| object.pointer("/metadata/creationTimestamp"));
    add(PodChange::Created, moment(start));
    if let Some(end) = moment(object.pointer("/metadata/deletionTimestamp")) {
        // The API server sets the time at which the grace period ends.
        let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
        add(PodChange::Deleted, Some(end.minus(Duration::from_secs(grace.unwrap_or_default()))));
        add(PodChange::GraceOver, Some(end));
    }
    for container in container_statuses(status) {
        for state in ["/state", "/lastState"] {
            let time = |place: &str| moment(container.pointer(&format!("{state}{place}")));
            add(PodChange::ContainerStarted, time("/running/startedAt"));
            add(PodChange::ContainerFinished, time("/terminated/finishedAt"));
        }
    }
    changes
}

impl OutsidePod {
    /// Whether the arguments of a call may be those of a call for this pod, as far as they show the lengths of names.
    pub fn fits(&self, shape: &PodShape) -> bool {
        let has_container = shape.container.is_none_or(|length| {
            self.containers.is_empty()
                || self.containers.iter().any(|container| has_length(&container.name, length))
        });
        has_container && shape.fits(&self.pod.uid, &self.pod.namespace, &self.pod.name)
    }

    /// Whether a worker's call may be for this pod, and the pod waits for nothing else.
    pub fn may_wait_for(&self, worker: &WaitingWorker) -> bool {
        let waits_for_other = !self.waiting.is_empty() && self.no_answer.is_empty();
        let call = &worker.call;
        !waits_for_other && self.fits(&call.pod) && self.suits(worker.task, &call.rpc)
    }

    /// Returns for how long the end of a worker's task with the pod has been overdue, if it is.
    pub fn overdue(&self, task: WorkerTask, now: Option<Wall>) -> Option<Duration> {
        let waited = now?.duration_since(self.due_since(task)?);
        (waited >= LONG_STATE).then_some(waited)
    }

    /// Returns since when the API server waits for the end of a worker's task with the pod.
    fn due_since(&self, task: WorkerTask) -> Option<Wall> {
        let what = match task {
            WorkerTask::Sync if !self.waiting.is_empty() => return None,
            WorkerTask::Sync if self.has_started => return self.restart_due,
            WorkerTask::Sync => PodChange::Created,
            WorkerTask::Terminate | WorkerTask::CleanUp => PodChange::GraceOver,
        };
        self.changes.iter().find(|(change, _)| *change == what).map(|(_, at)| *at)
    }

    /// Returns for how long the pod has waited for a step of the kubelet's work that may fail, by its state.
    pub fn waits_for(&self, step: FailingStep, now: Wall) -> Option<Duration> {
        let waits = match step {
            FailingStep::CreateSandbox => {
                let has_any = self.sandbox_since.is_some() || !self.running.is_empty();
                !(self.is_ending || has_any) && self.waiting.is_empty()
            }
            FailingStep::StartContainer => !(self.is_ending || self.failing_containers.is_empty()),
            FailingStep::StopContainer | FailingStep::StopSandbox => self.is_ending,
        };
        let due = if step.is_of_end() { PodChange::GraceOver } else { PodChange::Created };
        let (_, since) = self.changes.iter().find(|(change, _)| waits && *change == due)?;
        Some(now.duration_since(*since))
    }

    /// Returns for how long the pod has waited for a step that may fail. `None` for a pod that waits for nothing, or for something
    /// of its own.
    pub fn waits(&self, now: Wall) -> Option<Duration> {
        FailingStep::ALL.into_iter().find_map(|step| self.waits_for(step, now))
    }

    /// Whether this step has succeeded for the pod since then. A pod in the node's network needs no network plugin.
    pub fn has_started_since(&self, failing: &FailingPod) -> bool {
        let is_after = |at: &Wall| *at > failing.first;
        if failing.step == FailingStep::CreateSandbox {
            let needs_plugin = failing.cause != FailureCause::Network || self.network == PodNetwork::Own;
            return needs_plugin && self.sandbox_since.as_ref().is_some_and(is_after);
        }
        let starts = self.changes.iter().filter(|(what, _)| *what == PodChange::ContainerStarted);
        starts.map(|(_, at)| at).any(is_after)
    }

    /// Whether a pod in this state has a worker with this task that makes this call.
    pub fn suits(&self, task: WorkerTask, rpc: &str) -> bool {
        match task {
            WorkerTask::Sync if rpc == CREATE_SANDBOX => {
                !(self.is_ending || self.has_started) && self.waiting.is_empty()
            }
            WorkerTask::Sync => !(self.is_ending || self.has_started && self.not_running.is_empty()),
            WorkerTask::Terminate | WorkerTask::CleanUp => self.is_ending || self.is_only_in_kubelet,
        }
    }
}

/// Whether a message of the kubelet is about a call that had no answer within its time limit.
pub fn has_no_answer(message: &str) -> bool {
    ["DeadlineExceeded", "context deadline exceeded"].iter().any(|words| message.contains(words))
}

/// Whether a text has this length.
pub fn has_length(text: &str, length: u64) -> bool {
    u64::try_from(text.len()).is_ok_and(|own| own == length)
}
