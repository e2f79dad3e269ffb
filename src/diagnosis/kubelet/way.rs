//! The way to a kubelet's API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::diagnosis::budget::Budget;
use crate::diagnosis::offload;
use crate::diagnosis::words::seconds;
use crate::kubelet::{KubeletApi, http};

type Make = dyn Fn(Duration) -> Result<KubeletApi, String> + Send + Sync;

/// The way to a kubelet's API: known, or made when it is first gone. It is made beside the probes and in a thread that can
/// be left behind, because files are read for it and a program may run.
#[derive(Clone)]
pub struct Way {
    make: Arc<Make>,
    made: Arc<OnceCell<Result<KubeletApi, String>>>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Way").field(&self.made).finish()
    }
}

/// Why there is no answer that way.
pub(super) enum Lost {
    /// There is no way.
    Way(String),
    /// The other side.
    Http(http::Error),
}

impl Way {
    /// One that is known already.
    pub fn known(api: KubeletApi) -> Self {
        Self { make: Arc::new(|_| Err(String::new())), made: Arc::new(OnceCell::new_with(Some(Ok(api)))) }
    }

    /// One that `make` finds, which is given a time for it.
    pub fn made_by(make: impl Fn(Duration) -> Result<KubeletApi, String> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), made: Arc::default() }
    }

    async fn api(&self, budget: &Budget) -> &Result<KubeletApi, String> {
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
            // With time to end the program that it runs: nobody else would.
            offload::value(limit, move || make(limit * 4 / 5)).await.unwrap_or_else(late)
        };
        self.made.get_or_init(make).await
    }

    /// Whether anybody may claim to be who answers there.
    pub(super) fn is_insecure(&self) -> bool {
        matches!(self.made.get(), Some(Ok(api)) if api.insecure)
    }

    /// Whether an API server is asked, which asks the kubelet.
    pub(super) fn is_proxied(&self) -> bool {
        matches!(self.made.get(), Some(Ok(api)) if api.proxied)
    }

    /// A document, if it comes while we listen for so long.
    pub(super) async fn document(
        &self,
        path: &str,
        limit: Duration,
        budget: &Budget,
    ) -> Result<(String, http::Answer), Lost> {
        let api = self.api(budget).await.as_ref().map_err(|why| Lost::Way(why.clone()))?;
        let url = api.url(path);
        let answer = budget.listening.within(limit, api.get(path, budget.left())).await;
        match answer {
            Some(Ok(answer)) => Ok((url, answer)),
            Some(Err(why)) => Err(Lost::Http(why)),
            None => Err(Lost::Http(http::Error::Silent { url, waited: limit })),
        }
    }
}
