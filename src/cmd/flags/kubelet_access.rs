//! The flags with which a user gives access to the kubelet's own API: URL, credential, CA. Several commands share
//! them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::cmd::Error;
use crate::cmd::node::Node;
use crate::cri::PODS_API_SOCKET;
use crate::host::open_to_others;
use crate::kubelet::http::PemError;
use crate::kubelet::kubeconfig::ACCOUNT;
use crate::kubelet::{Credentials, KubeletApi, KubeletProcess, http};
use crate::threads;

/// The kubelet's default port.
const DEFAULT_PORT: u16 = 10250;

/// The time limit for reading files with credentials.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The kubelet's root directory, unless it has another one (`--root-dir`).
const ROOT_DIRECTORY: &str = "/var/lib/kubelet";

/// The kubelet's own API.
#[derive(Clone, Debug, Default, Args)]
pub struct KubeletAccess {
    /// The kubelet's own API [default: `https://127.0.0.1:10250` where a credential is given]
    #[arg(long = "kubelet-url", value_name = "URL")]
    url: Option<String>,

    /// A file with a bearer token for the kubelet's API
    #[arg(long = "kubelet-token-file", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// A client certificate for the kubelet's API
    #[arg(long = "kubelet-client-cert", value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,

    /// The key of the client certificate
    #[arg(long = "kubelet-client-key", value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,

    /// File with the CA that signed the kubelet's certificate [default: the certificate file of this node's kubelet, with
    /// --kubelet-url also the system's CAs]
    #[arg(long = "kubelet-ca-file", value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Do not verify the kubelet's certificate; any server can then pretend to be the kubelet
    #[arg(long = "kubelet-insecure-tls", conflicts_with = "ca_file")]
    insecure_tls: bool,
}

impl KubeletAccess {
    /// Whether the user named a kubelet or a credential.
    pub const fn is_given(&self) -> bool {
        self.url.is_some() || self.token_file.is_some() || self.client_cert.is_some()
    }

    /// Returns the API of the kubelet that the user named, if any.
    pub fn api(&self, node: &Node) -> Result<Option<KubeletApi>, Error> {
        if !self.is_given() {
            return Ok(None);
        }
        let running = node.kubelet();
        let url = self.url.clone().unwrap_or_else(|| own_url(running));
        http::check(&url).map_err(Error::Kubelet)?;
        if self.insecure_tls {
            node.remark(&format!(
                "the certificate of {url} is not verified: any server can pretend to be it"
            ));
        }
        let pair = self.client_cert.clone().zip(self.client_key.clone());
        let credentials = Credentials {
            token: self.token_file.clone(),
            certificate: pair,
            authority: self.ca_file.clone(),
            served: running.and_then(KubeletProcess::certificate).map(<[u8]>::to_vec),
            // The URL may belong to another node's kubelet. That a server has the certificate of this node's kubelet, and
            // its key, proves that the server is that kubelet, whatever its URL is.
            any_kubelet: self.url.is_some(),
            insecure: self.insecure_tls,
        };
        open_api(&url, credentials).map(Some)
    }

    /// Returns the API of the kubelet that the user named. If the user named none and plegctl runs in a pod, returns
    /// the API of this node's kubelet with the pod's service account.
    pub fn api_or_own(&self, node: &Node) -> Result<Option<KubeletApi>, Error> {
        if self.is_given() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            return self.api(node);
        }
        let Some(credentials) = account_credentials(Path::new(ACCOUNT), node.kubelet()) else {
            return Ok(None);
        };
        let url = own_url(node.kubelet());
        node.note(1, &format!("kubelet {url} by the account of this pod"));
        // The user did not request this access, so a failure is no error.
        Ok(open_api(&url, credentials).ok())
    }
}

/// Creates the API client. Reading the credential files has a time limit, because a disk may not answer.
fn open_api(url: &str, credentials: Credentials) -> Result<KubeletApi, Error> {
    let read = {
        let (url, credentials) = (url.to_owned(), credentials.clone());
        threads::with_time_limit(TIME_LIMIT, move || KubeletApi::new(&url, &credentials))
    };
    match read {
        Ok(api) => Ok(api?),
        Err(source) if source.kind() == io::ErrorKind::TimedOut => {
            let certificate = credentials.certificate.map(|(certificate, _)| certificate);
            let path = credentials.token.or(credentials.authority).or(certificate).unwrap_or_default();
            Err(PemError::Read { path, source }.into())
        }
        // No thread could be started, so the files are read in this one.
        Err(_) => Ok(KubeletApi::new(url, &credentials)?),
    }
}

/// Returns the API of this node's kubelet through its read-only port, if that port is open.
pub fn read_only_api(node: &Node) -> Result<Option<KubeletApi>, Error> {
    let Some(port) = node.read_only_port() else { return Ok(None) };
    Ok(Some(KubeletApi::new(&format!("http://127.0.0.1:{port}"), &Credentials::default())?))
}

/// Returns the socket of the Pods API of this node's kubelet, if it exists and only root can have created it.
pub fn own_socket(node: &Node) -> Option<PathBuf> {
    let root = node.kubelet().and_then(|running| running.flag("root-dir")).unwrap_or(ROOT_DIRECTORY);
    let host = node.host.clone();
    let socket = host.path(Path::new(root).join(PODS_API_SOCKET));
    let examined = socket.clone();
    // A disk that does not answer must not hold up the command.
    let (exists, open) = node
        .in_time("the kubelet's Pods API", move || (examined.exists(), open_to_others(&host, &examined)))?;
    if let Some(directory) = open.filter(|_| exists) {
        node.remark(&format!(
            "the kubelet's Pods API is not used: other users can write to `{}`, so anybody could serve this socket",
            directory.display()
        ));
        return None;
    }
    exists.then_some(socket)
}

/// Returns the URL of this node's kubelet.
fn own_url(running: Option<&KubeletProcess>) -> String {
    format!(
        "https://127.0.0.1:{}",
        running.map_or(DEFAULT_PORT, |running| running.port("port", "port", DEFAULT_PORT))
    )
}

/// Returns the pod's service account as a credential. The certificate of this node's kubelet must be known, so that
/// the token is sent to no other server.
fn account_credentials(account: &Path, running: Option<&KubeletProcess>) -> Option<Credentials> {
    let token = account.join("token");
    let served = running?.certificate()?.to_vec();
    token.is_file().then(|| Credentials {
        token: Some(token),
        served: Some(served),
        ..Credentials::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_token_is_sent_only_to_the_kubelet_of_this_node() {
        let account = std::env::temp_dir().join(format!("plegctl-account-{}", std::process::id()));
        std::fs::create_dir_all(&account).unwrap();
        std::fs::write(account.join("token"), "t").unwrap();
        assert!(account_credentials(&account, None).is_none(), "any server may listen on that port");
        std::fs::remove_dir_all(&account).unwrap();
        assert_eq!(own_url(None), "https://127.0.0.1:10250");
    }
}
