//! A minimal HTTP/1.1 client for a kubelet or an API server. It sends GET requests; each answer has a time limit and
//! a size limit.
//!
//! The client sends its token over TLS only. It follows no redirect, because the other server may not be trusted.

mod lines;
mod streamed;
mod tls;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use self::tls::{CertificateProblem, ClientIdentity, PemError, ServerTrust, certificates};
use plegctl_base::clock::MONTHS;
use plegctl_base::threads;

/// The largest answer, unless the caller sets another limit.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// How many characters of an error answer's text a message contains.
const MAX_MESSAGE: usize = 300;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client cannot request this URL.
    #[error("`{url}` is not an http or https URL with a host")]
    Url {
        /// The URL.
        url: String,
    },
    /// Nothing listens at the address.
    #[error("`{url}` refuses the connection")]
    Refused {
        /// The URL.
        url: String,
    },
    /// The connection failed for another reason.
    #[error("cannot query `{url}`: {detail}")]
    Io {
        /// The URL.
        url: String,
        /// The operating system's message.
        detail: String,
    },
    /// One side does not accept the other side's certificate.
    #[error("`{url}` {trouble}")]
    Certificate {
        /// The URL.
        url: String,
        /// What is wrong with the certificate.
        trouble: CertificateProblem,
    },
    /// No answer arrived in time.
    #[error("`{url}` did not answer within {}", humantime::format_duration(*.waited))]
    Silent {
        /// The URL.
        url: String,
        /// The time limit.
        waited: Duration,
    },
    /// An answer began, but its end did not arrive within the time limit.
    #[error("`{url}` stopped after {received} bytes of its answer, within {}", humantime::format_duration(*.waited))]
    SilentMidAnswer {
        /// The URL.
        url: String,
        /// The time limit.
        waited: Duration,
        /// How many bytes of the answer had arrived.
        received: usize,
    },
    /// The connection ended before the answer ended.
    #[error("`{url}` ended the connection after {received} bytes of its answer")]
    Cut {
        /// The URL.
        url: String,
        /// How many bytes of the answer had arrived.
        received: usize,
    },
    /// The answer is larger than the limit.
    #[error("`{url}` answers with more than {} MiB", largest / 1024 / 1024)]
    TooLarge {
        /// The URL.
        url: String,
        /// The limit in bytes.
        largest: usize,
    },
    /// The answer is not HTTP.
    #[error("the answer of `{url}` is not HTTP")]
    NotHttp {
        /// The URL.
        url: String,
    },
    /// Status 401: the server does not know the caller.
    #[error("`{url}` does not accept the credentials (401)")]
    Unauthorized {
        /// The URL.
        url: String,
    },
    /// Status 403: the server knows the caller and refuses.
    #[error("`{url}` forbids the request (403): {text}")]
    Forbidden {
        /// The URL.
        url: String,
        /// The server's message.
        text: String,
    },
    /// The server redirects to another URL.
    #[error("`{url}` redirects to `{to}`, and plegctl does not follow redirects")]
    Redirect {
        /// The URL.
        url: String,
        /// The other URL.
        to: String,
    },
    /// The status is not 200.
    #[error("`{url}` answers {status}: {text}")]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// The server's message.
        text: String,
    },
}

impl Error {
    /// Returns what the user can do.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Certificate { trouble, .. } => trouble.hint(),
            Self::Unauthorized { .. } => Some("give a token that is still valid, or a client certificate"),
            Self::Forbidden { .. } => Some(
                "you need `get` on nodes/metrics and nodes/configz for the kubelet's own port, or on \
                 nodes/proxy for the API server's proxy",
            ),
            _ => None,
        }
    }

    /// Whether the server did not answer, or stopped in the middle of an answer.
    pub const fn is_silent(&self) -> bool {
        matches!(self, Self::Silent { .. } | Self::SilentMidAnswer { .. })
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// The URL of a redirect.
    pub location: Option<String>,
    /// The server's time in seconds since the epoch, from the `Date` header.
    pub date: Option<f64>,
}

impl HttpAnswer {
    /// Returns the body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Returns the body as text if the status is 200, otherwise the error.
    pub fn document(self, url: &str) -> Result<String, Error> {
        self.bytes(url).map(|body| String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns the body if the status is 200, otherwise the error.
    pub fn bytes(self, url: &str) -> Result<Vec<u8>, Error> {
        let text = || error_message(&self.text());
        let url = url.to_owned();
        match self.status {
            200 => Ok(self.body),
            401 => Err(Error::Unauthorized { url }),
            403 => Err(Error::Forbidden { url, text: text() }),
            300..=399 => Err(Error::Redirect { url, to: self.location.unwrap_or_default() }),
            status => Err(Error::Status { url, status, text: text() }),
        }
    }
}

/// Parses a date in the format that every server uses today: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn epoch_seconds(date: &str) -> Option<f64> {
    let mut words = date.split_once(", ")?.1.split(' ');
    let day = words.next()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|known| *known == month)? + 1;
    let (year, time) = (words.next()?, words.next()?);
    let then = humantime::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()?;
    Some(then.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64())
}

/// Returns the message of an error answer. The API server sends the message in a Status object.
fn error_message(body: &str) -> String {
    let message = serde_json::from_str::<serde_json::Value>(body)
        .ok()
        .and_then(|status| status.get("message")?.as_str().map(str::to_owned));
    message.unwrap_or_else(|| body.trim().to_owned()).chars().take(MAX_MESSAGE).collect()
}

/// What a request needs: the parts of its URL, and the media types that it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestParts<'a> {
    tls: bool,
    authority: &'a str,
    host: &'a str,
    address: String,
    path: &'a str,
    /// The accepted media types, for the `Accept` header.
    accept: &'a str,
}

/// Splits a URL. Refuses URLs with a user name, with a query but no path, and with blanks or control characters.
fn parse_url(url: &str) -> Result<RequestParts<'_>, Error> {
    let invalid = || Error::Url { url: url.to_owned() };
    let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(invalid()),
    };
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if authority.is_empty() || authority.contains(['@', '?', '#']) || !clean(authority) || !clean(path) {
        return Err(invalid());
    }
    let port = authority
        .rsplit_once(':')
        .filter(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let (host, address) = match port {
        Some((host, _)) => (host, authority.to_owned()),
        None => (authority, format!("{authority}:{}", if tls { 443 } else { 80 })),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(RequestParts { tls, authority, host, address, path, accept: "*/*" })
}

/// Checks whether the client can request a URL. A command does this first, so that a wrong URL is reported before
/// anything else happens.
pub fn check(url: &str) -> Result<(), Error> {
    parse_url(url).map(|_| ())
}

/// Percent-encodes a text for a query.
pub fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(["%", &format!("{byte:02X}")]);
        }
    }
    out
}

/// Requests a URL once, without credentials. For https, the server's certificate is checked with the system's
/// authorities.
pub async fn get(url: &str, limit: Duration) -> Result<HttpAnswer, Error> {
    HttpClient::default().get(url, limit).await
}

/// Sends requests with one TLS configuration, token and set of headers.
#[derive(Clone)]
pub struct HttpClient {
    tls: Option<TlsConnector>,
    server_name: Option<String>,
    token: Option<Arc<str>>,
    headers: Vec<(String, String)>,
    largest: usize,
}

impl Default for HttpClient {
    fn default() -> Self {
        Self { tls: None, server_name: None, token: None, headers: Vec::new(), largest: MAX_ANSWER }
    }
}

impl fmt::Debug for HttpClient {
    /// Omits secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("server_name", &self.server_name)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Creates a client that trusts `trust` and presents `identity`.
    pub fn new(trust: &ServerTrust, identity: Option<&ClientIdentity>) -> Result<Self, PemError> {
        let tls = Some(TlsConnector::from(Arc::new(tls::config(trust, identity)?)));
        Ok(Self { tls, ..Self::default() })
    }

    /// Sets the name that the server's certificate must have, if that is not the host of the URL.
    #[must_use]
    pub fn with_server_name(mut self, name: Option<String>) -> Self {
        self.server_name = name;
        self
    }

    /// Sets additional headers to send.
    #[must_use]
    pub fn with_headers(mut self, headers: &[(String, String)]) -> Self {
        self.headers = headers.to_vec();
        self
    }

    /// Sets the largest answer in bytes.
    #[must_use]
    pub const fn with_largest(mut self, largest: usize) -> Self {
        self.largest = largest;
        self
    }

    /// Sets the bearer token.
    #[must_use]
    pub fn with_token(mut self, token: Option<&str>) -> Self {
        self.token = token.map(Arc::from);
        self
    }

    /// Sends one request on a new connection.
    pub async fn get(&self, url: &str, limit: Duration) -> Result<HttpAnswer, Error> {
        self.session().get(url, limit).await
    }

    /// Sends one request and returns at most the first `largest` bytes of the answer's body.
    pub async fn get_beginning(
        &self,
        url: &str,
        largest: usize,
        limit: Duration,
    ) -> Result<HttpAnswer, Error> {
        let mut session = HttpSession { client: self, largest, keeps_beginning: true, open: None };
        session.get(url, limit).await
    }

    /// Starts a session. Its requests use the same connection as long as the server keeps the connection open.
    pub const fn session(&self) -> HttpSession<'_> {
        HttpSession { client: self, largest: self.largest, keeps_beginning: false, open: None }
    }
}

/// Requests to one server, one after another, on one connection.
#[derive(Debug)]
pub struct HttpSession<'a> {
    client: &'a HttpClient,
    /// The largest answer in bytes.
    largest: usize,
    /// Whether the beginning of a larger answer is kept. Otherwise a larger answer is an error.
    keeps_beginning: bool,
    /// The connection that is still open, with its address and whether it uses TLS.
    open: Option<(String, bool, Connection)>,
}

/// An open connection to a server.
type Connection = SendRequest<Empty<Bytes>>;

/// Why a request failed, without the URL and the limits, which [`Self::into_error`] adds.
enum RequestFailure {
    Io(io::Error),
    Http(hyper::Error),
    TooLarge,
    Certificate(CertificateProblem),
}

impl HttpSession<'_> {
    /// Sends one request.
    pub async fn get(&mut self, url: &str, limit: Duration) -> Result<HttpAnswer, Error> {
        self.get_as(url, "*/*", limit).await
    }

    /// Sends one request whose answer may have at most `largest` bytes.
    pub async fn get_at_most(
        &mut self,
        url: &str,
        largest: usize,
        limit: Duration,
    ) -> Result<HttpAnswer, Error> {
        self.largest = largest;
        let answer = self.get(url, limit).await;
        self.largest = self.client.largest;
        answer
    }

    /// Sends one request that accepts an answer of these media types.
    pub async fn get_as(&mut self, url: &str, accept: &str, limit: Duration) -> Result<HttpAnswer, Error> {
        let parts = RequestParts { accept, ..parse_url(url)? };
        let mut arrival = Arrival::default();
        let outcome = timeout(limit, self.exchange(&parts, &mut arrival)).await;
        arrival.conclude(outcome, url, limit, self.largest)
    }

    /// Sends one request, on the open connection if it is for the same server and still usable. Keeps the connection for the
    /// next request only if this one succeeds.
    async fn exchange(
        &mut self,
        parts: &RequestParts<'_>,
        arrival: &mut Arrival,
    ) -> Result<HttpAnswer, RequestFailure> {
        let mut connection = if let Some((address, tls, mut connection)) = self.open.take()
            // A request with a token must not use a connection without TLS to the same address.
            && (address.as_str(), tls) == (parts.address.as_str(), parts.tls)
            && connection.ready().await.is_ok()
        {
            connection
        } else {
            self.client.connect(parts).await?
        };
        let response = self.client.send(&mut connection, parts).await?;
        let answer = read_answer(response, arrival, self.largest, self.keeps_beginning).await?;
        self.open = Some((parts.address.clone(), parts.tls, connection));
        Ok(answer)
    }
}

/// How much of an answer has arrived.
#[derive(Default)]
struct Arrival {
    begun: bool,
    received: usize,
}

impl Arrival {
    /// Returns what an exchange gave, or the error for its failure or for the end of its time limit.
    fn conclude<T>(
        self,
        outcome: Result<Result<T, RequestFailure>, Elapsed>,
        url: &str,
        limit: Duration,
        largest: usize,
    ) -> Result<T, Error> {
        let (url, received) = (url.to_owned(), self.received);
        match outcome {
            Ok(Ok(answer)) => Ok(answer),
            Err(_) if self.begun => Err(Error::SilentMidAnswer { url, waited: limit, received }),
            Err(_) => Err(Error::Silent { url, waited: limit }),
            Ok(Err(failure)) => Err(failure.into_error(url, self.begun.then_some(received), largest)),
        }
    }
}

/// Reads a whole answer.
async fn read_answer(
    response: Response<Incoming>,
    arrival: &mut Arrival,
    largest: usize,
    keeps_beginning: bool,
) -> Result<HttpAnswer, RequestFailure> {
    arrival.begun = true;
    let status = response.status().as_u16();
    let location = response.headers().get(http::header::LOCATION);
    let location = location.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
    let date = response.headers().get(http::header::DATE);
    let date = date.and_then(|date| epoch_seconds(date.to_str().ok()?));
    let body = read_body(response.into_body(), &mut arrival.received, largest, keeps_beginning).await?;
    Ok(HttpAnswer { status, body, location, date })
}

impl RequestFailure {
    /// Adds the URL and the limits. `received` is the number of bytes that had arrived, if the answer had begun.
    fn into_error(self, url: String, received: Option<usize>, largest: usize) -> Error {
        // With TLS 1.3 the server checks the client's certificate after the handshake.
        if let Self::Http(why) = &self
            && let Some(cause) = std::error::Error::source(why)
            && let Some(trouble) = cause.downcast_ref::<io::Error>().and_then(CertificateProblem::from_error)
        {
            return Error::Certificate { url, trouble };
        }
        match (self, received) {
            (Self::Io(why), _) if why.kind() == io::ErrorKind::ConnectionRefused => Error::Refused { url },
            (Self::Io(why), _) => Error::Io { url, detail: why.to_string() },
            (Self::Http(why), _) if why.is_parse() => Error::NotHttp { url },
            (Self::Http(_), Some(received)) => Error::Cut { url, received },
            (Self::Http(why), None) => {
                let cause = std::error::Error::source(&why).map(ToString::to_string);
                Error::Io { url, detail: cause.unwrap_or_else(|| why.to_string()) }
            }
            (Self::TooLarge, _) => Error::TooLarge { url, largest },
            (Self::Certificate(trouble), _) => Error::Certificate { url, trouble },
        }
    }
}

impl HttpClient {
    /// Sends the request; the answer has begun when this returns.
    async fn send(
        &self,
        connection: &mut Connection,
        parts: &RequestParts<'_>,
    ) -> Result<Response<Incoming>, RequestFailure> {
        let mut request = http::Request::builder()
            .method(http::Method::GET)
            .uri(parts.path)
            .header(http::header::HOST, parts.authority)
            .header(http::header::ACCEPT, parts.accept)
            .header(http::header::USER_AGENT, concat!("plegctl/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = self.token.as_ref().filter(|_| parts.tls) {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Empty::new()).map_err(|why| RequestFailure::Io(io::Error::other(why)))?;
        connection.send_request(request).await.map_err(RequestFailure::Http)
    }
}

/// Reads the body of an answer, up to `largest` bytes.
async fn read_body(
    mut body: Incoming,
    received: &mut usize,
    largest: usize,
    keeps_beginning: bool,
) -> Result<Vec<u8>, RequestFailure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(RequestFailure::Http)?;
        if let Some(data) = frame.data_ref() {
            *received += data.len();
            bytes.extend_from_slice(data);
            if *received > largest && keeps_beginning {
                bytes.truncate(largest);
                return Ok(bytes);
            }
            if *received > largest {
                return Err(RequestFailure::TooLarge);
            }
        }
    }
    Ok(bytes)
}

impl HttpClient {
    async fn connect(&self, parts: &RequestParts<'_>) -> Result<Connection, RequestFailure> {
        let addresses = threads::resolve_address(&parts.address).await.map_err(RequestFailure::Io)?;
        let stream = TcpStream::connect(&*addresses).await.map_err(RequestFailure::Io)?;
        if !parts.tls {
            return start_http(stream).await;
        }
        // Without its own TLS configuration, the client trusts the system's authorities.
        let system_connector;
        let connector = if let Some(connector) = &self.tls {
            connector
        } else {
            let config = tls::config(&ServerTrust::System, None);
            system_connector = TlsConnector::from(Arc::new(
                config.map_err(|why| RequestFailure::Io(io::Error::other(why)))?,
            ));
            &system_connector
        };
        let name = tls::server_name(self.server_name.as_deref().unwrap_or(parts.host));
        // A certificate contains DNS names and IP addresses; this host is neither.
        let name =
            name.ok_or_else(|| RequestFailure::Io(io::Error::other("its host cannot be in a certificate")))?;
        match connector.connect(name, stream).await {
            Ok(stream) => start_http(stream).await,
            Err(why) => Err(match CertificateProblem::from_error(&why) {
                Some(trouble) => RequestFailure::Certificate(trouble),
                None => RequestFailure::Io(why),
            }),
        }
    }
}

/// Starts HTTP on a connection. A spawned task drives the connection until either side closes it.
async fn start_http<S>(stream: S) -> Result<Connection, RequestFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(RequestFailure::Http)?;
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Accepts one connection and answers with these bytes. Then keeps the connection open if `keep_open` is true,
    /// and closes it otherwise.
    async fn serve_once(answer: &'static [u8], keep_open: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/healthz", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
            if keep_open {
                std::future::pending::<()>().await;
            }
        });
        url
    }

    const TIME_LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn an_answer_has_a_status_and_a_body() {
        let url =
            serve_once(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad", false).await;
        let answer = get(&url, TIME_LIMIT).await.unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (500, &b"bad"[..]));
    }

    #[tokio::test]
    async fn chunks_are_joined_to_one_body() {
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let url = serve_once(answer, false).await;
        assert_eq!(get(&url, TIME_LIMIT).await.unwrap().body, b"abcde");
    }

    #[tokio::test]
    async fn another_protocol_is_not_http() {
        let url = serve_once(b"SSH-2.0-x\r\n\r\n", false).await;
        assert!(matches!(get(&url, TIME_LIMIT).await, Err(Error::NotHttp { .. })));
    }

    #[tokio::test]
    async fn an_unfinished_answer_differs_from_no_answer_and_from_a_closed_connection() {
        let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
        // On a busy machine, the first part of the answer may arrive later.
        let mut limit = Duration::from_millis(200);
        let silent = loop {
            let url = serve_once(half, true).await;
            match get(&url, limit).await.unwrap_err() {
                Error::Silent { .. } if limit < Duration::from_secs(60) => limit *= 4,
                why => break why,
            }
        };
        assert!(matches!(silent, Error::SilentMidAnswer { received: 3, .. }), "{silent}");
        assert!(silent.is_silent());
        let url = serve_once(b"", true).await;
        assert!(matches!(get(&url, Duration::from_millis(200)).await, Err(Error::Silent { .. })));
        let url = serve_once(half, false).await;
        assert!(matches!(get(&url, TIME_LIMIT).await, Err(Error::Cut { received: 3, .. })));
    }

    #[tokio::test]
    async fn endless_interim_answers_end_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/healthz", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
            while stream.write_all(&interim).await.is_ok() {}
        });
        let why = get(&url, Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(why, Error::Silent { .. }), "{why}");
    }

    #[tokio::test]
    async fn large_body_that_arrives_with_the_headers_is_read() {
        let body = vec![b'x'; 3 << 20];
        let head =
            format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = [head.as_bytes(), &body].concat().leak();
        let url = serve_once(answer, true).await;
        assert_eq!(get(&url, Duration::from_secs(60)).await.unwrap().body.len(), body.len());
    }

    #[tokio::test(start_paused = true)]
    async fn answer_in_tiny_pieces_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/v1/pods", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await.unwrap();
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let why = get(&url, Duration::from_secs(30)).await.unwrap_err();
        assert!(matches!(why, Error::SilentMidAnswer { .. } | Error::Silent { .. }), "{why}");
    }

    #[tokio::test]
    async fn closed_port_is_reported_as_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        assert!(matches!(get(&url, TIME_LIMIT).await, Err(Error::Refused { .. })));
    }

    #[tokio::test]
    async fn a_token_is_never_sent_without_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let received = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            request.truncate(length);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            String::from_utf8(request).unwrap()
        });
        let client = HttpClient::default().with_token(Some("secret"));
        client.get(&url, TIME_LIMIT).await.unwrap();
        let request = received.await.unwrap();
        assert!(request.starts_with("GET /metrics HTTP/1.1\r\n") && !request.contains("secret"), "{request}");
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[test]
    fn urls_that_cannot_be_requested_are_refused() {
        assert!(matches!(check("127.0.0.1:10248"), Err(Error::Url { .. })));
        assert!(matches!(check("http://a b/"), Err(Error::Url { .. })));
        assert!(matches!(check("http:///x"), Err(Error::Url { .. })));
        assert!(matches!(check("https://me@x/"), Err(Error::Url { .. })));
        assert_eq!(check("http://127.0.0.1:10248/healthz"), Ok(()));
        assert_eq!(parse_url("https://[::1]/x").unwrap().host, "::1");
        assert_eq!(parse_url("https://n1/x").unwrap().address, "n1:443");
    }

    #[test]
    fn a_query_is_encoded() {
        assert_eq!(encoded("role in (a,b),x!=y"), "role%20in%20%28a%2Cb%29%2Cx%21%3Dy");
    }

    #[test]
    fn a_date_is_seconds_since_the_epoch() {
        assert_eq!(epoch_seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777.0));
        assert_eq!(epoch_seconds("yesterday"), None);
        assert_eq!(epoch_seconds("Sun, 06 Now 1994 08:49:37 GMT"), None);
    }

    #[test]
    fn each_error_status_becomes_its_own_error() {
        let answer = |status: u16, body: &str| HttpAnswer {
            status,
            body: body.as_bytes().to_vec(),
            location: Some("https://login/".to_owned()),
            date: None,
        };
        assert_eq!(answer(200, "x").document("u"), Ok("x".to_owned()));
        assert!(matches!(answer(401, "").document("u"), Err(Error::Unauthorized { .. })));
        let forbidden =
            answer(403, r#"{"kind":"Status","message":"nodes \"n1\" is forbidden"}"#).document("u");
        assert_eq!(
            forbidden,
            Err(Error::Forbidden { url: "u".to_owned(), text: "nodes \"n1\" is forbidden".to_owned() })
        );
        assert!(
            matches!(answer(302, "").document("u"), Err(Error::Redirect { to, .. }) if to == "https://login/")
        );
        assert!(matches!(answer(503, "later").document("u"), Err(Error::Status { status: 503, .. })));
    }
}
