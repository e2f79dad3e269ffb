//! Makes the CRI calls of the engine. Passes each call to the [`Sink`] before the call starts and after it ends, and counts
//! it in the log and in the kubelet's metrics.

use std::future::Future;

use super::calls::{CallFailure, CallLog, CallRecord, OpenCall};
use super::shared_state::SharedState;
use super::stream::Event;
use crate::clock::Clock;
use crate::cri::{self, Call, Container, DecodedList, Filter, Outcome, Rpc, Runtime, Sandbox};
use crate::kubelet::timing;
use crate::report::PodRef;

/// Receives events and calls at the moment when the engine produces them. So the events of one pod do not wait for the hung
/// call of another pod, and the caller sees a call that never ends.
pub trait Sink: Send {
    /// Receives an event, whether or not the kubelet delivers this type of event.
    fn event(&mut self, event: Event);
    /// Receives a call that is about to start.
    fn call_started(&mut self, _call: &OpenCall) {}
    /// Receives a call that has ended.
    fn call_finished(&mut self, _call: &CallRecord) {}
}

impl Sink for Vec<Event> {
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}

/// The lists of all sandboxes and of all containers.
pub(super) type Lists = (DecodedList<Sandbox>, DecodedList<Container>);

/// Makes calls, logs them and counts them in the kubelet's metrics. A call is in the log before it starts.
pub(super) struct Caller<'a, R> {
    pub rt: &'a R,
    pub clock: &'a dyn Clock,
    pub shared_state: &'a SharedState,
    pub log: &'a mut CallLog,
    pub sink: &'a mut dyn Sink,
    pub limit: AnswerLimit,
}

/// The answers that a [`Caller`] accepts, by their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerLimit {
    /// Those that the kubelet's client accepts. A larger answer is an error for the kubelet.
    Kubelets,
    /// All that plegctl can read.
    Own,
}

impl AnswerLimit {
    /// Returns the error of the kubelet's client, if it would not accept this answer.
    fn refuse<T>(self, call: &Call<T>) -> Option<cri::Error> {
        if self == Self::Own || call.result.is_err() {
            return None;
        }
        // The limit is for a message, and a streamed list has several.
        let largest = call.stream.map_or(call.response_bytes, |stream| stream.largest_message_bytes);
        let message = timing::refused_message(largest)?;
        Some(cri::Error::TooLarge { rpc: call.rpc, message })
    }
}

impl<R> Caller<'_, R> {
    /// Makes one call. If `accept` rejects the answer, the call counts as an error with the text of the rejection.
    pub async fn make<T, U>(
        &mut self,
        rpc: Rpc,
        id: Option<&str>,
        pod: Option<&PodRef>,
        call: impl Future<Output = Call<T>>,
        accept: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<U, CallFailure> {
        let open = OpenCall { rpc, id: id.map(str::to_owned), pod: pod.cloned(), started: self.clock.mono() };
        self.sink.call_started(&open);
        self.log.begin(open);
        let mut call = call.await;
        // After a streaming call that the runtime does not implement, the unary call was made.
        let rpc = call.rpc;
        if let Some(error) = self.limit.refuse(&call) {
            call.result = Err(error);
        }
        let (id, pod) = self.log.end().map_or((None, None), |open| (open.id, open.pod));

        let (duration, response_bytes, stream) = (call.duration, call.response_bytes, call.stream);
        let result = call
            .result
            .map_err(CallFailure::Call)
            .and_then(|answer| accept(answer).map_err(CallFailure::Refused));
        let failure = result.as_ref().err();
        let error = failure.and_then(CallFailure::error);
        let record = CallRecord {
            rpc: rpc.name().to_owned(),
            id,
            pod,
            duration_seconds: duration.into(),
            response_bytes,
            stream,
            outcome: failure.map_or(Outcome::Ok, CallFailure::outcome),
            code: error.and_then(cri::Error::code).map(|code| code.name().to_owned()),
            message: failure.map(ToString::to_string),
        };
        self.shared_state.lock().metrics.operation(rpc, duration, error.is_some());
        self.sink.call_finished(&record);
        self.log.add(record);
        result
    }
}

impl<R: Runtime> Caller<'_, R> {
    /// Makes the kubelet's two list calls in the kubelet's order, for all pods or for one. If the first call fails, does not
    /// make the second.
    pub async fn lists(&mut self, uid: Option<&str>) -> Result<(Vec<Sandbox>, Vec<Container>), CallFailure> {
        let rt = self.rt;
        let [sandboxes_by, containers_by] = rt.list_rpcs();
        let pod = uid.map(|uid| PodRef { uid: uid.to_owned(), ..PodRef::default() });
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let call = rt.list_sandboxes(&filter);
        let sandboxes = self.make(sandboxes_by, None, pod.as_ref(), call, Ok).await?;
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let call = rt.list_containers(&filter);
        let containers = self.make(containers_by, None, pod.as_ref(), call, Ok).await?;
        Ok((sandboxes, containers))
    }

    /// Makes the same calls for all pods, after the `last` lists.
    pub async fn relists(&mut self, last: Lists) -> Result<Lists, CallFailure> {
        let rt = self.rt;
        let [sandboxes_by, containers_by] = rt.list_rpcs();
        let sandboxes = self.make(sandboxes_by, None, None, rt.relist_sandboxes(last.0), Ok).await?;
        let containers = self.make(containers_by, None, None, rt.relist_containers(last.1), Ok).await?;
        Ok((sandboxes, containers))
    }
}
