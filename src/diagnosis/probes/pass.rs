//! Many calls, some at a time: the kubelet's status calls for every pod, and those of the hunt.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Asker, KnownHang, bounded};
use crate::clock::Wall;
use crate::cri::{Call, Container, ContainerState, Rpc, Runtime, Sandbox, SandboxState};
use crate::diagnosis::evidence::{Kind, ListEvidence, RuntimeEvidence, StatusFacts, StatusRecord, Target};
use crate::diagnosis::limits;

/// What to ask of each id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Its status, as the kubelet does.
    Status,
    /// Its usage, which only its shim knows.
    Stats,
}

impl<R: Runtime + 'static> Asker<'_, R> {
    /// The kubelet's status calls for every pod, first some one at a time, then the rest side by side.
    pub(super) async fn pass(&self, evidence: &mut RuntimeEvidence) {
        evidence.asked.extend(self.inputs.known.as_ref().and_then(KnownHang::as_status));
        let asked: BTreeSet<&Target> = evidence.asked.iter().map(|record| &record.target).collect();
        let mut targets = targets_of(&evidence.sandboxes, &evidence.containers);
        targets.retain(|target| !asked.contains(target));
        if targets.is_empty() {
            return;
        }
        (self.progress)("the status pass");
        let (rest, pending) = if evidence.hung_lists().is_empty() {
            self.serial(targets, evidence).await
        } else {
            (targets, JoinSet::new())
        };
        let answers = self.ask_each(rest, Question::Status, limits::PASS_PARALLEL, pending).await;
        evidence.asked.extend(answers.records);
        evidence.unasked += answers.unasked;
    }

    /// Samples for the estimate, taken while nothing else is asked. The first one that keeps us waiting stays in
    /// flight and ends the sampling.
    async fn serial(
        &self,
        mut targets: Vec<Target>,
        evidence: &mut RuntimeEvidence,
    ) -> (Vec<Target>, JoinSet<StatusRecord>) {
        let rest = targets.split_off(targets.len().min(limits::SERIAL_SAMPLES));
        let started = self.inputs.clock.mono();
        let mut left = targets.into_iter();
        let mut pending = JoinSet::new();
        loop {
            let patience = limits::SERIAL_PHASE.saturating_sub(self.inputs.clock.mono().since(started));
            let Some(limit) = self.budget.allow(self.inputs.deadlines().call) else {
                break;
            };
            if patience.is_zero() {
                break;
            }
            let Some(target) = left.next() else { break };
            pending.spawn(ask(Arc::clone(&self.runtime), target, Question::Status, limit));
            match tokio::time::timeout(patience, pending.join_next()).await {
                Ok(Some(Ok(mut record))) => {
                    record.serial = !record.is_silent();
                    evidence.asked.push(record);
                }
                Ok(_) => evidence.unasked += 1,
                Err(_) => break,
            }
        }
        (left.chain(rest).collect(), pending)
    }

    pub(super) async fn ask_each(
        &self,
        targets: Vec<Target>,
        question: Question,
        parallel: usize,
        mut pending: JoinSet<StatusRecord>,
    ) -> Answers {
        let mut answers = Answers::default();
        let mut queue = targets.into_iter();
        let mut silent = 0;
        loop {
            while pending.len() < parallel && silent < limits::MAX_SILENT {
                let Some(limit) = self.budget.allow(self.inputs.deadlines().call) else {
                    break;
                };
                let Some(target) = queue.next() else { break };
                pending.spawn(ask(Arc::clone(&self.runtime), target, question, limit));
            }
            match pending.join_next().await {
                Some(Ok(record)) => {
                    silent += usize::from(record.is_silent());
                    answers.records.push(record);
                }
                Some(Err(_)) => answers.unasked += 1,
                None => break,
            }
        }
        answers.unasked += queue.count();
        answers
    }

    /// Whether the shims answer.
    pub(super) async fn shims(&self, evidence: &mut RuntimeEvidence) {
        (self.progress)("ContainerStats of every running container");
        let running = evidence
            .containers
            .items()
            .into_iter()
            .flatten()
            .filter(|container| container.state == ContainerState::Running)
            .map(|container| Target { kind: Kind::Container, id: container.id.clone() })
            .collect();
        let answers = self.ask_each(running, Question::Stats, limits::PASS_PARALLEL, JoinSet::new()).await;
        evidence.shims = answers.records;
        evidence.unasked += answers.unasked;
    }
}

/// What a round of calls came to.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) records: Vec<StatusRecord>,
    pub(super) unasked: usize,
}

/// What lives first, what is dead after it, each newest first.
fn targets_of(sandboxes: &ListEvidence<Sandbox>, containers: &ListEvidence<Container>) -> Vec<Target> {
    let mut ranked: Vec<(bool, i64, Target)> = Vec::new();
    for sandbox in sandboxes.items().into_iter().flatten() {
        let target = Target { kind: Kind::Sandbox, id: sandbox.id.clone() };
        ranked.push((sandbox.state == SandboxState::NotReady, sandbox.created_at.saturating_neg(), target));
    }
    for container in containers.items().into_iter().flatten() {
        let target = Target { kind: Kind::Container, id: container.id.clone() };
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

async fn ask<R: Runtime>(
    runtime: Arc<R>,
    target: Target,
    question: Question,
    limit: Duration,
) -> StatusRecord {
    let rpc = target.kind.rpc();
    let call = match (question, target.kind) {
        (Question::Stats, _) => {
            let call = runtime.container_stats(&target.id);
            bounded(Rpc::ContainerStats, limit, call).await.map(|()| StatusFacts::default())
        }
        (Question::Status, Kind::Sandbox) => {
            bounded(rpc, limit, runtime.sandbox_status(&target.id)).await.map(|answer| StatusFacts {
                present: answer.status.is_some(),
                created_at: answer.status.and_then(|status| Wall::known(status.created_at)),
                finished_at: None,
            })
        }
        (Question::Status, Kind::Container) => {
            bounded(rpc, limit, runtime.container_status(&target.id)).await.map(|status| StatusFacts {
                present: status.is_some(),
                created_at: status.as_ref().and_then(|status| Wall::known(status.created_at)),
                finished_at: status.and_then(|status| Wall::known(status.finished_at)),
            })
        }
    };
    record(target, call)
}

fn record(target: Target, call: Call<StatusFacts>) -> StatusRecord {
    StatusRecord {
        target,
        rpc: call.rpc,
        duration: call.duration,
        response_bytes: call.response_bytes,
        result: call.result,
        serial: false,
    }
}
