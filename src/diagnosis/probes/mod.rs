//! Makes the calls to the runtime, in this order: Version, Status, the two lists, then the status calls for the listed
//! pods. Each call is made once. A call without an answer stays pending, and the other calls are made meanwhile.
//!
//! While a list is pending, it searches ids outside the CRI and makes status calls for them, to find the container that
//! blocks the list.

mod pass;
mod pending;
mod shards;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use self::pass::{CallResults, TargetCall};
pub(super) use self::pending::PendingCalls;
use self::pending::{PendingCall, end_of};
use super::budget::RunBudget;
use super::evidence::{Evidence, ListEvidence, RuntimeEvidence, StatusRecord, StatusTarget, StreamProbe};
use super::id_search;
use super::kubelet::requests::ListMetrics;
use super::names::{ItemKind, OutsideId};
use super::{HealthRun, Inputs, limits};
pub use crate::cri::WaitEnd as CallEnd;
use crate::cri::{
    Call, Container, ContainerState, Error, Filter, Rpc, Runtime, Sandbox, SandboxState, Version,
};
use crate::kubelet::{KubeletLists, KubeletVersion, ListCalls, ListCallsSource, ListSigns};
use crate::panics::catch_panic_async;

/// Waits for `call` no longer than `limit` and then gives it up as silent. Use it only for a call whose silence no rule
/// judges: it does not use the listening clock.
pub(super) async fn bounded<T>(rpc: Rpc, limit: Duration, call: impl Future<Output = Call<T>>) -> Call<T> {
    match tokio::time::timeout(limit, catch_panic_async(call)).await {
        Ok(Ok(call)) => call,
        Ok(Err(detail)) => failed(rpc, Duration::ZERO, Error::Internal { rpc, detail }),
        Err(_) => not_answered(rpc, limit),
    }
}

/// A call that the caller of this run has made and still waits for. The run does not repeat it.
#[derive(Clone, Debug)]
pub struct CallersPendingCall {
    /// The call.
    pub rpc: Rpc,
    /// The id of its sandbox or container, if it has one.
    pub id: Option<String>,
    /// How long it has been pending.
    pub waited: Duration,
    /// The outcome of the call, once it has ended.
    pub ended: Option<watch::Receiver<Option<CallEnd>>>,
}

/// A call that the caller of this run gave up without an answer. The run reports it and does not repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallersAbandonedCall {
    /// The call.
    pub rpc: Rpc,
    /// The id of its sandbox or container, if it had one.
    pub id: Option<String>,
    /// How long it was silent.
    pub waited: Duration,
}

/// Returns the sandbox or container of a status call.
fn target_of(rpc: Rpc, id: Option<&String>) -> Option<StatusTarget> {
    let kind = match rpc {
        Rpc::PodSandboxStatus => ItemKind::Sandbox,
        Rpc::ContainerStatus => ItemKind::Container,
        _ => return None,
    };
    Some(StatusTarget { kind, id: id?.clone() })
}

/// Returns the calls to `rpc` that the caller of this run has pending. The caller may list with other calls.
fn callers_pending<R>(inputs: &Inputs<R>, rpc: Rpc) -> impl Iterator<Item = &CallersPendingCall> {
    inputs.callers_pending.iter().filter(move |known| known.rpc.unary() == rpc.unary())
}

/// Starts a call. If the caller of this run waits for the same call (`known`), the new call is made only after the
/// caller's call was answered, and takes over its duration.
fn start_call<T: Send + 'static>(
    budget: &RunBudget,
    known: Option<&CallersPendingCall>,
    rpc: Rpc,
    call: impl Future<Output = Call<T>> + Send + 'static,
) -> PendingCall<T> {
    let listening = &budget.listening;
    let Some(known) = known else { return PendingCall::start(listening, Duration::ZERO, rpc, call) };
    let ended = known.ended.clone();
    let call = async move {
        match end_of_callers_call(ended).await {
            CallEnd::Answered(took) => Call { duration: took, ..call.await },
            CallEnd::GivenUp(waited) => not_answered(rpc, waited),
        }
    };
    PendingCall::start(listening, known.waited, rpc, call)
}

/// Waits until the caller's call has ended, and returns its outcome. Waits for ever if the caller does not report an
/// outcome.
async fn end_of_callers_call(ended: Option<watch::Receiver<Option<CallEnd>>>) -> CallEnd {
    let Some(mut ended) = ended else { return std::future::pending().await };
    let outcome = ended.wait_for(Option::is_some).await.map(|outcome| *outcome);
    match outcome {
        Ok(Some(outcome)) => outcome,
        _ => std::future::pending().await,
    }
}

/// Creates the outcome of a call that was silent for `waited`.
const fn not_answered<T>(rpc: Rpc, waited: Duration) -> Call<T> {
    failed(rpc, waited, Error::Silent { rpc, waited })
}

/// Creates the outcome of a call that ended with an error.
const fn failed<T>(rpc: Rpc, duration: Duration, why: Error) -> Call<T> {
    Call { rpc, duration, response_bytes: 0, stream: None, result: Err(why) }
}

/// Makes all calls to the runtime. It stores answers, ids found outside the CRI and pending calls in its arguments, so that
/// they remain if the run ends early and drops this future.
pub(super) async fn make_calls<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &mut RuntimeEvidence,
    outside: &mut Vec<OutsideId>,
    pending: &mut PendingCalls,
    metrics: watch::Receiver<Option<ListMetrics>>,
) {
    let Some(runtime) = connect(run, evidence, pending).await else {
        return;
    };
    let HealthRun { inputs, budget, progress } = run;
    let runner = ProbeRunner { runtime, inputs, budget, progress };
    runner.add_callers_calls(pending);
    runner.record_abandoned_calls(evidence);
    runner.start_status(pending);
    let lists = runner.choose_lists(metrics).await;
    inputs.runtime.list_with(lists.calls);
    inputs.control.list_with(lists.calls);
    evidence.lists_by = Some(lists);
    runner.lists(evidence, outside, pending).await;
    pending.store_outcomes(budget, evidence).await;
    budget.reserve_for_entries(evidence.sandboxes.items().map_or(0, <[_]>::len));
    budget.reserve_for_entries(evidence.containers.items().map_or(0, <[_]>::len));
    runner.shards(evidence).await;
    runner.status_pass(evidence, pending).await;
    runner.filtered_pair(evidence).await;
    if inputs.probe_shims {
        runner.shims(evidence, pending).await;
    }
}

/// Calls Version. If no answer comes soon, calls Version also on the second connection; this is the only call that is made
/// twice. Returns the connection that answers first. The other call stays pending.
async fn connect<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &mut RuntimeEvidence,
    pending: &mut PendingCalls,
) -> Option<Arc<R>> {
    let HealthRun { inputs, budget, progress } = run;
    if budget.for_new_calls().is_zero() {
        return None;
    }
    progress("Version");
    let mut callers_calls = callers_pending(inputs, Rpc::Version);
    let first = callers_calls.next();
    pending.version = Some(start_version(budget, first, &inputs.runtime));
    let soon = match first {
        Some(_) if inputs.is_recorded() => Duration::ZERO,
        known => {
            let waited = known.map_or(Duration::ZERO, |known| known.waited);
            limits::VERSION_SOON.min(inputs.budget / 4).saturating_sub(waited)
        }
    };
    if let Some(ended) = end_of(&mut pending.version, soon).await {
        let answered = ended.result.is_ok();
        evidence.version = Some(ended);
        return answered.then(|| Arc::clone(&inputs.runtime));
    }
    progress("Version on a second connection");
    let second = callers_calls.next();
    // A capture contains only the calls that were made at that time.
    if second.is_some() || !inputs.is_recorded() {
        pending.control = Some(start_version(budget, second, &inputs.control));
    }
    let limit = inputs.max_silence().min(budget.for_new_calls());
    let limit = if inputs.is_recorded() { Duration::ZERO } else { limit };
    let chosen = tokio::select! {
        Some(ended) = end_of(&mut pending.version, limit) => {
            let answered = ended.result.is_ok();
            evidence.version = Some(ended);
            answered.then(|| Arc::clone(&inputs.runtime))
        }
        Some(ended) = end_of(&mut pending.control, limit) => {
            let answered = ended.result.is_ok();
            evidence.control = Some(ended);
            answered.then(|| Arc::clone(&inputs.control))
        }
        else => None,
    };
    pending.store_outcomes(budget, evidence).await;
    chosen
}

fn start_version<R: Runtime + 'static>(
    budget: &RunBudget,
    known: Option<&CallersPendingCall>,
    runtime: &Arc<R>,
) -> PendingCall<Version> {
    let runtime = Arc::clone(runtime);
    start_call(budget, known, Rpc::Version, async move { runtime.version().await })
}

/// Makes the calls after Version, on the connection that answered.
struct ProbeRunner<'a, R> {
    runtime: Arc<R>,
    inputs: &'a Inputs<R>,
    budget: &'a RunBudget,
    progress: super::OnProbe<'a>,
}

impl<R: Runtime + 'static> ProbeRunner<'_, R> {
    /// Chooses the list calls: those that the user wants, those of the recorder, or those of the kubelet, as far as something
    /// shows them.
    async fn choose_lists(&self, mut metrics: watch::Receiver<Option<ListMetrics>>) -> KubeletLists {
        let inputs = self.inputs;
        if let Some(calls) = inputs.wanted_lists {
            return KubeletLists { calls, source: ListCallsSource::Option };
        }
        if inputs.is_recorded() {
            let calls = self.runtime.list_calls();
            return KubeletLists { calls, source: ListCallsSource::Capture };
        }
        let lists = |shown: ListMetrics| {
            let release = inputs.kubelet.version.or(shown.release).or(inputs.program_release);
            KubeletLists::of(ListSigns {
                release: release.unwrap_or(KubeletVersion::CONFIRMED),
                gates: &inputs.list_gates,
                gauge: shown.streams,
                logged_fallback: false,
            })
        };
        let by_settings = lists(ListMetrics::default());
        let is_known = inputs.kubelet.version.or(inputs.program_release).is_some();
        if is_known && !by_settings.may_differ() {
            return by_settings;
        }
        let limit = limits::LIST_METRICS_WAIT.min(self.budget.for_new_calls() / 8);
        let shown = tokio::time::timeout(limit, metrics.wait_for(Option::is_some)).await;
        let shown = shown.ok().and_then(Result::ok).and_then(|shown| *shown);
        shown.map_or(by_settings, lists)
    }

    fn start_status(&self, pending: &mut PendingCalls) {
        (self.progress)("Status");
        let runtime = Arc::clone(&self.runtime);
        let call = async move { runtime.status().await };
        let known = callers_pending(self.inputs, Rpc::Status).next();
        pending.status = Some(start_call(self.budget, known, Rpc::Status, call));
    }

    /// Adds the status calls for which the caller of this run waits, with their age.
    fn add_callers_calls(&self, pending: &mut PendingCalls) {
        for known in &self.inputs.callers_pending {
            let target = target_of(known.rpc, known.id.as_ref());
            let Some(target) = target.filter(|target| !pending.status_calls.is_pending(target)) else {
                continue;
            };
            let ended = known.ended.clone();
            let own_call = pass::make_call(Arc::clone(&self.runtime), target.clone(), TargetCall::Status);
            let (rpc, about) = (known.rpc, target.clone());
            let call = async move {
                match end_of_callers_call(ended).await {
                    CallEnd::Answered(took) => StatusRecord { duration: took, ..own_call.await },
                    CallEnd::GivenUp(waited) => StatusRecord::ended(about, not_answered(rpc, waited)),
                }
            };
            let listening = &self.budget.listening;
            pending.status_calls.start(listening, known.waited, target, known.rpc, call);
        }
    }

    /// Records the status calls that the caller of this run gave up, so that they are not repeated.
    fn record_abandoned_calls(&self, evidence: &mut RuntimeEvidence) {
        let records = self.inputs.callers_abandoned.iter().filter_map(|abandoned| {
            let target = target_of(abandoned.rpc, abandoned.id.as_ref())?;
            Some(StatusRecord::ended(target, not_answered(abandoned.rpc, abandoned.waited)))
        });
        evidence.status_calls.extend(records);
    }

    /// Returns the outcome of a list call that the caller of this run gave up, and that is therefore not repeated.
    fn abandoned_list<T>(&self, rpc: Rpc) -> Option<Call<T>> {
        let abandoned = self
            .inputs
            .callers_abandoned
            .iter()
            .find(|abandoned| abandoned.rpc.unary() == rpc && abandoned.id.is_none())?;
        Some(not_answered(abandoned.rpc, abandoned.waited))
    }

    /// Starts a list call, after the caller's own list call if the caller waits for one.
    fn list<T: Send + 'static>(
        &self,
        rpc: Rpc,
        call: impl Future<Output = Call<T>> + Send + 'static,
    ) -> PendingCall<T> {
        let known = callers_pending(self.inputs, rpc).next();
        if known.is_none() {
            (self.progress)(rpc.name());
        }
        start_call(self.budget, known, known.map_or(rpc, |known| known.rpc), call)
    }

    fn list_sandboxes(&self) -> PendingCall<Vec<Sandbox>> {
        let runtime = Arc::clone(&self.runtime);
        let [rpc, _] = runtime.list_rpcs();
        self.list(rpc, async move { runtime.list_sandboxes(&Filter::default()).await })
    }

    fn list_containers(&self) -> PendingCall<Vec<Container>> {
        let runtime = Arc::clone(&self.runtime);
        let [_, rpc] = runtime.list_rpcs();
        self.list(rpc, async move { runtime.list_containers(&Filter::default()).await })
    }

    /// Lists with the unary calls from now on if the runtime does not implement a streaming one, as a kubelet does. Returns
    /// whether the list has to be made again.
    fn falls_back<T>(&self, answer: Option<&Call<T>>, lists_by: &mut Option<KubeletLists>) -> bool {
        let refused = answer.and_then(|call| call.result.as_ref().err());
        let falls_back = matches!(refused, Some(Error::Unimplemented { rpc, .. }) if rpc.is_streamed_list());
        if falls_back {
            self.inputs.runtime.list_with(ListCalls::Unary);
            self.inputs.control.list_with(ListCalls::Unary);
            *lists_by = Some(KubeletLists { calls: ListCalls::Unary, source: ListCallsSource::Refused });
        }
        falls_back
    }

    /// Makes the two list calls one after the other, as the kubelet does. If the first is silent, the second is made
    /// nevertheless. While a list is pending, this calls Version on the second connection and searches ids outside the
    /// CRI. The answer of a late list is still used.
    async fn lists(
        &self,
        evidence: &mut RuntimeEvidence,
        outside: &mut Vec<OutsideId>,
        pending: &mut PendingCalls,
    ) {
        if self.budget.for_new_calls().is_zero() {
            return;
        }
        let soon = limits::ID_SEARCH_AFTER.min(self.inputs.budget / 8);
        evidence.sandboxes.first = self.abandoned_list(Rpc::ListPodSandbox);
        if evidence.sandboxes.first.is_none() {
            pending.sandboxes = Some(self.list_sandboxes());
            evidence.sandboxes.first = self.unless_silent(&mut pending.sandboxes, soon).await;
        }
        if self.falls_back(evidence.sandboxes.first.as_ref(), &mut evidence.lists_by) {
            pending.sandboxes = Some(self.list_sandboxes());
            evidence.sandboxes.first = self.unless_silent(&mut pending.sandboxes, soon).await;
        }
        if self.budget.for_new_calls().is_zero() {
            return;
        }
        evidence.containers.first = self.abandoned_list(Rpc::ListContainers);
        if evidence.containers.first.is_none() {
            pending.containers = Some(self.list_containers());
            evidence.containers.first = self.unless_silent(&mut pending.containers, soon).await;
        }
        if self.falls_back(evidence.containers.first.as_ref(), &mut evidence.lists_by) {
            pending.containers = Some(self.list_containers());
            evidence.containers.first = self.unless_silent(&mut pending.containers, soon).await;
        }
        if evidence.sandboxes.has_ended() && evidence.containers.has_ended() {
            return;
        }
        let listed =
            (evidence.sandboxes.items().map(<[_]>::to_vec), evidence.containers.items().map(<[_]>::to_vec));
        let RuntimeEvidence {
            sandboxes, containers, control, status_calls, ids_left_out, outside_ids, ..
        } = evidence;
        let none = (ListEvidence::default(), ListEvidence::default());
        let id_search = async {
            let answers =
                CallResults { records: status_calls, ids_left_out, sandboxes: &none.0, containers: &none.1 };
            self.id_search(listed, outside, &mut pending.status_calls, answers).await;
            *outside_ids = outside.len();
        };
        tokio::join!(
            self.second_version(control, &mut pending.control),
            id_search,
            self.wait_for_list(&mut sandboxes.first, &mut pending.sandboxes),
            self.wait_for_list(&mut containers.first, &mut pending.containers),
        );
    }

    /// Returns the answer of a list, or `None` after a silence of `soon`. While bytes of the answer arrive, the list is
    /// large, not silent.
    async fn unless_silent<T: Send + 'static>(
        &self,
        call: &mut Option<PendingCall<T>>,
        soon: Duration,
    ) -> Option<Call<T>> {
        loop {
            if self.inputs.is_recorded() && call.as_ref()?.is_callers() {
                return None;
            }
            let left = soon.saturating_sub(call.as_ref()?.silent_for()).min(self.budget.for_new_calls());
            if left.is_zero() {
                return None;
            }
            if let Some(ended) = end_of(call, left).await {
                return Some(ended);
            }
        }
    }

    /// Waits for the answer of a list until it is certain that the list hangs.
    async fn wait_for_list<T: Send + 'static>(
        &self,
        done: &mut Option<Call<T>>,
        call: &mut Option<PendingCall<T>>,
    ) {
        let max_silence = self.inputs.max_silence();
        while done.is_none() && !self.inputs.is_recorded() {
            let waited = call.as_ref().map_or(max_silence, PendingCall::waited);
            let left = max_silence.saturating_sub(waited);
            let limit = left.min(self.budget.for_new_calls());
            if limit.is_zero() {
                return;
            }
            *done = end_of(call, limit).await;
        }
    }

    /// Calls Version on the second connection while a list is pending.
    async fn second_version(
        &self,
        done: &mut Option<Call<Version>>,
        call: &mut Option<PendingCall<Version>>,
    ) {
        if done.is_some() || call.is_some() || self.budget.for_new_calls().is_zero() {
            return;
        }
        (self.progress)("Version while a list is pending");
        let known = callers_pending(self.inputs, Rpc::Version).next();
        *call = Some(start_version(self.budget, known, &self.inputs.control));
        if self.inputs.is_recorded() && known.is_some() {
            return;
        }
        *done = end_of(call, limits::VERSION_SOON.min(self.budget.for_new_calls())).await;
    }

    /// Makes status calls for every id that is known without the pending list.
    async fn id_search(
        &self,
        (sandboxes, containers): (Option<Vec<Sandbox>>, Option<Vec<Container>>),
        outside: &mut Vec<OutsideId>,
        status_calls: &mut pending::PendingStatusCalls,
        answers: CallResults<'_>,
    ) {
        (self.progress)("ids from outside the CRI");
        *outside = match &self.inputs.outside {
            Some(known) => known.clone(),
            None => {
                id_search::collect(&self.inputs.host_root, self.inputs.proc.as_deref(), self.budget).await
            }
        };
        let mut targets: BTreeSet<StatusTarget> = BTreeSet::new();
        let mut add = |kind, id: &str| {
            targets.insert(StatusTarget { kind, id: id.to_owned() });
        };
        let listed: BTreeSet<&str> = sandboxes.iter().flatten().map(|sandbox| sandbox.id.as_str()).collect();
        if containers.is_none() {
            for found in outside.iter().filter(|found| found.kind != Some(ItemKind::Sandbox)) {
                if !listed.contains(found.id.as_str()) {
                    add(ItemKind::Container, &found.id);
                }
            }
        }
        if sandboxes.is_none() {
            for container in containers.iter().flatten() {
                add(ItemKind::Sandbox, &container.sandbox_id);
            }
            for found in outside.iter().filter(|found| found.kind == Some(ItemKind::Sandbox)) {
                add(ItemKind::Sandbox, &found.id);
            }
            for sandbox in outside.iter().filter_map(|found| found.sandbox_id.as_deref()) {
                add(ItemKind::Sandbox, sandbox);
            }
        }
        targets.retain(|target| {
            !status_calls.is_pending(target) && !answers.records.iter().any(|record| record.target == *target)
        });
        let targets = targets.into_iter().collect();
        self.call_each(targets, TargetCall::Status, limits::ID_SEARCH_PARALLEL, status_calls, answers).await;
    }

    /// Measures the two list calls with a filter for one pod. Kubelets before 1.36 make this pair for each changed pod.
    async fn filtered_pair(&self, evidence: &mut RuntimeEvidence) {
        // A filter saves bytes, not work: if the whole list is slow, a filtered list is slow too.
        let quick = |took: Option<Duration>| took.is_some_and(|took| took < limits::LIST_SLOW);
        let lists_are_quick = quick(evidence.sandboxes.duration()) && quick(evidence.containers.duration());
        let Some(uid) = evidence.pod_uids().first().map(|uid| (*uid).to_owned()) else {
            return;
        };
        let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
            return;
        };
        if !lists_are_quick {
            return;
        }
        let [sandboxes_by, containers_by] = self.runtime.list_rpcs();
        let sandboxes = Filter::<SandboxState>::pod(&uid);
        let first = bounded(sandboxes_by, limit, self.runtime.list_sandboxes(&sandboxes)).await;
        if first.result.is_err() {
            return;
        }
        let containers = Filter::<ContainerState>::pod(&uid);
        let second = bounded(containers_by, limit, self.runtime.list_containers(&containers)).await;
        if second.result.is_ok() {
            evidence.filtered_pair = Some(first.duration + second.duration);
        }
    }
}

/// Makes the list calls a second time. A list whose first answer was too slow for the remaining time is left out.
pub(super) async fn make_second_lists<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &mut RuntimeEvidence,
) {
    (run.progress)("the lists again");
    let main_answers = evidence.version.as_ref().is_some_and(|call| call.result.is_ok());
    let runtime = if main_answers { &run.inputs.runtime } else { &run.inputs.control };
    let [sandboxes_by, containers_by] = runtime.list_rpcs();
    let limit = |first: Option<Duration>| {
        let limit = run.budget.allow(run.inputs.deadlines().list)?;
        (first? * 4 < limit * 3).then_some(limit)
    };
    if let Some(limit) = limit(evidence.sandboxes.duration()) {
        let all = Filter::default();
        let call = runtime.list_sandboxes(&all);
        evidence.sandboxes.second = Some(bounded(sandboxes_by, limit, call).await);
    }
    if let Some(limit) = limit(evidence.containers.duration()) {
        let all = Filter::default();
        let call = runtime.list_containers(&all);
        evidence.containers.second = Some(bounded(containers_by, limit, call).await);
    }
}

/// Lists with a stream, if the kubelet fell back to unary lists and a list is so large that this matters: only this shows whether
/// the runtime implements the stream, and how large its messages are.
pub(super) async fn probe_stream<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> Option<StreamProbe> {
    if run.inputs.is_recorded() || !evidence.fallback_matters() {
        return None;
    }
    let measured = evidence.runtime.streamed_lists().max_by_key(|(_, answer)| answer.largest_message_bytes);
    if let Some((rpc, answer)) = measured {
        return Some(StreamProbe { rpc, answer });
    }
    let limit = run.budget.allow(run.inputs.deadlines().list)?;
    let main_answers = evidence.runtime.version.as_ref().is_some_and(|call| call.result.is_ok());
    let runtime = if main_answers { &run.inputs.runtime } else { &run.inputs.control };
    (run.progress)("a streamed list");
    let before = runtime.list_calls();
    runtime.list_with(ListCalls::Stream);
    let [rpc, _] = runtime.list_rpcs();
    let (of_sandboxes, of_containers) = (&evidence.runtime.sandboxes, &evidence.runtime.containers);
    let size = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
    let sandboxes_are_larger = size(of_sandboxes.bytes()) > size(of_containers.bytes());
    let answer = if sandboxes_are_larger {
        bounded(rpc, limit, runtime.list_sandboxes(&Filter::default())).await.map(|_| ())
    } else {
        let [_, rpc] = runtime.list_rpcs();
        bounded(rpc, limit, runtime.list_containers(&Filter::default())).await.map(|_| ())
    };
    runtime.list_with(before);
    answer.result.ok()?;
    Some(StreamProbe { rpc: answer.rpc, answer: answer.stream? })
}
