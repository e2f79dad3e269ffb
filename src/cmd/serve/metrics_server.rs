//! `--metrics-listen`: serves the kubelet's PLEG metrics over HTTP, for a scraper and for probes.
//!
//! `/healthz` succeeds while plegctl runs, `/readyz` while the runtime answers. Both succeed while PLEG is unhealthy,
//! because plegctl's pod has to keep running then; the metrics show the problem. A recorder serves more [`Pages`].
//!
//! Only GET is served. A client that is slow, sends too much or does not end its request loses its own answer only. Probes
//! are answered whatever other clients do.
//!
//! An answer that takes longer is a [`Job`]: a thread makes it, and its pieces are sent as they come, in chunks. If the
//! last chunk is missing, the client knows that the answer is incomplete.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::pleg::SharedState;
use crate::pleg::metrics::MetricNames;
use crate::report::json;
use crate::threads;

/// The number of pages that plegctl on a node sends at the same time; the next request for a page is refused. Probes do not
/// count, so that no client can make the kubelet restart plegctl.
const MAX_PAGES: usize = 8;

/// The number of requests that are read at the same time. The next connection ends the one whose request is incomplete for
/// the longest time: the request of a probe arrives whole, and is read before 64 others connect.
const MAX_UNREAD: usize = 64;

/// The paths of the probes. Their answers fit in the kernel's buffer of a connection, so sending them waits for no client.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// How long a client may take to send its request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(2);

/// How long a connection may last.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(5);

/// How long the connection of a [`Job`] may last, and how long its client may accept nothing.
const JOB_DEADLINE: Duration = Duration::from_secs(120);
const STALL_DEADLINE: Duration = Duration::from_secs(5);

/// The size of a piece of a [`Job`]'s answer, and the number of pieces that wait to be sent.
const PIECE: usize = 32 * 1024;
const WAITING_PIECES: usize = 2;

/// The header with the secret that opens the protected pages. It is not `Authorization`, because the API server's proxy
/// does not forward that header.
pub const TOKEN_HEADER: &str = "X-Plegctl-Token";

/// The pause after a connection that could not be accepted.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// The number of bytes of a request that are read at most.
const LONGEST_REQUEST: u64 = 8192;

/// The buffer of a connection in this process.
const BUFFER: usize = 512;

/// The kernel's buffers of a connection: a request has several hundred bytes, a page several tens of
/// thousands.
const SOCKET_RECEIVE: u32 = 4 * 1024;
const SOCKET_SEND: u32 = 32 * 1024;

/// The number of connections that wait to be accepted.
const BACKLOG: u32 = 512;

/// The answer to a request above the limit.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Returns the metrics that are added to the kubelet's.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns the answer to a request for a page; `None` if there is no such page.
pub type Pages = Arc<dyn Fn(&HttpRequest<'_>) -> Option<PageReply> + Send + Sync>;

/// Makes an answer in a thread of its own.
pub type Job = Box<dyn FnOnce(JobOutput) + Send>;

/// The answer of a page.
pub enum PageReply {
    /// The answer is known.
    Ready(HttpReply),
    /// A thread makes the answer.
    Job(Job),
    /// No answer is ever sent: a simulated kubelet hangs.
    Silence,
}

impl From<HttpReply> for PageReply {
    fn from(reply: HttpReply) -> Self {
        Self::Ready(reply)
    }
}

/// A piece of a [`Job`]'s answer.
enum Piece {
    /// The whole answer.
    Whole(HttpReply),
    /// The beginning of a successful answer of this content type.
    Begin(&'static str),
    /// A part of the body.
    Part(Vec<u8>),
    /// The end of the body.
    End,
}

/// Sends the answer of a [`Job`]. After the client has gone, every call fails.
pub struct JobOutput(mpsc::Sender<Piece>);

impl JobOutput {
    fn send(&self, piece: Piece) -> io::Result<()> {
        self.0.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Answers with a whole reply.
    pub fn reply(self, reply: HttpReply) {
        // A client that has gone needs no answer.
        let _ = self.send(Piece::Whole(reply));
    }

    /// Answers with a body that `write` produces, of at most `largest` bytes. If `write` fails, the client sees that the
    /// body is incomplete.
    pub fn stream(
        self,
        content_type: &'static str,
        largest: usize,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.send(Piece::Begin(content_type))?;
        let mut body = io::BufWriter::with_capacity(PIECE, JobBody { output: &self, left: largest });
        write(&mut body)?;
        body.flush()?;
        drop(body);
        self.send(Piece::End)
    }
}

/// The body of a [`Job`]'s answer.
struct JobBody<'a> {
    output: &'a JobOutput,
    /// The number of bytes that may follow.
    left: usize,
}

impl Write for JobBody<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.output.send(Piece::Part(bytes.to_vec()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The metrics, the probes, and the pages that only some commands serve.
pub struct ServedPages {
    /// The state that `/metrics` and `/readyz` show.
    pub shared_state: Arc<SharedState>,
    /// The names of PLEG's metrics.
    pub names: MetricNames,
    /// The metrics that `/metrics` adds to the kubelet's.
    pub metrics: MetricsPage,
    /// The pages next to `/metrics`.
    pub more: Pages,
}

/// A request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    pub path: &'a str,
    /// The text after the question mark.
    query: &'a str,
    /// Whether the client prefers JSON to text.
    pub accepts_json: bool,
    /// The value of [`TOKEN_HEADER`].
    pub token: Option<&'a Secret>,
}

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<'a> HttpRequest<'a> {
    /// Creates a request for a path with a query.
    #[cfg(test)]
    pub const fn for_page(path: &'a str, query: &'a str) -> Self {
        Self { path, query, accepts_json: false, token: None }
    }

    /// Returns the same request for another path.
    pub const fn at<'b>(self, path: &'b str) -> HttpRequest<'b>
    where
        'a: 'b,
    {
        HttpRequest { path, ..self }
    }

    /// Returns the parameters of the query and their values.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let parameters = self.query.split('&').filter(|parameter| !parameter.is_empty());
        parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl HttpReply {
    /// Answers with a text.
    pub const fn text(body: String) -> Self {
        Self { status: "200 OK", content_type: "text/plain; charset=utf-8", body }
    }

    /// Answers with metrics in Prometheus' text format.
    pub fn metrics(body: String) -> Self {
        Self { content_type: "text/plain; version=0.0.4; charset=utf-8", ..Self::text(body) }
    }

    /// Answers with a document.
    pub fn json(document: &impl Serialize) -> Self {
        match json::text(document) {
            Some(text) => Self { status: "200 OK", content_type: "application/json", body: text + "\n" },
            None => Self::error("500 Internal Server Error", "plegctl itself failed"),
        }
    }

    /// Returns the same answer with another status.
    pub fn with_status(self, status: &'static str) -> Self {
        Self { status, ..self }
    }

    /// Returns the same answer with a changed body.
    pub fn with_body(self, changed: impl FnOnce(&str) -> String) -> Self {
        Self { body: changed(&self.body), ..self }
    }

    /// Answers that the request is wrong, with the reason.
    pub fn bad_request(why: &str) -> Self {
        Self::error("400 Bad Request", why)
    }

    /// Answers with an error and its reason.
    pub fn error(status: &'static str, why: &str) -> Self {
        Self { status, ..Self::text(format!("{why}\n")) }
    }
}

/// The value of `--metric-names`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NamesOption {
    /// `plegctl_pleg_…`, so that a dashboard of the kubelet's metrics does not count them
    Plegctl,
    /// `kubelet_pleg_…`, as the kubelet's own
    Kubelet,
}

impl From<NamesOption> for MetricNames {
    fn from(option: NamesOption) -> Self {
        match option {
            NamesOption::Plegctl => Self::Plegctl,
            NamesOption::Kubelet => Self::Kubelet,
        }
    }
}

/// Parses the address of `--metrics-listen`. An IPv6 address needs no brackets, because a pod cannot add them to its own
/// address.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let without_brackets =
        || text.rsplit_once(':').and_then(|(ip, port)| format!("[{ip}]:{port}").parse().ok());
    let parsed = text.parse().ok().or_else(without_brackets);
    parsed.ok_or_else(|| "it is not ADDRESS:PORT, for example 127.0.0.1:9469".to_owned())
}

/// Serves the metrics and `pages` in a separate thread, so that clients do not delay relists. Must be called inside an event
/// loop.
pub fn serve(address: SocketAddr, pages: ServedPages) -> io::Result<()> {
    serve_pages(address, pages.into_pages(), MAX_PAGES).map(drop)
}

/// Binds `address`, serves `pages` in a separate thread, at most `most` at the same time, and returns the bound address.
/// Must be called inside an event loop.
pub fn serve_pages(address: SocketAddr, pages: Pages, most: usize) -> io::Result<SocketAddr> {
    let listener = bind(address)?.into_std()?;
    let bound = listener.local_addr()?;
    threads::run_event_loop("metrics", async move {
        // The socket worked with another event loop before, so this does not fail in practice. If it fails, no
        // pages are served.
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept_all(&listener, &pages, most).await;
        }
    })?;
    Ok(bound)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // A connection inherits these settings from its listener.
    socket.set_recv_buffer_size(SOCKET_RECEIVE)?;
    socket.set_send_buffer_size(SOCKET_SEND)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept_all(listener: &TcpListener, pages: &Pages, most: usize) {
    let free = Arc::new(Semaphore::new(most));
    // Dropping an element ends the reading of a request that is incomplete.
    let mut unread: VecDeque<oneshot::Sender<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably the process has no free file descriptor at the moment.
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            continue;
        };
        unread.retain(|reading| !reading.is_closed());
        if unread.len() >= MAX_UNREAD {
            unread.pop_front();
        }
        let (reading, evicted) = oneshot::channel();
        unread.push_back(reading);
        let (pages, free) = (Arc::clone(pages), Arc::clone(&free));
        tokio::spawn(async move {
            // A client that disconnects or is slow loses only its own answer.
            let answered = timeout(CONNECTION_DEADLINE, answer(stream, &pages, free, evicted)).await;
            if let Ok(Ok(Some((stream, reply, _slot)))) = answered {
                let _ = timeout(JOB_DEADLINE, answer_slowly(stream, reply)).await;
            }
        });
    }
}

/// The part of a request's head that an answer depends on.
#[derive(Debug, Default, PartialEq, Eq)]
struct RequestHead {
    /// The first line.
    line: String,
    /// The value of the header `Accept`.
    accept: String,
    /// The value of [`TOKEN_HEADER`].
    token: Option<Secret>,
}

impl RequestHead {
    /// Returns the path, and the text after the question mark.
    fn path_and_query(&self) -> (&str, &str) {
        let target = self.line.split_ascii_whitespace().nth(1).unwrap_or_default();
        target.split_once('?').unwrap_or((target, ""))
    }
}

/// Reads the head of a request; `None` if the head is too long or ends early.
async fn read_head(reader: impl tokio::io::AsyncRead + Unpin) -> io::Result<Option<RequestHead>> {
    let mut lines = BufReader::with_capacity(BUFFER, reader.take(LONGEST_REQUEST)).lines();
    let mut head =
        RequestHead { line: lines.next_line().await?.unwrap_or_default(), ..RequestHead::default() };
    while let Some(line) = lines.next_line().await? {
        if line.is_empty() {
            return Ok(Some(head));
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("accept") {
            value.trim().clone_into(&mut head.accept);
        } else if name.eq_ignore_ascii_case(TOKEN_HEADER) {
            head.token = Some(Secret(value.trim().to_owned()));
        }
    }
    Ok(None)
}

/// Answers a request, unless its reading is `evicted`. If the answer is not known yet, returns the reply with the connection and
/// its slot.
async fn answer(
    mut stream: TcpStream,
    pages: &Pages,
    free: Arc<Semaphore>,
    evicted: oneshot::Receiver<()>,
) -> io::Result<Option<(TcpStream, PageReply, OwnedSemaphorePermit)>> {
    let (reader, mut writer) = stream.split();
    let head = tokio::select! {
        head = timeout(REQUEST_DEADLINE, read_head(reader)) => head?,
        _ = evicted => return Ok(None),
    };
    if let Ok(Some(head)) = &head
        && PROBES.contains(&head.path_and_query().0)
        && let PageReply::Ready(reply) = reply(head, pages)
    {
        return send(&mut writer, reply).await.map(|()| None);
    }
    let Ok(slot) = free.try_acquire_owned() else {
        // A client that does not get even this answer sees a closed connection.
        writer.write_all(BUSY).await?;
        return writer.shutdown().await.map(|()| None);
    };
    let reply = match head {
        Ok(Some(head)) => reply(&head, pages),
        Ok(None) => HttpReply::bad_request("the request is too long or incomplete").into(),
        Err(why) if why.kind() == io::ErrorKind::InvalidData => {
            HttpReply::bad_request("the request is not UTF-8").into()
        }
        Err(why) => return Err(why),
    };
    match reply {
        PageReply::Ready(reply) => send(&mut writer, reply).await.map(|()| None),
        later => Ok(Some((stream, later, slot))),
    }
}

/// Sends a reply that takes longer than the reading of its request.
async fn answer_slowly(mut stream: TcpStream, reply: PageReply) -> io::Result<()> {
    match reply {
        PageReply::Ready(reply) => send(&mut stream, reply).await,
        PageReply::Job(job) => run_job(stream, job).await,
        // Ends when the client has lost its patience.
        PageReply::Silence => stream.read(&mut [0]).await.map(drop),
    }
}

/// The headers of every answer. A browser must not guess another type, because a page contains names that users of the
/// cluster chose.
fn head_of(status: &str, content_type: &str, length: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{length}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
}

async fn send(writer: &mut (impl AsyncWriteExt + Unpin), reply: HttpReply) -> io::Result<()> {
    let HttpReply { status, content_type, body } = reply;
    let head = head_of(status, content_type, &format!("Content-Length: {}", body.len()));
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(body.as_bytes()).await?;
    writer.shutdown().await
}

/// Starts the thread of a job, and sends its pieces. If the client accepts nothing for some time, the thread ends with its
/// next piece.
async fn run_job(mut stream: TcpStream, job: Job) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel(WAITING_PIECES);
    if threads::spawn("export", move || job(JobOutput(sender))).is_err() {
        let reply = HttpReply::error("503 Service Unavailable", "the node has no free threads");
        return send(&mut stream, reply).await;
    }
    while let Some(piece) = pieces.recv().await {
        let is_end = matches!(piece, Piece::Whole(_) | Piece::End);
        timeout(STALL_DEADLINE, send_piece(&mut stream, piece)).await??;
        if is_end {
            return stream.shutdown().await;
        }
    }
    // The job failed: without the last chunk, the client knows that the answer is incomplete.
    Ok(())
}

async fn send_piece(stream: &mut TcpStream, piece: Piece) -> io::Result<()> {
    match piece {
        Piece::Whole(reply) => send(stream, reply).await,
        Piece::Begin(content_type) => {
            let head = head_of("200 OK", content_type, "Transfer-Encoding: chunked");
            stream.write_all(head.as_bytes()).await
        }
        // A chunk without content would end the body.
        Piece::Part(bytes) if bytes.is_empty() => Ok(()),
        Piece::Part(bytes) => {
            stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
            stream.write_all(&bytes).await?;
            stream.write_all(b"\r\n").await
        }
        Piece::End => stream.write_all(b"0\r\n\r\n").await,
    }
}

fn reply(head: &RequestHead, pages: &Pages) -> PageReply {
    if head.line.split_ascii_whitespace().next() != Some("GET") {
        return HttpReply::error("405 Method Not Allowed", "only GET").into();
    }
    let (path, query) = head.path_and_query();
    let accepts_json = head.accept.split(',').any(|accepted| accepted.trim().starts_with("application/json"));
    let request = HttpRequest { path, query, accepts_json, token: head.token.as_ref() };
    pages(&request).unwrap_or_else(|| HttpReply::error("404 Not Found", "there is no such page").into())
}

impl ServedPages {
    /// Returns all pages.
    fn into_pages(self) -> Pages {
        Arc::new(move |request| Some(self.reply(request)))
    }

    /// Answers a request.
    pub fn reply(&self, request: &HttpRequest<'_>) -> PageReply {
        let reply = match request.path {
            "/metrics" => {
                let mut body = String::new();
                // Writing to a String cannot fail.
                let _ = self.shared_state.lock().metrics.render(self.names, &mut body);
                body.push_str(&(self.metrics)());
                HttpReply::metrics(body)
            }
            "/healthz" => HttpReply::text("ok\n".to_owned()),
            "/readyz" => match self.shared_state.reachable() {
                Ok(()) => HttpReply::text("ok\n".to_owned()),
                Err(why) => HttpReply::error("503 Service Unavailable", &why),
            },
            _ => {
                return (self.more)(request).unwrap_or_else(|| {
                    let why = "the metrics are at /metrics, probes at /healthz and /readyz; `record` also serves \
                               /verdict and /incidents, and with --serve-token-file /capture and \
                               /verdict?facts=true";
                    HttpReply::error("404 Not Found", why).into()
                });
            }
        };
        reply.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a command without a relist so far, and a page that shows its request.
    fn pages() -> Pages {
        let pages = ServedPages {
            shared_state: Arc::new(SharedState::new(false)),
            names: MetricNames::Kubelet,
            metrics: Arc::new(String::new),
            more: Arc::new(|request| {
                let parameters: Vec<_> = request.parameters().collect();
                let text = format!("{} {parameters:?} {:?}", request.accepts_json, request.token);
                match request.path {
                    "/more" => Some(HttpReply::text(text).into()),
                    "/endless" => Some(PageReply::Job(Box::new(endless_job))),
                    "/job" => Some(PageReply::Job(Box::new(job_with_a_limit))),
                    "/silence" => Some(PageReply::Silence),
                    _ => None,
                }
            }),
        };
        pages.into_pages()
    }

    /// Writes 30 bytes, of which 20 are allowed, if the request does not say otherwise.
    fn job_with_a_limit(output: JobOutput) {
        let ended = output.stream("application/octet-stream", 20, |out| {
            out.write_all(b"0123456789")?;
            out.flush()?;
            out.write_all(b"0123456789")?;
            out.flush()?;
            out.write_all(b"0123456789")?;
            out.flush()
        });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    /// Writes until the client has gone.
    fn endless_job(output: JobOutput) {
        let piece = vec![b'x'; PIECE];
        let gone = output.stream("application/octet-stream", usize::MAX, |out| {
            loop {
                out.write_all(&piece)?;
            }
        });
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    /// Runs a job, and returns what its client reads.
    async fn job(job: Job) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (_, read) = tokio::join!(run_job(stream, job), rest(client));
        read
    }

    /// Starts a server on the test's event loop, and returns its address.
    fn server() -> SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { accept_all(&listener, &pages(), MAX_PAGES).await });
        address
    }

    fn reply_to(line: &str, accept: &str) -> HttpReply {
        let head = RequestHead {
            line: line.to_owned(),
            accept: accept.to_owned(),
            token: Some(Secret("s3cret".to_owned())),
        };
        match reply(&head, &pages()) {
            PageReply::Ready(reply) => reply,
            PageReply::Job(_) | PageReply::Silence => panic!("{line} has no answer"),
        }
    }

    /// Reads until the server closes the connection.
    async fn rest(mut stream: TcpStream) -> String {
        let (mut text, mut piece) = (Vec::new(), [0; 256]);
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            text.extend_from_slice(&piece[..length]);
        }
        String::from_utf8(text).unwrap()
    }

    /// Sends a request and returns the answer.
    async fn request(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes()).await.unwrap();
        rest(stream).await
    }

    #[tokio::test]
    async fn page_above_the_limit_is_refused_while_probes_are_answered_and_a_free_place_is_used_again() {
        let address = server();
        let mut waiting = Vec::new();
        for _ in 0..MAX_PAGES {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /endless HTTP/1.1\r\n\r\n").await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            waiting.push(stream);
        }
        assert!(request(address, "/metrics").await.starts_with("HTTP/1.1 503 "));
        assert!(request(address, "/healthz").await.starts_with("HTTP/1.1 200 OK"));
        assert!(request(address, "/readyz").await.contains("no relist has succeeded yet"));
        waiting.pop();
        // The place of the closed connection is free when its thread sends the next piece.
        while !request(address, "/metrics").await.starts_with("HTTP/1.1 200 OK") {}
    }

    #[tokio::test]
    async fn clients_that_do_not_end_their_requests_take_no_place_from_a_probe() {
        let address = server();
        let mut unfinished = Vec::new();
        for _ in 0..5 {
            for _ in 0..MAX_UNREAD {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
                unfinished.push(stream);
            }
            assert!(request(address, "/healthz").await.starts_with("HTTP/1.1 200 OK"));
            assert!(request(address, "/metrics").await.starts_with("HTTP/1.1 200 OK"));
        }
        // The oldest were ended without an answer, and nobody waited for their time limit.
        assert_eq!(rest(unfinished.remove(0)).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_is_closed_and_so_is_one_that_sends_a_byte_now_and_then() {
        let address = server();
        let idle = TcpStream::connect(address).await.unwrap();
        assert_eq!(rest(idle).await, "");
        let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
        let slow = tokio::spawn(async move {
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let mut byte = [0];
        assert!(!matches!(reader.read(&mut byte).await, Ok(1..)), "there is nothing to answer");
        slow.abort();
    }

    #[tokio::test]
    async fn answered_connection_is_not_kept_alive() {
        let mut stream = TcpStream::connect(server()).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
        let page = rest(stream).await;
        assert!(page.contains("Connection: close") && page.contains("kubelet_pleg_"), "{page}");
    }

    #[tokio::test]
    async fn request_that_is_too_long_incomplete_or_no_text_is_refused() {
        let long = [b"GET /metrics HTTP/1.1\r\nX: ", [b'x'; 9000].as_slice(), b"\r\n\r\n"].concat();
        let requests: [&[u8]; 3] = [&long, b"GET /metrics HTTP/1.1\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"];
        for request in requests {
            // A client with its own event loop could not send while the server closes the connection.
            let (mut client, mut server) = tokio::io::duplex(16 * 1024);
            client.write_all(request).await.unwrap();
            client.shutdown().await.unwrap();
            let head = read_head(&mut server).await;
            assert!(!matches!(head, Ok(Some(_))), "{head:?}");
        }
        let mut stream = TcpStream::connect(server()).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(rest(stream).await.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    }

    #[test]
    fn address_of_a_pod_may_have_no_brackets() {
        for (text, expected) in [
            ("10.0.0.1:9469", Ok("10.0.0.1:9469")),
            ("[fd00::1]:9469", Ok("[fd00::1]:9469")),
            ("fd00::1:2:9469", Ok("[fd00::1:2]:9469")),
            ("localhost:9469", Err(())),
            ("9469", Err(())),
            ("", Err(())),
        ] {
            assert_eq!(
                address(text).map_err(drop),
                expected.map(|address| address.parse().unwrap()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_pod_that_has_not_listed_yet_is_alive_and_not_ready() {
        assert_eq!(reply_to("GET /healthz HTTP/1.1", "").status, "200 OK");
        let ready = reply_to("GET /readyz HTTP/1.1", "");
        assert_eq!(ready, HttpReply::error("503 Service Unavailable", "no relist has succeeded yet"));
    }

    #[test]
    fn only_known_paths_are_served() {
        let metrics = reply_to("GET /metrics HTTP/1.1", "");
        assert_eq!((metrics.status, metrics.content_type.contains("version=0.0.4")), ("200 OK", true));
        assert!(metrics.body.contains("kubelet_pleg_relist_duration_seconds"));
        for (line, status) in [
            ("GET /metrics?x=1 HTTP/1.1", "200 OK"),
            ("GET /metricsx HTTP/1.1", "404 Not Found"),
            ("GET / HTTP/1.1", "404 Not Found"),
            ("GET", "404 Not Found"),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
            ("", "405 Method Not Allowed"),
        ] {
            assert_eq!(reply_to(line, "").status, status, "{line}");
        }
    }

    #[test]
    fn page_of_a_command_gets_the_query_and_the_preference_for_json() {
        let text = reply_to("GET /more?a=1&b&&c=2=3 HTTP/1.1", "text/html, */*");
        assert_eq!(text.body, r#"false [("a", "1"), ("b", ""), ("c", "2=3")] Some(Secret)"#);
        assert_eq!(reply_to("GET /more HTTP/1.1", "application/json;q=0.9").body, "true [] Some(Secret)");
    }

    #[tokio::test]
    async fn job_sends_its_body_in_chunks_and_ends_it() {
        let read = job(Box::new(|output| {
            output.stream("text/plain", 9, |out| out.write_all(b"a body")).unwrap();
        }))
        .await;
        assert!(read.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), "{read}");
        assert!(read.contains("Transfer-Encoding: chunked"), "{read}");
        assert!(read.ends_with("\r\n\r\n6\r\na body\r\n0\r\n\r\n"), "{read}");
        let whole = job(Box::new(|output| output.reply(HttpReply::error("403 Forbidden", "no")))).await;
        assert!(
            whole.starts_with("HTTP/1.1 403 Forbidden\r\n") && whole.ends_with("\r\n\r\nno\n"),
            "{whole}"
        );
    }

    #[tokio::test]
    async fn job_that_fails_or_exceeds_its_limit_has_no_last_chunk() {
        let mut stream = TcpStream::connect(server()).await.unwrap();
        stream.write_all(b"GET /job HTTP/1.1\r\n\r\n").await.unwrap();
        let read = rest(stream).await;
        assert!(read.ends_with("a\r\n0123456789\r\na\r\n0123456789\r\n"), "{read}");
        let failed = job(Box::new(|output| {
            let failed = output.stream("text/plain", 9, |out| {
                out.write_all(b"half")?;
                out.flush()?;
                Err(io::ErrorKind::NotFound.into())
            });
            assert!(failed.is_err());
        }))
        .await;
        assert!(failed.ends_with("4\r\nhalf\r\n"), "{failed}");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_lasts_until_the_client_gives_up_and_takes_a_place_as_long() {
        let address = server();
        let mut waiting = Vec::new();
        for _ in 0..MAX_PAGES {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /silence HTTP/1.1\r\n\r\n").await.unwrap();
            waiting.push(stream);
        }
        // A client is more patient than the time limit of an answer.
        for stream in &mut waiting {
            let answer = timeout(2 * CONNECTION_DEADLINE, stream.read(&mut [0])).await;
            assert!(answer.is_err(), "{answer:?}");
        }
        assert!(request(address, "/metrics").await.starts_with("HTTP/1.1 503 "));
        drop(waiting);
        while !request(address, "/metrics").await.starts_with("HTTP/1.1 200 OK") {}
    }

    #[tokio::test(start_paused = true)]
    async fn job_ends_if_its_client_accepts_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (ended, end) = tokio::sync::oneshot::channel();
        let endless: Job = Box::new(move |output| {
            let piece = vec![b'x'; PIECE];
            let why = output.stream("text/plain", usize::MAX, |out| {
                loop {
                    out.write_all(&piece)?;
                }
            });
            let _ = ended.send(why.unwrap_err().kind());
        });
        assert_eq!(run_job(stream, endless).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(end.await.unwrap(), io::ErrorKind::BrokenPipe);
    }
}
