//! `--metrics-listen`: serves the kubelet's PLEG metrics over HTTP, for a scraper and for probes.
//!
//! `/healthz` succeeds while plegctl runs, `/readyz` while the runtime answers. Both succeed while PLEG is unhealthy,
//! because plegctl's pod has to keep running then; the metrics show the problem. A recorder serves more [`Pages`].
//!
//! Only GET is served. A client that is slow, sends too much or does not end its request loses its own answer only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::pleg::SharedState;
use crate::report::json;
use crate::threads;

/// The number of connections that are served at the same time; the next connection is refused.
const MAX_CONNECTIONS: usize = 8;

/// How long a client may take to send its request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(2);

/// How long a connection may last.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be accepted.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// The number of bytes of a request that are read at most.
const LONGEST_REQUEST: u64 = 8192;

/// The buffer of a connection in this process.
const BUFFER: usize = 512;

/// The kernel's buffers of a connection: a request has some hundred bytes, a page some ten thousand.
const SOCKET_RECEIVE: u32 = 4 * 1024;
const SOCKET_SEND: u32 = 32 * 1024;

/// The number of connections that wait to be accepted.
const BACKLOG: u32 = 512;

/// The answer to a connection above the limit.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Returns the metrics that are added to the kubelet's.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns the answer to a request for a page that only some commands serve; `None` if there is no such page.
pub type Pages = Arc<dyn Fn(&HttpRequest<'_>) -> Option<HttpReply> + Send + Sync>;

/// The pages of a server.
#[derive(Clone)]
pub struct ServedPages {
    /// The state that `/metrics` and `/readyz` show.
    pub shared_state: Arc<SharedState>,
    /// The metrics that `/metrics` adds to the kubelet's.
    pub metrics: MetricsPage,
    /// The pages next to `/metrics`.
    pub more: Pages,
}

/// A request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    /// The path.
    pub path: &'a str,
    /// The text after the question mark.
    query: &'a str,
    /// Whether the client prefers JSON to text.
    pub accepts_json: bool,
}

impl<'a> HttpRequest<'a> {
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

    /// Answers with a document.
    pub fn json(document: &impl Serialize) -> Self {
        match json::text(document) {
            Some(text) => Self { status: "200 OK", content_type: "application/json", body: text + "\n" },
            None => Self::error("500 Internal Server Error", "plegctl itself failed"),
        }
    }

    /// Answers that the request is wrong, with the reason.
    pub fn bad_request(why: &str) -> Self {
        Self::error("400 Bad Request", why)
    }

    fn error(status: &'static str, why: &str) -> Self {
        Self { status, ..Self::text(format!("{why}\n")) }
    }
}

/// Binds `address` and serves `pages` in a separate thread, so that clients do not delay relists. Must be called inside
/// an event loop.
pub fn serve(address: SocketAddr, pages: ServedPages) -> io::Result<()> {
    let listener = bind(address)?.into_std()?;
    threads::run_event_loop("metrics", async move {
        // The socket worked with another event loop before, so this does not fail in practice. If it fails, no
        // metrics are served.
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept_all(&listener, &pages).await;
        }
    })
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

async fn accept_all(listener: &TcpListener, pages: &ServedPages) {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably the process has no free file descriptor at the moment.
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&free).try_acquire_owned() else {
            // A client that does not get even this answer sees a closed connection.
            let _ = stream.try_write(BUSY);
            continue;
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            // A client that disconnects or is slow loses only its own answer.
            let _ = timeout(CONNECTION_DEADLINE, answer(stream, &pages)).await;
            drop(slot);
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
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("accept")
        {
            value.trim().clone_into(&mut head.accept);
        }
    }
    Ok(None)
}

async fn answer(mut stream: TcpStream, pages: &ServedPages) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let reply = match timeout(REQUEST_DEADLINE, read_head(reader)).await? {
        Ok(Some(head)) => reply(&head, pages),
        Ok(None) => HttpReply::bad_request("the request is too long or incomplete"),
        Err(why) if why.kind() == io::ErrorKind::InvalidData => {
            HttpReply::bad_request("the request is not UTF-8")
        }
        Err(why) => return Err(why),
    };
    let HttpReply { status, content_type, body } = reply;
    // A browser must not guess another type, because a page contains names that users of the cluster chose.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(body.as_bytes()).await?;
    writer.shutdown().await
}

fn reply(head: &RequestHead, pages: &ServedPages) -> HttpReply {
    let mut words = head.line.split_ascii_whitespace();
    if words.next() != Some("GET") {
        return HttpReply::error("405 Method Not Allowed", "only GET");
    }
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let accepts_json = head.accept.split(',').any(|accepted| accepted.trim().starts_with("application/json"));
    match path {
        "/metrics" => {
            let mut body = String::new();
            // Writing to a String cannot fail.
            let _ = pages.shared_state.lock().metrics.render(&mut body);
            body.push_str(&(pages.metrics)());
            HttpReply { content_type: "text/plain; version=0.0.4; charset=utf-8", ..HttpReply::text(body) }
        }
        "/healthz" => HttpReply::text("ok\n".to_owned()),
        "/readyz" => match pages.shared_state.reachable() {
            Ok(()) => HttpReply::text("ok\n".to_owned()),
            Err(why) => HttpReply::error("503 Service Unavailable", &why),
        },
        _ => (pages.more)(&HttpRequest { path, query, accepts_json }).unwrap_or_else(|| {
            let why = "the metrics are at /metrics, probes at /healthz and /readyz; `record` also serves /verdict \
                       and /incidents";
            HttpReply::error("404 Not Found", why)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";

    /// Pages of a command without a relist so far, and a page that shows its request.
    fn pages() -> ServedPages {
        ServedPages {
            shared_state: Arc::new(SharedState::new(false)),
            metrics: Arc::new(String::new),
            more: Arc::new(|request| {
                let parameters: Vec<_> = request.parameters().collect();
                let text = format!("{} {parameters:?}", request.accepts_json);
                (request.path == "/more").then(|| HttpReply::text(text))
            }),
        }
    }

    /// Starts a server on the test's event loop, and returns its address.
    fn server() -> SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { accept_all(&listener, &pages()).await });
        address
    }

    fn reply_to(line: &str, accept: &str) -> HttpReply {
        reply(&RequestHead { line: line.to_owned(), accept: accept.to_owned() }, &pages())
    }

    /// Reads until the server closes the connection.
    async fn rest(mut stream: TcpStream) -> String {
        let (mut text, mut piece) = (Vec::new(), [0; 256]);
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            text.extend_from_slice(&piece[..length]);
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn connection_above_the_limit_is_refused_at_once_and_a_free_place_is_used_again() {
        let address = server();
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        for _ in 0..3 {
            let refused = rest(TcpStream::connect(address).await.unwrap()).await;
            assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        }
        let mut served = idle.pop().unwrap();
        served.write_all(GET).await.unwrap();
        assert!(rest(served).await.starts_with("HTTP/1.1 200 OK"));
        // The place of the closed connection is free now or a moment later.
        loop {
            let mut next = TcpStream::connect(address).await.unwrap();
            let _ = next.write_all(GET).await;
            if rest(next).await.starts_with("HTTP/1.1 200 OK") {
                break;
            }
        }
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
        assert_eq!(text.body, r#"false [("a", "1"), ("b", ""), ("c", "2=3")]"#);
        assert_eq!(reply_to("GET /more HTTP/1.1", "application/json;q=0.9").body, "true []");
    }
}
