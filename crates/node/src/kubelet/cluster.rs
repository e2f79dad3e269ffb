//! [`Cluster`]: an API server, as a kubeconfig or a pod's service account names it, and the HTTP client with its
//! certificates and credentials. It sends nothing itself.

use super::http::HttpClient;

/// An API server and how to reach it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `https://host:port`, without a slash at the end.
    pub server: String,
    /// The client for its requests.
    pub client: HttpClient,
    /// The name of the context, or a description of the service account.
    pub context: String,
    /// Whether every certificate is accepted.
    pub insecure: bool,
}
