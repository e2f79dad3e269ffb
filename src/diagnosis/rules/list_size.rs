//! The sizes of lists and batches, and what makes lists smaller, for the rules about large and slow lists.

use super::large_list::judge_message;
use super::owners::{OwnedPods, owners};
use super::prelude::*;
use super::removal::is_plain;
use crate::cri::Call;
use crate::diagnosis::evidence::ListEvidence;
use crate::kubelet::{KubeletLists, ListLimit, ListSigns, timing};

/// The size of a list.
pub(super) struct ListSize {
    pub(super) rpc: Rpc,
    pub(super) bytes: u64,
    /// The number of items; unknown for a list that was not read to the end.
    pub(super) items: Option<usize>,
    pub(super) took: Duration,
}

/// Returns the size of a list that was answered, or that was received in part.
pub(super) fn list_size<T>(call: Option<&Call<Vec<T>>>) -> Option<ListSize> {
    let call = call?;
    let items = match &call.result {
        Ok(items) => Some(items.len()),
        Err(why) if why.is_unread() => None,
        Err(_) => return None,
    };
    Some(ListSize { rpc: call.rpc, bytes: call.response_bytes, items, took: call.duration })
}

/// The largest message of the kubelet's streamed lists, estimated by the average size of an entry.
pub(super) struct Batch {
    pub(super) rpc: Rpc,
    pub(super) entries: usize,
    pub(super) bytes: u64,
}

impl Evidence {
    /// Returns how the kubelet lists.
    pub fn kubelet_lists(&self) -> KubeletLists {
        let fallback = self.journal.as_ref().and_then(|journal| journal.list_fallback.as_ref());
        KubeletLists::of(ListSigns {
            release: self.settings.kubelet.value,
            gates: &self.kubelet.config.list_gates,
            gauge: self.kubelet.latest().and_then(|reading| reading.metrics.streams_lists),
            // A kubelet that was started later begins with streams again.
            logged_fallback: fallback
                .is_some_and(|known| self.kubelet.pid.is_none_or(|running| running == known.pid)),
        })
    }

    /// Whether a list as a whole is larger than the kubelet accepts in one message.
    pub(super) fn has_list_over_limit(&self) -> bool {
        let sandboxes = self.runtime.sandboxes.first.iter().map(|call| call.response_bytes);
        let containers = self.runtime.containers.first.iter().map(|call| call.response_bytes);
        sandboxes.chain(containers).any(is_over) || self.runtime.errors_of_lists().any(is_too_large)
    }

    /// Whether a list is so large that it matters whether the kubelet receives it in one message.
    pub(in crate::diagnosis) fn has_large_list(&self) -> bool {
        self.has_list_over_limit() || self.reaches(limits::LIST_SIZE_WARNING_PERCENT)
    }

    /// Returns whether the kubelet refuses a list because of its size.
    pub(in crate::diagnosis) fn refusal(&self) -> Refusal {
        let streamed = self.runtime.streamed_lists();
        let is_measured = streamed.clone().next().is_some();
        let message_is_over = self.runtime.errors_of_lists().any(|error| match error {
            Error::TooLarge { rpc, .. } => rpc.is_streamed_list(),
            _ => false,
        }) || streamed.clone().any(|(_, stream)| is_over(stream.largest_message_bytes));
        match self.kubelet_lists().limit() {
            ListLimit::List | ListLimit::FallenBack if self.has_list_over_limit() => Refusal::Certain,
            ListLimit::Message | ListLimit::NotKnown if message_is_over => Refusal::Certain,
            ListLimit::NotKnown if self.has_list_over_limit() => Refusal::Possible,
            ListLimit::Message if !is_measured => {
                // The messages of a list whose size is not known may be too large.
                let unknown = self.runtime.errors_of_lists().any(is_too_large) && self.batches().count() < 2;
                if unknown || self.batches().any(|batch| is_over(batch.bytes)) {
                    Refusal::Possible
                } else {
                    Refusal::None
                }
            }
            ListLimit::List | ListLimit::FallenBack | ListLimit::Message | ListLimit::NotKnown => {
                Refusal::None
            }
        }
    }

    /// Whether a list has half of the kubelet's limit or more only if the limit is for the whole list, which is not certain.
    pub(in crate::diagnosis) fn list_may_be_large(&self) -> bool {
        self.kubelet_lists().limit() == ListLimit::NotKnown
            && self.has_half_of_limit()
            && largest_message(&self.runtime).is_none()
    }

    /// Whether the kubelet fell back to unary lists, and a list is so large that this matters.
    pub(in crate::diagnosis) fn fallback_matters(&self) -> bool {
        self.kubelet_lists().limit() == ListLimit::FallenBack && self.has_half_of_limit()
    }

    fn has_half_of_limit(&self) -> bool {
        self.has_list_over_limit() || self.reaches(limits::FALLBACK_SIZE_PERCENT)
    }

    /// Whether a list has so many percent of the kubelet's limit.
    fn reaches(&self, percent: u64) -> bool {
        self.list_sizes().any(|(_, bytes)| limits::reaches(bytes, timing::RECEIVE_LIMIT, percent))
    }

    /// Returns the sizes of the lists that are known.
    pub(super) fn list_sizes(&self) -> impl Iterator<Item = (Rpc, u64)> {
        let [sandboxes, containers] = self.runtime.list_rpcs();
        let sandboxes = size_and_items(&self.runtime.sandboxes).map(|(bytes, _)| (sandboxes, bytes));
        let containers = size_and_items(&self.runtime.containers).map(|(bytes, _)| (containers, bytes));
        sandboxes.into_iter().chain(containers)
    }

    /// Returns the largest message of each list whose size is known, if the runtime streams it.
    pub(super) fn batches(&self) -> impl Iterator<Item = Batch> {
        let runtime = &self.runtime;
        let most = match self.family() {
            DaemonFamily::Crio => limits::CRIO_BATCH,
            DaemonFamily::Containerd | DaemonFamily::Other => limits::CONTAINERD_BATCH,
        };
        let of = move |rpc, (bytes, items): (u64, usize)| {
            let entries = items.min(most);
            let count = |items| u64::try_from(items).unwrap_or(u64::MAX);
            let bytes = bytes.saturating_mul(count(entries)) / count(items.max(1));
            Batch { rpc, entries, bytes }
        };
        let sandboxes = size_and_items(&runtime.sandboxes).map(|size| of(Rpc::StreamPodSandboxes, size));
        let containers = size_and_items(&runtime.containers).map(|size| of(Rpc::StreamContainers, size));
        sandboxes.into_iter().chain(containers)
    }
}

/// Whether the kubelet refuses a list because of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::diagnosis) enum Refusal {
    /// It does not.
    None,
    /// It may: how it lists, or the size of its messages, is not certain.
    Possible,
    /// It does.
    Certain,
}

/// Returns a size in percent of what the kubelet accepts in one message.
pub(super) const fn percent_of_limit(bytes: u64) -> u64 {
    bytes * 100 / timing::RECEIVE_LIMIT
}

/// Whether the kubelet refuses a message of this size.
pub(in crate::diagnosis) fn is_over(bytes: u64) -> bool {
    timing::refused_message(bytes).is_some()
}

/// Judges the largest message of the lists that plegctl received as streams.
pub(super) fn largest_message(
    runtime: &RuntimeEvidence,
) -> Option<(Severity, FactKind, Rpc, StreamedAnswer)> {
    let (rpc, stream) = runtime.streamed_lists().max_by_key(|(_, stream)| stream.largest_message_bytes)?;
    let (severity, title) = judge_message(rpc, stream.largest_message_bytes)?;
    Some((severity, title, rpc, stream))
}

/// Whether a list is refused because of its size.
pub(super) fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::TooLarge { .. })
}

/// Returns the size of a whole list in bytes, and the number of its items.
fn size_and_items<T>(list: &ListEvidence<T>) -> Option<(u64, usize)> {
    let read = list_size(list.first.as_ref()).and_then(|size| Some((size.bytes, size.items?)));
    let in_parts = || {
        let whole = list.shards.as_ref().filter(|shards| !shards.is_incomplete())?;
        Some((whole.bytes, whole.total))
    };
    read.or_else(in_parts)
}

/// Returns the steps that keep dead pods from coming again.
pub(super) fn limit_history(owner: Option<&OwnedPods>) -> Vec<Step> {
    match owner.filter(|owner| is_plain(&owner.namespace)) {
        Some(owner) => steps_of("limitHistory", &owner.places()),
        None => steps_of("limitAnyHistory", &[]),
    }
}

/// Returns the steps against dead pods: find what creates most of them, then delete those that are there.
pub(super) fn against_dead_pods(case: &Case<'_>) -> Vec<Step> {
    let owners = owners(&case.evidence.runtime, true);
    let mut steps = limit_history(owners.first());
    let node = Some(&*case.evidence.node).filter(|node| is_plain(node)).unwrap_or("NODE");
    if let Some(owner) = owners.first().filter(|owner| is_plain(&owner.namespace)) {
        let places = [owner.places().as_slice(), &[("node", Place::word(node))]].concat();
        steps.extend(steps_of("deleteSucceeded", &places));
    }
    steps
}
