//! Reads the kubelet's own pods for `plegctl pods`: from its Pods API, else from its `/pods`.

use std::sync::Arc;
use std::time::Duration;

use super::PodsArgs;
use crate::cmd::Error;
use crate::cmd::flags::kubelet_access::{own_socket, read_only_api};
use crate::cmd::node::Node;
use crate::cri::{PodsApi, PodsApiError};
use crate::kubelet::KubeletApi;
use crate::manifests::podconfig::{ApiServer, KubeletPods};

/// The default time limit for the kubelet's answer about its own pods.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the kubelet's own pods are read from: the first of these that answers.
#[derive(Clone, Default)]
pub struct KubeletView {
    /// The answer of a simulated kubelet.
    simulated: Option<Vec<u8>>,
    pods_api: Option<PodsApi>,
    /// Whether the user named the Pods API, so that its error is not hidden by another source.
    is_named: bool,
    api: Option<KubeletApi>,
    /// The API server, through whose node proxy the kubelet is reached.
    proxy: Option<ApiServer>,
    timeout: Duration,
}

impl KubeletView {
    /// Returns where to read the pods of the kubelet that the user named, else of this node's kubelet.
    pub fn chosen_by(arguments: &PodsArgs, node: &Node, server: Option<&ApiServer>) -> Result<Self, Error> {
        let timeout = node.global.timeout.unwrap_or(KUBELET_TIMEOUT);
        let named = arguments.pods_api.as_ref().map(|socket| node.host.given_path(socket));
        let mut view = Self { is_named: named.is_some(), timeout, ..Self::default() };
        if !arguments.names_a_source() {
            view.simulated = node.simulated_pods()?.map(|documents| documents.kubelet);
        }
        view.api = arguments.kubelet.api(node)?;
        let mut socket = named;
        // Sources that the user names may belong to another node, and so may a simulated or recorded runtime.
        let is_own = !arguments.names_a_source() && node.is_live();
        if view.api.is_none() && is_own {
            socket = socket.or_else(|| own_socket(node));
            view.api = read_only_api(node)?;
        }
        view.pods_api = socket.map(|path| PodsApi::new(&path, timeout, Arc::clone(&node.clock)));
        if view.api.is_none() {
            view.proxy = server.cloned();
        }
        Ok(view)
    }

    /// Reads the pods once; `None` if there is nowhere to read them.
    pub async fn read(&self, node: &Node) -> Option<Result<KubeletPods, String>> {
        if let Some(text) = &self.simulated {
            return Some(KubeletPods::parse(text, node.clock.wall()).map_err(|why| why.to_string()));
        }
        if let Some(pods_api) = &self.pods_api {
            let why = match pods_api.list_pods().await {
                Ok(text) => {
                    let parsed = KubeletPods::parse(&text, node.clock.wall());
                    return Some(parsed.map_err(|why| PodsApiError::Unusable(why.to_string()).to_string()));
                }
                Err(why) => why,
            };
            let has_other = self.api.is_some() || self.proxy.is_some();
            // A kubelet that hangs or starts is not asked twice.
            let is_final = matches!(why, PodsApiError::Silent { .. } | PodsApiError::NotReady);
            if self.is_named || is_final || !has_other {
                return Some(Err(why.to_string()));
            }
            node.note(1, &why.to_string());
        }
        let found = match (&self.api, &self.proxy) {
            (Some(api), _) => Ok(api.clone()),
            // The credential in the user's kubeconfig may give no access to the kubelet. The report then lacks the
            // kubelet's own status, which is no error.
            (None, Some(server)) => server.kubelet().await.map_err(|why| why.to_string()),
            (None, None) => return None,
        };
        Some(match found {
            Ok(api) => self.documents(&api, node).await,
            Err(why) => Err(why),
        })
    }

    /// Reads the kubelet's `/pods`; refused pods are included.
    async fn documents(&self, api: &KubeletApi, node: &Node) -> Result<KubeletPods, String> {
        let url = api.url("/pods");
        let answer = api.get("/pods", self.timeout).await.and_then(|answer| answer.bytes(&url));
        let text = answer.map_err(|why| why.to_string())?;
        KubeletPods::parse(&text, node.clock.wall())
            .map_err(|why| format!("the answer from `{url}` cannot be used: {why}"))
    }
}
