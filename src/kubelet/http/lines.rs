//! An endless answer that is read line by line, as in an API server's watch.

use std::mem;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{Error, HttpClient, RequestFailure, answered, parse_url};

/// The longest line. A line is one object, and etcd stores no object above a few MiB.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// The lines of an answer.
#[derive(Debug)]
pub struct Lines {
    url: String,
    body: Incoming,
    /// Received bytes that were not returned yet: whole lines and the beginning of another line.
    rest: Vec<u8>,
    /// How many bytes of `rest` were searched for a line's end.
    seen: usize,
    received: usize,
}

impl HttpClient {
    /// Requests an answer that is read line by line. `limit` applies until the answer begins, and to the whole of an
    /// error answer.
    pub async fn lines(&self, url: &str, limit: Duration) -> Result<Lines, Error> {
        let parts = parse_url(url)?;
        let mut begun = None;
        let request = async {
            let mut connection = self.connect(&parts).await?;
            let response = self.send(&mut connection, &parts).await?;
            if response.status().as_u16() == 200 {
                return Ok(Ok(response.into_body()));
            }
            answered(response, begun.insert(0), self.largest).await.map(Err)
        };
        match timeout(limit, request).await {
            Err(_) => Err(Error::Silent { url: url.to_owned(), waited: limit }),
            Ok(Err(failure)) => Err(failure.into_error(url.to_owned(), begun, self.largest)),
            Ok(Ok(Ok(body))) => {
                Ok(Lines { url: url.to_owned(), body, rest: Vec::new(), seen: 0, received: 0 })
            }
            Ok(Ok(Err(answer))) => Err(match answer.bytes(url) {
                Err(why) => why,
                Ok(_) => Error::NotHttp { url: url.to_owned() },
            }),
        }
    }
}

impl Lines {
    /// The next line without its end; `None` when the answer has ended. An unfinished last line is not returned. The
    /// future may be dropped and the method called again.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(line) = self.whole_line() {
                return Ok(Some(line));
            }
            if self.rest.len() > LONGEST_LINE {
                return Err(Error::TooLarge { url: self.url.clone(), largest: LONGEST_LINE });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(why)) => {
                    return Err(RequestFailure::Http(why).into_error(
                        self.url.clone(),
                        Some(self.received),
                        LONGEST_LINE,
                    ));
                }
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.received = self.received.saturating_add(data.len());
                        self.rest.extend_from_slice(data);
                    }
                }
            }
        }
    }

    fn whole_line(&mut self) -> Option<Vec<u8>> {
        let new = self.rest.get(self.seen..)?;
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.seen = self.rest.len();
            return None;
        };
        let rest = self.rest.split_off(self.seen + end + 1);
        let mut line = mem::replace(&mut self.rest, rest);
        self.seen = 0;
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    async fn serve(parts: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/watch", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            for part in parts {
                stream.write_all(part.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        url
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_were_cut() {
        let url = serve(&[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n",
            "3\r\nc\nd\r\n0\r\n\r\n",
        ])
        .await;
        let mut lines = HttpClient::default().lines(&url, PATIENCE).await.unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"a"[..]));
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"bc"[..]));
        assert_eq!(lines.next().await.unwrap(), None, "a line without an end is none");
    }

    #[tokio::test]
    async fn a_refusal_is_not_a_line() {
        let url = serve(&["HTTP/1.1 410 Gone\r\nContent-Length: 3\r\n\r\nold"]).await;
        let refused = HttpClient::default().lines(&url, PATIENCE).await.unwrap_err();
        assert!(matches!(&refused, Error::Status { status: 410, text, .. } if text == "old"), "{refused}");
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_in_a_chunk_is_no_end() {
        let url = serve(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na\n"]).await;
        let mut lines = HttpClient::default().lines(&url, PATIENCE).await.unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"a"[..]));
        assert!(matches!(lines.next().await, Err(Error::Cut { received: 2, .. })));
    }
}
