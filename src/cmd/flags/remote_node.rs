//! `--node NAME` of `capture export` and `stacks`: the recorder and the kubelet of another node, through the API server.
//!
//! Sends only GET requests, each with a time limit and a size limit, and follows no redirect. It works while a list call of
//! the runtime hangs and while the runtime's daemon is stopped, because it needs no new process on the node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde::de::DeserializeOwned;

use crate::capture::check_header;
use crate::cmd::Error;
use crate::cmd::args::GlobalArgs;
use crate::cmd::serve::token_file::RecorderToken;
use crate::fleet::{self, RecorderPod};
use crate::kubelet::KubeletApi;
use crate::kubelet::kubeconfig::{self, Cluster, KubeconfigSources};

/// The default time limit for one request. A kubelet whose list call hangs is silent for minutes, so a longer limit
/// would bring no more answers.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The default time limit for a credential program, which may call a cloud service.
pub const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The default time limit for a part of a capture, or the facts of a verdict. The recorder itself gives up after two minutes.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(150);

// The user's choice of another node. clap would use a doc comment as the description of the command.
#[derive(Clone, Debug, Default, Args)]
pub struct RemoteNodeArgs {
    /// Another node, through the API server: its recorder for captures, its kubelet for goroutines
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// The kubeconfig for --node [default: `$KUBECONFIG`, ~/.kube/config, the pod's own account]
    #[arg(long, value_name = "FILE", requires = "node")]
    kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "node")]
    context: Option<String>,
}

// The secret for the recorder of another node.
#[derive(Clone, Debug, Default, Args)]
pub struct TokenArgs {
    /// The file with the recorder's token, for --node
    // `health` also has the token file of a kubelet, so this id differs from the field's name.
    #[arg(id = "recorder_token", long = "token-file", value_name = "FILE", requires = "node", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,

    /// The namespace of the recorder that gets the token [default: plegctl]
    #[arg(short = 'n', long, value_name = "NAME", requires = "recorder_token")]
    pub namespace: Option<String>,
}

/// The token for the recorders of one namespace. In another namespace, anybody may run a pod with the labels of a recorder.
pub struct NamespaceToken {
    /// The name and the value of the header.
    pub header: (String, String),
    pub namespace: String,
}

impl TokenArgs {
    /// Reads the token, if the user named a file.
    pub fn read(&self) -> Result<Option<NamespaceToken>, Error> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let token = RecorderToken::of_client(file)?;
        let namespace = self.namespace.as_deref().unwrap_or(fleet::NAMESPACE).to_owned();
        Ok(Some(NamespaceToken { header: token.header(), namespace }))
    }
}

impl RemoteNodeArgs {
    /// Whether the user named a node.
    pub const fn is_given(&self) -> bool {
        self.node.is_some()
    }

    /// Returns the node and a client for its API server; `None` without `--node`.
    pub fn connect(&self, global: &GlobalArgs) -> Result<Option<RemoteNode>, Error> {
        let Some(name) = &self.node else { return Ok(None) };
        refuse_named_runtime(global)?;
        let timeout = global.timeout.unwrap_or(REQUEST_TIMEOUT);
        let limit = global.timeout.unwrap_or(CREDENTIAL_TIMEOUT);
        let cluster = cluster(self.kubeconfig.clone(), self.context.as_deref(), limit, global)?;
        let export_timeout = global.timeout.unwrap_or(EXPORT_TIMEOUT);
        Ok(Some(RemoteNode { name: name.clone(), cluster, timeout, export_timeout }))
    }
}

/// Returns an error if the user named a runtime of this machine, for a command about another node.
pub const fn refuse_named_runtime(global: &GlobalArgs) -> Result<(), Error> {
    if global.runtime_endpoint.is_some() || global.config.is_some() {
        return Err(Error::RuntimeBesideNode);
    }
    Ok(())
}

/// Finds the API server of a kubeconfig. Warns if its certificate is not verified.
pub fn cluster(
    kubeconfig: Option<PathBuf>,
    name: Option<&str>,
    limit: Duration,
    global: &GlobalArgs,
) -> Result<Arc<Cluster>, Error> {
    let sources = KubeconfigSources::of_environment(kubeconfig);
    let cluster = Arc::new(kubeconfig::cluster(&sources, name, limit)?);
    if cluster.insecure {
        global.remark(&format!(
            "the certificate of {} is not verified (insecure-skip-tls-verify in the kubeconfig): any server \
             can pretend to be it",
            cluster.server
        ));
    }
    Ok(cluster)
}

/// Parses a document of a recorder. Any program may answer, so the answer is checked first.
pub fn parse<T: DeserializeOwned>(text: &str, kind: &str) -> Result<T, String> {
    fleet::check_document(text, kind)?;
    serde_json::from_str(text).map_err(|why| why.to_string())
}

/// Asks the recorders of a node, one after another, until one gives a usable answer. Returns the answer and the name of
/// the recorder's pod, or why no recorder gave one.
pub async fn first_answer<T>(
    pods: Vec<RecorderPod>,
    ask: impl AsyncFn(&RecorderPod) -> Result<T, String>,
) -> Result<(T, String), String> {
    let mut why_not = Vec::new();
    for pod in pods {
        match ask(&pod).await {
            Ok(answer) => return Ok((answer, pod.full_name())),
            Err(why) => why_not.push(why),
        }
    }
    Err(why_not.join("; "))
}

/// A node that is reached through the API server.
#[derive(Clone, Debug)]
pub struct RemoteNode {
    /// The name of the node.
    pub name: String,
    /// The API server.
    pub cluster: Arc<Cluster>,
    /// The time limit of one request.
    pub timeout: Duration,
    /// The time limit of a request for a part of a capture, or the facts of a verdict.
    export_timeout: Duration,
}

impl RemoteNode {
    /// Returns the API of the node's kubelet.
    pub fn kubelet(&self) -> KubeletApi {
        KubeletApi::through(&self.cluster, &self.name)
    }

    /// Returns the running recorders of the node in a namespace, at least one.
    async fn recorders(&self, namespace: &str) -> Result<Vec<RecorderPod>, Error> {
        let pods = fleet::find_recorders_on(&self.cluster, &self.name, Some(namespace), self.timeout).await;
        let pods = pods.map_err(|why| self.no_answer(&why.to_string()))?;
        if pods.is_empty() {
            return Err(self.no_answer(&format!("the namespace {namespace} has no running pod of it")));
        }
        Ok(pods)
    }

    /// Returns a part of the recorder's capture, and the name of the recorder's pod. Only pods in one namespace get the token,
    /// because in another namespace anybody may run a pod with the labels of a recorder.
    pub async fn capture(&self, query: &str, token: &TokenArgs) -> Result<(Vec<u8>, String), Error> {
        let Some(token) = token.read()? else {
            return Err(Error::NoToken { node: self.name.clone() });
        };
        let page = format!("capture?{query}");
        let answer = first_answer(self.recorders(&token.namespace).await?, async |pod| {
            let answer = pod.export(&self.cluster, &page, &token.header, self.export_timeout).await;
            answer.map_err(|why| why.to_string())
        });
        let (bytes, pod) = answer.await.map_err(|why| self.no_answer(&why))?;
        check_header(&bytes).map_err(|why| self.no_answer(&format!("{pod} sent no capture: {why}")))?;
        Ok((bytes, pod))
    }

    /// Creates the error for a recorder that gives no usable answer.
    fn no_answer(&self, why: &str) -> Error {
        Error::Recorder { node: self.name.clone(), why: why.to_owned() }
    }
}
