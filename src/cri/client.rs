//! The gRPC client: one connection to one runtime.
//!
//! Each call is sent once, with a deadline that the server is told too, and comes back as a [`Call`]. Nothing is
//! retried: a call that hangs costs the runtime a goroutine until whatever blocks it lets go, and a second one would
//! cost another.

use std::error::Error as _;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message;
use prost::bytes::Bytes;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::transport::{Channel, Endpoint as TransportEndpoint, Uri};
use tonic::{Request, Status};

use super::arrival::Arrival;
use super::codec::{self, Listing, RawCodec};
use super::connect::{Heard, Listened, Protocol, dial};
use super::convert::{cgroup_driver, container_filter, sandbox_filter};
use super::generated as wire;
use super::guard::{Foreign, Guarded};
use super::tape::{Take, Tape};
use super::weight::{Fault, Scale, Weighed};
use super::{
    Call, CgroupDriver, Container, ContainerState, ContainerStatus, Error, EventConnection, EventFeed,
    EventStream, Filter, ReceivedEvent, Rpc, Runtime, RuntimeStatus, Sandbox, SandboxState,
    SandboxStatusAnswer, Version,
};
use crate::clock::{Clock, Wall};
use crate::panics::held_future;

/// What the kubelet is willing to receive in one message (pkg/kubelet/cri, maxMsgSize): the yardstick for list sizes.
pub const KUBELET_RECEIVE_LIMIT: u64 = crate::kubelet::timing::RECEIVE_LIMIT;

/// What we are willing to receive for one call, in one message or many. Far above the kubelet's limit, and above CRI-O's
/// own of 80 MiB, so that what breaks the kubelet can still be shown.
const RECEIVE_LIMIT: usize = 96 * 1024 * 1024;

/// Headers and trailers above this are refused. Below the kubelet's 16 MiB; above any error that a runtime words.
const HEADER_LIMIT: u32 = 4 * 1024 * 1024;

/// How much is kept of a runtime's words: its error may quote all that a program wrote before it died.
const WORDS: usize = 4096;

/// HTTP/2 flow-control window: a large list should not wait for window updates, nor a short stall of ours reach the
/// runtime's event queue.
const WINDOW: u32 = 4 * 1024 * 1024;

/// Events read from the stream and not yet taken by whoever asked for them.
pub(super) const EVENT_QUEUE: usize = 65_536;

/// The API version string that the kubelet sends with `Version`.
const KUBELET_API_VERSION: &str = "0.1.0";

/// Makes a connection.
type Connect = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<UnixStream, Error>> + Send>> + Send + Sync>;

/// A channel that is made by its first user: only there is an event loop certain to run.
type LazyChannel = LazyLock<Channel, Box<dyn FnOnce() -> Channel + Send>>;

/// One connection to one runtime.
#[derive(Clone)]
pub struct Client {
    channel: Arc<LazyChannel>,
    connect: Connect,
    clock: Arc<dyn Clock>,
    endpoint: Arc<str>,
    heard: Heard,
    deadline: Duration,
    streamed_lists: bool,
    tape: Option<Arc<dyn Tape>>,
    interpreter: Option<Arc<dyn Interpreter>>,
}

/// Knows more of an answer than its bytes say, where a server of this program's own stands in for another: a capture
/// knows which error was recorded, and how long the call took then.
pub trait Interpreter: Send + Sync {
    /// The error that the words of a status stand for.
    fn error(&self, words: &str) -> Option<Error>;
    /// How long the call with this request took; `None` if it takes as long as it takes.
    fn took(&self, rpc: Rpc, request: &[u8]) -> Option<Duration>;
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the socket at `path`, which the user calls `endpoint`. Connects with the first call.
    pub fn new(path: &Path, endpoint: &str, deadline: Duration, clock: Arc<dyn Clock>) -> Self {
        let (path, name) = (path.to_path_buf(), endpoint.to_owned());
        Self::over(move || dial(path.clone(), name.clone()), endpoint, deadline, clock)
    }

    /// A client whose connections are made by `connect`.
    pub fn over<C, F>(connect: C, endpoint: &str, deadline: Duration, clock: Arc<dyn Clock>) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<UnixStream, Error>> + Send + 'static,
    {
        Self::dialling(Arc::new(move || Box::pin(connect())), endpoint, deadline, clock)
    }

    /// Not generic, because what the transport makes of a way to connect is large, and made anew for each type of it.
    fn dialling(connect: Connect, endpoint: &str, deadline: Duration, clock: Arc<dyn Clock>) -> Self {
        let heard = Heard::default();
        let dialler = {
            let (connect, heard) = (Arc::clone(&connect), heard.clone());
            move |_: Uri| listened(connect(), heard.clone())
        };
        // The address is never looked up; it only gives the authority that every CRI client sends.
        let transport = TransportEndpoint::from_static("http://localhost")
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .http2_max_header_list_size(HEADER_LIMIT);
        let make = move || transport.connect_with_connector_lazy(tower::service_fn(dialler));
        let channel = Arc::new(LazyChannel::new(Box::new(make)));
        Self {
            channel,
            connect,
            clock,
            endpoint: endpoint.into(),
            heard,
            deadline,
            streamed_lists: false,
            tape: None,
            interpreter: None,
        }
    }

    /// The same client, listing through `StreamPodSandboxes` and `StreamContainers`.
    #[must_use]
    pub fn with_streamed_lists(mut self) -> Self {
        self.streamed_lists = true;
        self
    }

    /// The same connection with another deadline for each call.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same connection, with everything that is asked and heard taken down.
    #[must_use]
    pub fn with_tape(mut self, tape: Arc<dyn Tape>) -> Self {
        self.tape = Some(tape);
        self
    }

    /// The same connection to a server of our own that tells errors in words of our own.
    #[must_use]
    pub fn with_interpreter(mut self, interpreter: Arc<dyn Interpreter>) -> Self {
        self.interpreter = Some(interpreter);
        self
    }

    fn take(&self, rpc: Rpc, request: &impl Message) -> Option<Take> {
        let tape = self.tape.as_ref()?;
        Some(Take::start(tape, &self.clock, rpc, request.encode_to_vec().into()))
    }

    /// One unary call.
    async fn unary<Q, A>(&self, rpc: Rpc, message: Q) -> Call<A>
    where
        Q: Message,
        A: Message + Default + Weighed,
    {
        let (take, arrival) = (self.take(rpc, &message), Arrival::awaited(&self.clock));
        let exchange = Box::pin(async {
            let answer = self.single(rpc, &message, &arrival).await?;
            heard(take.as_ref(), &answer);
            let bytes = answer.len();
            Ok((codec::message(answer)?.0, bytes))
        });
        let call = self.timed(rpc, &message, &arrival, exchange).await;
        if let Some(take) = take {
            take.end(call.duration, call.result.as_ref().err());
        }
        call
    }

    /// One list in one message.
    async fn list<Q, L, T>(&self, rpc: Rpc, message: Q) -> Call<Vec<T>>
    where
        Q: Message,
        L: Listing,
        T: From<L::Entry>,
    {
        let (take, arrival) = (self.take(rpc, &message), Arrival::awaited(&self.clock));
        let exchange = Box::pin(async {
            let answer = self.single(rpc, &message, &arrival).await?;
            heard(take.as_ref(), &answer);
            let (bytes, mut all) = (answer.len(), Vec::new());
            codec::entries::<L, T>(answer, &mut Scale::of_list(), &mut all, &arrival).await?;
            Ok((all, bytes))
        });
        let call = self.timed(rpc, &message, &arrival, exchange).await;
        if let Some(take) = take {
            take.end(call.duration, call.result.as_ref().err());
        }
        call
    }

    /// One list that arrives in batches, all of it under one deadline and one limit.
    async fn batched<Q, L, T>(&self, rpc: Rpc, message: Q) -> Call<Vec<T>>
    where
        Q: Message,
        L: Listing,
        T: From<L::Entry>,
    {
        let (take, arrival) = (self.take(rpc, &message), Arrival::awaited(&self.clock));
        let exchange = Box::pin(async {
            let (mut scale, mut bytes, mut all) = (Scale::of_list(), 0_usize, Vec::new());
            let mut stream = self.open(rpc, &message, Some(self.deadline), &arrival).await?;
            while let Some(batch) = stream.message().await? {
                bytes = bytes.saturating_add(batch.len());
                if bytes > RECEIVE_LIMIT {
                    return Err(Trouble::Endless);
                }
                heard(take.as_ref(), &batch);
                codec::entries::<L, T>(batch, &mut scale, &mut all, &arrival).await?;
            }
            Ok((all, bytes))
        });
        let call = self.timed(rpc, &message, &arrival, exchange).await;
        if let Some(take) = take {
            take.end(call.duration, call.result.as_ref().err());
        }
        call
    }

    /// The one message that answers a unary call.
    async fn single(
        &self,
        rpc: Rpc,
        message: &impl Message,
        arrival: &Arc<Arrival>,
    ) -> Result<Bytes, Trouble> {
        let mut stream = self.open(rpc, message, Some(self.deadline), arrival).await?;
        let Some(answer) = stream.message().await? else {
            return Err(Fault::Undecodable("it has a status and no message".into()).into());
        };
        // A unary call ends with its status; the kubelet's client refuses a second message too.
        match stream.message().await? {
            None => Ok(answer),
            Some(_) => Err(Fault::Undecodable("it has more than one message".into()).into()),
        }
    }

    async fn open(
        &self,
        rpc: Rpc,
        message: &impl Message,
        deadline: Option<Duration>,
        arrival: &Arc<Arrival>,
    ) -> Result<Streaming<Bytes>, Status> {
        let channel = Guarded::new(Channel::clone(&self.channel), Arc::clone(arrival));
        let mut grpc = Grpc::new(channel).max_decoding_message_size(RECEIVE_LIMIT);
        grpc.ready().await.map_err(Status::from_error)?;
        let mut request = Request::new(Bytes::from(message.encode_to_vec()));
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        let path = http::uri::PathAndQuery::from_static(rpc.path());
        // On the wire a unary answer is a stream of one message.
        grpc.server_streaming(request, path, RawCodec).await.map(tonic::Response::into_inner)
    }

    /// Runs one exchange under the deadline and makes a [`Call`] of it. The exchange is on the heap: it is nearly all of a
    /// call, which is moved from hand to hand before it starts.
    async fn timed<A>(
        &self,
        rpc: Rpc,
        message: &impl Message,
        arrival: &Arrival,
        exchange: impl Future<Output = Result<(A, usize), Trouble>>,
    ) -> Call<A> {
        let start = self.clock.mono();
        let ended = timeout(self.deadline, held_future(exchange)).await;
        let mut duration = self.clock.mono().since(start);
        if let (Ok(_), Some(known)) = (&ended, &self.interpreter) {
            duration = known.took(rpc, &message.encode_to_vec()).unwrap_or(duration);
        }
        let (response_bytes, result) = match ended {
            Ok(Ok(Ok((answer, bytes)))) => (u64::try_from(bytes).unwrap_or(u64::MAX), Ok(answer)),
            Ok(Ok(Err(trouble))) => (0, Err(self.explain(rpc, &trouble, duration))),
            Ok(Err(detail)) => (0, Err(Error::Own { rpc, detail })),
            Err(_) => (0, Err(Error::Silent { rpc, waited: self.deadline })),
        };
        // Whoever noticed that the time is over: what is on its way is not silent.
        let (response_bytes, result) = match result {
            Err(Error::Silent { waited, .. }) => (arrival.bytes(), Err(arrival.missed(rpc, waited))),
            Err(why @ Error::Implausible { .. }) => (arrival.bytes(), Err(why)),
            _ => (response_bytes, result),
        };
        Call { rpc, duration, response_bytes, result }
    }

    /// Which kind of night it is.
    fn explain(&self, rpc: Rpc, trouble: &Trouble, took: Duration) -> Error {
        match trouble {
            Trouble::Status(status) => self.explain_status(rpc, status, took),
            Trouble::Bytes(Fault::Undecodable(detail)) => Error::Decode { rpc, detail: detail.clone() },
            Trouble::Bytes(Fault::Implausible(detail)) => Error::Implausible { rpc, detail: detail.clone() },
            Trouble::Endless => Error::TooLarge {
                rpc,
                message: format!("it goes on after {} MiB, which is all that is taken", RECEIVE_LIMIT >> 20),
            },
        }
    }

    /// Which kind of night a gRPC status stands for.
    fn explain_status(&self, rpc: Rpc, status: &Status, took: Duration) -> Error {
        if let Some(dialled) = dial_error(status) {
            return dialled;
        }
        if let Some(told) = self.interpreter.as_ref().and_then(|known| known.error(status.message())) {
            return told;
        }
        match causes(status).find_map(|cause| cause.downcast_ref::<Foreign>()) {
            Some(foreign @ Foreign::Protocol(_)) => {
                return Error::WrongProtocol {
                    endpoint: self.endpoint.to_string(),
                    detail: foreign.to_string(),
                };
            }
            Some(foreign @ Foreign::Malformed(_)) => {
                return Error::Decode { rpc, detail: foreign.to_string() };
            }
            None => {}
        }
        // The transport keeps the deadline too, and may notice first.
        if causes(status).any(<dyn std::error::Error>::is::<tonic::TimeoutExpired>) {
            return Error::Silent { rpc, waited: self.deadline };
        }
        let message = shortened(status.message());
        if is_transport(status) {
            return match self.heard.protocol() {
                Protocol::Other(first_line) => Error::WrongProtocol {
                    endpoint: self.endpoint.to_string(),
                    detail: format!("it answered `{first_line}`"),
                },
                Protocol::Nothing => Error::ClosedMidCall { rpc, detail: "it hung up without a word".into() },
                Protocol::Http2 => Error::ClosedMidCall { rpc, detail: innermost(status) },
            };
        }
        match status.code() {
            // The runtime was told the deadline too, and may answer with it.
            tonic::Code::DeadlineExceeded | tonic::Code::Cancelled if took >= self.deadline.mul_f64(0.9) => {
                Error::Silent { rpc, waited: self.deadline }
            }
            tonic::Code::Unimplemented => Error::Unimplemented { rpc, message },
            tonic::Code::ResourceExhausted if message.contains("larger than max") => {
                Error::TooLarge { rpc, message }
            }
            // What tonic calls our own receive limit.
            tonic::Code::OutOfRange if message.contains("decoded message length too large") => {
                Error::TooLarge { rpc, message }
            }
            code => Error::Runtime { rpc, code: code.into(), message },
        }
    }
}

/// Why an exchange brought no answer.
#[derive(Debug)]
enum Trouble {
    Status(Box<Status>),
    Bytes(Fault),
    /// A list that arrives in batches, and does not end.
    Endless,
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Bytes(fault)
    }
}

/// The beginning of a runtime's words.
fn shortened(words: &str) -> String {
    if words.len() <= WORDS {
        return words.to_owned();
    }
    let end = (0..=WORDS).rev().find(|end| words.is_char_boundary(*end)).unwrap_or_default();
    let kept = words.get(..end).unwrap_or_default();
    format!("{kept}… ({} bytes in all)", words.len())
}

async fn listened(
    connecting: impl Future<Output = Result<UnixStream, Error>>,
    heard: Heard,
) -> Result<TokioIo<Listened>, Error> {
    connecting.await.map(|stream| TokioIo::new(Listened::new(stream, heard)))
}

/// Takes down an answer, or a part of one, if somebody wants it.
fn heard(take: Option<&Take>, message: &Bytes) {
    if let Some(take) = take {
        take.hear(message.clone());
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(status.source(), |error| (*error).source())
}

/// The error of our own dialler, if that is what lies under `status`.
fn dial_error(status: &Status) -> Option<Error> {
    causes(status).find_map(|cause| cause.downcast_ref::<Error>()).cloned()
}

/// Whether `status` was made on this side, of a broken connection.
fn is_transport(status: &Status) -> bool {
    causes(status).any(|cause| {
        cause.is::<tonic::transport::Error>() || cause.is::<hyper::Error>() || cause.is::<h2::Error>()
    })
}

fn innermost(status: &Status) -> String {
    causes(status).last().map_or_else(|| status.message().to_owned(), ToString::to_string)
}

impl Runtime for Client {
    async fn version(&self) -> Call<Version> {
        let request = wire::VersionRequest { version: KUBELET_API_VERSION.into() };
        self.unary(Rpc::Version, request).await.map(|answer: wire::VersionResponse| answer.into())
    }

    async fn status(&self) -> Call<RuntimeStatus> {
        let request = wire::StatusRequest { verbose: false };
        self.unary(Rpc::Status, request).await.map(|answer: wire::StatusResponse| answer.into())
    }

    async fn cgroup_driver(&self) -> Call<Option<CgroupDriver>> {
        self.unary(Rpc::RuntimeConfig, wire::RuntimeConfigRequest {}).await.map(cgroup_driver)
    }

    fn lists_by(&self) -> [Rpc; 2] {
        if self.streamed_lists {
            [Rpc::StreamPodSandboxes, Rpc::StreamContainers]
        } else {
            [Rpc::ListPodSandbox, Rpc::ListContainers]
        }
    }

    async fn list_sandboxes(&self, filter: &Filter<SandboxState>) -> Call<Vec<Sandbox>> {
        let filter = Some(sandbox_filter(filter));
        if self.streamed_lists {
            let request = wire::StreamPodSandboxesRequest { filter };
            return self
                .batched::<_, wire::StreamPodSandboxesResponse, _>(Rpc::StreamPodSandboxes, request)
                .await;
        }
        let request = wire::ListPodSandboxRequest { filter };
        self.list::<_, wire::ListPodSandboxResponse, _>(Rpc::ListPodSandbox, request).await
    }

    async fn list_containers(&self, filter: &Filter<ContainerState>) -> Call<Vec<Container>> {
        let filter = Some(container_filter(filter));
        if self.streamed_lists {
            let request = wire::StreamContainersRequest { filter };
            return self
                .batched::<_, wire::StreamContainersResponse, _>(Rpc::StreamContainers, request)
                .await;
        }
        let request = wire::ListContainersRequest { filter };
        self.list::<_, wire::ListContainersResponse, _>(Rpc::ListContainers, request).await
    }

    async fn sandbox_status(&self, sandbox_id: &str) -> Call<SandboxStatusAnswer> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: sandbox_id.to_owned(), verbose: false };
        self.unary(Rpc::PodSandboxStatus, request)
            .await
            .map(|answer: wire::PodSandboxStatusResponse| answer.into())
    }

    async fn container_status(&self, container_id: &str) -> Call<Option<ContainerStatus>> {
        let request = wire::ContainerStatusRequest { container_id: container_id.to_owned(), verbose: false };
        self.unary(Rpc::ContainerStatus, request)
            .await
            .map(|answer: wire::ContainerStatusResponse| answer.status.map(Into::into))
    }

    async fn container_stats(&self, container_id: &str) -> Call<()> {
        let request = wire::ContainerStatsRequest { container_id: container_id.to_owned() };
        self.unary(Rpc::ContainerStats, request).await.map(|_: wire::ContainerStatsResponse| ())
    }

    /// Drained by a task beside the calls; see [`Client::connect_for_events`] for a stream that waits for no call.
    async fn container_events(&self) -> Result<EventStream, Error> {
        let (feed, events) = EventStream::bounded(EVENT_QUEUE);
        let client = self.clone();
        tokio::spawn(async move { client.feed(feed).await });
        Ok(events)
    }
}

impl Client {
    /// A connection of its own to the same runtime, for the event stream alone.
    pub async fn connect_for_events(&self) -> Result<EventConnection, Error> {
        let endpoint = Arc::clone(&self.endpoint);
        let socket = (self.connect)().await?.into_std();
        let socket = socket
            .map_err(|why| Error::Unreachable { endpoint: endpoint.to_string(), detail: why.to_string() })?;
        Ok(EventConnection::new(socket, endpoint, Arc::clone(&self.clock), self.tape.clone()))
    }

    /// Reads the event stream to its end, or until nobody wants it any more. It has no deadline, as in the kubelet; how
    /// it ends is its last word.
    pub(super) async fn feed(&self, feed: EventFeed) {
        let rpc = Rpc::GetContainerEvents;
        let start = self.clock.mono();
        let take = self.take(rpc, &wire::GetEventsRequest {});
        let ended = tokio::select! {
            // Whoever hangs up has no interest in how that looks from here.
            biased;
            () = feed.abandoned() => return,
            ended = held_future(self.drain(rpc, &feed, take.as_ref())) => ended,
        };
        let took = self.clock.mono().since(start);
        let error = match ended {
            Ok(Ok(())) => None,
            Ok(Err(trouble)) => Some(self.explain(rpc, &trouble, took)),
            Err(detail) => Some(Error::Own { rpc, detail }),
        };
        if let Some(take) = take {
            take.end(took, error.as_ref());
        }
        if let Some(error) = error {
            feed.fail(error).await;
        }
    }

    async fn drain(&self, rpc: Rpc, feed: &EventFeed, take: Option<&Take>) -> Result<(), Trouble> {
        let mut stream =
            self.open(rpc, &wire::GetEventsRequest {}, None, &Arrival::awaited(&self.clock)).await?;
        while let Some(message) = stream.message().await? {
            if let Some(take) = take {
                take.tell(message.clone());
            }
            feed.offer(received(message, self.clock.wall())?);
        }
        Ok(())
    }
}

/// A message of the event stream that was read at `at`.
fn received(message: Bytes, at: Wall) -> Result<ReceivedEvent, Fault> {
    let bytes = u64::try_from(message.len()).unwrap_or(u64::MAX);
    let (event, weight) = codec::message::<wire::ContainerEventResponse>(message)?;
    Ok(ReceivedEvent { event: event.into(), at, bytes, weight })
}

impl ReceivedEvent {
    /// The event of a message that was recorded at `at`; `None` if it is none.
    pub fn recorded(message: Bytes, at: Wall) -> Option<Self> {
        received(message, at).ok()
    }
}
