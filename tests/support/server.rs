//! The gRPC server of the fake runtime: its thread, its connections and its calls.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plegctl_engine::cri::Rpc;
use plegctl_engine::cri::server::{self, Service, ServiceError, serve_connection};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;

use super::answer::{self, RequestTarget};
use super::events::{Attempt, End, Pushed};
use super::fake::{Script, Shared};
use super::log::{CallState, OpenCall, ReceivedCall};
use super::reply::{Action, ConnectionFault};

/// A running server; dropping it ends the server and all connections.
#[derive(Debug)]
pub(super) struct Server {
    /// A second handle on the listening socket. It has the type `UnixStream`, which has a method to shut a socket down.
    listener: std::os::unix::net::UnixStream,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the server. It listens when this returns.
    pub(super) fn start(socket: &Path, shared: Arc<Shared>) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let handle = std::os::unix::net::UnixStream::from(OwnedFd::from(listener.try_clone().unwrap()));
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { listener: handle, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // A process that another test is starting may have a copy of the listening socket, which would keep it open.
        let _ = self.listener.shutdown(Shutdown::Both);
    }
}

/// Accepts connections, and serves each in its own task.
async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    let listener = tokio::net::UnixListener::from_std(listener).unwrap();
    for number in 0.. {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(connection(stream, number, Arc::clone(&shared)));
    }
}

/// Serves one connection until it ends or a call cuts it.
async fn connection(stream: UnixStream, number: usize, shared: Arc<Shared>) {
    // The test can shut the socket down through this second handle while hyper has the first one.
    let stream = stream.into_std().unwrap();
    let handle = stream.try_clone().unwrap();
    let stream = UnixStream::from_std(stream).unwrap();
    let (cut, mut cuts) = mpsc::unbounded_channel();
    let connection = Connection { number, cut, shared };
    let mut serving = pin!(serve_connection(Arc::new(connection), stream));
    let cut = tokio::select! {
        () = serving.as_mut() => return,
        cut = cuts.recv() => cut,
    };
    match cut {
        Some(ConnectionFault::Close) | None => return,
        Some(ConnectionFault::HalfClose) => handle.shutdown(Shutdown::Write).unwrap(),
        Some(ConnectionFault::Freeze) => {}
    }
    // Keeps the socket open, but nothing reads from it.
    std::future::pending::<()>().await;
}

/// A connection and the script for its calls.
#[derive(Clone)]
struct Connection {
    number: usize,
    cut: mpsc::UnboundedSender<ConnectionFault>,
    shared: Arc<Shared>,
}

impl Service for Connection {
    async fn answer(self: Arc<Self>, request: server::CallRequest) -> Result<server::Answer, ServiceError> {
        handle(request, Self::clone(&self)).await.map(server::Answer::stream)
    }
}

/// Logs a call and answers it by the script.
async fn handle(request: server::CallRequest, connection: Connection) -> Result<Answer, ServiceError> {
    let shared = Arc::clone(&connection.shared);
    let rpc = request.rpc;
    let target = RequestTarget::decode(rpc, request.message).unwrap();
    let call = ReceivedCall {
        rpc,
        id: target.id(),
        deadline: request.deadline,
        authority: request.authority,
        connection: connection.number,
        state: CallState::InFlight,
    };
    let (reply, kind, node) = script(&shared).reply(rpc, &target, &call.id);
    let mut open_call = shared.log.begin(call);
    pause(reply.delay).await;
    let mut pad = 0;
    let mut rest = None;
    match reply.action {
        Action::Normal => {}
        Action::Oversize(bytes) => pad = bytes,
        Action::Held(gate) => gate.passed().await,
        Action::Broken(messages, code, text) => rest = Some((messages, ServiceError::new(code, text))),
        Action::Fail(code, text) => {
            return Answer::listed(open_call, [Err(ServiceError::new(code, text))].into());
        }
        Action::Raw(messages) => return Answer::listed(open_call, messages.into_iter().map(Ok).collect()),
        Action::Hang => return std::future::pending().await,
        Action::Cut(cut) => {
            let _ = connection.cut.send(cut);
            return std::future::pending().await;
        }
    }
    if rpc == Rpc::GetContainerEvents {
        let attempt = match kind.refusal(rpc) {
            Some(refusal) => Attempt::ending(End::Fail(refusal.code, refusal.message)),
            None => kind.stream(),
        };
        let attempt = script(&shared).next_attempt().unwrap_or(attempt);
        return stream(open_call, attempt, connection, &shared).await;
    }
    let mut messages: VecDeque<Pushed> = match answer::plain(kind, &node, rpc, &target, pad) {
        Ok(messages) => messages.into_iter().map(Ok).collect(),
        Err(status) => [Err(status)].into(),
    };
    if let Some((count, status)) = rest {
        messages.truncate(count);
        messages.push_back(Err(status));
    }
    if messages.is_empty() {
        open_call.answered();
    }
    Answer::listed(open_call, messages)
}

fn script(shared: &Shared) -> MutexGuard<'_, Script> {
    shared.script.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for `time`. A sleep of zero in tokio lasts a millisecond, so this returns at once instead.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Opens an event stream. The server sends the headers together with the first message, as grpc-go does.
async fn stream(
    mut open_call: OpenCall,
    attempt: Attempt,
    connection: Connection,
    shared: &Arc<Shared>,
) -> Result<Answer, ServiceError> {
    let (sender, mut receiver) = mpsc::channel(1);
    let stays_open = matches!(attempt.end, End::StayOpen);
    let pushed = stays_open.then(|| script(shared).hub.subscribe());
    open_call.streaming();
    tokio::spawn(play(attempt, pushed, sender, connection));
    match receiver.recv().await {
        Some(Err(status)) => {
            open_call.answered();
            Err(status)
        }
        Some(Ok(first)) => Ok(Answer { ready: [Ok(first)].into(), live: Some(receiver), open_call }),
        None => Answer::listed(open_call, VecDeque::new()),
    }
}

/// Sends the scripted events of a stream, then ends or continues it as scripted.
async fn play(
    attempt: Attempt,
    mut pushed: Option<mpsc::UnboundedReceiver<Pushed>>,
    sender: mpsc::Sender<Pushed>,
    connection: Connection,
) {
    let mut gap = attempt.first_after;
    for event in attempt.events {
        pause(gap).await;
        gap = attempt.between;
        if sender.send(Ok(event.encode())).await.is_err() {
            return;
        }
    }
    match attempt.end {
        End::Eof => {}
        End::Fail(code, text) => {
            let _ = sender.send(Err(ServiceError::new(code, text))).await;
        }
        End::Stall => sender.closed().await,
        End::Cut(cut) => {
            let _ = connection.cut.send(cut);
            sender.closed().await;
        }
        End::StayOpen => {
            while let Some(pushed) = pushed.as_mut() {
                tokio::select! {
                    () = sender.closed() => break,
                    next = pushed.recv() => match next {
                        Some(next) => {
                            let _ = sender.send(next).await;
                        }
                        None => break,
                    },
                }
            }
        }
    }
}

/// The messages of an answer: first those in `ready`, then those that arrive in `live`.
struct Answer {
    ready: VecDeque<Pushed>,
    live: Option<mpsc::Receiver<Pushed>>,
    open_call: OpenCall,
}

impl Answer {
    /// Creates the answer to a list call.
    fn listed(mut open_call: OpenCall, mut messages: VecDeque<Pushed>) -> Result<Self, ServiceError> {
        if matches!(messages.front(), Some(Err(_)))
            && let Some(Err(status)) = messages.pop_front()
        {
            open_call.answered();
            return Err(status);
        }
        Ok(Self { ready: messages, live: None, open_call })
    }
}

impl Stream for Answer {
    type Item = Pushed;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Pushed>> {
        let next = match (self.ready.pop_front(), self.live.as_mut()) {
            (Some(next), _) => Poll::Ready(Some(next)),
            (None, Some(live)) => live.poll_recv(context),
            (None, None) => Poll::Ready(None),
        };
        if let Poll::Ready(None | Some(Err(_))) = next {
            self.open_call.answered();
        }
        next
    }
}
