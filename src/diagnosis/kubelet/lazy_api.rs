//! The kubelet's API, whose access is set up when the first document is requested: the set-up may read a kubeconfig and
//! run a credential program, which can take long.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::requests::FetchError;
use crate::diagnosis::budget::RunBudget;
use crate::diagnosis::offload;
use crate::diagnosis::words::seconds;
use crate::kubelet::{KubeletApi, http};

/// A function that sets up the access within a given time.
type SetUp = dyn Fn(Duration) -> Result<KubeletApi, String> + Send + Sync;

/// The kubelet's API with access that is set up on first use, in a separate thread with a time limit.
#[derive(Clone)]
pub struct LazyKubeletApi {
    set_up: Arc<SetUp>,
    /// The result of the set-up, once it has run.
    api: Arc<OnceCell<Result<KubeletApi, String>>>,
}

impl fmt::Debug for LazyKubeletApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyKubeletApi").field(&self.api).finish()
    }
}

impl LazyKubeletApi {
    /// Wraps an API whose access is set up already.
    pub fn known(api: KubeletApi) -> Self {
        Self { set_up: Arc::new(|_| Err(String::new())), api: Arc::new(OnceCell::new_with(Some(Ok(api)))) }
    }

    /// Wraps a function that sets up the access within a given time.
    pub fn made_by(set_up: impl Fn(Duration) -> Result<KubeletApi, String> + Send + Sync + 'static) -> Self {
        Self { set_up: Arc::new(set_up), api: Arc::default() }
    }

    /// Returns the API; the first call sets up the access.
    async fn api(&self, budget: &RunBudget) -> &Result<KubeletApi, String> {
        let set_up = async || {
            let limit = budget.for_new_calls() / 2;
            let set_up = Arc::clone(&self.set_up);
            let late = || {
                Err(if offload::refused() {
                    "no thread could be started to set up the access to the kubelet".to_owned()
                } else {
                    format!("the access to the kubelet was not set up within {}", seconds(limit))
                })
            };
            // The function gets less time than the thread, so that it can still end the program that it runs.
            offload::value(limit, move || set_up(limit * 4 / 5)).await.unwrap_or_else(late)
        };
        self.api.get_or_init(set_up).await
    }

    /// Returns whether the API's certificate is not verified.
    pub(super) fn is_insecure(&self) -> bool {
        matches!(self.api.get(), Some(Ok(api)) if api.insecure)
    }

    /// Returns whether requests go through an API server.
    pub(super) fn is_proxied(&self) -> bool {
        matches!(self.api.get(), Some(Ok(api)) if api.proxied)
    }

    /// Fetches a document; `limit` counts only the time in which this program could have read the answer.
    pub(super) async fn document(
        &self,
        path: &str,
        limit: Duration,
        budget: &RunBudget,
    ) -> Result<(String, http::HttpAnswer), FetchError> {
        let api = self.api(budget).await.as_ref().map_err(|why| FetchError::BadInput(why.clone()))?;
        let url = api.url(path);
        let answer = budget.listening.within(limit, api.get(path, budget.left())).await;
        match answer {
            Some(answer) => Ok((url, answer?)),
            None => Err(http::Error::Silent { url, waited: limit }.into()),
        }
    }
}
