//! Passes on an answer while it arrives, for a document that is too large to be kept.

use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::timeout;

use super::{Arrival, Error, HttpAnswer, HttpClient, RequestFailure, RequestParts, parse_url, read_answer};

impl HttpClient {
    /// Sends one request and gives each part of the answer to `take` as it arrives. After `largest` bytes, or if the answer
    /// does not end within the time limit, returns an error; `take` has got the beginning then.
    pub async fn get_in_parts(
        &self,
        url: &str,
        largest: usize,
        limit: Duration,
        take: impl AsyncFnMut(&[u8]),
    ) -> Result<usize, Error> {
        let parts = parse_url(url)?;
        let mut arrival = Arrival::default();
        let outcome = timeout(limit, self.exchange_in_parts(&parts, largest, take, &mut arrival)).await;
        arrival.conclude(outcome, url, limit, largest)?.or_else(|answer| Ok(answer.bytes(url)?.len()))
    }

    /// Returns the number of bytes that `take` got, or the whole answer if it is an error.
    async fn exchange_in_parts(
        &self,
        parts: &RequestParts<'_>,
        largest: usize,
        mut take: impl AsyncFnMut(&[u8]),
        arrival: &mut Arrival,
    ) -> Result<Result<usize, HttpAnswer>, RequestFailure> {
        let mut connection = self.connect(parts).await?;
        let response = self.send(&mut connection, parts).await?;
        arrival.begun = true;
        if response.status().as_u16() != 200 {
            return read_answer(response, arrival, self.largest, false).await.map(Err);
        }
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(RequestFailure::Http)?;
            let Some(data) = frame.data_ref() else { continue };
            let room = largest.saturating_sub(arrival.received);
            arrival.received = arrival.received.saturating_add(data.len());
            take(data.get(..room).unwrap_or(data)).await;
            if arrival.received > largest {
                return Err(RequestFailure::TooLarge);
            }
        }
        Ok(Ok(arrival.received))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const TIME_LIMIT: Duration = Duration::from_secs(60);

    async fn serve(answer: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/dump", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        url
    }

    async fn parts_of(answer: String, largest: usize) -> (Result<usize, Error>, String) {
        let url = serve(answer).await;
        let mut text = String::new();
        let client = HttpClient::default();
        let take = async |part: &[u8]| text.push_str(std::str::from_utf8(part).unwrap());
        let outcome = client.get_in_parts(&url, largest, TIME_LIMIT, take).await;
        (outcome, text)
    }

    #[tokio::test]
    async fn answer_arrives_in_parts_up_to_its_limit() {
        let body = "x".repeat(100_000);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(parts_of(answer.clone(), 200_000).await, (Ok(body.len()), body.clone()));
        let (outcome, text) = parts_of(answer, 50_000).await;
        assert!(matches!(outcome, Err(Error::TooLarge { largest: 50_000, .. })), "{outcome:?}");
        assert_eq!(text, body[..50_000]);
    }

    #[tokio::test]
    async fn text_of_an_error_answer_is_no_part() {
        let answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_owned();
        let (outcome, text) = parts_of(answer, 1000).await;
        assert!(matches!(&outcome, Err(Error::Forbidden { text, .. }) if text == "no"), "{outcome:?}");
        assert_eq!(text, "");
    }

    #[tokio::test]
    async fn answer_that_is_cut_is_an_error_after_its_beginning() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_owned();
        let (outcome, text) = parts_of(answer, 1000).await;
        assert!(matches!(outcome, Err(Error::Cut { received: 3, .. })), "{outcome:?}");
        assert_eq!(text, "abc");
    }
}
