//! The questions to the runtime: each made once and left pending while it is not answered, and a stuck one delays no
//! other.

mod flight;
mod pass;
mod shards;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub(super) use self::flight::Flight;
use self::flight::InFlight;
use self::pass::{Answers, Question};
use super::budget::Budget;
use super::evidence::{RuntimeEvidence, Target};
use super::hunt;
use super::names::{Kind, OutsideId};
use super::{Inputs, limits};
use crate::cri::{
    Call, Container, ContainerState, Error, Filter, Rpc, Runtime, Sandbox, SandboxState, Version,
};
use crate::panics::held_future;

/// Waits for `call` no longer than `limit`. What is given up is silent, by the time it was given. Only for what is
/// asked besides the ladder: nothing is concluded from its silence.
pub(super) async fn bounded<T>(rpc: Rpc, limit: Duration, call: impl Future<Output = Call<T>>) -> Call<T> {
    let failed = |duration, why| Call { rpc, duration, response_bytes: 0, result: Err(why) };
    match tokio::time::timeout(limit, held_future(call)).await {
        Ok(Ok(call)) => call,
        Ok(Err(detail)) => failed(Duration::ZERO, Error::Own { rpc, detail }),
        Err(_) => failed(limit, Error::Silent { rpc, waited: limit }),
    }
}

/// A call that somebody else has made and still waits for, and that therefore is not made again.
#[derive(Clone, Debug)]
pub struct KnownHang {
    /// The call.
    pub rpc: Rpc,
    /// The id it is about, if it is about one.
    pub id: Option<String>,
    /// How long it has been pending.
    pub waited: Duration,
    /// Told how long it took, when it is answered after all.
    pub answered: Option<watch::Receiver<Option<Duration>>>,
}

impl KnownHang {
    fn target(&self) -> Option<Target> {
        let kind = match self.rpc {
            Rpc::PodSandboxStatus => Kind::Sandbox,
            Rpc::ContainerStatus => Kind::Container,
            _ => return None,
        };
        Some(Target { kind, id: self.id.clone()? })
    }

    fn is_list(&self, rpc: Rpc) -> bool {
        self.rpc == rpc
    }
}

/// Returns when somebody else's call has been answered, with the time it took; never if nobody tells.
async fn end_of(answered: Option<watch::Receiver<Option<Duration>>>) -> Duration {
    let Some(mut answered) = answered else { return std::future::pending().await };
    let took = answered.wait_for(Option::is_some).await.map(|took| *took);
    match took {
        Ok(Some(took)) => took,
        _ => std::future::pending().await,
    }
}

/// Asks the runtime everything, and returns what it said so far, beside the ids that the hunt found elsewhere and the
/// calls that are still pending.
pub(super) async fn ladder<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: super::Progress<'_>,
) -> (RuntimeEvidence, Vec<OutsideId>, Flight) {
    let mut evidence = RuntimeEvidence { silence: inputs.silence(), ..RuntimeEvidence::default() };
    let mut flight = Flight::default();
    let Some(runtime) = connect(inputs, budget, progress, &mut evidence, &mut flight).await else {
        return (evidence, Vec::new(), flight);
    };
    let asker = Asker { runtime, inputs, budget, progress };
    asker.take_known(&mut flight);
    asker.status(&mut flight);
    let outside = asker.lists(&mut evidence, &mut flight).await;
    flight.note(&*inputs.clock, &mut evidence).await;
    budget.expect(evidence.sandboxes.items().map_or(0, <[_]>::len));
    budget.expect(evidence.containers.items().map_or(0, <[_]>::len));
    asker.shards(&mut evidence).await;
    asker.pass(&mut evidence, &mut flight).await;
    asker.filtered_pair(&mut evidence).await;
    if inputs.probe_shims {
        asker.shims(&mut evidence, &mut flight).await;
    }
    evidence.outside_ids = outside.len();
    (evidence, outside, flight)
}

/// Version, and where it is not answered soon once more on the other connection: the only call that is made twice. The
/// connection that answers is the one to go on with; the other call stays pending.
async fn connect<R: Runtime + 'static>(
    inputs: &Inputs<R>,
    budget: &Budget,
    progress: super::Progress<'_>,
    evidence: &mut RuntimeEvidence,
    flight: &mut Flight,
) -> Option<Arc<R>> {
    if budget.for_asking().is_zero() {
        return None;
    }
    progress("Version");
    let mut first = version(inputs, &inputs.runtime);
    if let Some(ended) = first.within(limits::VERSION_SOON.min(inputs.budget / 4)).await {
        let answered = ended.result.is_ok();
        evidence.version = Some(ended);
        return answered.then(|| Arc::clone(&inputs.runtime));
    }
    progress("Version on a second connection");
    let mut second = version(inputs, &inputs.control);
    let enough = inputs.patience.min(limits::SILENT_CERTAIN).saturating_sub(second.waited());
    let limit = enough.min(budget.for_asking());
    let chosen = tokio::select! {
        Some(ended) = first.within(limit) => {
            let answered = ended.result.is_ok();
            evidence.version = Some(ended);
            answered.then(|| Arc::clone(&inputs.runtime))
        }
        Some(ended) = second.within(limit) => {
            let answered = ended.result.is_ok();
            evidence.control = Some(ended);
            answered.then(|| Arc::clone(&inputs.control))
        }
        else => None,
    };
    if evidence.version.is_none() {
        flight.version = Some(first);
    }
    if evidence.control.is_none() {
        flight.control = Some(second);
    }
    flight.note(&*inputs.clock, evidence).await;
    chosen
}

fn version<R: Runtime + 'static>(inputs: &Inputs<R>, runtime: &Arc<R>) -> InFlight<Version> {
    let runtime = Arc::clone(runtime);
    InFlight::start(&inputs.clock, Rpc::Version, async move { runtime.version().await })
}

struct Asker<'a, R> {
    runtime: Arc<R>,
    inputs: &'a Inputs<R>,
    budget: &'a Budget,
    progress: super::Progress<'a>,
}

impl<R: Runtime + 'static> Asker<'_, R> {
    fn status(&self, flight: &mut Flight) {
        (self.progress)("Status");
        let runtime = Arc::clone(&self.runtime);
        let call = async move { runtime.status().await };
        flight.status = Some(InFlight::start(&self.inputs.clock, Rpc::Status, call));
    }

    /// A status call that somebody else waits for counts as one of ours, as old as it is.
    fn take_known(&self, flight: &mut Flight) {
        let Some((known, target)) =
            self.inputs.known.as_ref().and_then(|known| Some((known, known.target()?)))
        else {
            return;
        };
        let answered = known.answered.clone();
        let again = pass::ask(Arc::clone(&self.runtime), target.clone(), Question::Status);
        let call = async move {
            let took = end_of(answered).await;
            let mut record = again.await;
            record.duration = took;
            record
        };
        flight.asking.take_over(self.inputs.clock.mono(), known.waited, target, known.rpc, call);
    }

    /// A list that somebody else waits for is asked for again only when that one has been answered.
    fn list<T: Send + 'static>(
        &self,
        rpc: Rpc,
        call: impl Future<Output = Call<T>> + Send + 'static,
    ) -> InFlight<T> {
        if let Some(known) = self.inputs.known.as_ref().filter(|known| known.is_list(rpc)) {
            let answered = known.answered.clone();
            let call = async move {
                let took = end_of(answered).await;
                Call { duration: took, ..call.await }
            };
            return InFlight::start(&self.inputs.clock, rpc, call).begun(known.waited);
        }
        (self.progress)(rpc.name());
        InFlight::start(&self.inputs.clock, rpc, call)
    }

    fn list_sandboxes(&self) -> InFlight<Vec<Sandbox>> {
        let runtime = Arc::clone(&self.runtime);
        self.list(Rpc::ListPodSandbox, async move { runtime.list_sandboxes(&Filter::default()).await })
    }

    fn list_containers(&self) -> InFlight<Vec<Container>> {
        let runtime = Arc::clone(&self.runtime);
        self.list(Rpc::ListContainers, async move { runtime.list_containers(&Filter::default()).await })
    }

    /// The two lists, one after the other as the kubelet makes them, unless the first one keeps us waiting. While one
    /// is pending: Version on the other connection, and the hunt. A list that is answered late is still a list.
    async fn lists(&self, evidence: &mut RuntimeEvidence, flight: &mut Flight) -> Vec<OutsideId> {
        if self.budget.for_asking().is_zero() {
            return Vec::new();
        }
        let soon = limits::HUNT_AFTER.min(self.inputs.budget / 8);
        let mut sandboxes = self.list_sandboxes();
        evidence.sandboxes.first = sandboxes.until(soon).await;
        let mut containers = self.list_containers();
        evidence.containers.first = containers.until(soon).await;
        let both = evidence.sandboxes.first.is_some() && evidence.containers.first.is_some();
        if both {
            return Vec::new();
        }
        let hunt = self.hunt(
            evidence.sandboxes.items().map(<[_]>::to_vec),
            evidence.containers.items().map(<[_]>::to_vec),
            &mut flight.asking,
        );
        let first = evidence.sandboxes.first.take();
        let second = evidence.containers.first.take();
        let finish = async {
            tokio::join!(self.rest_of(first, &mut sandboxes), self.rest_of(second, &mut containers))
        };
        let control = self.control(evidence.control.is_none());
        let (control, (found, outside), (first, second)) = tokio::join!(control, hunt, finish);
        if let Some((ended, pending)) = control {
            evidence.control = ended;
            flight.control = pending;
        }
        if first.is_none() {
            flight.sandboxes = Some(sandboxes);
        }
        if second.is_none() {
            flight.containers = Some(containers);
        }
        evidence.sandboxes.first = first;
        evidence.containers.first = second;
        evidence.asked.extend(found.records);
        evidence.unasked += found.unasked;
        outside
    }

    /// The end of a list, waited for until it is certain that it hangs.
    async fn rest_of<T: Send + 'static>(
        &self,
        done: Option<Call<T>>,
        call: &mut InFlight<T>,
    ) -> Option<Call<T>> {
        if done.is_some() {
            return done;
        }
        let enough = self.inputs.patience.min(limits::SILENT_CERTAIN);
        let limit = enough.saturating_sub(call.waited()).min(self.budget.for_asking());
        call.within(limit).await
    }

    /// Version beside a list that is pending: its end, or the call that is pending too.
    async fn control(&self, wanted: bool) -> Option<(Option<Call<Version>>, Option<InFlight<Version>>)> {
        if !wanted || self.budget.for_asking().is_zero() {
            return None;
        }
        (self.progress)("Version while a list is pending");
        let mut call = version(self.inputs, &self.inputs.control);
        let ended = call.within(limits::VERSION_SOON.min(self.budget.for_asking())).await;
        Some(if ended.is_some() { (ended, None) } else { (None, Some(call)) })
    }

    /// Asks for the status of every id that can be had without the list that is pending.
    async fn hunt(
        &self,
        sandboxes: Option<Vec<Sandbox>>,
        containers: Option<Vec<Container>>,
        asking: &mut flight::Asking,
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
        let targets = targets.into_iter().filter(|target| !asking.is_pending(target)).collect();
        let answers = self.ask_each(targets, Question::Status, limits::HUNT_PARALLEL, asking).await;
        (answers, outside)
    }

    /// What two lists of one pod cost; kubelets before 1.36 send them for each changed pod.
    async fn filtered_pair(&self, evidence: &mut RuntimeEvidence) {
        // Where the whole list is slow a part of it is too: a filter saves bytes, not work.
        let quick = |took: Option<Duration>| took.is_some_and(|took| took < limits::LIST_SLOW);
        let answered = quick(evidence.sandboxes.duration()) && quick(evidence.containers.duration());
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

    /// One more look at the lists. One that was so slow that it might not be back in time is left alone.
    pub(super) async fn again(&self, evidence: &mut RuntimeEvidence) {
        (self.progress)("the lists again");
        if let Some(limit) = self.time_for_another(evidence.sandboxes.duration()) {
            let all = Filter::default();
            let list = self.runtime.list_sandboxes(&all);
            evidence.sandboxes.second = Some(bounded(Rpc::ListPodSandbox, limit, list).await);
        }
        if let Some(limit) = self.time_for_another(evidence.containers.duration()) {
            let all = Filter::default();
            let list = self.runtime.list_containers(&all);
            evidence.containers.second = Some(bounded(Rpc::ListContainers, limit, list).await);
        }
    }

    fn time_for_another(&self, first: Option<Duration>) -> Option<Duration> {
        let limit = self.budget.allow(self.inputs.deadlines().list)?;
        (first? * 4 < limit * 3).then_some(limit)
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
