//! `--metrics-listen`: the kubelet's PLEG metrics over HTTP, as much of HTTP as a scraper and a probe need.
//!
//! `/healthz` says that the program runs, `/readyz` that it gets through to the runtime. A PLEG that is not healthy fails
//! neither: then above all the pod is to stay, and the metrics tell.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::pleg::Hub;

/// A scraper that is slower than this is not served.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pause after a connection that could not be accepted.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// A request line longer than this is not a scraper's.
const LONGEST_LINE: u64 = 4096;

/// What is on the page besides the kubelet's own.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// Binds `address` and serves until the runtime ends.
pub async fn serve(address: SocketAddr, hub: Arc<Hub>, more: Page) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (hub, more) = (Arc::clone(&hub), Arc::clone(&more));
                    tokio::spawn(async move {
                        // A scraper that hangs up or dawdles is its own problem.
                        let _ = timeout(PATIENCE, answer(stream, &hub, &*more)).await;
                    });
                }
                // No more file descriptors, most likely: that passes.
                Err(_) => tokio::time::sleep(AFTER_TROUBLE).await,
            }
        }
    });
    Ok(())
}

async fn answer(
    mut stream: TcpStream,
    hub: &Hub,
    more: &(dyn Fn() -> String + Send + Sync),
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(reader, LONGEST_LINE)).lines();
    let request = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let (status, body) = reply(&request, hub, more);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(body.as_bytes()).await?;
    writer.shutdown().await
}

fn reply(request: &str, hub: &Hub, more: impl Fn() -> String) -> (&'static str, String) {
    let mut words = request.split_ascii_whitespace();
    // Whatever a scraper asks for besides the path, there is one answer.
    let (method, path) =
        (words.next(), words.next().map(|target| target.split('?').next().unwrap_or_default()));
    match (method, path) {
        (Some("GET"), Some("/metrics")) => {
            let mut body = String::new();
            // Writing to a String cannot fail.
            let _ = hub.lock().metrics.render(&mut body);
            body.push_str(&more());
            ("200 OK", body)
        }
        (Some("GET"), Some("/healthz")) => ("200 OK", "ok\n".to_owned()),
        (Some("GET"), Some("/readyz")) => match hub.reached() {
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

    #[test]
    fn a_pod_that_has_not_listed_yet_is_alive_and_not_ready() {
        let hub = Hub::new(false);
        assert_eq!(reply("GET /healthz HTTP/1.1", &hub, String::new).0, "200 OK");
        let (status, why) = reply("GET /readyz HTTP/1.1", &hub, String::new);
        assert_eq!((status, why.as_str()), ("503 Service Unavailable", "no relist has succeeded yet\n"));
    }

    #[test]
    fn only_known_paths_are_served() {
        let hub = Hub::new(false);
        let (status, body) = reply("GET /metrics HTTP/1.1", &hub, String::new);
        assert_eq!(status, "200 OK");
        assert!(body.contains("kubelet_pleg_relist_duration_seconds"));
        assert_eq!(reply("GET /metrics?x=1 HTTP/1.1", &hub, String::new).0, "200 OK");
        assert_eq!(reply("GET /metricsx HTTP/1.1", &hub, String::new).0, "404 Not Found");
        assert_eq!(reply("GET / HTTP/1.1", &hub, String::new).0, "404 Not Found");
        assert_eq!(reply("POST /metrics HTTP/1.1", &hub, String::new).0, "405 Method Not Allowed");
    }
}
