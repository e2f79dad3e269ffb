//! [`KubeletApi`]: the client for the HTTP API of one kubelet, directly or through the API server's proxy. It sends
//! GET requests only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::Cluster;
use super::http::{self, ClientIdentity, HttpAnswer, HttpClient, PemError, ServerTrust, certificates};
use plegctl_base::report::load::{LARGEST_SETTING, load};

/// The largest answer in bytes. The largest document of a kubelet is the list of its pods.
const LARGEST: usize = 64 << 20;

/// The caller's credentials for a kubelet, and which certificates of the kubelet are accepted.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// A file with a bearer token.
    pub token: Option<PathBuf>,
    /// The files of a client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The file of the authority that signed the kubelet's certificate.
    pub authority: Option<PathBuf>,
    /// The certificate that this node's kubelet serves, as PEM from the node's disk. It is accepted under any name.
    pub served: Option<Vec<u8>>,
    /// Whether the kubelet may be another one than this node's. Otherwise, only `served` is accepted if it is given.
    pub any_kubelet: bool,
    /// Whether every certificate is accepted.
    pub insecure: bool,
}

/// A kubelet's API.
#[derive(Clone, Debug)]
pub struct KubeletApi {
    base: String,
    client: HttpClient,
    /// Whether every certificate is accepted.
    pub insecure: bool,
    /// Whether requests go through the API server's node proxy.
    pub proxied: bool,
}

impl KubeletApi {
    /// Creates a client for the kubelet at `url`.
    pub fn new(url: &str, credentials: &Credentials) -> Result<Self, PemError> {
        let read = |path: &Path| {
            load(path, LARGEST_SETTING).map_err(|source| PemError::Read { path: path.to_path_buf(), source })
        };
        let trust = match (&credentials.authority, &credentials.served) {
            _ if credentials.insecure => ServerTrust::Insecure,
            (Some(path), _) => {
                ServerTrust::Authorities(certificates(&read(path)?, &path.display().to_string())?)
            }
            (None, Some(served)) => {
                let served = certificates(served, "the kubelet's certificate file")?;
                if credentials.any_kubelet {
                    ServerTrust::SystemOr(served)
                } else {
                    ServerTrust::Only(served)
                }
            }
            (None, None) => ServerTrust::System,
        };
        let identity = match &credentials.certificate {
            Some((certificate, key)) => {
                let name = certificate.display().to_string();
                Some(ClientIdentity::from_pem(&read(certificate)?, &read(key)?, &name)?)
            }
            None => None,
        };
        let token = credentials.token.as_deref().map(read).transpose()?;
        let token = token.map(|token| String::from_utf8_lossy(&token).trim().to_owned());
        // Without TLS no certificate is checked. A system without certificate authorities must then cause no error.
        let client = if url.starts_with("https://") {
            HttpClient::new(&trust, identity.as_ref())?
        } else {
            HttpClient::default()
        };
        Ok(Self {
            base: url.trim_end_matches('/').to_owned(),
            client: client.with_token(token.as_deref()).with_largest(LARGEST),
            insecure: credentials.insecure,
            proxied: false,
        })
    }

    /// Creates a client that uses the API server's node proxy.
    pub fn through(cluster: &Cluster, node: &str) -> Self {
        Self {
            base: format!("{}/api/v1/nodes/{}/proxy", cluster.server, http::encoded(node)),
            client: cluster.client.clone().with_largest(LARGEST),
            insecure: cluster.insecure,
            proxied: true,
        }
    }

    /// Returns the URL of a document.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Requests a document, and gives each part of it to `take` as it arrives, up to the largest answer.
    pub async fn get_in_parts(
        &self,
        path: &str,
        limit: Duration,
        take: impl AsyncFnMut(&[u8]),
    ) -> Result<usize, http::Error> {
        self.client.get_in_parts(&self.url(path), LARGEST, limit, take).await
    }

    /// Requests a document.
    pub async fn get(&self, path: &str, limit: Duration) -> Result<HttpAnswer, http::Error> {
        self.client.get(&self.url(path), limit).await
    }
}
