//! The gRPC client: sends calls over one connection to one runtime, and returns each as a [`Call`].
//!
//! Each call is sent once, with a deadline that the server receives too. The client never retries: a hanging call occupies a
//! goroutine of the runtime until the cause of the hang ends, and a second call would occupy another goroutine.

use std::error::Error as _;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
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

use super::codec::{self, ListResponse, RawCodec};
use super::connect::{self, FirstBytes, Protocol, SniffedStream, dial};
use super::convert::{cgroup_driver, container_filter, sandbox_filter};
use super::decode_budget::{DecodeBudget, HasShape, MessageError};
use super::decoded_list::{DecodedList, ListDecoder};
use super::generated as wire;
use super::grpc_check::{CheckedChannel, NotGrpc};
use super::observer::{CallGuard, CallObserver};
use super::progress::AnswerProgress;
use super::{
    Call, CgroupDriver, Container, ContainerState, ContainerStatus, Error, EventConnection, EventFeed,
    EventStream, Filter, ReceivedEvent, Rpc, Runtime, RuntimeStatus, Sandbox, SandboxState,
    SandboxStatusAnswer, Version,
};
use crate::clock::{Clock, Wall};
use crate::kubelet::ListCalls;
use crate::panics::catch_panic_async;

/// The largest message that the kubelet receives (pkg/kubelet/cri, maxMsgSize). List sizes are compared with this
/// limit.
pub const KUBELET_RECEIVE_LIMIT: u64 = crate::kubelet::timing::RECEIVE_LIMIT;

/// The maximum number of bytes that the client receives for one call, in one message or several. The limit is far above
/// the kubelet's limit, and above CRI-O's limit of 80 MiB, so that plegctl can show an answer that is too large for the
/// kubelet.
const RECEIVE_LIMIT: usize = 96 * 1024 * 1024;

/// The maximum size of headers and trailers: less than the kubelet's 16 MiB, more than the error text of any runtime.
const HEADER_LIMIT: u32 = 4 * 1024 * 1024;

/// The number of bytes of a status message that are kept. A runtime's error may quote everything that a program wrote before
/// it died.
const MAX_STATUS_MESSAGE: usize = 4096;

/// The HTTP/2 flow-control window. With a large window, a long list does not wait for window updates, and a short
/// pause in plegctl does not fill the runtime's event queue.
const WINDOW: u32 = 4 * 1024 * 1024;

/// The capacity of the queue between the thread that reads the event stream and the consumer of the events.
pub(super) const EVENT_QUEUE: usize = 65_536;

/// The API version string that the kubelet sends with `Version`.
const KUBELET_API_VERSION: &str = "0.1.0";

/// A function that opens a connection.
type Connect = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<UnixStream, Error>> + Send>> + Send + Sync>;

/// A channel that is created on first use, because creating it requires a running event loop.
type LazyChannel = LazyLock<Channel, Box<dyn FnOnce() -> Channel + Send>>;

/// The calls with which a client and its clones list.
#[derive(Default)]
struct ListMode {
    streams: AtomicBool,
    /// Whether the unary calls follow, if the runtime does not implement a streaming call.
    falls_back: AtomicBool,
}

/// One connection to one runtime.
#[derive(Clone)]
pub struct Client {
    channel: Arc<LazyChannel>,
    connect: Connect,
    clock: Arc<dyn Clock>,
    endpoint: Arc<str>,
    first_bytes: FirstBytes,
    deadline: Duration,
    list_mode: Arc<ListMode>,
    observer: Option<Arc<dyn CallObserver>>,
    outcome_override: Option<Arc<dyn OutcomeOverride>>,
}

/// Provides the original error and duration of a recorded call. The server that replays a capture cannot transport them
/// over gRPC.
pub trait OutcomeOverride: Send + Sync {
    /// Returns the original error that the message of a gRPC status refers to.
    fn error(&self, message: &str) -> Option<Error>;
    /// Returns the original duration of the call with this request; `None` keeps the measured duration.
    fn duration(&self, rpc: Rpc, request: &[u8]) -> Option<Duration>;
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
    /// Creates a client for the socket at `path`; `endpoint` is the user's name for the socket. The first call connects.
    pub fn new(path: &Path, endpoint: &str, deadline: Duration, clock: Arc<dyn Clock>) -> Self {
        let (path, name) = (path.to_path_buf(), endpoint.to_owned());
        Self::over(move || dial(path.clone(), name.clone()), endpoint, deadline, clock)
    }

    /// Creates a client that calls `connect` for each connection.
    pub fn over<C, F>(connect: C, endpoint: &str, deadline: Duration, clock: Arc<dyn Clock>) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<UnixStream, Error>> + Send + 'static,
    {
        Self::with_dialler(Arc::new(move || Box::pin(connect())), endpoint, deadline, clock)
    }

    /// Creates a client. This function is not generic, because the compiler would generate the large transport code again
    /// for each type of `connect`.
    fn with_dialler(connect: Connect, endpoint: &str, deadline: Duration, clock: Arc<dyn Clock>) -> Self {
        let first_bytes = FirstBytes::default();
        let dialler = {
            let (connect, first_bytes) = (Arc::clone(&connect), first_bytes.clone());
            move |_: Uri| connect_sniffed(connect(), first_bytes.clone())
        };
        // No resolver uses this address. It only provides the authority that every CRI client sends.
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
            first_bytes,
            deadline,
            list_mode: Arc::default(),
            observer: None,
            outcome_override: None,
        }
    }

    /// Lists with `StreamPodSandboxes` and `StreamContainers` instead of the unary list calls.
    #[must_use]
    pub fn with_streamed_lists(self) -> Self {
        self.with_list_mode(true, false)
    }

    /// Lists as a kubelet with the feature gate `CRIListStreaming`: with the streaming calls, and after the first one that the
    /// runtime does not implement, with the unary calls.
    #[must_use]
    pub fn with_lists_of_gate(self) -> Self {
        self.with_list_mode(true, true)
    }

    fn with_list_mode(mut self, streams: bool, falls_back: bool) -> Self {
        let mode = ListMode { streams: streams.into(), falls_back: falls_back.into() };
        self.list_mode = Arc::new(mode);
        self
    }

    /// Whether the next list call is a streaming one.
    fn streams_lists(&self) -> bool {
        self.list_mode.streams.load(Ordering::Relaxed)
    }

    /// Whether the unary call follows this answer of a streaming call.
    fn falls_back<T>(&self, answer: &Call<T>) -> bool {
        // A recorder that had fallen back made unary calls from then on.
        let is_refused =
            matches!(answer.result, Err(Error::Unimplemented { .. } | Error::Unanswerable { .. }));
        let falls_back = self.list_mode.falls_back.load(Ordering::Relaxed) && is_refused;
        if falls_back {
            self.list_mode.streams.store(false, Ordering::Relaxed);
        }
        falls_back
    }

    /// Uses another deadline for each call.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Reports each call, with its request and its answer, to an observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn CallObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Replaces errors and durations of calls by those of an [`OutcomeOverride`].
    #[must_use]
    pub fn with_outcome_override(mut self, outcome_override: Arc<dyn OutcomeOverride>) -> Self {
        self.outcome_override = Some(outcome_override);
        self
    }

    /// Reports the start of a call to the observer, if there is one.
    fn observe(&self, rpc: Rpc, request: &impl Message) -> Option<CallGuard> {
        let observer = self.observer.as_ref()?;
        Some(CallGuard::start(observer, &self.clock, rpc, request.encode_to_vec().into()))
    }

    /// Sends a unary call.
    async fn unary<Q, A>(&self, rpc: Rpc, message: Q) -> Call<A>
    where
        Q: Message,
        A: Message + Default + HasShape,
    {
        let (guard, progress) = (self.observe(rpc, &message), AnswerProgress::new(&self.clock));
        let exchange = Box::pin(async {
            let answer = self.receive_single(rpc.path(), &message, &progress).await?;
            keep_for_observer(guard.as_ref(), &answer);
            let bytes = answer.len();
            Ok((codec::decode_message(answer)?.0, bytes))
        });
        self.run_timed(rpc, &message, guard.as_ref(), &progress, exchange).await
    }

    /// Sends a list call whose answer is one message.
    async fn list<Q, L, T>(
        &self,
        rpc: Rpc,
        message: Q,
        earlier: Option<DecodedList<T>>,
    ) -> Call<DecodedList<T>>
    where
        Q: Message,
        L: ListResponse,
        T: From<L::ListItem>,
    {
        let (guard, progress) = (self.observe(rpc, &message), AnswerProgress::new(&self.clock));
        let exchange = Box::pin(async {
            let answer = self.receive_single(rpc.path(), &message, &progress).await?;
            keep_for_observer(guard.as_ref(), &answer);
            let (bytes, mut list) = (answer.len(), ListDecoder::new(earlier));
            codec::decode_entries::<L::ListItem, T>(
                answer,
                &mut DecodeBudget::for_list(),
                &mut list,
                &progress,
            )
            .await?;
            Ok((list.finish(), bytes))
        });
        self.run_timed(rpc, &message, guard.as_ref(), &progress, exchange).await
    }

    /// Sends a list call whose answer arrives in batches. One deadline and one size limit apply to all batches together.
    async fn batched<Q, L, T>(
        &self,
        rpc: Rpc,
        message: Q,
        earlier: Option<DecodedList<T>>,
    ) -> Call<DecodedList<T>>
    where
        Q: Message,
        L: ListResponse,
        T: From<L::ListItem>,
    {
        let (guard, progress) = (self.observe(rpc, &message), AnswerProgress::new(&self.clock));
        let exchange = Box::pin(async {
            let (mut budget, mut bytes, mut list) =
                (DecodeBudget::for_list(), 0_usize, ListDecoder::new(earlier));
            let mut stream = self.open_stream(rpc.path(), &message, Some(self.deadline), &progress).await?;
            while let Some(batch) = stream.message().await? {
                bytes = bytes.saturating_add(batch.len());
                if bytes > RECEIVE_LIMIT {
                    return Err(ExchangeError::OverLimit);
                }
                keep_for_observer(guard.as_ref(), &batch);
                let (size, before) = (count(batch.len()), list.len());
                codec::decode_entries::<L::ListItem, T>(batch, &mut budget, &mut list, &progress).await?;
                progress.streamed(size, count(list.len() - before));
            }
            Ok((list.finish(), bytes))
        });
        self.run_timed(rpc, &message, guard.as_ref(), &progress, exchange).await
    }

    /// Lists sandboxes, and takes over the items of the `last` list if there is one.
    async fn sandboxes(
        &self,
        filter: &Filter<SandboxState>,
        mut last: Option<DecodedList<Sandbox>>,
    ) -> Call<DecodedList<Sandbox>> {
        let filter = Some(sandbox_filter(filter));
        if self.streams_lists() {
            let request = wire::StreamPodSandboxesRequest { filter: filter.clone() };
            let answer = self
                .batched::<_, wire::StreamPodSandboxesResponse, _>(
                    Rpc::StreamPodSandboxes,
                    request,
                    last.take(),
                )
                .await;
            if !self.falls_back(&answer) {
                return answer;
            }
        }
        let request = wire::ListPodSandboxRequest { filter };
        self.list::<_, wire::ListPodSandboxResponse, _>(Rpc::ListPodSandbox, request, last).await
    }

    /// Lists containers, and takes over the items of the `last` list if there is one.
    async fn containers(
        &self,
        filter: &Filter<ContainerState>,
        mut last: Option<DecodedList<Container>>,
    ) -> Call<DecodedList<Container>> {
        let filter = Some(container_filter(filter));
        if self.streams_lists() {
            let request = wire::StreamContainersRequest { filter: filter.clone() };
            let answer = self
                .batched::<_, wire::StreamContainersResponse, _>(Rpc::StreamContainers, request, last.take())
                .await;
            if !self.falls_back(&answer) {
                return answer;
            }
        }
        let request = wire::ListContainersRequest { filter };
        self.list::<_, wire::ListContainersResponse, _>(Rpc::ListContainers, request, last).await
    }

    /// Receives the single message that answers a unary call.
    pub(super) async fn receive_single(
        &self,
        path: &'static str,
        message: &impl Message,
        progress: &Arc<AnswerProgress>,
    ) -> Result<Bytes, ExchangeError> {
        let mut stream = self.open_stream(path, message, Some(self.deadline), progress).await?;
        let Some(answer) = stream.message().await? else {
            return Err(MessageError::Undecodable("it has a status and no message".into()).into());
        };
        // A unary call has one message and then its status. The kubelet's client refuses a second message too.
        match stream.message().await? {
            None => Ok(answer),
            Some(_) => Err(MessageError::Undecodable("it has more than one message".into()).into()),
        }
    }

    /// Sends a request, and returns the stream of the answer's messages.
    async fn open_stream(
        &self,
        path: &'static str,
        message: &impl Message,
        deadline: Option<Duration>,
        progress: &Arc<AnswerProgress>,
    ) -> Result<Streaming<Bytes>, Status> {
        let channel = CheckedChannel::new(Channel::clone(&self.channel), Arc::clone(progress));
        let mut grpc = Grpc::new(channel).max_decoding_message_size(RECEIVE_LIMIT);
        grpc.ready().await.map_err(Status::from_error)?;
        let mut request = Request::new(Bytes::from(message.encode_to_vec()));
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        let path = http::uri::PathAndQuery::from_static(path);
        // In the gRPC protocol, a unary answer is a stream with one message.
        grpc.server_streaming(request, path, RawCodec).await.map(tonic::Response::into_inner)
    }

    /// Runs an exchange (request and answer) until the deadline, reports its end to the observer, and converts it into a
    /// [`Call`]. Callers put the exchange on the heap, because it makes up most of a call's future, which is moved several
    /// times before it starts.
    async fn run_timed<A>(
        &self,
        rpc: Rpc,
        message: &impl Message,
        guard: Option<&CallGuard>,
        progress: &AnswerProgress,
        exchange: impl Future<Output = Result<(A, usize), ExchangeError>>,
    ) -> Call<A> {
        let start = self.clock.mono();
        let ended = timeout(self.deadline, catch_panic_async(exchange)).await;
        let mut duration = self.clock.mono().since(start);
        if let (Ok(_), Some(known)) = (&ended, &self.outcome_override) {
            duration = known.duration(rpc, &message.encode_to_vec()).unwrap_or(duration);
        }
        let (response_bytes, result) = match ended {
            Ok(Ok(Ok((answer, bytes)))) => (count(bytes), Ok(answer)),
            Ok(Ok(Err(why))) => (0, Err(self.explain(rpc, &why, duration))),
            Ok(Err(detail)) => (0, Err(Error::Internal { rpc, detail })),
            Err(_) => (0, Err(Error::Silent { rpc, waited: self.deadline })),
        };
        // An answer that was still arriving at the deadline is unfinished, not silent, no matter which side noticed the
        // deadline.
        let (response_bytes, result) = match result {
            Err(Error::Silent { waited, .. }) => (progress.bytes(), Err(progress.timeout_error(rpc, waited))),
            Err(why @ Error::Implausible { .. }) => (progress.bytes(), Err(why)),
            _ => (response_bytes, result),
        };
        if let Some(guard) = guard {
            guard.end(duration, result.as_ref().err());
        }
        let stream = rpc.is_streamed_list().then(|| progress.stream());
        Call { rpc, duration, response_bytes, stream, result }
    }

    /// Converts a failed exchange into the error that callers see.
    fn explain(&self, rpc: Rpc, why: &ExchangeError, took: Duration) -> Error {
        match why {
            ExchangeError::Status(status) => self.explain_status(rpc, status, took),
            ExchangeError::Bytes(MessageError::Undecodable(detail)) => {
                Error::Decode { rpc, detail: detail.clone() }
            }
            ExchangeError::Bytes(MessageError::Implausible(detail)) => {
                Error::Implausible { rpc, detail: detail.clone() }
            }
            // No message is too large, so the kubelet may read the list.
            ExchangeError::OverLimit => Error::Implausible {
                rpc,
                detail: format!("it continues after {} MiB, which is plegctl's limit", RECEIVE_LIMIT >> 20),
            },
        }
    }

    /// Converts a gRPC status into the error that callers see.
    fn explain_status(&self, rpc: Rpc, status: &Status, took: Duration) -> Error {
        if let Some(dialled) = dial_error(status) {
            return dialled;
        }
        if let Some(original) = self.outcome_override.as_ref().and_then(|known| known.error(status.message()))
        {
            return original;
        }
        match causes(status).find_map(|cause| cause.downcast_ref::<NotGrpc>()) {
            Some(not_grpc @ NotGrpc::Protocol(_)) => {
                return Error::WrongProtocol {
                    endpoint: self.endpoint.to_string(),
                    detail: not_grpc.to_string(),
                };
            }
            Some(not_grpc @ NotGrpc::Malformed(_)) => {
                return Error::Decode { rpc, detail: not_grpc.to_string() };
            }
            None => {}
        }
        // The transport enforces the deadline too, and may report it first.
        if causes(status).any(<dyn std::error::Error>::is::<tonic::TimeoutExpired>) {
            return Error::Silent { rpc, waited: self.deadline };
        }
        let message = shorten_message(status.message());
        if is_connection_failure(status) {
            return match self.first_bytes.protocol() {
                Protocol::Other(first_line) => Error::WrongProtocol {
                    endpoint: self.endpoint.to_string(),
                    detail: format!("it answered `{first_line}`"),
                },
                Protocol::Nothing => {
                    Error::ClosedMidCall { rpc, detail: "it closed the connection without an answer".into() }
                }
                Protocol::Http2 => Error::ClosedMidCall { rpc, detail: innermost_cause(status) },
            };
        }
        match status.code() {
            // The runtime receives the deadline too, and may answer with the error of an exceeded deadline.
            tonic::Code::DeadlineExceeded | tonic::Code::Cancelled if took >= self.deadline.mul_f64(0.9) => {
                Error::Silent { rpc, waited: self.deadline }
            }
            tonic::Code::Unimplemented => Error::Unimplemented { rpc, message },
            tonic::Code::ResourceExhausted if message.contains("larger than max") => {
                Error::TooLarge { rpc, message }
            }
            // Tonic reports the client's own receive limit with this status.
            tonic::Code::OutOfRange if message.contains("decoded message length too large") => {
                Error::TooLarge { rpc, message }
            }
            code => Error::Runtime { rpc, code: code.into(), message },
        }
    }
}

/// The reason why an exchange has no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The call ended with a gRPC status other than *ok*.
    Status(Box<Status>),
    /// The bytes of the answer cannot be decoded.
    Bytes(MessageError),
    /// A batched list exceeds the receive limit.
    OverLimit,
}

impl From<Status> for ExchangeError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<MessageError> for ExchangeError {
    fn from(error: MessageError) -> Self {
        Self::Bytes(error)
    }
}

/// Converts the size of something in memory.
fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Shortens a long status message, and adds its full length.
pub(super) fn shorten_message(message: &str) -> String {
    if message.len() <= MAX_STATUS_MESSAGE {
        return message.to_owned();
    }
    let end = (0..=MAX_STATUS_MESSAGE).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
    let kept = message.get(..end).unwrap_or_default();
    format!("{kept}… ({} bytes in all)", message.len())
}

/// Connects, and keeps the first received bytes.
async fn connect_sniffed(
    connecting: impl Future<Output = Result<UnixStream, Error>>,
    first_bytes: FirstBytes,
) -> Result<TokioIo<SniffedStream>, Error> {
    connecting.await.map(|stream| TokioIo::new(connect::sniffed(stream, first_bytes)))
}

/// Keeps an answer, or one batch of an answer, for the observer if there is one.
fn keep_for_observer(guard: Option<&CallGuard>, message: &Bytes) {
    if let Some(guard) = guard {
        guard.keep_message(message.clone());
    }
}

/// Iterates over the causes of a status, the outermost first.
pub(super) fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(status.source(), |error| (*error).source())
}

/// Returns the error of connecting to the socket, if that caused `status`.
pub(super) fn dial_error(status: &Status) -> Option<Error> {
    causes(status).find_map(|cause| cause.downcast_ref::<Error>()).cloned()
}

/// Whether the transport library created `status` because the connection failed.
pub(super) fn is_connection_failure(status: &Status) -> bool {
    causes(status).any(|cause| {
        cause.is::<tonic::transport::Error>() || cause.is::<hyper::Error>() || cause.is::<h2::Error>()
    })
}

/// Returns the text of the innermost cause.
pub(super) fn innermost_cause(status: &Status) -> String {
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

    fn list_calls(&self) -> ListCalls {
        if self.streams_lists() { ListCalls::Stream } else { ListCalls::Unary }
    }

    fn list_with(&self, calls: ListCalls) {
        self.list_mode.streams.store(calls == ListCalls::Stream, Ordering::Relaxed);
    }

    async fn list_sandboxes(&self, filter: &Filter<SandboxState>) -> Call<Vec<Sandbox>> {
        self.sandboxes(filter, None).await.map(DecodedList::into_items)
    }

    async fn relist_sandboxes(&self, last: DecodedList<Sandbox>) -> Call<DecodedList<Sandbox>> {
        self.sandboxes(&Filter::default(), Some(last)).await
    }

    async fn list_containers(&self, filter: &Filter<ContainerState>) -> Call<Vec<Container>> {
        self.containers(filter, None).await.map(DecodedList::into_items)
    }

    async fn relist_containers(&self, last: DecodedList<Container>) -> Call<DecodedList<Container>> {
        self.containers(&Filter::default(), Some(last)).await
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

    /// Reads the stream in a task on the connection of the other calls. [`Client::connect_for_events`] opens a stream on its
    /// own connection.
    async fn container_events(&self) -> Result<EventStream, Error> {
        let (feed, events) = EventStream::bounded(EVENT_QUEUE);
        let client = self.clone();
        tokio::spawn(async move { client.feed(feed).await });
        Ok(events)
    }
}

impl Client {
    /// Opens a separate connection to the same runtime, for the event stream only.
    pub async fn connect_for_events(&self) -> Result<EventConnection, Error> {
        let endpoint = Arc::clone(&self.endpoint);
        let socket = (self.connect)().await?.into_std().map_err(|why| Error::unreachable(&endpoint, &why))?;
        Ok(EventConnection::new(socket, endpoint, Arc::clone(&self.clock), self.observer.clone()))
    }

    /// Reads the event stream into `feed`, until the stream ends or its consumer no longer exists. As in the kubelet, the
    /// stream has no deadline. If the stream fails, the error is its last item.
    pub(super) async fn feed(&self, feed: EventFeed) {
        let rpc = Rpc::GetContainerEvents;
        let start = self.clock.mono();
        let guard = self.observe(rpc, &wire::GetEventsRequest {});
        let ended = tokio::select! {
            // A consumer that has closed the stream does not need the error of the closed connection.
            biased;
            () = feed.abandoned() => return,
            ended = catch_panic_async(self.read_events(rpc, &feed)) => ended,
        };
        let took = self.clock.mono().since(start);
        let error = match ended {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(self.explain(rpc, &why, took)),
            Err(detail) => Some(Error::Internal { rpc, detail }),
        };
        if let Some(guard) = guard {
            guard.end(took, error.as_ref());
        }
        if let Some(error) = error {
            feed.fail(error).await;
        }
    }

    /// Passes the events to `feed` until the stream ends.
    async fn read_events(&self, rpc: Rpc, feed: &EventFeed) -> Result<(), ExchangeError> {
        let mut stream = self
            .open_stream(rpc.path(), &wire::GetEventsRequest {}, None, &AnswerProgress::new(&self.clock))
            .await?;
        while let Some(message) = stream.message().await? {
            feed.offer(decode_event(message, self.clock.wall())?);
        }
        Ok(())
    }
}

/// Decodes a message of the event stream that was read at `at`.
fn decode_event(message: Bytes, at: Wall) -> Result<ReceivedEvent, MessageError> {
    let bytes = count(message.len());
    let (event, memory) = codec::decode_message::<wire::ContainerEventResponse>(message)?;
    Ok(ReceivedEvent { event: event.into(), at, bytes, memory })
}
