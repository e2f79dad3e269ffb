//! Fetches a list that is too large for one message in parts.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use super::{ProbeRunner, bounded};
use crate::cri::{Call, ContainerState, Error, Filter, Rpc, Runtime, SandboxState, label};
use crate::diagnosis::evidence::{RuntimeEvidence, Shards};
use crate::diagnosis::id_search;

impl<R: Runtime + 'static> ProbeRunner<'_, R> {
    /// Fetches a list that is too large in parts, by state and by namespace.
    pub(super) async fn shards(&self, evidence: &mut RuntimeEvidence) {
        if is_too_large(evidence.sandboxes.error()) {
            evidence.sandboxes.shards = Some(self.sandbox_shards().await);
        }
        if is_too_large(evidence.containers.error()) {
            let known = evidence.sandboxes.items().into_iter().flatten();
            let known = known.filter_map(|sandbox| Some(sandbox.metadata.as_ref()?.namespace.clone()));
            let known = known.collect();
            evidence.containers.shards = Some(self.container_shards(known).await);
        }
    }

    async fn sandbox_shards(&self) -> Shards {
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

    async fn container_shards(&self, known: BTreeSet<String>) -> Shards {
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
        self.in_shards(Rpc::ListContainers, states, known, list, |container| {
            let namespace = container.labels.get(label::POD_NAMESPACE).map(str::to_owned);
            (namespace, container.state == ContainerState::Exited)
        })
        .await
    }

    /// Fetches a list by state; a state that is still too large, by namespace. The namespaces are those of
    /// `known` and those of the pod log directories.
    async fn in_shards<T, S: Copy, F: Future<Output = Call<Vec<T>>>>(
        &self,
        rpc: Rpc,
        states: impl IntoIterator<Item = S>,
        known: BTreeSet<String>,
        list: impl Fn(Filter<S>) -> F,
        place: impl Fn(&T) -> (Option<String>, bool),
    ) -> Shards {
        (self.progress)("a list in parts");
        let mut shards = Shards::default();
        for state in states {
            let whole = Filter { state: Some(state), labels: Vec::new() };
            let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
                shards.failed += 1;
                continue;
            };
            let answer = bounded(rpc, limit, list(whole)).await;
            if !is_too_large(answer.result.as_ref().err()) {
                shards.add(answer, &place);
                continue;
            }
            let mut namespaces = known.clone();
            namespaces.extend(id_search::namespaces(&self.inputs.host_root, self.budget).await);
            if namespaces.is_empty() {
                shards.failed += 1;
            }
            for namespace in namespaces {
                let Some(limit) = self.budget.allow(self.inputs.deadlines().list) else {
                    shards.failed += 1;
                    break;
                };
                let part =
                    Filter { state: Some(state), labels: vec![(label::POD_NAMESPACE.into(), namespace)] };
                shards.add(bounded(rpc, limit, list(part)).await, &place);
            }
        }
        shards
    }
}

/// Whether an answer was refused for its size.
fn is_too_large(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::TooLarge { .. }))
}

impl Shards {
    fn add<T>(&mut self, answer: Call<Vec<T>>, place: impl Fn(&T) -> (Option<String>, bool)) {
        let Ok(items) = answer.result else {
            self.failed += 1;
            return;
        };
        self.answered += 1;
        self.bytes += answer.response_bytes;
        for item in &items {
            let (namespace, dead) = place(item);
            self.total += 1;
            self.dead += usize::from(dead);
            if let Some(namespace) = namespace {
                *self.by_namespace.entry(namespace).or_default() += 1;
            }
        }
    }
}
