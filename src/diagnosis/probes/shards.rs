//! Divides a list call into several calls (*shards*) if the runtime refused the list as too large for one message. It
//! makes one list call for each state. If the list of one state is still too large, it makes one list call for each
//! namespace in this state. It adds up counts over all answers, and keeps the items of the first answers, so that dead ones
//! can be named.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use super::{ProbeRunner, bounded};
use crate::cri::{
    Call, Container, ContainerState, Error, Filter, Rpc, Runtime, Sandbox, SandboxState, label,
};
use crate::diagnosis::evidence::{RuntimeEvidence, Shards};
use crate::diagnosis::id_search;

/// The size of the answers whose items are kept: two whole messages.
const MAX_KEPT_BYTES: u64 = 32 << 20;

impl<R: Runtime + 'static> ProbeRunner<'_, R> {
    /// Fetches in parts each list that the runtime refused because of its size.
    pub(super) async fn shards(&self, evidence: &mut RuntimeEvidence) {
        if is_too_large(evidence.sandboxes.error()) {
            let (shards, items) = self.sandbox_shards().await;
            (evidence.sandboxes.shards, evidence.sandboxes.in_parts) = (Some(shards), items);
        }
        if is_too_large(evidence.containers.error()) {
            let sandboxes = evidence.sandboxes.items().into_iter().flatten();
            let namespaces =
                sandboxes.filter_map(|sandbox| Some(sandbox.metadata.as_ref()?.namespace.clone()));
            let (shards, items) = self.container_shards(namespaces.collect()).await;
            (evidence.containers.shards, evidence.containers.in_parts) = (Some(shards), items);
        }
    }

    async fn sandbox_shards(&self) -> (Shards, Vec<Sandbox>) {
        let runtime = Arc::clone(&self.runtime);
        let list = move |filter: Filter<SandboxState>| {
            let runtime = Arc::clone(&runtime);
            async move { runtime.list_sandboxes(&filter).await }
        };
        let states = [SandboxState::Ready, SandboxState::NotReady];
        self.in_shards(Rpc::ListPodSandbox, states, BTreeSet::new(), list, |sandbox| {
            let namespace = sandbox.metadata.as_ref().map(|metadata| metadata.namespace.clone());
            (namespace, sandbox.state != SandboxState::Ready)
        })
        .await
    }

    async fn container_shards(&self, namespaces: BTreeSet<String>) -> (Shards, Vec<Container>) {
        let runtime = Arc::clone(&self.runtime);
        let list = move |filter: Filter<ContainerState>| {
            let runtime = Arc::clone(&runtime);
            async move { runtime.list_containers(&filter).await }
        };
        let states = [
            ContainerState::Created,
            ContainerState::Running,
            ContainerState::Exited,
            ContainerState::Unknown,
        ];
        self.in_shards(Rpc::ListContainers, states, namespaces, list, |container| {
            let namespace = container.labels.get(label::POD_NAMESPACE).map(str::to_owned);
            (namespace, container.state == ContainerState::Exited)
        })
        .await
    }

    /// Makes one list call for each state. If the list of one state is still too large, makes one list call for each
    /// namespace in this state. The namespaces are those in `known_namespaces` and those of the pod log directories.
    /// `describe` returns an item's namespace and whether the item is dead.
    async fn in_shards<T, S: Copy, F: Future<Output = Call<Vec<T>>>>(
        &self,
        rpc: Rpc,
        states: impl IntoIterator<Item = S>,
        known_namespaces: BTreeSet<String>,
        list: impl Fn(Filter<S>) -> F,
        describe: impl Fn(&T) -> (Option<String>, bool),
    ) -> (Shards, Vec<T>) {
        (self.progress)("a list in parts");
        let (mut shards, mut kept) = (Shards::default(), Vec::new());
        for state in states {
            let state_filter = Filter { state: Some(state), labels: Vec::new() };
            let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
                shards.failed += 1;
                continue;
            };
            let answer = bounded(rpc, limit, list(state_filter)).await;
            if !is_too_large(answer.result.as_ref().err()) {
                shards.add(answer, &describe, &mut kept);
                continue;
            }
            let mut namespaces = known_namespaces.clone();
            namespaces.extend(id_search::namespaces(&self.inputs.host_root, self.budget).await);
            if namespaces.is_empty() {
                shards.failed += 1;
            }
            for namespace in namespaces {
                let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
                    shards.failed += 1;
                    break;
                };
                let labels = vec![(label::POD_NAMESPACE.into(), namespace.clone())];
                let answer = bounded(rpc, limit, list(Filter { state: Some(state), labels })).await;
                if is_too_large(answer.result.as_ref().err()) {
                    shards.too_large_in.insert(namespace);
                } else {
                    shards.add(answer, &describe, &mut kept);
                }
            }
        }
        (shards, kept)
    }
}

/// Returns whether an answer was refused because of its size.
fn is_too_large(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::TooLarge { .. }))
}

impl Shards {
    /// Adds the counts of one answer, and keeps its items unless the answers are too large together.
    fn add<T>(
        &mut self,
        answer: Call<Vec<T>>,
        describe: impl Fn(&T) -> (Option<String>, bool),
        kept: &mut Vec<T>,
    ) {
        let Ok(items) = answer.result else {
            self.failed += 1;
            return;
        };
        self.answered += 1;
        self.bytes += answer.response_bytes;
        for item in &items {
            let (namespace, dead) = describe(item);
            self.total += 1;
            self.dead += usize::from(dead);
            if let Some(namespace) = namespace {
                *self.by_namespace.entry(namespace).or_default() += 1;
            }
        }
        if self.bytes <= MAX_KEPT_BYTES {
            kept.extend(items);
        }
    }
}
