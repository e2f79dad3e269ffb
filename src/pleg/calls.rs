//! The log of calls: what was asked of the runtime, what came of it, and what has not come back yet.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::hub::Hub;
use super::stream::Event;
use crate::clock::{Clock, Mono};
use crate::cri::{self, Call, Container, Filter, Outcome, Rpc, Runtime, Sandbox};
use crate::report::{PodRef, Seconds};

/// A call that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// Its name in the CRI.
    pub rpc: String,
    /// The container or sandbox asked about; absent for a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The pod it was made for; absent for the lists of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// How long it took.
    pub duration_seconds: Seconds,
    /// Bytes received.
    pub response_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// gRPC status code, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Takes what the engine produces, the moment it is produced: events of one pod must not wait for the hung call of
/// another, and a call that never returns is only visible while it is open.
pub trait Sink: Send {
    /// An event, delivered or not.
    fn event(&mut self, event: Event);
    /// A call is about to be made.
    fn call_started(&mut self, _call: &OpenCall) {}
    /// A call is over.
    fn call_finished(&mut self, _call: &CallRecord) {}
}

impl Sink for Vec<Event> {
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}

/// A call that has been made and has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// What is asked.
    pub rpc: Rpc,
    /// The container or sandbox asked about.
    pub id: Option<String>,
    /// The pod it is made for.
    pub pod: Option<PodRef>,
    /// Since when.
    pub started: Mono,
}

/// The calls of one relist.
#[derive(Debug, Default)]
pub struct CallLog {
    open: Option<OpenCall>,
    finished: Vec<CallRecord>,
}

/// Why the engine can do nothing with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] cri::Error),
    /// The runtime answered, and the kubelet's client refuses the answer.
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    /// Whether the runtime does not know the id, which the kubelet takes for a race.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_not_found())
    }
}

impl CallLog {
    /// The call that has not come back. Still there after the future that made it was dropped.
    pub const fn open(&self) -> Option<&OpenCall> {
        self.open.as_ref()
    }

    /// The calls that are over, in order.
    pub fn finished(&self) -> &[CallRecord] {
        &self.finished
    }

    pub(super) fn clear(&mut self) {
        self.open = None;
        self.finished.clear();
    }

    pub(super) fn take_finished(&mut self) -> Vec<CallRecord> {
        std::mem::take(&mut self.finished)
    }
}

/// Makes calls and notes them. It is on record that a call was made before it is made.
pub(super) struct Caller<'a, R> {
    pub rt: &'a R,
    pub clock: &'a dyn Clock,
    pub hub: &'a Hub,
    pub log: &'a mut CallLog,
    pub sink: &'a mut dyn Sink,
}

impl<R> Caller<'_, R> {
    /// Makes one call. An answer that `accept` refuses is on record as an error, in the words of the refusal.
    pub async fn make<T, U>(
        &mut self,
        rpc: Rpc,
        id: Option<&str>,
        pod: Option<&PodRef>,
        call: impl Future<Output = Call<T>>,
        accept: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<U, Failure> {
        let open = OpenCall { rpc, id: id.map(str::to_owned), pod: pod.cloned(), started: self.clock.mono() };
        self.sink.call_started(&open);
        self.log.open = Some(open);
        let call = call.await;
        let (id, pod) = self.log.open.take().map_or((None, None), |open| (open.id, open.pod));

        let (duration, response_bytes) = (call.duration, call.response_bytes);
        let result =
            call.result.map_err(Failure::Call).and_then(|answer| accept(answer).map_err(Failure::Refused));
        let failure = result.as_ref().err();
        let error = match failure {
            Some(Failure::Call(error)) => Some(error),
            _ => None,
        };
        let record = CallRecord {
            rpc: rpc.name().to_owned(),
            id,
            pod,
            duration_seconds: duration.into(),
            response_bytes,
            outcome: match (failure, error) {
                (None, _) => cri::Outcome::Ok,
                (Some(_), Some(error)) => error.outcome(),
                (Some(_), None) => cri::Outcome::Error,
            },
            code: error.and_then(cri::Error::code).map(|code| code.name().to_owned()),
            message: failure.map(ToString::to_string),
        };
        self.hub.lock().metrics.operation(rpc, duration, error.is_some());
        self.sink.call_finished(&record);
        self.log.finished.push(record);
        result
    }
}

impl<R: Runtime> Caller<'_, R> {
    /// The kubelet's two lists in its order, of everything or of one pod. If the first fails, the second is not made.
    pub async fn lists(&mut self, uid: Option<&str>) -> Result<(Vec<Sandbox>, Vec<Container>), Failure> {
        let rt = self.rt;
        let pod = uid.map(|uid| PodRef { uid: uid.to_owned(), ..PodRef::default() });
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let call = rt.list_sandboxes(&filter);
        let sandboxes = self.make(Rpc::ListPodSandbox, None, pod.as_ref(), call, Ok).await?;
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let call = rt.list_containers(&filter);
        let containers = self.make(Rpc::ListContainers, None, pod.as_ref(), call, Ok).await?;
        Ok((sandboxes, containers))
    }
}
