//! Divides a list call into several calls (*shards*) if the runtime refused the list as too large for one message. It
//! makes one list call for each state. If the list of one state is still too large, it makes one for each namespace in this
//! state, then for each pod of a namespace that is too large, then for each container name of such a pod. It adds up counts
//! over all answers, and keeps the items of the first answers, so that what is large or dead can be named.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::sync::Arc;

use super::{ProbeRunner, bounded};
use crate::cri::{
    Call, Container, ContainerState, Error, Filter, Labels, Rpc, Runtime, Sandbox, SandboxState, label,
};
use crate::diagnosis::evidence::{RuntimeEvidence, Shards};
use crate::diagnosis::id_search::{self, KnownName};
use crate::diagnosis::limits::{MAX_POD_SHARDS, MAX_SHARDS};

/// The size of the answers whose items are kept: two whole messages.
const MAX_KEPT_BYTES: u64 = 32 << 20;

impl<R: Runtime + 'static> ProbeRunner<'_, R> {
    /// Fetches in parts each list that the runtime refused because of its size.
    pub(super) async fn shards(&self, evidence: &mut RuntimeEvidence) {
        if is_too_large(evidence.sandboxes.error()) {
            let containers = evidence.containers.items().into_iter().flatten();
            let known = containers.filter_map(|container| known_name(&container.labels)).collect();
            let (shards, items) = self.sandbox_shards(known).await;
            (evidence.sandboxes.shards, evidence.sandboxes.in_parts) = (Some(shards), items);
        }
        if is_too_large(evidence.containers.error()) {
            let sandboxes = evidence.sandboxes.known_items().iter();
            let known = sandboxes.filter_map(|sandbox| known_name(&sandbox.labels)).collect();
            let (shards, items) = self.container_shards(known).await;
            (evidence.containers.shards, evidence.containers.in_parts) = (Some(shards), items);
        }
    }

    async fn sandbox_shards(&self, known: BTreeSet<KnownName>) -> (Shards, Vec<Sandbox>) {
        let runtime = Arc::clone(&self.runtime);
        let list = move |filter: Filter<SandboxState>| {
            let runtime = Arc::clone(&runtime);
            async move { runtime.list_sandboxes(&filter).await }
        };
        let [sandboxes_by, _] = self.runtime.list_rpcs();
        let states = [SandboxState::Ready, SandboxState::NotReady];
        self.in_shards(sandboxes_by, states, known, list, |sandbox| {
            let namespace = sandbox.metadata.as_ref().map(|metadata| metadata.namespace.clone());
            (namespace, sandbox.state != SandboxState::Ready)
        })
        .await
    }

    async fn container_shards(&self, known: BTreeSet<KnownName>) -> (Shards, Vec<Container>) {
        let runtime = Arc::clone(&self.runtime);
        let list = move |filter: Filter<ContainerState>| {
            let runtime = Arc::clone(&runtime);
            async move { runtime.list_containers(&filter).await }
        };
        let [_, containers_by] = self.runtime.list_rpcs();
        let states = [
            ContainerState::Created,
            ContainerState::Running,
            ContainerState::Exited,
            ContainerState::Unknown,
        ];
        self.in_shards(containers_by, states, known, list, |container| {
            let namespace = container.labels.get(label::POD_NAMESPACE).map(str::to_owned);
            (namespace, container.state == ContainerState::Exited)
        })
        .await
    }

    /// Makes one list call for each state, and narrower ones instead of each that is too large. The pods are those in
    /// `known` and those of the pod log directories. `describe` returns an item's namespace and whether the item is dead.
    async fn in_shards<T, S: Copy, F: Future<Output = Call<Vec<T>>>>(
        &self,
        rpc: Rpc,
        states: impl IntoIterator<Item = S>,
        mut known: BTreeSet<KnownName>,
        list: impl Fn(Filter<S>) -> F,
        describe: impl Fn(&T) -> (Option<String>, bool),
    ) -> (Shards, Vec<T>) {
        (self.progress)("a list in parts");
        let (mut shards, mut kept) = (Shards::default(), Vec::new());
        let mut queue: VecDeque<Filter<S>> =
            states.into_iter().map(|state| Filter { state: Some(state), labels: Vec::new() }).collect();
        let (mut calls, mut has_searched) = (0, false);
        while let Some(filter) = queue.pop_front() {
            let allowed = self.budget.allow(self.inputs.deadlines().list).filter(|_| calls < MAX_SHARDS);
            let Some(limit) = allowed else {
                std::iter::once(filter).chain(queue).for_each(|part| shards.give_up(part, false));
                break;
            };
            calls += 1;
            let answer = bounded(rpc, limit, list(filter.clone())).await;
            if !is_too_large(answer.result.as_ref().err()) {
                shards.add(answer, &describe, &mut kept);
                continue;
            }
            if !has_searched {
                has_searched = true;
                known.extend(id_search::logged_names(&self.inputs.host_root, self.budget).await);
            }
            let mut narrower = narrower(&filter, &known);
            // So many pods are too many rather than too large, and the calls would take too long.
            if !filter.labels.is_empty() && narrower.len() > MAX_POD_SHARDS {
                narrower.clear();
            }
            if narrower.is_empty() {
                shards.give_up(filter, true);
            }
            queue.extend(narrower);
        }
        (shards, kept)
    }
}

/// Returns the name of an item's pod.
fn known_name(labels: &Labels) -> Option<KnownName> {
    let of = |key| labels.get(key).map(str::to_owned);
    Some(KnownName { namespace: of(label::POD_NAMESPACE)?, uid: of(label::POD_UID)?, container: None })
}

/// Returns the filters that select parts of what a filter selects: by namespace, then by pod, then by the name of the
/// container.
fn narrower<S: Copy>(filter: &Filter<S>, known: &BTreeSet<KnownName>) -> Vec<Filter<S>> {
    let selected = |name: &&KnownName| {
        let of_name = [Some(&name.namespace), Some(&name.uid), name.container.as_ref()];
        filter.labels.iter().zip(of_name).all(|((_, value), name)| Some(value) == name)
    };
    let parts: BTreeSet<(&str, &String)> = known
        .iter()
        .filter(selected)
        .filter_map(|name| match filter.labels.len() {
            0 => Some((label::POD_NAMESPACE, &name.namespace)),
            1 => Some((label::POD_UID, &name.uid)),
            2 => Some((label::CONTAINER_NAME, name.container.as_ref()?)),
            _ => None,
        })
        .collect();
    let with = |(key, value): (&str, &String)| {
        let labels = filter.labels.iter().cloned().chain([(key.to_owned(), value.clone())]).collect();
        Filter { state: filter.state, labels }
    };
    parts.into_iter().map(with).collect()
}

/// Returns whether an answer was refused because of its size.
fn is_too_large(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::TooLarge { .. }))
}

impl Shards {
    /// Notes a part that was not received.
    fn give_up<S>(&mut self, part: Filter<S>, was_sent: bool) {
        // The list of the namespace itself was refused.
        let is_refused = part.labels.len() >= if was_sent { 1 } else { 2 };
        match part.labels.into_iter().next() {
            Some((_, namespace)) if is_refused => _ = self.too_large_in.insert(namespace),
            _ => self.failed += 1,
        }
    }

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
