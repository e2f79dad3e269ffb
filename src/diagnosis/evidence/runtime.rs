//! The runtime's answers: one field for each call or list, and questions about them that several rules need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::cri::{
    Call, Container, ContainerState, Error, Rpc, RuntimeStatus, Sandbox, SandboxState, StreamedAnswer,
    Version,
};
use crate::diagnosis::limits;
use crate::diagnosis::names::ItemKind;
use crate::diagnosis::silence::SilenceLimits;
use crate::kubelet::KubeletLists;
use crate::report::Rename;

/// The outcomes of all calls to the runtime.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeEvidence {
    /// The lengths of silence after which a call counts as hung.
    pub silence: SilenceLimits,
    /// The first call. If the socket cannot be reached, this call fails.
    pub version: Option<Call<Version>>,
    /// Version on the second connection, which is called if the first Version is silent or while a list is pending.
    pub control: Option<Call<Version>>,
    /// The answer to Status.
    pub status: Option<Call<RuntimeStatus>>,
    /// The list calls that were chosen, and why.
    pub lists_by: Option<KubeletLists>,
    /// All sandboxes.
    pub sandboxes: ListEvidence<Sandbox>,
    /// All containers.
    pub containers: ListEvidence<Container>,
    /// The duration of the two list calls with a filter for one pod. Kubelets before 1.36 make this pair for each changed
    /// pod.
    pub filtered_pair: Option<Duration>,
    /// All status calls.
    pub status_calls: Vec<StatusRecord>,
    /// The number of ids without a status call, because the budget was spent or too many calls were silent.
    pub ids_left_out: usize,
    /// The number of ids that were found outside the CRI.
    pub outside_ids: usize,
    /// The `ContainerStats` calls, which the shims answer.
    pub shims: Vec<StatusRecord>,
}

impl RuntimeEvidence {
    /// Returns the status calls that have been silent for so long that they count as hung.
    pub fn hung(&self) -> impl Iterator<Item = &StatusRecord> {
        self.status_calls.iter().filter(|record| record.is_silent() && self.silence.hangs(record.duration))
    }

    /// Returns the status calls that were answered late, the slowest first.
    pub fn slow_calls(&self) -> Vec<&StatusRecord> {
        let late = |record: &&StatusRecord| !record.is_silent() && record.duration >= limits::STATUS_SLOW;
        let mut slow: Vec<&StatusRecord> = self.status_calls.iter().filter(late).collect();
        slow.sort_by(|one, other| (other.duration, &one.target.id).cmp(&(one.duration, &other.target.id)));
        slow
    }

    /// Returns the calls that have been silent for at least a second but do not count as hung: those that were pending when
    /// the user interrupted the run, and those that were given up. The longest silence comes first.
    pub fn silent_so_far(&self, interrupted: bool) -> Vec<(Rpc, Option<&StatusTarget>, Duration)> {
        let single = [
            self.version.as_ref().and_then(Call::silence),
            self.status.as_ref().and_then(Call::silence),
            self.sandboxes.silent(),
            self.containers.silent(),
        ];
        let single = single.into_iter().flatten().filter(|_| interrupted);
        let records = self.status_calls.iter().chain(&self.shims);
        let records = records.filter(|record| record.is_silent() && (interrupted || !record.pending));
        let mut silent: Vec<(Rpc, Option<&StatusTarget>, Duration)> = single
            .map(|(rpc, waited)| (rpc, None, waited))
            .chain(records.map(|record| (record.rpc, Some(&record.target), record.duration)))
            .filter(|(_, _, waited)| *waited >= limits::SILENT_AT_LEAST && !self.silence.hangs(*waited))
            .collect();
        silent.sort_by(|one, other| (other.2, one.0, one.1).cmp(&(one.2, other.0, other.1)));
        silent
    }

    /// Returns the status calls whose outcome is unknown because the run ended: they were neither answered nor silent for
    /// long enough to count as hung.
    pub fn cut_short(&self) -> impl Iterator<Item = &StatusRecord> {
        self.status_calls.iter().filter(|record| match record.result {
            Err(Error::Silent { .. }) => !self.silence.hangs(record.duration),
            Err(ref why) => why.is_unread(),
            Ok(_) => false,
        })
    }

    /// Returns whether the outcome of Status is unknown because the run ended.
    pub fn status_is_open(&self) -> bool {
        self.status.as_ref().and_then(|call| call.result.as_ref().err()).is_some_and(|why| self.is_open(why))
    }

    /// Returns whether the outcome of a call is unknown: it was not silent for long enough, or its answer was not read to
    /// the end.
    fn is_open(&self, why: &Error) -> bool {
        match why {
            Error::Silent { waited, .. } => !self.silence.hangs(*waited),
            why => why.is_unread(),
        }
    }

    /// Returns the list calls that have been silent for so long that they count as hung, with their silences.
    pub fn hung_lists(&self) -> Vec<(Rpc, Duration)> {
        [self.sandboxes.silent(), self.containers.silent()]
            .into_iter()
            .flatten()
            .filter(|(_, waited)| self.silence.hangs(*waited))
            .collect()
    }

    /// Returns the RPCs of the two lists.
    pub fn list_rpcs(&self) -> [Rpc; 2] {
        let sandboxes = self.sandboxes.first.as_ref().map_or(Rpc::ListPodSandbox, |call| call.rpc);
        [sandboxes, self.containers.first.as_ref().map_or(Rpc::ListContainers, |call| call.rpc)]
    }

    /// Returns the answers that arrived as streams, completely.
    pub fn streamed_lists(&self) -> impl Iterator<Item = (Rpc, StreamedAnswer)> + Clone {
        let of_sandboxes = self.sandboxes.streamed();
        of_sandboxes.into_iter().chain(self.containers.streamed())
    }

    /// Returns the streamed lists that stopped before their end, with the number of entries that had arrived.
    pub fn stalled_streams(&self) -> impl Iterator<Item = (Rpc, u64)> {
        [self.sandboxes.stalled_after(), self.containers.stalled_after()].into_iter().flatten()
    }

    /// Returns the list that was refused because of its size, with the message.
    pub fn refused_list(&self) -> Option<(Rpc, String)> {
        self.errors_of_lists().find_map(|error| match error {
            Error::TooLarge { rpc, message } => Some((*rpc, message.clone())),
            _ => None,
        })
    }

    /// Returns the errors of both lists, even if more waiting may change them.
    pub fn errors_of_lists(&self) -> impl Iterator<Item = &Error> {
        [self.sandboxes.error(), self.containers.error()].into_iter().flatten()
    }

    /// Returns the errors of lists whose answer was not read to the end.
    pub fn unread_lists(&self) -> impl Iterator<Item = &Error> {
        self.errors_of_lists().filter(|why| why.is_unread())
    }

    /// Returns whether the list of this unary call counts as hung, with whichever call it was made.
    pub fn hangs(&self, list: Rpc) -> bool {
        self.hung_lists().iter().any(|(rpc, _)| rpc.unary() == list)
    }

    /// Returns the errors of the lists whose outcome is known: more waiting would not have changed them.
    pub fn list_errors(&self) -> impl Iterator<Item = &Error> {
        self.errors_of_lists().filter(|why| !self.is_open(why))
    }

    /// Returns whether the outcome of both lists is known: an answer, an error or a hang.
    pub fn lists_are_known(&self) -> bool {
        let are_made = self.sandboxes.first.is_some() && self.containers.first.is_some();
        are_made && !self.errors_of_lists().any(|why| self.is_open(why))
    }

    /// Returns how long Version has been silent on the first and on the second connection, if both silences
    /// are long enough to be a hang.
    pub fn both_versions_silent(&self) -> Option<(Duration, Duration)> {
        let silent = |call: &Option<Call<Version>>| Some(call.as_ref()?.silence()?.1);
        let hung = |call| silent(call).filter(|waited| self.silence.hangs(*waited));
        hung(&self.version).zip(hung(&self.control))
    }

    /// Returns the answer of Version, from the first connection that answered.
    pub fn version_answer(&self) -> Option<&Version> {
        [&self.version, &self.control].into_iter().flatten().find_map(|call| call.result.as_ref().ok())
    }

    /// Returns whether Version was answered.
    pub fn is_reached(&self) -> bool {
        self.version_answer().is_some()
    }

    /// Returns the ids in the two lists.
    pub fn listed_ids(&self) -> impl Iterator<Item = &str> {
        let sandboxes = self.sandboxes.items().into_iter().flatten().map(|sandbox| sandbox.id.as_str());
        let containers = self.containers.items().into_iter().flatten().map(|container| container.id.as_str());
        sandboxes.chain(containers)
    }

    /// Returns whether Status, a list or a status call was answered.
    pub fn anything_but_version_answers(&self) -> bool {
        self.status.as_ref().is_some_and(|call| call.result.is_ok())
            || self.sandboxes.items().is_some()
            || self.containers.items().is_some()
            || self.status_calls.iter().any(|record| !record.is_silent())
    }

    /// Returns every pod UID in the sandbox list.
    pub fn pod_uids(&self) -> BTreeSet<&str> {
        self.sandboxes
            .items()
            .into_iter()
            .flatten()
            .filter_map(|sandbox| sandbox.metadata.as_ref())
            .map(|metadata| metadata.uid.as_str())
            .collect()
    }

    /// Counts sandboxes and containers by state.
    pub fn population(&self) -> Population {
        let mut found = Population::default();
        for sandbox in self.sandboxes.items().into_iter().flatten() {
            found.sandboxes += 1;
            found.dead_sandboxes += usize::from(sandbox.state == SandboxState::NotReady);
        }
        for container in self.containers.items().into_iter().flatten() {
            found.containers += 1;
            match container.state {
                ContainerState::Exited => found.exited += 1,
                ContainerState::Running => found.running += 1,
                ContainerState::Created | ContainerState::Unknown => {}
            }
        }
        if let Some(shards) = &self.sandboxes.shards {
            found.from_shards = true;
            found.dead_sandboxes += shards.dead;
            found.sandboxes += shards.total;
        }
        if let Some(shards) = &self.containers.shards {
            found.from_shards = true;
            found.exited += shards.dead;
            found.containers += shards.total;
            found.running += shards.total.saturating_sub(shards.dead);
        }
        found
    }
}

/// The number of sandboxes and containers by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// All sandboxes.
    pub sandboxes: usize,
    /// Sandboxes that are not ready.
    pub dead_sandboxes: usize,
    /// All containers.
    pub containers: usize,
    /// Exited containers.
    pub exited: usize,
    /// Running containers.
    pub running: usize,
    /// Whether the lists were too large, so that the counts are sums over smaller lists.
    pub from_shards: bool,
}

impl Population {
    /// Returns the number of dead sandboxes and exited containers.
    pub const fn dead(&self) -> usize {
        self.dead_sandboxes + self.exited
    }
}

/// The answers to one of the two list calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListEvidence<T> {
    /// The first answer.
    pub first: Option<Call<Vec<T>>>,
    /// The second answer, if the first one was slow or silent.
    pub second: Option<Call<Vec<T>>>,
    /// The same list in parts, if it was too large as a whole.
    pub shards: Option<Shards>,
    /// The items of these parts, as far as they were kept.
    pub in_parts: Vec<T>,
}

impl<T> Default for ListEvidence<T> {
    fn default() -> Self {
        Self { first: None, second: None, shards: None, in_parts: Vec::new() }
    }
}

impl<T> ListEvidence<T> {
    /// Returns the items of the first answer.
    pub fn items(&self) -> Option<&[T]> {
        self.first.as_ref()?.result.as_deref().ok()
    }

    /// Returns the items of the first answer, or those that were received in parts.
    pub fn known_items(&self) -> &[T] {
        self.items().unwrap_or(&self.in_parts)
    }

    /// Returns the items of the second answer, or of the first one if there is no second.
    pub fn latest(&self) -> Option<&[T]> {
        self.second.as_ref().and_then(|call| call.result.as_deref().ok()).or_else(|| self.items())
    }

    /// Returns the error of the first call.
    pub fn error(&self) -> Option<&Error> {
        self.first.as_ref()?.result.as_ref().err()
    }

    /// Returns the size of the first answer, if it is known.
    pub fn bytes(&self) -> Option<u64> {
        self.items()?;
        self.first.as_ref().map(|call| call.response_bytes)
    }

    /// Returns how many entries of a stream had arrived when it fell silent.
    fn stalled_after(&self) -> Option<(Rpc, u64)> {
        let (rpc, _) = self.silent()?;
        let stream = self.first.as_ref()?.stream?;
        (stream.entries > 0).then_some((rpc, stream.entries))
    }

    /// Returns what arrived of the first call, if it was answered with a stream.
    fn streamed(&self) -> Option<(Rpc, StreamedAnswer)> {
        let call = self.first.as_ref().filter(|call| call.result.is_ok())?;
        Some((call.rpc, call.stream?))
    }

    /// Returns the call and the length of its silence, if it has no answer.
    pub fn silent(&self) -> Option<(Rpc, Duration)> {
        self.first.as_ref()?.silence()
    }

    /// Returns whether the first call has ended, with an answer or an error.
    pub fn has_ended(&self) -> bool {
        self.first.is_some() && self.silent().is_none()
    }

    /// Returns the duration of the first call, if it was answered.
    pub fn duration(&self) -> Option<Duration> {
        self.items()?;
        self.first.as_ref().map(|call| call.duration)
    }
}

/// The answer to a streamed list, which shows that the runtime implements it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase")]
pub struct StreamProbe {
    /// The call.
    pub rpc: Rpc,
    /// What arrived.
    pub answer: StreamedAnswer,
}

/// A list that was fetched in parts, because it is too large as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shards {
    /// The number of parts that were answered.
    pub answered: usize,
    /// The number of parts that failed.
    pub failed: usize,
    /// The namespaces whose items alone are too large for one message.
    pub too_large_in: BTreeSet<String>,
    /// The number of items in all parts.
    pub total: usize,
    /// The number of dead items.
    pub dead: usize,
    /// The number of bytes of all parts.
    pub bytes: u64,
    /// The number of items by namespace.
    pub by_namespace: BTreeMap<String, usize>,
}

impl Shards {
    /// Whether some items are not counted.
    pub fn is_incomplete(&self) -> bool {
        self.failed > 0 || !self.too_large_in.is_empty()
    }
}

/// The sandbox or container that a status call is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusTarget {
    /// Sandbox or container.
    pub kind: ItemKind,
    /// Its full id.
    pub id: String,
}

impl StatusTarget {
    /// Returns a placeholder for a call whose target was lost.
    pub const fn placeholder() -> Self {
        Self { kind: ItemKind::Container, id: String::new() }
    }
}

/// One status call and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusRecord {
    /// The sandbox or container.
    pub target: StatusTarget,
    /// The call.
    pub rpc: Rpc,
    /// The duration, or the length of the silence.
    pub duration: Duration,
    /// The size of the answer in bytes.
    pub response_bytes: u64,
    /// The facts in the answer, or the error.
    pub result: Result<StatusFacts, Error>,
    /// Whether no other call ran at the same time.
    pub serial: bool,
    /// Whether the call is still pending.
    pub pending: bool,
}

impl StatusRecord {
    /// Creates the record of a call that has ended.
    pub fn ended(target: StatusTarget, call: Call<StatusFacts>) -> Self {
        let Call { rpc, duration, response_bytes, result, .. } = call;
        Self { target, rpc, duration, response_bytes, result, serial: false, pending: false }
    }

    /// Creates the record of a pending call that has been silent for `waited`.
    pub fn silent(target: StatusTarget, rpc: Rpc, waited: Duration) -> Self {
        let result = Err(Error::Silent { rpc, waited });
        let call = Call { rpc, duration: waited, response_bytes: 0, stream: None, result };
        Self { pending: true, ..Self::ended(target, call) }
    }

    /// Returns whether the call has no answer so far.
    pub fn is_silent(&self) -> bool {
        matches!(self.result, Err(Error::Silent { .. }))
    }
}

/// The facts in a status answer that the rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusFacts {
    /// Whether the answer contains a status.
    pub present: bool,
    /// When the sandbox or container was created, if known.
    pub created_at: Option<Wall>,
    /// When the container started, if it has.
    pub started_at: Option<Wall>,
    /// When the container finished, if it has.
    pub finished_at: Option<Wall>,
    /// The container's exit code, if it has exited.
    pub exit_code: Option<i32>,
    /// Whether the sandbox shares the node's network, if the runtime reports it.
    pub host_network: Option<bool>,
}
