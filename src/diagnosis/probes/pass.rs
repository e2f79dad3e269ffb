//! Makes many status calls, a few at a time: for every listed pod, and for ids that were found outside the
//! CRI.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ProbeRunner;
use super::pending::{PendingCalls, PendingStatusCalls, SLOT_TIMEOUT};
use crate::clock::Wall;
use crate::cri::{Call, Container, ContainerState, Rpc, Runtime, Sandbox, SandboxState};
use crate::diagnosis::evidence::{ListEvidence, RuntimeEvidence, StatusFacts, StatusRecord, StatusTarget};
use crate::diagnosis::limits;
use crate::diagnosis::names::ItemKind;

/// The call to make for each id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The status call that the kubelet makes.
    Status,
    /// `ContainerStats`, which only the shim can answer.
    Stats,
}

impl<R: Runtime + 'static> ProbeRunner<'_, R> {
    /// Makes the kubelet's status calls for every pod: first some one at a time, then the rest in parallel.
    pub(super) async fn pass(&self, evidence: &mut RuntimeEvidence, pending: &mut PendingCalls) {
        let known: BTreeSet<&StatusTarget> =
            evidence.status_calls.iter().map(|record| &record.target).collect();
        let mut targets = targets_of(&evidence.sandboxes, &evidence.containers);
        targets.retain(|target| !known.contains(target) && !pending.status_calls.is_pending(target));
        if targets.is_empty() {
            return;
        }
        (self.progress)("the status pass");
        let lists_answer = evidence.sandboxes.items().is_some() && evidence.containers.items().is_some();
        let rest = if lists_answer {
            self.serial(targets, evidence, &mut pending.status_calls).await
        } else {
            targets
        };
        let answers =
            CallResults { records: &mut evidence.status_calls, ids_left_out: &mut evidence.ids_left_out };
        self.call_each(rest, Question::Status, limits::PASS_PARALLEL, &mut pending.status_calls, answers)
            .await;
    }

    /// Takes the samples for the estimate, without parallel calls. The first call that is silent for too long
    /// stays pending and ends the sampling.
    async fn serial(
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
            if patience.is_zero() || self.budget.for_asking().is_zero() {
                break;
            }
            let Some(target) = left.next() else { break };
            self.start(target, Question::Status, status_calls);
            let Some(mut record) = status_calls.next(&self.budget.listening, patience).await else { break };
            record.serial = !record.is_silent();
            evidence.status_calls.push(record);
        }
        left.chain(rest).collect()
    }

    /// Makes one call for each of `targets`, a few in parallel. A silent call stays pending and lets the next
    /// one start; after too many silent calls no further ones are made.
    pub(super) async fn call_each(
        &self,
        targets: Vec<StatusTarget>,
        question: Question,
        parallel: usize,
        status_calls: &mut PendingStatusCalls,
        answers: CallResults<'_>,
    ) {
        let CallResults { records, ids_left_out } = answers;
        *ids_left_out += targets.len();
        let mut queue = targets.into_iter().peekable();
        let listening = &self.budget.listening;
        let enough = self.inputs.enough();
        loop {
            let (mut holding, waiting) = status_calls.count_by_age(listening.now(), SLOT_TIMEOUT);
            while holding < parallel && waiting < limits::MAX_SILENT && !self.budget.for_asking().is_zero() {
                let Some(target) = queue.next() else { break };
                self.start(target, question, status_calls);
                holding += 1;
                *ids_left_out -= 1;
            }
            let now = listening.now();
            let full = queue.peek().is_some() && waiting >= limits::MAX_SILENT;
            let age = if holding == 0 && full { enough } else { SLOT_TIMEOUT };
            let Some(limit) = status_calls.next_to_reach(now, age) else { break };
            let limit = limit.min(self.budget.for_asking());
            match status_calls.next(listening, limit).await {
                Some(record) => records.push(record),
                None if self.budget.for_asking().is_zero() => break,
                None => {}
            }
        }
    }

    fn start(&self, target: StatusTarget, question: Question, status_calls: &mut PendingStatusCalls) {
        let rpc = match question {
            Question::Status => target.kind.rpc(),
            Question::Stats => Rpc::ContainerStats,
        };
        let call = make_call(Arc::clone(&self.runtime), target.clone(), question);
        status_calls.start(&self.budget.listening, target, rpc, call);
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
        let answers = CallResults { records: &mut evidence.shims, ids_left_out: &mut evidence.ids_left_out };
        self.call_each(running, Question::Stats, limits::PASS_PARALLEL, &mut pending.shims, answers).await;
    }
}

/// Where the results of a round of calls are stored, and how many calls have not been made so far.
pub(super) struct CallResults<'a> {
    pub(super) records: &'a mut Vec<StatusRecord>,
    pub(super) ids_left_out: &'a mut usize,
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
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().map(|(_, _, target)| target).collect()
}

pub(super) async fn make_call<R: Runtime>(
    runtime: Arc<R>,
    target: StatusTarget,
    question: Question,
) -> StatusRecord {
    let call = match (question, target.kind) {
        (Question::Stats, _) => runtime.container_stats(&target.id).await.map(|()| StatusFacts::default()),
        (Question::Status, ItemKind::Sandbox) => {
            runtime.sandbox_status(&target.id).await.map(|answer| StatusFacts {
                present: answer.status.is_some(),
                created_at: answer.status.and_then(|status| Wall::known(status.created_at)),
                ..StatusFacts::default()
            })
        }
        (Question::Status, ItemKind::Container) => {
            runtime.container_status(&target.id).await.map(|status| StatusFacts {
                present: status.is_some(),
                created_at: status.as_ref().and_then(|status| Wall::known(status.created_at)),
                started_at: status.as_ref().and_then(|status| Wall::known(status.started_at)),
                finished_at: status.as_ref().and_then(|status| Wall::known(status.finished_at)),
                exit_code: status
                    .filter(|status| status.state == ContainerState::Exited)
                    .map(|status| status.exit_code),
            })
        }
    };
    record(target, call)
}

fn record(target: StatusTarget, call: Call<StatusFacts>) -> StatusRecord {
    StatusRecord {
        target,
        rpc: call.rpc,
        duration: call.duration,
        response_bytes: call.response_bytes,
        result: call.result,
        serial: false,
        pending: false,
    }
}
