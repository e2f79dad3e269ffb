//! Just enough HTTP/1.1 to ask the kubelet one question in plain text: one GET, one answer, everything bounded.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer above this size is cut.
const MAX_ANSWER: u64 = 32 * 1024 * 1024;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// TLS, which plegctl does not speak.
    #[error("`{url}` is https; plegctl speaks plain http only")]
    Tls {
        /// The URL.
        url: String,
    },
    /// Not a URL of the kind we can ask.
    #[error("`{url}` is not an http URL with a host")]
    Url {
        /// The URL.
        url: String,
    },
    /// Nobody listens.
    #[error("`{url}` refuses the connection")]
    Refused {
        /// The URL.
        url: String,
    },
    /// The connection failed in some other way.
    #[error("cannot ask `{url}`: {detail}")]
    Io {
        /// The URL.
        url: String,
        /// The operating system's words.
        detail: String,
    },
    /// It did not answer in time.
    #[error("`{url}` did not answer within {}", humantime::format_duration(*.waited))]
    Silent {
        /// The URL.
        url: String,
        /// How long we waited.
        waited: Duration,
    },
    /// What came back is not HTTP.
    #[error("what `{url}` answers is not HTTP")]
    NotHttp {
        /// The URL.
        url: String,
    },
}

impl Error {
    /// What to do instead.
    pub fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::Tls { .. }).then_some(
            "pipe it in: kubectl get --raw /api/v1/nodes/<node>/proxy/metrics | plegctl health --kubelet-metrics -",
        )
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The text.
    pub body: String,
}

/// The parts of a URL that a request needs.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    authority: &'a str,
    address: String,
    path: &'a str,
}

fn place(url: &str) -> Result<Place<'_>, Error> {
    let no = || Error::Url { url: url.to_owned() };
    if url.starts_with("https://") {
        return Err(Error::Tls { url: url.to_owned() });
    }
    let rest = url.strip_prefix("http://").ok_or_else(no)?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if authority.is_empty() || authority.contains('@') || !clean(authority) || !clean(path) {
        return Err(no());
    }
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let address = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    Ok(Place { authority, address, path })
}

/// Whether a URL can be asked at all, so that a bad one is found before anything is done.
pub fn check(url: &str) -> Result<(), Error> {
    place(url).map(|_| ())
}

/// Asks once.
pub async fn get(url: &str, limit: Duration) -> Result<Answer, Error> {
    let place = place(url)?;
    let silent = || Error::Silent { url: url.to_owned(), waited: limit };
    let bytes = tokio::time::timeout(limit, exchange(&place)).await.map_err(|_| silent())?.map_err(
        |why| match why.kind() {
            io::ErrorKind::ConnectionRefused => Error::Refused { url: url.to_owned() },
            _ => Error::Io { url: url.to_owned(), detail: why.to_string() },
        },
    )?;
    parse(&bytes).ok_or_else(|| Error::NotHttp { url: url.to_owned() })
}

async fn exchange(place: &Place<'_>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(&place.address).await?;
    // HTTP/1.0 keeps the answer in one piece: no chunks, and the connection ends with it.
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
        place.path, place.authority
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    Ok(answer)
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let first = lines.next()?;
    if !first.starts_with("HTTP/1.") {
        return None;
    }
    let status = first.split(' ').nth(1)?.parse().ok()?;
    let chunked = lines.any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked")
        })
    });
    // A server that answers 1.0 with chunks is wrong, and some do.
    let body = if chunked { unchunked(body)? } else { body.to_owned() };
    Some(Answer { status, body })
}

fn unchunked(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let (part, after) = after.split_at_checked(size)?;
        body.push_str(part);
        rest = after.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn serve_once(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/healthz", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        url
    }

    #[tokio::test]
    async fn an_answer_is_its_status_and_its_text() {
        let url = serve_once(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad").await;
        let answer = get(&url, Duration::from_secs(5)).await.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (500, "bad"));
    }

    #[tokio::test]
    async fn chunks_are_put_together() {
        let url = serve_once(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        )
        .await;
        assert_eq!(get(&url, Duration::from_secs(5)).await.unwrap().body, "abcde");
    }

    #[tokio::test]
    async fn another_protocol_is_not_http() {
        let url = serve_once(b"SSH-2.0-x\r\n\r\n").await;
        assert!(matches!(get(&url, Duration::from_secs(5)).await, Err(Error::NotHttp { .. })));
    }

    #[tokio::test]
    async fn nobody_there_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        assert!(matches!(get(&url, Duration::from_secs(5)).await, Err(Error::Refused { .. })));
    }

    #[test]
    fn urls_that_cannot_be_asked() {
        assert!(matches!(check("https://127.0.0.1:10250/metrics"), Err(Error::Tls { .. })));
        assert!(matches!(check("127.0.0.1:10248"), Err(Error::Url { .. })));
        assert!(matches!(check("http://a b/"), Err(Error::Url { .. })));
        assert!(matches!(check("http:///x"), Err(Error::Url { .. })));
        assert_eq!(check("http://127.0.0.1:10248/healthz"), Ok(()));
    }
}
