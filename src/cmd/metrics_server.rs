//! `--metrics-listen`: serves the kubelet's PLEG metrics over HTTP, for a scraper and for probes.
//!
//! `/healthz` succeeds while plegctl runs, `/readyz` while the runtime answers. Both succeed while PLEG is unhealthy,
//! because plegctl's pod has to keep running then; the metrics show the problem.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::pleg::SharedState;
use crate::threads;

/// The number of connections that are served at the same time; the next connection is refused.
const MAX_CONNECTIONS: usize = 32;

/// How long a client may take to send its request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(2);

/// How long a connection may last.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be accepted.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// The number of bytes of a request that are read at most.
const LONGEST_REQUEST: u64 = 4096;

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

/// Binds `address` and serves `shared_state`'s metrics and `more` in a separate thread, so that clients do not delay
/// relists. Must be called inside an event loop.
pub fn serve(address: SocketAddr, shared_state: Arc<SharedState>, more: MetricsPage) -> io::Result<()> {
    let listener = bind(address)?.into_std()?;
    threads::run_event_loop("metrics", async move {
        // The socket worked with another event loop before, so this does not fail in practice. If it fails, no
        // metrics are served.
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept_all(&listener, &shared_state, &more).await;
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

async fn accept_all(listener: &TcpListener, shared_state: &Arc<SharedState>, more: &MetricsPage) {
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
        let (shared_state, more) = (Arc::clone(shared_state), Arc::clone(more));
        tokio::spawn(async move {
            // A client that disconnects or is slow loses only its own answer.
            let _ = timeout(CONNECTION_DEADLINE, answer(stream, &shared_state, &*more)).await;
            drop(slot);
        });
    }
}

/// Reads the first line of a request, once the whole head has arrived.
async fn request(reader: impl tokio::io::AsyncRead + Unpin) -> io::Result<String> {
    let mut lines = BufReader::with_capacity(BUFFER, reader.take(LONGEST_REQUEST)).lines();
    let request = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    Ok(request)
}

async fn answer(
    mut stream: TcpStream,
    shared_state: &SharedState,
    more: &(dyn Fn() -> String + Send + Sync),
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let request = timeout(REQUEST_DEADLINE, request(reader)).await.map_err(io::Error::from)??;
    let (status, body) = reply(&request, shared_state, more);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(body.as_bytes()).await?;
    writer.shutdown().await
}

fn reply(request: &str, shared_state: &SharedState, more: impl Fn() -> String) -> (&'static str, String) {
    let mut words = request.split_ascii_whitespace();
    // The answer depends only on method and path.
    let (method, path) =
        (words.next(), words.next().map(|target| target.split('?').next().unwrap_or_default()));
    match (method, path) {
        (Some("GET"), Some("/metrics")) => {
            let mut body = String::new();
            // Writing to a String cannot fail.
            let _ = shared_state.lock().metrics.render(&mut body);
            body.push_str(&more());
            ("200 OK", body)
        }
        (Some("GET"), Some("/healthz")) => ("200 OK", "ok\n".to_owned()),
        (Some("GET"), Some("/readyz")) => match shared_state.reachable() {
            Ok(()) => ("200 OK", "ok\n".to_owned()),
            Err(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        (Some("GET"), _) => {
            ("404 Not Found", "the metrics are at /metrics, probes at /healthz and /readyz\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";

    /// Starts a server on the test's event loop, and returns its address.
    fn server() -> SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let page: MetricsPage = Arc::new(String::new);
        tokio::spawn(async move { accept_all(&listener, &Arc::new(SharedState::new(false)), &page).await });
        address
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

    #[test]
    fn a_pod_that_has_not_listed_yet_is_alive_and_not_ready() {
        let shared_state = SharedState::new(false);
        assert_eq!(reply("GET /healthz HTTP/1.1", &shared_state, String::new).0, "200 OK");
        let (status, why) = reply("GET /readyz HTTP/1.1", &shared_state, String::new);
        assert_eq!((status, why.as_str()), ("503 Service Unavailable", "no relist has succeeded yet\n"));
    }

    #[test]
    fn only_known_paths_are_served() {
        let shared_state = SharedState::new(false);
        let (status, body) = reply("GET /metrics HTTP/1.1", &shared_state, String::new);
        assert_eq!(status, "200 OK");
        assert!(body.contains("kubelet_pleg_relist_duration_seconds"));
        assert_eq!(reply("GET /metrics?x=1 HTTP/1.1", &shared_state, String::new).0, "200 OK");
        assert_eq!(reply("GET /metricsx HTTP/1.1", &shared_state, String::new).0, "404 Not Found");
        assert_eq!(reply("GET / HTTP/1.1", &shared_state, String::new).0, "404 Not Found");
        assert_eq!(reply("POST /metrics HTTP/1.1", &shared_state, String::new).0, "405 Method Not Allowed");
    }
}
