//! A recorder's pod: reads its verdict, its incidents and parts of its capture through the API server's pod proxy. The proxy
//! forwards no `Authorization` header, so a token has a header of its own.
//!
//! Sends only GET requests. An answer is limited to [`MAX_ANSWER`] or [`MAX_EXPORT`], because any pod with the recorder's
//! label may answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

use crate::kubelet::http::{self, encoded};
use crate::kubelet::kubeconfig::Cluster;

/// The label of the recorder's pods (deploy/base/kustomization.yaml).
pub(super) const SELECTOR: &str = "app.kubernetes.io/name=plegctl";

/// The name of the port that serves the verdict (deploy/base/daemonset.yaml).
const PORT: &str = "metrics";

/// The namespace of the recorder's pods in `deploy/base`.
pub const NAMESPACE: &str = "plegctl";

/// The maximum number of pods of one node that are tried.
pub(super) const MAX_TRIED: usize = 2;

/// The largest answer of a recorder in bytes. A verdict has some kilobytes.
pub(super) const MAX_ANSWER: usize = 1024 * 1024;

/// The largest export (a part of a capture, or a bundle), in bytes.
const MAX_EXPORT: usize = 64 * 1024 * 1024;

/// The largest verdict with facts, in bytes: a recorder keeps 4 MiB of facts.
const MAX_FACTS: usize = 6 * 1024 * 1024;

/// How many characters of a recorder's refusal a message contains.
const MAX_REFUSAL: usize = 300;

/// The largest list of pods in bytes.
pub(super) const MAX_POD_LIST: usize = 8 * 1024 * 1024;

/// A recorder's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderPod {
    namespace: String,
    name: String,
    port: u16,
}

/// The answer of a recorder.
#[derive(Clone, Debug, PartialEq)]
pub struct RecorderAnswer {
    /// The text of the answer.
    pub text: String,
    /// The API server's time in seconds since the epoch.
    pub date: Option<f64>,
}

/// Why a recorder gives no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecorderError {
    /// The request failed.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The list of pods cannot be read.
    #[error("the list of its pods cannot be read: {0}")]
    NoList(String),
    /// The recorder refuses the request.
    #[error("{pod} answers {status}: {why}")]
    Refused {
        /// The namespace and the name of the pod.
        pod: String,
        status: u16,
        /// The recorder's reason.
        why: String,
    },
    /// The recorder's token would be sent without encryption to another machine.
    #[error("the token of {0} is sent over TLS only, and the kubeconfig's server has no https URL")]
    NoTls(String),
}

/// Whether nobody on a network can read what is sent to this server: with TLS, or to an address of this machine's loopback device.
fn is_confidential(server: &str) -> bool {
    let Some(plain) = server.strip_prefix("http://") else { return server.starts_with("https://") };
    let host = plain.split('/').next().unwrap_or_default();
    let address = host.parse().map(|address: SocketAddr| address.ip()).or_else(|_| host.parse::<IpAddr>());
    // A name could be one of another machine.
    address.is_ok_and(|address| address.is_loopback())
}

#[derive(Deserialize)]
pub(super) struct RecorderPodList {
    #[serde(default)]
    pub metadata: super::PageMetadata,
    pub items: Vec<RecorderPodItem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecorderPodItem {
    metadata: PodMetadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: RecorderPodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    name: String,
    namespace: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    containers: Vec<PodContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodContainer {
    ports: Vec<PodPort>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodPort {
    name: String,
    container_port: u16,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecorderPodStatus {
    phase: String,
}

impl RecorderPodItem {
    /// Returns the pod as a recorder's pod, with its node, if it runs and has the port.
    pub(super) fn recorder(self) -> Option<(String, RecorderPod)> {
        let runs = self.status.phase == "Running" && self.metadata.deletion_timestamp.is_none();
        let mut ports = self.spec.containers.into_iter().flat_map(|container| container.ports);
        let port = ports.find(|port| port.name == PORT && port.container_port != 0)?;
        runs.then_some((
            self.spec.node_name,
            RecorderPod {
                namespace: self.metadata.namespace,
                name: self.metadata.name,
                port: port.container_port,
            },
        ))
    }
}

impl RecorderPod {
    /// Returns whether the pod is in this namespace.
    pub fn is_in(&self, namespace: &str) -> bool {
        self.namespace == namespace
    }

    /// Returns the namespace and the name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the URL of a page of the recorder, through the pod proxy of the API server at `server`.
    pub(super) fn url(&self, server: &str, page: &str) -> String {
        let (namespace, name, port) = (encoded(&self.namespace), encoded(&self.name), self.port);
        format!("{server}/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/{page}")
    }

    /// Reads the verdict as JSON.
    pub async fn verdict(&self, cluster: &Cluster, timeout: Duration) -> Result<RecorderAnswer, http::Error> {
        self.json(cluster, "verdict?o=json", timeout).await
    }

    /// Reads the verdict with what its diagnosis measured, as JSON; this needs the recorder's token.
    pub async fn verdict_with_facts(
        &self,
        cluster: &Cluster,
        token: &(String, String),
        timeout: Duration,
    ) -> Result<RecorderAnswer, RecorderError> {
        let (answer, url) = self.protected(cluster, "verdict?facts=true", token, MAX_FACTS, timeout).await?;
        let date = answer.date;
        Ok(RecorderAnswer { text: answer.document(&url)?, date })
    }

    /// Reads a page that needs the recorder's token, for example `capture?incident=3&anonymise=1`. `token` is the name and the
    /// value of the header.
    pub async fn export(
        &self,
        cluster: &Cluster,
        page: &str,
        token: &(String, String),
        timeout: Duration,
    ) -> Result<Vec<u8>, RecorderError> {
        let (answer, url) = self.protected(cluster, page, token, MAX_EXPORT, timeout).await?;
        Ok(answer.bytes(&url)?)
    }

    /// Reads a page of at most `largest` bytes that needs the recorder's token. Returns also its URL.
    async fn protected(
        &self,
        cluster: &Cluster,
        page: &str,
        token: &(String, String),
        largest: usize,
        timeout: Duration,
    ) -> Result<(http::HttpAnswer, String), RecorderError> {
        if !is_confidential(&cluster.server) {
            return Err(RecorderError::NoTls(self.full_name()));
        }
        let client = cluster.client.clone().with_largest(largest).with_headers(std::slice::from_ref(token));
        let url = self.url(&cluster.server, page);
        let answer = client.get(&url, timeout).await?;
        let text = answer.text();
        // The API server refuses with a JSON object, the recorder with a line of text.
        if matches!(answer.status, 400..=599) && !text.trim_start().starts_with('{') {
            let why = text.trim().chars().take(MAX_REFUSAL).collect();
            return Err(RecorderError::Refused { pod: self.full_name(), status: answer.status, why });
        }
        Ok((answer, url))
    }

    /// Reads a page as JSON.
    async fn json(
        &self,
        cluster: &Cluster,
        page: &str,
        timeout: Duration,
    ) -> Result<RecorderAnswer, http::Error> {
        let client = cluster.client.clone().with_largest(MAX_ANSWER);
        let url = self.url(&cluster.server, page);
        let answer = client.session().get_as(&url, "application/json", timeout).await?;
        let date = answer.date;
        Ok(RecorderAnswer { text: answer.document(&url)?, date })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(pod: &serde_json::Value) -> Option<(String, RecorderPod)> {
        serde_json::from_value::<RecorderPodItem>(pod.clone()).unwrap().recorder()
    }

    #[test]
    fn the_token_goes_over_tls_or_to_this_machine() {
        for (server, is_sent) in [
            ("https://api.example.com:6443", true),
            ("http://127.0.0.1:8001", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:8001/prefix", true),
            ("http://localhost:8001", false),
            ("http://127.0.0.1.example.com:8001", false),
            ("http://127.0.0.1@api.example.com", false),
            ("http://10.0.0.1:8001", false),
            ("http://", false),
            ("", false),
        ] {
            assert_eq!(is_confidential(server), is_sent, "{server}");
        }
    }

    #[test]
    fn only_a_running_pod_with_the_port_is_a_recorder() {
        let pod = serde_json::json!({
            "metadata": {"namespace": "plegctl", "name": "plegctl-x"},
            "spec": {"nodeName": "n1", "containers": [{}, {"ports": [{"name": "metrics", "containerPort": 9469}]}]},
            "status": {"phase": "Running"},
        });
        let (node, found) = recorder(&pod).unwrap();
        assert_eq!(
            (node.as_str(), found.full_name().as_str(), found.port),
            ("n1", "plegctl/plegctl-x", 9469)
        );
        for (place, value) in [
            ("/status/phase", "Pending".into()),
            ("/spec/containers/1/ports/0/name", "other".into()),
            ("/metadata", serde_json::json!({"namespace": "a", "name": "b", "deletionTimestamp": "now"})),
        ] {
            let mut other = pod.clone();
            *other.pointer_mut(place).unwrap() = value;
            assert_eq!(recorder(&other), None, "{place}");
        }
    }
}
