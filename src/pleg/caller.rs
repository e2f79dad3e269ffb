//! Making calls: each is on record before it is made, told of when it ends, and counted as the kubelet counts.

use std::future::Future;

use super::calls::{CallLog, CallRecord, Failure, OpenCall};
use super::hub::Hub;
use super::stream::Event;
use crate::clock::Clock;
use crate::cri::{self, Call, Container, Filter, Outcome, Rpc, Runtime, Sandbox};
use crate::report::PodRef;

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
        self.log.begin(open);
        let call = call.await;
        let (id, pod) = self.log.end().map_or((None, None), |open| (open.id, open.pod));

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
                (None, _) => Outcome::Ok,
                (Some(_), Some(error)) => error.outcome(),
                (Some(_), None) => Outcome::Error,
            },
            code: error.and_then(cri::Error::code).map(|code| code.name().to_owned()),
            message: failure.map(ToString::to_string),
        };
        self.hub.lock().metrics.operation(rpc, duration, error.is_some());
        self.sink.call_finished(&record);
        self.log.note(record);
        result
    }
}

impl<R: Runtime> Caller<'_, R> {
    /// The kubelet's two lists in its order, of everything or of one pod. If the first fails, the second is not made.
    pub async fn lists(&mut self, uid: Option<&str>) -> Result<(Vec<Sandbox>, Vec<Container>), Failure> {
        let rt = self.rt;
        let [sandboxes_by, containers_by] = rt.lists_by();
        let pod = uid.map(|uid| PodRef { uid: uid.to_owned(), ..PodRef::default() });
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let call = rt.list_sandboxes(&filter);
        let sandboxes = self.make(sandboxes_by, None, pod.as_ref(), call, Ok).await?;
        let filter = uid.map(Filter::pod).unwrap_or_default();
        let call = rt.list_containers(&filter);
        let containers = self.make(containers_by, None, pod.as_ref(), call, Ok).await?;
        Ok((sandboxes, containers))
    }
}
