//! Makes one call for each of many ids, a few calls at the same time: status calls for all listed sandboxes and containers
//! (the *status pass*) and for ids that were found outside the CRI, and `ContainerStats` to see whether shims answer.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::ProbeRunner;
use super::pending::{PendingCalls, PendingStatusCalls, SLOT_TIMEOUT};
use crate::clock::Wall;
use crate::cri::{Container, ContainerState, Rpc, Runtime, Sandbox, SandboxState};
use crate::diagnosis::evidence::{ListEvidence, RuntimeEvidence, StatusFacts, StatusRecord, StatusTarget};
use crate::diagnosis::limits;
use crate::diagnosis::names::{IdNames, ItemKind};

/// The kind of call to make for each id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetCall {
    /// The status call that the kubelet makes.
    Status,
    /// `ContainerStats`, which only the shim can answer.
    Stats,
}

impl<R: Runtime + 'static> ProbeRunner<'_, R> {
    /// Makes the kubelet's status calls for every pod: first some calls one at a time, then the others in parallel.
    pub(super) async fn status_pass(&self, evidence: &mut RuntimeEvidence, pending: &mut PendingCalls) {
        let known: BTreeSet<&StatusTarget> =
            evidence.status_calls.iter().map(|record| &record.target).collect();
        let mut targets = targets_of(&evidence.sandboxes, &evidence.containers);
        targets.retain(|target| !known.contains(target) && !pending.status_calls.is_pending(target));
        if targets.is_empty() {
            return;
        }
        (self.progress)("status of every pod");
        let lists_answer = evidence.sandboxes.items().is_some() && evidence.containers.items().is_some();
        let began = self.inputs.clock.mono();
        let rest = if lists_answer {
            self.serial_samples(targets, evidence, &mut pending.status_calls).await
        } else {
            targets
        };
        let samples = evidence.status_calls.iter().filter(|record| record.serial).count();
        let is_quick = samples == limits::SERIAL_SAMPLES
            && self.inputs.clock.mono().since(began) <= limits::SERIAL_QUICK;
        let parallel = if is_quick { limits::PASS_PARALLEL_QUICK } else { limits::PASS_PARALLEL };
        let RuntimeEvidence { sandboxes, containers, status_calls, ids_left_out, .. } = evidence;
        let answers = CallResults { records: status_calls, ids_left_out, sandboxes, containers };
        self.call_each(rest, TargetCall::Status, parallel, &mut pending.status_calls, answers).await;
    }

    /// Makes calls one at a time; their durations are the samples for the estimate. Returns the ids without a call. The
    /// first call that is silent for too long stays pending and ends the sampling.
    async fn serial_samples(
        &self,
        mut targets: Vec<StatusTarget>,
        evidence: &mut RuntimeEvidence,
        status_calls: &mut PendingStatusCalls,
    ) -> Vec<StatusTarget> {
        let rest = targets.split_off(targets.len().min(limits::SERIAL_SAMPLES));
        let clock = &self.inputs.clock;
        let started = clock.mono();
        let phase = limits::SERIAL_PHASE.min(self.inputs.budget / 8);
        let mut left = targets.into_iter();
        loop {
            let patience = phase.saturating_sub(clock.mono().since(started));
            if patience.is_zero() || self.budget.for_new_calls().is_zero() {
                break;
            }
            let Some(target) = left.next() else { break };
            self.start(target, TargetCall::Status, status_calls);
            let Some(mut record) = status_calls.next(&self.budget.listening, patience).await else { break };
            record.serial = !record.is_silent();
            evidence.status_calls.push(record);
        }
        left.chain(rest).collect()
    }

    /// Makes one call for each of `targets`, with `parallel` calls at the same time. A call that is silent for
    /// [`SLOT_TIMEOUT`] stays pending but no longer prevents another call. After too many silent calls, no more calls are
    /// made.
    pub(super) async fn call_each(
        &self,
        targets: Vec<StatusTarget>,
        kind: TargetCall,
        parallel: usize,
        status_calls: &mut PendingStatusCalls,
        answers: CallResults<'_>,
    ) {
        let CallResults { records, ids_left_out, sandboxes, containers } = answers;
        *ids_left_out += targets.len();
        let mut queue = targets.into_iter().peekable();
        // Only a silent call needs the names.
        let names = OnceCell::new();
        let of_lists = || {
            let (sandboxes, containers) = (sandboxes.items(), containers.items());
            IdNames::of_lists(sandboxes.unwrap_or_default(), containers.unwrap_or_default())
        };
        let listening = &self.budget.listening;
        let max_silence = self.inputs.max_silence();
        loop {
            let (mut active, silent) = status_calls.count_by_age(listening.now(), SLOT_TIMEOUT);
            while active < parallel && silent < limits::MAX_SILENT && !self.budget.for_new_calls().is_zero() {
                let Some(target) = queue.next() else { break };
                self.start(target, kind, status_calls);
                active += 1;
                *ids_left_out -= 1;
            }
            let now = listening.now();
            let too_many_silent = queue.peek().is_some() && silent >= limits::MAX_SILENT;
            let age = if active == 0 && too_many_silent { max_silence } else { SLOT_TIMEOUT };
            let Some(limit) = status_calls.next_to_reach(now, age) else { break };
            let limit = limit.min(self.budget.for_new_calls());
            listening.name_silent(&|id| names.get_or_init(of_lists).known_name(id));
            match status_calls.next(listening, limit).await {
                Some(record) => records.push(record),
                None if self.budget.for_new_calls().is_zero() => break,
                None => {}
            }
        }
    }

    fn start(&self, target: StatusTarget, kind: TargetCall, status_calls: &mut PendingStatusCalls) {
        let rpc = match kind {
            TargetCall::Status => target.kind.rpc(),
            TargetCall::Stats => Rpc::ContainerStats,
        };
        let call = make_call(Arc::clone(&self.runtime), target.clone(), kind);
        status_calls.start(&self.budget.listening, Duration::ZERO, target, rpc, call);
    }

    /// Calls `ContainerStats` for every running container, to see whether the shims answer.
    pub(super) async fn shims(&self, evidence: &mut RuntimeEvidence, pending: &mut PendingCalls) {
        (self.progress)("ContainerStats of every running container");
        let running = evidence
            .containers
            .items()
            .into_iter()
            .flatten()
            .filter(|container| container.state == ContainerState::Running)
            .map(|container| StatusTarget { kind: ItemKind::Container, id: container.id.clone() })
            .collect();
        let RuntimeEvidence { sandboxes, containers, shims, ids_left_out, .. } = evidence;
        let answers = CallResults { records: shims, ids_left_out, sandboxes, containers };
        self.call_each(running, TargetCall::Stats, limits::PASS_PARALLEL, &mut pending.shims, answers).await;
    }
}

/// Where [`ProbeRunner::call_each`] stores its results.
pub(super) struct CallResults<'a> {
    pub(super) records: &'a mut Vec<StatusRecord>,
    /// The number of ids for which no call was made.
    pub(super) ids_left_out: &'a mut usize,
    /// The lists, which name the pod of a silent call.
    pub(super) sandboxes: &'a ListEvidence<Sandbox>,
    pub(super) containers: &'a ListEvidence<Container>,
}

/// Returns the ids in the lists: live ones first, then dead ones, each newest first.
fn targets_of(sandboxes: &ListEvidence<Sandbox>, containers: &ListEvidence<Container>) -> Vec<StatusTarget> {
    let mut ranked: Vec<(bool, i64, StatusTarget)> = Vec::new();
    for sandbox in sandboxes.items().into_iter().flatten() {
        let target = StatusTarget { kind: ItemKind::Sandbox, id: sandbox.id.clone() };
        ranked.push((sandbox.state == SandboxState::NotReady, sandbox.created_at.saturating_neg(), target));
    }
    for container in containers.items().into_iter().flatten() {
        let target = StatusTarget { kind: ItemKind::Container, id: container.id.clone() };
        ranked.push((
            container.state == ContainerState::Exited,
            container.created_at.saturating_neg(),
            target,
        ));
    }
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().map(|(_, _, target)| target).collect()
}

/// Makes one call and keeps only the facts of its answer that the rules need.
pub(super) async fn make_call<R: Runtime>(
    runtime: Arc<R>,
    target: StatusTarget,
    kind: TargetCall,
) -> StatusRecord {
    let call = match (kind, target.kind) {
        (TargetCall::Stats, _) => runtime.container_stats(&target.id).await.map(|()| StatusFacts::default()),
        (TargetCall::Status, ItemKind::Sandbox) => {
            runtime.sandbox_status(&target.id).await.map(|answer| StatusFacts {
                present: answer.status.is_some(),
                host_network: answer.status.as_ref().and_then(|status| status.host_network),
                created_at: answer.status.and_then(|status| Wall::known(status.created_at)),
                ..StatusFacts::default()
            })
        }
        (TargetCall::Status, ItemKind::Container) => {
            runtime.container_status(&target.id).await.map(|status| StatusFacts {
                present: status.is_some(),
                created_at: status.as_ref().and_then(|status| Wall::known(status.created_at)),
                started_at: status.as_ref().and_then(|status| Wall::known(status.started_at)),
                finished_at: status.as_ref().and_then(|status| Wall::known(status.finished_at)),
                exit_code: status
                    .filter(|status| status.state == ContainerState::Exited)
                    .map(|status| status.exit_code),
                ..StatusFacts::default()
            })
        }
    };
    StatusRecord::ended(target, call)
}
