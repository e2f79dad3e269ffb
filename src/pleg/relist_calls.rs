//! What the calls of a run's relists have shown so far, for those who show or judge a node while a relist runs: the pending
//! call, the calls that were given up, and the last answers that were late or errors. It judges nothing and reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::calls::{CallRecord, OpenCall};
use super::stream::Relist;
use crate::clock::Mono;
use crate::cri::{self, Outcome, Rpc};
use crate::report::PodRef;

/// Answers that are quicker than this are not kept.
const LATE: Duration = Duration::from_secs(1);

/// What identifies a call: its RPC, and the id of its sandbox or container, else the UID of its pod.
type CallKey = (String, Option<String>);

/// A call that is pending, or that was given up in the current or the last relist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentCall {
    /// The name of the RPC.
    pub rpc: String,
    /// The sandbox or container.
    pub id: Option<String>,
    /// The pod; `None` for a list call.
    pub pod: Option<PodRef>,
    /// The container's name, if the caller knows it.
    pub container: Option<String>,
    /// The length of the silence.
    pub waited: Duration,
    /// Whether the call was given up.
    pub given_up: bool,
    /// Whether the last relist gave up the same call.
    pub hung_before: bool,
}

/// The last answer of a call, if it was late or an error.
#[derive(Clone, Debug)]
struct LateAnswer {
    call: CallRecord,
    /// The number of the relist.
    relist: u64,
}

/// Why the last relist failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelistFailure {
    /// The reason in one sentence.
    pub text: String,
    /// The error of the list call; `None` if the runtime answered and the kubelet's client refuses the answer.
    pub error: Option<cri::Error>,
}

/// A relist that has visited every pod.
#[derive(Clone, Copy, Debug)]
struct FullRelist {
    /// The time of its answered calls.
    took: Duration,
    relist: u64,
}

/// The size of a list.
#[derive(Clone, Copy, Debug)]
pub struct ListSize {
    /// The call that listed.
    pub rpc: Rpc,
    /// The size of the whole list.
    pub bytes: u64,
    /// The size of the largest message, if the list was a stream.
    pub largest_message: Option<u64>,
}

/// What the calls have shown.
#[derive(Clone, Debug, Default)]
pub struct RelistCalls {
    started: Mono,
    /// The number of relists that have begun.
    begun: u64,
    running: Option<Mono>,
    open: Option<OpenCall>,
    /// The calls of the current relist that were given up.
    given_up: Vec<CallRecord>,
    /// The calls of the last relist that were given up and that the current relist has not made again.
    given_up_before: Vec<CallRecord>,
    /// All calls that the last relist gave up.
    hung_before: BTreeSet<CallKey>,
    failure: Option<RelistFailure>,
    late: BTreeMap<CallKey, LateAnswer>,
    /// The sizes of the last lists, by the unary call.
    sizes: BTreeMap<Rpc, ListSize>,
    /// The first successful relist, which visits every pod.
    full_relist: Option<FullRelist>,
    /// The time of the answered calls of the current relist.
    answered: Duration,
}

impl RelistCalls {
    /// Creates the record of a run that begins at this moment.
    pub fn new(started: Mono) -> Self {
        Self { started, ..Self::default() }
    }

    /// A relist begins.
    pub fn relist_begins(&mut self, now: Mono) {
        self.running = Some(now);
        self.begun += 1;
        self.answered = Duration::ZERO;
        self.given_up_before = std::mem::take(&mut self.given_up);
        self.hung_before = self.given_up_before.iter().map(key_of).collect();
    }

    /// A relist has ended, possibly with this error of a list call.
    pub fn relist_ended(&mut self, relist: &Relist, error: Option<cri::Error>) {
        self.running = None;
        self.given_up_before.clear();
        self.failure = relist.error.clone().map(|text| RelistFailure { text, error });
        if self.failure.is_none() {
            let (took, relist) = (self.answered, self.begun);
            self.full_relist.get_or_insert(FullRelist { took, relist });
        }
    }

    /// A call starts.
    pub fn call_started(&mut self, call: &OpenCall) {
        self.open = Some(call.clone());
    }

    /// A call has ended.
    pub fn call_finished(&mut self, call: &CallRecord) {
        self.open = None;
        let key = key_of(call);
        self.given_up_before.retain(|known| key_of(known) != key);
        self.late.remove(&key);
        let duration = call.duration_seconds.duration();
        let rpc = Rpc::named(&call.rpc).filter(|rpc| rpc.is_list());
        if let Some(rpc) = rpc.filter(|_| call.pod.is_none()) {
            let largest_message = call.stream.map(|stream| stream.largest_message_bytes);
            self.sizes.insert(rpc.unary(), ListSize { rpc, bytes: call.response_bytes, largest_message });
        }
        if call.outcome == Outcome::Silent {
            self.given_up.push(call.clone());
            return;
        }
        self.answered += duration;
        // Between the list and the call, the container may have been removed.
        let fails = call.outcome == Outcome::Error && call.code.as_deref() != Some("NotFound");
        if fails || duration >= LATE {
            self.late.insert(key, LateAnswer { call: call.clone(), relist: self.begun });
        }
    }

    /// Returns the call that has no answer yet.
    pub const fn open(&self) -> Option<&OpenCall> {
        self.open.as_ref()
    }

    /// Returns the start of the running relist.
    pub const fn running(&self) -> Option<Mono> {
        self.running
    }

    /// Returns the start of the run.
    pub const fn started(&self) -> Mono {
        self.started
    }

    /// Returns why the last relist failed.
    pub const fn failure(&self) -> Option<&RelistFailure> {
        self.failure.as_ref()
    }

    /// Returns the pending call, the calls that the current relist has given up, and the calls that the last relist had
    /// given up and the current relist has not made again so far.
    pub fn silent(&self, now: Mono) -> Vec<SilentCall> {
        let mut calls: Vec<SilentCall> = Vec::new();
        calls.extend(self.open.iter().map(|open| SilentCall {
            rpc: open.rpc.name().to_owned(),
            id: open.id.clone(),
            pod: open.pod.clone(),
            container: None,
            waited: now.since(open.started),
            given_up: false,
            hung_before: self.hung_before.contains(&key(
                open.rpc.name(),
                open.id.as_ref(),
                open.pod.as_ref(),
            )),
        }));
        for call in self.given_up.iter().chain(&self.given_up_before) {
            if calls.iter().all(|known| (&known.rpc, &known.id) != (&call.rpc, &call.id)) {
                calls.push(SilentCall {
                    rpc: call.rpc.clone(),
                    id: call.id.clone(),
                    pod: call.pod.clone(),
                    container: None,
                    waited: call.duration_seconds.duration(),
                    given_up: true,
                    hung_before: self.hung_before.contains(&key_of(call)),
                });
            }
        }
        calls
    }

    /// Whether every pod has been visited, so that no call but these hangs: a relist has visited all pods, and none of these
    /// calls keeps the running relist from the pods that come after it, unless the last relist knew it already.
    pub fn has_visited_all<'a>(&self, hung: impl IntoIterator<Item = &'a SilentCall>) -> bool {
        let is_known = |call: &SilentCall| call.hung_before;
        self.full_relist.is_some() && (self.running.is_none() || hung.into_iter().all(is_known))
    }

    /// Returns the last answers of the calls that were late or failed, and whether each is new. The kubelet repeats a call only
    /// when its pod changes, so an old answer may be all that is known about a call for days.
    pub fn late_answers(&self) -> impl Iterator<Item = (&CallRecord, bool)> {
        self.late.values().map(|late| (&late.call, self.is_new(late.relist)))
    }

    /// Forgets a sandbox or container that was removed.
    pub fn removed(&mut self, id: &str) {
        self.late.retain(|(_, known), _| known.as_deref() != Some(id));
    }

    /// Whether an answer in this relist shows the present: in the running relist, or in the last one.
    fn is_new(&self, relist: u64) -> bool {
        relist + u64::from(self.running.is_some()) >= self.begun
    }

    /// Forgets all late and failed answers, because somebody has made every call again.
    pub fn forget_late(&mut self) {
        self.late.clear();
        self.full_relist = self.full_relist.map(|full| FullRelist { took: Duration::ZERO, ..full });
    }

    /// Returns how long the answered calls of the relist that visited every pod took, and whether that is new. While such a
    /// relist runs, returns how long its calls took so far.
    pub fn full_relist(&self) -> Option<(Duration, bool)> {
        match self.full_relist {
            None => self.running.map(|_| (self.answered, true)),
            Some(full) => Some((full.took, self.is_new(full.relist))),
        }
    }

    /// Returns the sizes of the last lists.
    pub fn list_sizes(&self) -> impl Iterator<Item = ListSize> {
        self.sizes.values().copied()
    }
}

fn key(rpc: &str, id: Option<&String>, pod: Option<&PodRef>) -> CallKey {
    (rpc.to_owned(), id.or(pod.map(|pod| &pod.uid)).cloned())
}

fn key_of(call: &CallRecord) -> CallKey {
    key(&call.rpc, call.id.as_ref(), call.pod.as_ref())
}
