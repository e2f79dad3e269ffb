//! Connects to the kubelet's API when the first document is requested.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::diagnosis::budget::RunBudget;
use crate::diagnosis::offload;
use crate::diagnosis::words::seconds;
use crate::kubelet::{KubeletApi, http};

type Make = dyn Fn(Duration) -> Result<KubeletApi, String> + Send + Sync;

/// A connection to the kubelet's API that is set up on first use. The set-up runs in a thread that may be
/// left behind, because it reads files and may run a program.
#[derive(Clone)]
pub struct LazyKubeletApi {
    make: Arc<Make>,
    made: Arc<OnceCell<Result<KubeletApi, String>>>,
}

impl fmt::Debug for LazyKubeletApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Way").field(&self.made).finish()
    }
}

/// Why a document could not be fetched from the kubelet's API.
pub(super) enum DocumentError {
    /// The API could not be set up.
    LazyKubeletApi(String),
    /// The request failed.
    Http(http::Error),
}

impl LazyKubeletApi {
    /// Wraps an API that is set up already.
    pub fn known(api: KubeletApi) -> Self {
        Self { make: Arc::new(|_| Err(String::new())), made: Arc::new(OnceCell::new_with(Some(Ok(api)))) }
    }

    /// Wraps a function that sets up the API within a given time.
    pub fn made_by(make: impl Fn(Duration) -> Result<KubeletApi, String> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), made: Arc::default() }
    }

    async fn api(&self, budget: &RunBudget) -> &Result<KubeletApi, String> {
        let make = async || {
            let limit = budget.for_asking() / 2;
            let make = Arc::clone(&self.make);
            let late = || {
                Err(if offload::refused() {
                    "no thread could be started to look for the way to the kubelet".to_owned()
                } else {
                    format!("the way to the kubelet was not found within {}", seconds(limit))
                })
            };
            // The function gets less time than the thread, so that it can end the program that it runs:
            // nobody else would.
            offload::value(limit, move || make(limit * 4 / 5)).await.unwrap_or_else(late)
        };
        self.made.get_or_init(make).await
    }

    /// Whether the API's certificate is not verified.
    pub(super) fn is_insecure(&self) -> bool {
        matches!(self.made.get(), Some(Ok(api)) if api.insecure)
    }

    /// Whether requests go through an API server.
    pub(super) fn is_proxied(&self) -> bool {
        matches!(self.made.get(), Some(Ok(api)) if api.proxied)
    }

    /// Fetches a document; `limit` counts only the time in which this program could have read the answer.
    pub(super) async fn document(
        &self,
        path: &str,
        limit: Duration,
        budget: &RunBudget,
    ) -> Result<(String, http::HttpAnswer), DocumentError> {
        let api =
            self.api(budget).await.as_ref().map_err(|why| DocumentError::LazyKubeletApi(why.clone()))?;
        let url = api.url(path);
        let answer = budget.listening.within(limit, api.get(path, budget.left())).await;
        match answer {
            Some(Ok(answer)) => Ok((url, answer)),
            Some(Err(why)) => Err(DocumentError::Http(why)),
            None => Err(DocumentError::Http(http::Error::Silent { url, waited: limit })),
        }
    }
}
