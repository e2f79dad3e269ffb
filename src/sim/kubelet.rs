//! Simulates the kubelet's `/metrics` and `/healthz` over plain HTTP on a port of the loopback device.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use http::{Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::scenario::{KubeletProcessState, NodeProcesses};
use crate::clock::{Clock, Wall};

/// The release in the metrics.
pub const VERSION: &str = "v1.36.2";

/// The HTTP pages of a simulated kubelet.
pub struct KubeletPages {
    processes: NodeProcesses,
    clock: Arc<dyn Clock>,
    /// The time at which the pages were created.
    created: Wall,
}

impl KubeletPages {
    /// Creates the pages of a kubelet, whose last relist has its age now.
    pub fn new(processes: NodeProcesses, clock: Arc<dyn Clock>) -> Self {
        let created = clock.wall();
        Self { processes, clock, created }
    }

    /// Serves the pages on a free port and returns the base URL. A dead kubelet does not listen, and a stopped
    /// kubelet never answers. Must be called in a tokio runtime; the server ends with that runtime.
    pub fn serve(self) -> io::Result<String> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address: SocketAddr = listener.local_addr()?;
        match self.processes.kubelet {
            KubeletProcessState::Dead => drop(listener),
            state => {
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                tokio::spawn(accept(listener, Arc::new(self), state));
            }
        }
        Ok(format!("http://{address}"))
    }

    fn answer(&self, path: &str) -> Response<String> {
        let (status, body) = match path {
            "/healthz" => (StatusCode::OK, "ok".to_owned()),
            "/metrics" => (StatusCode::OK, self.metrics()),
            _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response
    }

    /// Returns the time of the last relist, if the kubelet makes no more relists.
    pub fn last_relist(&self) -> Option<Wall> {
        self.processes.last_relist.map(|ago| self.created.minus(ago))
    }

    /// Formats the PLEG part of the kubelet's metrics.
    fn metrics(&self) -> String {
        let seen = self.last_relist().unwrap_or_else(|| self.clock.wall());
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# TYPE kubernetes_build_info gauge\n\
             kubernetes_build_info{{git_version=\"{VERSION}\",major=\"1\",minor=\"36\"}} 1\n\
             # TYPE kubelet_pleg_last_seen_seconds gauge\n\
             kubelet_pleg_last_seen_seconds {}\n\
             # TYPE kubelet_pleg_discard_events counter\n\
             kubelet_pleg_discard_events 0\n",
            seen.nanos().div_euclid(1_000_000_000)
        );
        text
    }
}

async fn accept(listener: TcpListener, pages: Arc<KubeletPages>, state: KubeletProcessState) {
    let mut unanswered = Vec::new();
    // Without file descriptors the kubelet does not answer either.
    while let Ok((stream, _)) = listener.accept().await {
        if state == KubeletProcessState::Stopped {
            // The connection stays open without an answer.
            unanswered.push(stream);
            continue;
        }
        let pages = Arc::clone(&pages);
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let response = pages.answer(request.uri().path());
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::spawn(async move {
            // A client that closes the connection early is no error.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
