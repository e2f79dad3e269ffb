//! The questions to the runtime: each bounded, none repeated when it hangs, and a stuck one delays no other.

mod pass;
mod shards;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

use self::pass::{Answers, Question};
use super::budget::Budget;
use super::evidence::{Kind, RuntimeEvidence, StatusRecord, Target};
use super::hunt::{self, OutsideId};
use super::{Inputs, limits};
use crate::cri::{Call, Container, ContainerState, Error, Filter, Rpc, Runtime, Sandbox, SandboxState};

/// Waits for `call` no longer than `limit`. What is given up is silent, by the time it was given.
pub(super) async fn bounded<T>(rpc: Rpc, limit: Duration, call: impl Future<Output = Call<T>>) -> Call<T> {
    tokio::time::timeout(limit, call).await.unwrap_or(Call {
        rpc,
        duration: limit,
        response_bytes: 0,
        result: Err(Error::Silent { rpc, waited: limit }),
    })
}

/// A call that stays in flight while something else is done.
struct InFlight<T> {
    rpc: Rpc,
    handle: JoinHandle<Call<T>>,
}

impl<T: Send + 'static> InFlight<T> {
    fn start(rpc: Rpc, limit: Duration, call: impl Future<Output = Call<T>> + Send + 'static) -> Self {
        Self { rpc, handle: tokio::spawn(bounded(rpc, limit, call)) }
    }

    fn settled(rpc: Rpc, call: Call<T>) -> Self {
        Self { rpc, handle: tokio::spawn(std::future::ready(call)) }
    }

    /// The end of the call, if it comes within `limit`.
    async fn within(&mut self, limit: Duration) -> Option<Call<T>> {
        let ended = tokio::time::timeout(limit, &mut self.handle).await.ok()?;
        Some(self.unwrapped(ended))
    }

    async fn end(mut self) -> Call<T> {
        let ended = (&mut self.handle).await;
        self.unwrapped(ended)
    }

    fn unwrapped(&self, ended: Result<Call<T>, tokio::task::JoinError>) -> Call<T> {
        ended.unwrap_or_else(|why| Call {
            rpc: self.rpc,
            duration: Duration::ZERO,
            response_bytes: 0,
            result: Err(Error::Decode { rpc: self.rpc, detail: why.to_string() }),
        })
    }
}

/// A call that somebody else found hanging, and that therefore is not made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHang {
    /// The call.
    pub rpc: Rpc,
    /// The id it is about, if it is about one.
    pub id: Option<String>,
    /// How long it has been pending.
    pub waited: Duration,
}

impl KnownHang {
    fn as_list<T>(&self, rpc: Rpc) -> Option<Call<T>> {
        (self.rpc == rpc).then(|| Call {
            rpc,
            duration: self.waited,
            response_bytes: 0,
            result: Err(Error::Silent { rpc, waited: self.waited }),
        })
    }

    fn as_status(&self) -> Option<StatusRecord> {
        let kind = match self.rpc {
            Rpc::PodSandboxStatus => Kind::Sandbox,
            Rpc::ContainerStatus => Kind::Container,
            _ => return None,
        };
        Some(StatusRecord {
            target: Target { kind, id: self.id.clone()? },
            rpc: self.rpc,
            duration: self.waited,
            response_bytes: 0,
            result: Err(Error::Silent { rpc: self.rpc, waited: self.waited }),
            serial: false,
        })
    }
}

/// Asks the runtime everything, and returns what it said beside the ids that the hunt found elsewhere.
pub(super) async fn ladder<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: super::Progress<'_>,
) -> (RuntimeEvidence, Vec<OutsideId>) {
    let mut evidence = RuntimeEvidence::default();
    let Some(runtime) = connect(inputs, budget, progress, &mut evidence).await else {
        return (evidence, Vec::new());
    };
    let asker = Asker { runtime, inputs, budget, progress };
    let status = asker.status();
    let lists = asker.lists(&mut evidence);
    let (status, outside) = tokio::join!(status, lists);
    evidence.status = status;
    asker.shards(&mut evidence).await;
    asker.pass(&mut evidence).await;
    asker.filtered_pair(&mut evidence).await;
    if inputs.probe_shims {
        asker.shims(&mut evidence).await;
    }
    evidence.outside_ids = outside.len();
    (evidence, outside)
}

/// Version, and where it is not answered once more on the other connection. The connection that answers is the one
/// to go on with.
async fn connect<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: super::Progress<'_>,
    evidence: &mut RuntimeEvidence,
) -> Option<Arc<R>> {
    let limit = budget.allow(inputs.deadlines().version)?;
    progress("Version");
    let version = bounded(Rpc::Version, limit, inputs.runtime.version()).await;
    let silent = matches!(version.result, Err(Error::Silent { .. }));
    let answered = version.result.is_ok();
    evidence.version = Some(version);
    if answered {
        return Some(Arc::clone(&inputs.runtime));
    }
    if !silent {
        return None;
    }
    let limit = budget.allow(inputs.deadlines().version)?;
    progress("Version on a second connection");
    let control = bounded(Rpc::Version, limit, inputs.control.version()).await;
    let answered = control.result.is_ok();
    evidence.control = Some(control);
    answered.then(|| Arc::clone(&inputs.control))
}

struct Asker<'a, R> {
    runtime: Arc<R>,
    inputs: &'a Inputs<R>,
    budget: &'a Budget,
    progress: super::Progress<'a>,
}

impl<R: Runtime + 'static> Asker<'_, R> {
    async fn status(&self) -> Option<Call<crate::cri::RuntimeStatus>> {
        let limit = self.budget.allow(self.inputs.deadlines().status)?;
        (self.progress)("Status");
        Some(bounded(Rpc::Status, limit, self.runtime.status()).await)
    }

    fn list_sandboxes(&self, limit: Duration) -> InFlight<Vec<Sandbox>> {
        let rpc = Rpc::ListPodSandbox;
        if let Some(call) = self.inputs.known.as_ref().and_then(|known| known.as_list(rpc)) {
            return InFlight::settled(rpc, call);
        }
        (self.progress)("ListPodSandbox");
        let runtime = Arc::clone(&self.runtime);
        InFlight::start(rpc, limit, async move { runtime.list_sandboxes(&Filter::default()).await })
    }

    fn list_containers(&self, limit: Duration) -> InFlight<Vec<Container>> {
        let rpc = Rpc::ListContainers;
        if let Some(call) = self.inputs.known.as_ref().and_then(|known| known.as_list(rpc)) {
            return InFlight::settled(rpc, call);
        }
        (self.progress)("ListContainers");
        let runtime = Arc::clone(&self.runtime);
        InFlight::start(rpc, limit, async move { runtime.list_containers(&Filter::default()).await })
    }

    /// The two lists, one after the other as the kubelet makes them, unless the first one keeps us waiting. While one
    /// is pending: Version on the other connection, and the hunt.
    async fn lists(&self, evidence: &mut RuntimeEvidence) -> Vec<OutsideId> {
        let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
            return Vec::new();
        };
        let mut sandboxes = self.list_sandboxes(limit);
        let mut sandboxes_done = sandboxes.within(limits::HUNT_AFTER).await;
        let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
            evidence.sandboxes.first = sandboxes_done;
            return Vec::new();
        };
        let mut containers = self.list_containers(limit);
        let containers_done = containers.within(limits::HUNT_AFTER).await;
        if sandboxes_done.is_none() {
            sandboxes_done = sandboxes.within(Duration::ZERO).await;
        }
        evidence.sandboxes.first = sandboxes_done;
        evidence.containers.first = containers_done;
        if evidence.sandboxes.first.is_some()
            && evidence.containers.first.is_some()
            && evidence.hung_lists().is_empty()
        {
            return Vec::new();
        }
        let hunt = self.hunt(
            evidence.sandboxes.items().map(<[_]>::to_vec),
            evidence.containers.items().map(<[_]>::to_vec),
        );
        let finish = async {
            let first = match evidence.sandboxes.first.take() {
                Some(done) => done,
                None => sandboxes.end().await,
            };
            let second = match evidence.containers.first.take() {
                Some(done) => done,
                None => containers.end().await,
            };
            (first, second)
        };
        let needs_control = evidence.control.is_none();
        let (control, (found, outside), (first, second)) =
            tokio::join!(self.control(needs_control), hunt, finish);
        evidence.control = evidence.control.take().or(control);
        evidence.sandboxes.first = Some(first);
        evidence.containers.first = Some(second);
        evidence.asked.extend(found.records);
        evidence.unasked += found.unasked;
        outside
    }

    async fn control(&self, wanted: bool) -> Option<Call<crate::cri::Version>> {
        if !wanted {
            return None;
        }
        let limit = self.budget.allow(self.inputs.deadlines().version)?;
        (self.progress)("Version while a list is pending");
        Some(bounded(Rpc::Version, limit, self.inputs.control.version()).await)
    }

    /// Asks for the status of every id that can be had without the list that is pending.
    async fn hunt(
        &self,
        sandboxes: Option<Vec<Sandbox>>,
        containers: Option<Vec<Container>>,
    ) -> (Answers, Vec<OutsideId>) {
        (self.progress)("the hunt: ids from outside the CRI");
        let outside = hunt::collect(&self.inputs.host_root, self.inputs.proc.as_deref(), self.budget).await;
        let mut targets: BTreeSet<Target> = BTreeSet::new();
        let mut add = |kind, id: &str| {
            targets.insert(Target { kind, id: id.to_owned() });
        };
        let listed =
            |id: &str| sandboxes.iter().flatten().any(|sandbox| sandbox.id == id && containers.is_none());
        if containers.is_none() {
            for found in outside.iter().filter(|found| found.kind != Some(Kind::Sandbox)) {
                if !listed(&found.id) {
                    add(Kind::Container, &found.id);
                }
            }
        }
        if sandboxes.is_none() {
            for container in containers.iter().flatten() {
                add(Kind::Sandbox, &container.sandbox_id);
            }
            for found in outside.iter().filter(|found| found.kind == Some(Kind::Sandbox)) {
                add(Kind::Sandbox, &found.id);
            }
            for sandbox in outside.iter().filter_map(|found| found.sandbox_id.as_deref()) {
                add(Kind::Sandbox, sandbox);
            }
        }
        let targets = targets.into_iter().filter(|target| !self.is_known(target)).collect();
        let answers = self.ask_each(targets, Question::Status, limits::HUNT_PARALLEL, JoinSet::new()).await;
        (answers, outside)
    }

    fn is_known(&self, target: &Target) -> bool {
        self.inputs.known.as_ref().and_then(KnownHang::as_status).is_some_and(|known| known.target == *target)
    }

    /// What two lists of one pod cost; kubelets before 1.36 send them for each changed pod.
    async fn filtered_pair(&self, evidence: &mut RuntimeEvidence) {
        let answered = evidence.sandboxes.items().is_some() && evidence.containers.items().is_some();
        let Some(uid) = evidence.pod_uids().first().map(|uid| (*uid).to_owned()) else {
            return;
        };
        let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
            return;
        };
        if !answered {
            return;
        }
        let sandboxes = Filter::<SandboxState>::pod(&uid);
        let first = bounded(Rpc::ListPodSandbox, limit, self.runtime.list_sandboxes(&sandboxes)).await;
        if first.result.is_err() {
            return;
        }
        let containers = Filter::<ContainerState>::pod(&uid);
        let second = bounded(Rpc::ListContainers, limit, self.runtime.list_containers(&containers)).await;
        if second.result.is_ok() {
            evidence.filtered_pair = Some(first.duration + second.duration);
        }
    }

    /// One more look at the lists.
    pub(super) async fn again(&self, evidence: &mut RuntimeEvidence) {
        (self.progress)("the lists again");
        if evidence.sandboxes.items().is_some()
            && let Some(limit) = self.budget.allow(self.inputs.deadlines().list)
        {
            let all = Filter::default();
            let list = self.runtime.list_sandboxes(&all);
            evidence.sandboxes.second = Some(bounded(Rpc::ListPodSandbox, limit, list).await);
        }
        if evidence.containers.items().is_some()
            && let Some(limit) = self.budget.allow(self.inputs.deadlines().list)
        {
            let all = Filter::default();
            let list = self.runtime.list_containers(&all);
            evidence.containers.second = Some(bounded(Rpc::ListContainers, limit, list).await);
        }
    }
}

/// The second samples of the lists.
pub(super) async fn lists_again<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: super::Progress<'_>,
    evidence: &mut RuntimeEvidence,
) {
    let main_answers = evidence.version.as_ref().is_some_and(|call| call.result.is_ok());
    let runtime = if main_answers { Arc::clone(&inputs.runtime) } else { Arc::clone(&inputs.control) };
    let asker = Asker { runtime, inputs, budget, progress };
    asker.again(evidence).await;
}
