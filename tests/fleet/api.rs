//! For the tests of `nodes` and `health`: a scripted HTTPS server that acts as a kubelet or an API server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::file;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers with a status and a body.
    Answer(u16, String),
    /// Answers with a status and a body that is no text.
    Bytes(u16, Vec<u8>),
    /// Redirects the client.
    Redirect(&'static str),
    /// Sends nothing and keeps the connection open.
    Silent,
    /// Sends this beginning of a larger answer and keeps the connection open.
    Half(&'static str),
    /// Sends this beginning of a larger answer and closes the connection.
    Cut(&'static str),
}

impl Reply {
    /// Answers with status 200.
    pub fn ok(body: impl Into<String>) -> Self {
        Self::Answer(200, body.into())
    }
}

/// The parts of a request that the tests check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    /// The recorder's token.
    pub token: Option<String>,
    /// The headers that name another user, in the order in which they came.
    pub impersonation: Vec<(String, String)>,
    pub body: Vec<u8>,
}

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

/// The server. It stops when this is dropped.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<Mutex<usize>>,
    answered: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

/// The clients that the server accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Every client.
    Any,
    /// Clients with a certificate of the test authority.
    WithCertificate,
}

impl Server {
    /// Starts a server with the certificate `pki/{certificate}.crt`.
    pub fn start(
        certificate: &str,
        clients: Clients,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(acceptor(certificate, clients)), Arc::new(script))
    }

    /// Starts a server without TLS.
    pub fn start_plain(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(script))
    }

    fn serve(acceptor: Option<TlsAcceptor>, script: Arc<Script>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicUsize::new(0));
        let (log, count, bytes) = (Arc::clone(&requests), Arc::clone(&connections), Arc::clone(&answered));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, script, log) = (acceptor.clone(), Arc::clone(&script), Arc::clone(&log));
                let bytes = Arc::clone(&bytes);
                *count.lock().unwrap() += 1;
                tokio::spawn(async move {
                    let Some(acceptor) = acceptor else {
                        let _ = converse(stream, &*script, &log, &bytes).await;
                        return;
                    };
                    // Some tests expect a failed handshake.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = converse(stream, &*script, &log, &bytes).await;
                    }
                });
            }
        });
        Self { address, requests, connections, answered, _runtime: runtime }
    }

    /// Returns the address of the server.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the address of a server without TLS.
    pub fn plain_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the received requests.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the bytes of all whole answers, with their headers, before encryption.
    pub fn answered_bytes(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(file(&format!("tests/fleet/pki/{name}.crt")))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Creates the server's side of TLS.
fn acceptor(certificate: &str, clients: Clients) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let key = PrivateKeyDer::from_pem_file(file(&format!("tests/fleet/pki/{certificate}.key"))).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Clients::Any => builder.with_no_client_auth(),
        Clients::WithCertificate => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates("authority"));
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    TlsAcceptor::from(Arc::new(builder.with_single_cert(certificates(certificate), key).unwrap()))
}

/// Answers the requests on one connection.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    script: &Script,
    log: &Mutex<Vec<Request>>,
    bytes: &AtomicUsize,
) -> std::io::Result<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    loop {
        let Some(first) = lines.next_line().await? else { return Ok(()) };
        let (mut headers, mut impersonation) = (HashMap::new(), Vec::new());
        while let Some(line) = lines.next_line().await?.filter(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':') {
                let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
                if name.starts_with("impersonate-") {
                    impersonation.push((name.clone(), value.clone()));
                }
                headers.insert(name, value);
            }
        }
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let authorization = headers.remove("authorization");
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        lines.get_mut().read_exact(&mut body).await?;
        let token = headers.remove("x-plegctl-token");
        let request = Request { method, path, authorization, token, impersonation, body };
        log.lock().unwrap().push(request.clone());
        let head = |status: u16, length: usize| {
            format!(
                "HTTP/1.1 {status} X\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Length: {length}\r\n"
            )
        };
        match script(&request) {
            Reply::Answer(status, body) => {
                let answer = format!("{}\r\n{body}", head(status, body.len()));
                bytes.fetch_add(answer.len(), Ordering::SeqCst);
                writer.write_all(answer.as_bytes()).await?;
            }
            Reply::Bytes(status, body) => {
                writer.write_all(format!("{}\r\n", head(status, body.len())).as_bytes()).await?;
                writer.write_all(&body).await?;
            }
            Reply::Redirect(to) => {
                writer.write_all(format!("{}Location: {to}\r\n\r\n", head(302, 0)).as_bytes()).await?;
            }
            Reply::Silent => std::future::pending::<()>().await,
            Reply::Half(part) | Reply::Cut(part) if !part.is_empty() => {
                writer.write_all(format!("{}\r\n{part}", head(200, 1_000_000)).as_bytes()).await?;
                writer.flush().await?;
                if matches!(script(&request), Reply::Cut(_)) {
                    return writer.shutdown().await;
                }
                std::future::pending::<()>().await;
            }
            Reply::Half(_) | Reply::Cut(_) => return Ok(()),
        }
        writer.flush().await?;
    }
}
