//! Follows the pods of one node in the API server, with a list and watches like the kubelet's reflector.
//!
//! This module sends only GET requests: to follow the pods, a list and then watches; `lease` reads the node's lease.
//! After each change it sends the complete set of pods to its receiver. After an error, the last set stays valid, and
//! the module repeats the request after a pause that doubles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::api::{ApiPod, wanted};
use super::file_watch::{SourceMessage, back_off};
use super::{ApiPods, CompactJson, PodListError, PodSource, WantedPod};
use crate::PodIdentity;
use plegctl_base::clock::Wall;
use plegctl_base::threads;
use plegctl_node::kubelet::KubeletApi;
use plegctl_node::kubelet::http::{self, encoded};
use plegctl_node::kubelet::kubeconfig::{self, Cluster, KubeconfigError, KubeconfigSources};
use plegctl_node::kubelet::pod_status::moment;

/// The time limit of a credential plugin, which may have to call a cloud API.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the whole answer of the list before a watch, unless the user sets another.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the whole answer to a single request (a list without a watch, the lease of the node): the same as for
/// the runtime and the kubelet.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of the start of a watch.
const WATCH_START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the API server keeps a watch open.
const WATCH_SECONDS: u64 = 300;
/// A watch that stays open for this much longer than [`WATCH_SECONDS`] is given up.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// The longest pause before a retry in client-go's reflector.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The maximum size of a list. Ten thousand pods are about sixty megabytes.
const MAX_LIST_BYTES: usize = 256 << 20;

/// An API server, and the node whose pods are read from it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// Where to find the kubeconfig.
    pub kubeconfig: KubeconfigSources,
    /// The kubeconfig context.
    pub context: Option<String>,
    /// The node's name.
    pub node: String,
    /// The time limit for the credential plugin, the list, the start of a watch and the lease, if the user sets one.
    pub request_timeout: Option<Duration>,
}

/// Why the pods of the API server are not known.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The connection, a certificate or the credential is not accepted.
    #[error("{0}")]
    Http(#[from] http::Error),
    /// The API server refuses access to these pods.
    #[error(
        "{0}; to list the pods of a node, the user needs the rights `list` and `watch` on pods, or use the kubelet's own kubeconfig"
    )]
    Forbidden(http::Error),
    /// The answer is not a list of pods.
    #[error("the answer of `{url}` cannot be used: {why}")]
    NoList {
        /// The URL of the request.
        url: String,
        /// What is wrong with the answer.
        why: PodListError,
    },
    /// A line of the watch is not a watch event.
    #[error("a line of the watch `{url}` cannot be used: {why}")]
    NoEvent {
        /// The URL of the request.
        url: String,
        /// What is wrong with the line.
        why: String,
    },
    /// The API server ended the watch with an error status.
    #[error("the API server ends the watch: {code} {message}")]
    Ended {
        /// The code of the status.
        code: u64,
        /// The message of the status.
        message: String,
    },
}

/// How a watch ended without an error. `received` means that the watch received at least one line.
enum WatchEnd {
    /// The watch ended normally or at its time limit, so that the next watch can continue from the store's resource
    /// version.
    Closed { received: bool },
    /// The API server no longer has the resource version, so that a new list is needed.
    Gone { received: bool },
    /// The receiver of the messages was dropped.
    ReceiverDropped,
}

#[derive(Deserialize)]
struct WatchLine {
    r#type: String,
    #[serde(default)]
    object: CompactJson,
}

/// The known pods and their resource version.
struct PodStore {
    pods: BTreeMap<PodIdentity, Arc<WantedPod>>,
    version: String,
}

impl PodStore {
    fn new(list: ApiPods) -> Self {
        let pods = list.pods.into_iter().map(|pod| (pod.identity.clone(), pod)).collect();
        Self { pods, version: list.version }
    }

    /// Returns the message with the complete set of pods.
    fn set_message(&self) -> SourceMessage {
        SourceMessage::Set(PodSource::Api, self.pods.values().map(Arc::clone).collect())
    }

    /// Applies one line of the watch. Returns whether the pods have changed.
    fn apply(&mut self, line: &[u8], url: &str) -> Result<bool, WatchFailure> {
        let bad_line = |why: String| ApiServerError::NoEvent { url: url.to_owned(), why };
        let event: WatchLine = serde_json::from_slice(line).map_err(|why| bad_line(why.to_string()))?;
        if event.r#type == "ERROR" {
            let status = event.object.read();
            let code = status.get("code").and_then(Value::as_u64).unwrap_or_default();
            let message = status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Err(if code == u64::from(GONE) {
                WatchFailure::Gone
            } else {
                ApiServerError::Ended { code, message }.into()
            });
        }
        let mut object: ApiPod = event.object.parsed().map_err(|why| bad_line(why.to_string()))?;
        let version = std::mem::take(&mut object.metadata.resource_version);
        let changed = match event.r#type.as_str() {
            "BOOKMARK" => false,
            "ADDED" | "MODIFIED" | "DELETED" => {
                let pod =
                    wanted(object).ok_or_else(|| bad_line("the pod has no name or no uid".to_owned()))?;
                if event.r#type == "DELETED" {
                    self.pods.remove(&pod.identity).is_some()
                } else {
                    self.pods.insert(pod.identity.clone(), Arc::new(pod));
                    true
                }
            }
            other => return Err(bad_line(format!("the event type `{other}` is not known")).into()),
        };
        if !version.is_empty() {
            self.version = version;
        }
        Ok(changed)
    }
}

/// The HTTP status of a resource version that the API server no longer has.
const GONE: u16 = 410;

/// Why a watch failed.
enum WatchFailure {
    /// The API server no longer has the resource version.
    Gone,
    Other(ApiServerError),
}

impl<E: Into<ApiServerError>> From<E> for WatchFailure {
    fn from(why: E) -> Self {
        Self::Other(why.into())
    }
}

impl ApiServer {
    /// Reads the kubeconfig and returns the cluster. This may run the kubeconfig's credential plugin.
    async fn cluster(&self) -> Result<Cluster, ApiServerError> {
        let (sources, context) = (self.kubeconfig.clone(), self.context.clone());
        let request_timeout = self.request_timeout.unwrap_or(CREDENTIAL_TIMEOUT);
        let read =
            threads::blocking(move || kubeconfig::cluster(&sources, context.as_deref(), request_timeout));
        Ok(read.await.map_err(KubeconfigError::Unread)??)
    }

    fn url(&self, cluster: &Cluster, query: &str) -> String {
        let node = encoded(&self.node);
        format!("{}/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&{query}", cluster.server)
    }

    /// Returns a client for the node's kubelet behind this API server's node proxy.
    pub async fn kubelet(&self) -> Result<KubeletApi, ApiServerError> {
        Ok(KubeletApi::through(&self.cluster().await?, &self.node))
    }

    /// Returns the API server's URL and when the kubelet last renewed the lease of its node.
    pub async fn lease(&self) -> Result<(String, Result<Wall, String>), ApiServerError> {
        let cluster = self.cluster().await?;
        let node = encoded(&self.node);
        let url = format!(
            "{}/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}",
            cluster.server
        );
        let limit = self.request_timeout.unwrap_or(ANSWER_TIMEOUT);
        let answer = cluster.client.get(&url, limit).await.and_then(|answer| answer.bytes(&url));
        let renewed = answer.map_err(|why| why.to_string()).and_then(|text| {
            let lease: Value = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
            moment(lease.pointer("/spec/renewTime")).ok_or_else(|| "it has no renewTime".to_owned())
        });
        Ok((cluster.server, renewed))
    }

    /// Lists the node's pods.
    pub async fn list(&self) -> Result<ApiPods, ApiServerError> {
        self.list_from(&self.cluster().await?, ANSWER_TIMEOUT).await
    }

    /// Lists from the API server's cache, as the kubelet does: a list from etcd would read every pod of the cluster.
    async fn list_from(&self, cluster: &Cluster, limit: Duration) -> Result<ApiPods, ApiServerError> {
        let url = self.url(cluster, "resourceVersion=0");
        let client = cluster.client.clone().with_largest(MAX_LIST_BYTES);
        let answer = client.get(&url, self.request_timeout.unwrap_or(limit)).await.map_err(from_http)?;
        let text = answer.bytes(&url).map_err(from_http)?;
        ApiPods::parse(&text, &self.node).map_err(|why| ApiServerError::NoList { url, why })
    }

    /// Watches from the store's resource version until the watch ends.
    async fn watch(
        &self,
        cluster: &Cluster,
        store: &mut PodStore,
        failures: &mut u32,
        messages: &Sender<SourceMessage>,
    ) -> Result<WatchEnd, WatchFailure> {
        let from = encoded(&store.version);
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}"
        );
        let url = self.url(cluster, &query);
        let mut lines =
            match cluster.client.lines(&url, self.request_timeout.unwrap_or(WATCH_START_TIMEOUT)).await {
                Err(http::Error::Status { status: GONE, .. }) => {
                    return Ok(WatchEnd::Gone { received: false });
                }
                lines => lines.map_err(from_http)?,
            };
        *failures = 0;
        let mut received = false;
        loop {
            let Some(line) = lines.next().await.map_err(from_http)? else {
                return Ok(WatchEnd::Closed { received });
            };
            match store.apply(&line, &url) {
                Ok(false) => {}
                Ok(true) => {
                    if messages.send(store.set_message()).await.is_err() {
                        return Ok(WatchEnd::ReceiverDropped);
                    }
                }
                Err(WatchFailure::Gone) => return Ok(WatchEnd::Gone { received }),
                Err(why) => return Err(why),
            }
            received = true;
        }
    }

    /// Lists once and then watches, one watch after the other, until an error.
    ///
    /// A successful start of a watch sets `failures` to zero, but a successful list does not: if the user may list but not
    /// watch, each retry costs the API server a complete list, so the pauses must grow.
    async fn list_and_watch(
        &self,
        cluster: &Cluster,
        failures: &mut u32,
        messages: &Sender<SourceMessage>,
    ) -> Result<WatchEnd, ApiServerError> {
        let mut store = PodStore::new(self.list_from(cluster, LIST_TIMEOUT).await?);
        if messages.send(store.set_message()).await.is_err() {
            return Ok(WatchEnd::ReceiverDropped);
        }
        let (mut empty_watches, mut any_received) = (0, false);
        loop {
            let watch_limit = Duration::from_secs(WATCH_SECONDS) + WATCH_GRACE;
            let end = timeout(watch_limit, self.watch(cluster, &mut store, failures, messages)).await;
            match end.unwrap_or(Ok(WatchEnd::Closed { received: false })) {
                Ok(WatchEnd::Closed { received: true }) => (empty_watches, any_received) = (0, true),
                // A watch that received nothing may be followed by another that ends at once, so pause before it.
                Ok(WatchEnd::Closed { received: false }) => {
                    sleep(back_off(empty_watches, MAX_PAUSE)).await;
                    empty_watches += 1;
                }
                Ok(WatchEnd::Gone { received }) => {
                    return Ok(WatchEnd::Gone { received: received || any_received });
                }
                Ok(end) => return Ok(end),
                Err(WatchFailure::Gone) => return Ok(WatchEnd::Gone { received: any_received }),
                Err(WatchFailure::Other(why)) => return Err(why),
            }
        }
    }
}

fn from_http(why: http::Error) -> ApiServerError {
    if matches!(why, http::Error::Forbidden { .. }) {
        ApiServerError::Forbidden(why)
    } else {
        ApiServerError::Http(why)
    }
}

impl ApiServerError {
    /// Whether the API server refused the credential. Then reading the kubeconfig again may help, because tokens and
    /// certificates are replaced while the program runs.
    const fn is_credential_error(&self) -> bool {
        matches!(self, Self::Http(http::Error::Unauthorized { .. } | http::Error::Certificate { .. }))
    }
}

/// Follows the pods of a node and sends messages until the receiver is dropped.
pub async fn follow_api(server: ApiServer, messages: Sender<SourceMessage>) {
    follow(server, None, messages).await;
}

/// Follows the pods of a node. Reads the kubeconfig if `cluster` is `None`: at the start, and after the API server
/// refused the credential.
async fn follow(server: ApiServer, mut cluster: Option<Cluster>, messages: Sender<SourceMessage>) {
    let (mut failures, mut expirations_in_a_row) = (0, 0);
    loop {
        let ended = async {
            let present = match cluster.take() {
                Some(cluster) => cluster,
                None => server.cluster().await?,
            };
            let ended = server.list_and_watch(&present, &mut failures, &messages).await;
            if !ended.as_ref().is_err_and(ApiServerError::is_credential_error) {
                cluster = Some(present);
            }
            ended
        };
        match ended.await {
            Ok(WatchEnd::ReceiverDropped) => return,
            // The kubelet's reflector also pauses before each new list, for longer each time that watches receive nothing.
            Ok(WatchEnd::Gone { received } | WatchEnd::Closed { received }) => {
                expirations_in_a_row = if received { 0 } else { expirations_in_a_row };
                sleep(back_off(expirations_in_a_row, MAX_PAUSE)).await;
                expirations_in_a_row += 1;
            }
            Err(why) => {
                if messages.send(SourceMessage::Error(PodSource::Api, why.to_string())).await.is_err() {
                    return;
                }
                sleep(back_off(failures, MAX_PAUSE)).await;
                failures += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    fn store() -> PodStore {
        PodStore::new(ApiPods { version: "5".to_owned(), ..ApiPods::default() })
    }

    fn pod(name: &str, version: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version},
            "spec": {"nodeName": "n1"}})
    }

    fn line(kind: &str, object: &Value) -> Vec<u8> {
        json!({"type": kind, "object": object}).to_string().into_bytes()
    }

    #[test]
    fn each_watch_event_updates_the_store() {
        let mut store = store();
        let mut changes =
            |kind: &str, object: Value| store.apply(&line(kind, &object), "u").is_ok_and(|changed| changed);
        assert!(changes("ADDED", pod("a", "6")));
        assert!(changes("MODIFIED", pod("a", "7")));
        assert!(!changes("BOOKMARK", json!({"kind": "Pod", "metadata": {"resourceVersion": "9"}})));
        assert!(changes("DELETED", pod("a", "10")));
        assert!(!changes("DELETED", pod("a", "11")), "the pod was deleted before");
        assert_eq!((store.version.as_str(), store.pods.len()), ("11", 0));
    }

    #[test]
    fn an_expired_resource_version_is_distinguished_from_other_errors() {
        let status = |code: u16| line("ERROR", &json!({"kind": "Status", "code": code, "message": "no"}));
        assert!(matches!(store().apply(&status(410), "u"), Err(WatchFailure::Gone)));
        let other = store().apply(&status(500), "u");
        assert!(matches!(other, Err(WatchFailure::Other(ApiServerError::Ended { code: 500, .. }))));
        assert!(matches!(store().apply(b"{", "u"), Err(WatchFailure::Other(ApiServerError::NoEvent { .. }))));
        let unknown = store().apply(&line("SYNC", &json!({})), "u");
        assert!(matches!(unknown, Err(WatchFailure::Other(ApiServerError::NoEvent { .. }))));
    }

    fn cluster_at(listener: &tokio::net::TcpListener) -> Cluster {
        Cluster {
            server: format!("http://{}", listener.local_addr().unwrap()),
            client: http::HttpClient::default(),
            context: String::new(),
            insecure: false,
        }
    }

    /// Returns an API server without a kubeconfig.
    fn without_kubeconfig() -> ApiServer {
        ApiServer {
            kubeconfig: KubeconfigSources::default(),
            context: None,
            node: "n1".to_owned(),
            request_timeout: None,
        }
    }

    /// Serves an API server that answers a list request with a list, and a watch with 403. Each request has its own
    /// connection.
    async fn serve_without_watches(listener: tokio::net::TcpListener) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap_or_default();
            let (status, body) = if String::from_utf8_lossy(&request[..length]).contains("watch=true") {
                ("403 Forbidden", "{}")
            } else {
                ("200 OK", r#"{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []}"#)
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }

    /// Serves an API server that answers each watch with 410, and only the first `most` list requests. Counts the lists.
    async fn serve_expired_watches(listener: tokio::net::TcpListener, most: usize, lists: Arc<AtomicUsize>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap_or_default();
            let (status, body) = if String::from_utf8_lossy(&request[..length]).contains("watch=true") {
                ("410 Gone", "{}")
            } else if lists.fetch_add(1, Ordering::Relaxed) < most {
                ("200 OK", r#"{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []}"#)
            } else {
                std::future::pending().await
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_list_is_given_up_after_the_time_limit_of_a_call() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster_at(&listener);
        let scratch = std::env::temp_dir().join(format!("plegctl-single-list-{}", std::process::id()));
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: \
             {{server: \"{}\"}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n",
            cluster.server
        );
        std::fs::write(&scratch, text).unwrap();
        let kubeconfig = KubeconfigSources { flag: Some(scratch.clone()), ..KubeconfigSources::default() };
        let server = ApiServer { kubeconfig, ..without_kubeconfig() };
        let limit = Duration::from_secs(10);
        // Nobody accepts the connection, as if the API server's process were stopped.
        let list = server.list().await;
        std::fs::remove_file(&scratch).unwrap();
        assert!(
            matches!(&list, Err(ApiServerError::Http(http::Error::Silent { waited, .. })) if *waited == limit),
            "{list:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_always_end_with_410_are_followed_by_lists_after_growing_pauses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster_at(&listener);
        let lists = Arc::new(AtomicUsize::new(0));
        tokio::spawn(serve_expired_watches(listener, 50, Arc::clone(&lists)));
        let (messages, mut receiver) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move { while receiver.recv().await.is_some() {} });
        assert!(
            timeout(Duration::from_secs(50), follow(without_kubeconfig(), Some(cluster), messages))
                .await
                .is_err()
        );
        // The lists come at once and after 1, 3, 7, 15 and 31 seconds.
        assert_eq!(lists.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn a_list_before_a_forbidden_watch_does_not_reset_the_failures() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster_at(&listener);
        tokio::spawn(serve_without_watches(listener));
        let server = without_kubeconfig();
        let (messages, _receiver) = tokio::sync::mpsc::channel(16);
        let mut failures = 3;
        let ended = server.list_and_watch(&cluster, &mut failures, &messages).await;
        assert!(matches!(ended, Err(ApiServerError::Forbidden(_))));
        assert_eq!(failures, 3, "the pause before the next list grows");
    }
}
