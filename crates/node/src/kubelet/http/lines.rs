//! Reads an answer line by line while it arrives, for the API server's endless answer to a watch.

use std::mem;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{Arrival, Error, HttpClient, RequestFailure, parse_url, read_answer};

/// The longest line. A line is one object, and etcd stores no object above a few MiB.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// The lines of an answer.
#[derive(Debug)]
pub struct Lines {
    url: String,
    body: Incoming,
    /// Received bytes that were not returned yet: whole lines and the beginning of the next line.
    rest: Vec<u8>,
    /// How many bytes of `rest` were searched for a line break.
    searched: usize,
    received: usize,
}

impl HttpClient {
    /// Requests a URL whose answer is read line by line. The time limit applies until the answer begins; an error
    /// answer must also end within it.
    pub async fn lines(&self, url: &str, limit: Duration) -> Result<Lines, Error> {
        let parts = parse_url(url)?;
        let mut arrival = Arrival::default();
        let request = async {
            let mut connection = self.connect(&parts).await?;
            let response = self.send(&mut connection, &parts).await?;
            if response.status().as_u16() == 200 {
                return Ok(Ok(response.into_body()));
            }
            read_answer(response, &mut arrival, self.largest, false).await.map(Err)
        };
        let outcome = timeout(limit, request).await;
        match arrival.conclude(outcome, url, limit, self.largest)? {
            Ok(body) => Ok(Lines { url: url.to_owned(), body, rest: Vec::new(), searched: 0, received: 0 }),
            Err(answer) => {
                Err(answer.bytes(url).err().unwrap_or_else(|| Error::NotHttp { url: url.to_owned() }))
            }
        }
    }
}

impl Lines {
    /// Returns the next line without its line break; `None` when the answer has ended. An unfinished last line is not
    /// returned. No bytes are lost if the future is dropped and the method is called again.
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

    /// Removes the first whole line from the received bytes.
    fn whole_line(&mut self) -> Option<Vec<u8>> {
        let new = self.rest.get(self.searched..)?;
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.rest.len();
            return None;
        };
        let rest = self.rest.split_off(self.searched + end + 1);
        let mut line = mem::replace(&mut self.rest, rest);
        self.searched = 0;
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const TIME_LIMIT: Duration = Duration::from_secs(5);

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
    async fn lines_are_whole_even_if_the_chunks_are_not() {
        let url = serve(&[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n",
            "3\r\nc\nd\r\n0\r\n\r\n",
        ])
        .await;
        let mut lines = HttpClient::default().lines(&url, TIME_LIMIT).await.unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"a"[..]));
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"bc"[..]));
        assert_eq!(lines.next().await.unwrap(), None, "an unfinished line is not returned");
    }

    #[tokio::test]
    async fn an_error_answer_is_an_error_and_not_a_line() {
        let url = serve(&["HTTP/1.1 410 Gone\r\nContent-Length: 3\r\n\r\nold"]).await;
        let refused = HttpClient::default().lines(&url, TIME_LIMIT).await.unwrap_err();
        assert!(matches!(&refused, Error::Status { status: 410, text, .. } if text == "old"), "{refused}");
    }

    #[tokio::test]
    async fn a_connection_that_closes_within_a_chunk_is_an_error() {
        let url = serve(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na\n"]).await;
        let mut lines = HttpClient::default().lines(&url, TIME_LIMIT).await.unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(&b"a"[..]));
        assert!(matches!(lines.next().await, Err(Error::Cut { received: 2, .. })));
    }
}
