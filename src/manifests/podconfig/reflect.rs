//! The API server as a source: the pods of one node, listed and watched as the kubelet's reflector does it.
//!
//! Two GETs and nothing else. What comes is told as whole sets; what goes wrong is told in words, what was known stays, and
//! it is tried again after a pause that doubles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::api::{Pod, wanted};
use super::drive::{Deaf, Heard, back_off};
use super::{ApiError, ApiPods, Source, Wanted};
use crate::kubelet::KubeletApi;
use crate::kubelet::http::{self, encoded};
use crate::kubelet::kubeconfig::{self, Cluster, KubeconfigError, Places};
use crate::manifests::PodIdentity;
use crate::threads;

/// What a program that gives a credential may take; it may have to ask a cloud.
const CREDENTIAL_PATIENCE: Duration = Duration::from_secs(30);
/// What the list may take, unless the user says otherwise: to the last byte, however small the pieces are.
const LIST_PATIENCE: Duration = Duration::from_secs(30);
/// What the beginning of a watch may take.
const WATCH_PATIENCE: Duration = Duration::from_secs(30);
/// For how long the API server is to keep a watch open.
const WATCH_SECONDS: u64 = 300;
/// One that is open for so much longer than that is dead, and only nobody has told us.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// client-go's reflector waits no longer between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Ten thousand pods are some sixty megabytes.
const LARGEST_LIST: usize = 256 << 20;

/// An API server and the node whose pods it is asked for.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// Where the kubeconfig is.
    pub places: Places,
    /// A context of it.
    pub context: Option<String>,
    /// The node.
    pub node: String,
    /// How long a credential, a list and the beginning of a watch may take each, where the user says so.
    pub patience: Option<Duration>,
}

/// Why the API server's pods are not known.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// There is no way to it.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// Its certificate, or ours, or the credential is not accepted.
    #[error("{0}")]
    Http(#[from] http::Error),
    /// It knows who asks, and these pods are not for them.
    #[error(
        "{0}; listing the pods of a node takes `list` and `watch` on pods, or the kubelet's own kubeconfig"
    )]
    Forbidden(http::Error),
    /// What it answers is something else.
    #[error("what `{url}` answers cannot be used: {why}")]
    NoList {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        why: ApiError,
    },
    /// A line of a watch is something else.
    #[error("a line of the watch `{url}` cannot be used: {why}")]
    NoEvent {
        /// What was asked.
        url: String,
        /// What is wrong with the line.
        why: String,
    },
    /// The watch ended with the API server's word.
    #[error("the API server ends the watch: {code} {message}")]
    Ended {
        /// The code of its status.
        code: u64,
        /// Its words.
        message: String,
    },
}

/// What ends a watch that did not fail.
enum End {
    /// It is over; the next one goes on from here. Whether anything came of it.
    Closed { heard: bool },
    /// What it should go on from is no longer known: a new list is needed.
    Gone,
    /// Nobody listens any more.
    Deaf,
}

impl From<Deaf> for End {
    fn from(_: Deaf) -> Self {
        Self::Deaf
    }
}

#[derive(Deserialize)]
struct Event {
    r#type: String,
    #[serde(default)]
    object: Value,
}

/// The pods as they are known, and of which moment.
struct Store {
    pods: BTreeMap<PodIdentity, Arc<Wanted>>,
    version: String,
}

impl Store {
    fn new(list: ApiPods) -> Self {
        let pods = list.pods.into_iter().map(|pod| (pod.identity.clone(), pod)).collect();
        Self { pods, version: list.version }
    }

    fn set(&self) -> Heard {
        Heard::Set(Source::Api, self.pods.values().map(Arc::clone).collect())
    }

    /// Takes in a line of a watch. Whether the pods are others now.
    fn take(&mut self, line: &[u8], url: &str) -> Result<bool, Trouble> {
        let no = |why: String| ApiServerError::NoEvent { url: url.to_owned(), why };
        let event: Event = serde_json::from_slice(line).map_err(|why| no(why.to_string()))?;
        if event.r#type == "ERROR" {
            let code = event.object.get("code").and_then(Value::as_u64).unwrap_or_default();
            let message = event.object.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Err(if code == u64::from(GONE) {
                Trouble::Gone
            } else {
                ApiServerError::Ended { code, message }.into()
            });
        }
        let mut object: Pod = serde_json::from_value(event.object).map_err(|why| no(why.to_string()))?;
        let version = std::mem::take(&mut object.metadata.resource_version);
        let changed = match event.r#type.as_str() {
            "BOOKMARK" => false,
            "ADDED" | "MODIFIED" | "DELETED" => {
                let pod = wanted(object).ok_or_else(|| no("a pod without name or uid".to_owned()))?;
                if event.r#type == "DELETED" {
                    self.pods.remove(&pod.identity).is_some()
                } else {
                    self.pods.insert(pod.identity.clone(), Arc::new(pod));
                    true
                }
            }
            other => return Err(no(format!("nothing is known of a `{other}`")).into()),
        };
        if !version.is_empty() {
            self.version = version;
        }
        Ok(changed)
    }
}

/// HTTP's word for a version that is no longer known.
const GONE: u16 = 410;

/// What goes wrong with a watch.
enum Trouble {
    Gone,
    Other(ApiServerError),
}

impl<E: Into<ApiServerError>> From<E> for Trouble {
    fn from(why: E) -> Self {
        Self::Other(why.into())
    }
}

impl ApiServer {
    /// The way there. Reads files and may run the kubeconfig's program for a credential.
    async fn cluster(&self) -> Result<Cluster, ApiServerError> {
        let (places, context) = (self.places.clone(), self.context.clone());
        let patience = self.patience.unwrap_or(CREDENTIAL_PATIENCE);
        let read = threads::blocking(move || kubeconfig::cluster(&places, context.as_deref(), patience));
        Ok(read.await.map_err(KubeconfigError::Unread)??)
    }

    fn url(&self, cluster: &Cluster, query: &str) -> String {
        let node = encoded(&self.node);
        format!("{}/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&{query}", cluster.server)
    }

    /// Its way to the node's kubelet.
    pub async fn kubelet(&self) -> Result<KubeletApi, ApiServerError> {
        Ok(KubeletApi::through(&self.cluster().await?, &self.node))
    }

    /// The node's pods as they are now.
    pub async fn list(&self) -> Result<ApiPods, ApiServerError> {
        self.list_from(&self.cluster().await?).await
    }

    /// From the API server's cache, as the kubelet does: a list from its store would read every pod of the cluster.
    async fn list_from(&self, cluster: &Cluster) -> Result<ApiPods, ApiServerError> {
        let url = self.url(cluster, "resourceVersion=0");
        let client = cluster.client.clone().with_largest(LARGEST_LIST);
        let answer = client.get(&url, self.patience.unwrap_or(LIST_PATIENCE)).await.map_err(told)?;
        let text = answer.bytes(&url).map_err(told)?;
        ApiPods::parse(&text, &self.node).map_err(|why| ApiServerError::NoList { url, why })
    }

    /// Watches from where the store is until something ends it.
    async fn watch(
        &self,
        cluster: &Cluster,
        store: &mut Store,
        failures: &mut u32,
        heard: &Sender<Heard>,
    ) -> Result<End, Trouble> {
        let from = encoded(&store.version);
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}"
        );
        let url = self.url(cluster, &query);
        let mut lines = match cluster.client.lines(&url, self.patience.unwrap_or(WATCH_PATIENCE)).await {
            Err(http::Error::Status { status: GONE, .. }) => return Ok(End::Gone),
            lines => lines.map_err(told)?,
        };
        *failures = 0;
        let mut any = false;
        loop {
            let Some(line) = lines.next().await.map_err(told)? else {
                return Ok(End::Closed { heard: any });
            };
            any = true;
            match store.take(&line, &url) {
                Ok(false) => {}
                Ok(true) => {
                    if heard.send(store.set()).await.is_err() {
                        return Ok(End::Deaf);
                    }
                }
                Err(Trouble::Gone) => return Ok(End::Gone),
                Err(why) => return Err(why),
            }
        }
    }

    /// Lists and then watches, watch after watch. Comes back with what ended it; `failures` is set to nothing once a watch has
    /// begun: where lists are allowed and watches are not, each try costs the API server a whole list.
    async fn session(
        &self,
        cluster: &Cluster,
        failures: &mut u32,
        heard: &Sender<Heard>,
    ) -> Result<End, ApiServerError> {
        let mut store = Store::new(self.list_from(cluster).await?);
        if heard.send(store.set()).await.is_err() {
            return Ok(End::Deaf);
        }
        let mut idle = 0;
        loop {
            let whole = Duration::from_secs(WATCH_SECONDS) + WATCH_GRACE;
            let end = timeout(whole, self.watch(cluster, &mut store, failures, heard)).await;
            match end.unwrap_or(Ok(End::Closed { heard: false })) {
                Ok(End::Closed { heard: true }) => idle = 0,
                // Nothing says that the next one would live any longer.
                Ok(End::Closed { heard: false }) => {
                    sleep(back_off(idle, LONGEST_PAUSE)).await;
                    idle += 1;
                }
                Ok(end) => return Ok(end),
                Err(Trouble::Gone) => return Ok(End::Gone),
                Err(Trouble::Other(why)) => return Err(why),
            }
        }
    }
}

fn told(why: http::Error) -> ApiServerError {
    if matches!(why, http::Error::Forbidden { .. }) {
        ApiServerError::Forbidden(why)
    } else {
        ApiServerError::Http(why)
    }
}

impl ApiServerError {
    /// Whether another look at the kubeconfig may help: tokens and certificates are replaced while we run.
    const fn is_of_the_credential(&self) -> bool {
        matches!(self, Self::Http(http::Error::Unauthorized { .. } | http::Error::Certificate { .. }))
    }
}

/// Follows the pods of a node until nobody listens.
pub async fn follow_api(server: ApiServer, heard: Sender<Heard>) {
    let mut failures = 0;
    let mut known = None;
    loop {
        let ended = async {
            let cluster = match known.take() {
                Some(cluster) => cluster,
                None => server.cluster().await?,
            };
            let ended = server.session(&cluster, &mut failures, &heard).await;
            if !ended.as_ref().is_err_and(ApiServerError::is_of_the_credential) {
                known = Some(cluster);
            }
            ended
        };
        match ended.await {
            Ok(End::Deaf) => return,
            Ok(End::Gone | End::Closed { .. }) => {}
            Err(why) => {
                if heard.send(Heard::Trouble(Source::Api, why.to_string())).await.is_err() {
                    return;
                }
                sleep(back_off(failures, LONGEST_PAUSE)).await;
                failures += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store() -> Store {
        Store::new(ApiPods { version: "5".to_owned(), ..ApiPods::default() })
    }

    fn pod(name: &str, version: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version},
            "spec": {"nodeName": "n1"}})
    }

    fn line(kind: &str, object: &Value) -> Vec<u8> {
        json!({"type": kind, "object": object}).to_string().into_bytes()
    }

    #[test]
    fn each_event_moves_the_store_on() {
        let mut store = store();
        let mut take =
            |kind: &str, object: Value| store.take(&line(kind, &object), "u").is_ok_and(|changed| changed);
        assert!(take("ADDED", pod("a", "6")));
        assert!(take("MODIFIED", pod("a", "7")));
        assert!(!take("BOOKMARK", json!({"kind": "Pod", "metadata": {"resourceVersion": "9"}})));
        assert!(take("DELETED", pod("a", "10")));
        assert!(!take("DELETED", pod("a", "11")), "it was gone");
        assert_eq!((store.version.as_str(), store.pods.len()), ("11", 0));
    }

    #[test]
    fn a_version_that_is_gone_is_told_from_other_ends() {
        let status = |code: u16| line("ERROR", &json!({"kind": "Status", "code": code, "message": "no"}));
        assert!(matches!(store().take(&status(410), "u"), Err(Trouble::Gone)));
        let other = store().take(&status(500), "u");
        assert!(matches!(other, Err(Trouble::Other(ApiServerError::Ended { code: 500, .. }))));
        assert!(matches!(store().take(b"{", "u"), Err(Trouble::Other(ApiServerError::NoEvent { .. }))));
        let unknown = store().take(&line("SYNC", &json!({})), "u");
        assert!(matches!(unknown, Err(Trouble::Other(ApiServerError::NoEvent { .. }))));
    }

    /// Answers each request on a connection of its own: a list where lists are allowed, 403 to a watch.
    async fn forbids_watches(listener: tokio::net::TcpListener) {
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

    #[tokio::test]
    async fn list_before_a_forbidden_watch_is_no_success() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = Cluster {
            server: format!("http://{}", listener.local_addr().unwrap()),
            client: http::Client::default(),
            context: String::new(),
            insecure: false,
        };
        tokio::spawn(forbids_watches(listener));
        let server =
            ApiServer { places: Places::default(), context: None, node: "n1".to_owned(), patience: None };
        let (heard, _listens) = tokio::sync::mpsc::channel(16);
        let mut failures = 3;
        let ended = server.session(&cluster, &mut failures, &heard).await;
        assert!(matches!(ended, Err(ApiServerError::Forbidden(_))));
        assert_eq!(failures, 3, "the pause before the next list grows");
    }
}
