//! Reads the kubelet's own metrics for the capture.

use std::sync::Mutex;
use std::time::Duration;

use crate::capture::node::KubeletSample;
use crate::clock::Clock;
use crate::kubelet::{KubeletApi, Metrics, http};
use crate::threads::locked;

/// The time limit for the kubelet's answer.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Creates the kubelet's API anew, with its present credentials.
type Renew = Box<dyn Fn() -> Option<KubeletApi>>;

/// The kubelet's API, from which its metrics are read.
pub struct KubeletMetricsReader {
    api: Mutex<KubeletApi>,
    renew: Renew,
}

impl KubeletMetricsReader {
    /// Creates a reader. `renew` creates the API again if the kubelet refuses the credentials: a token is replaced from
    /// time to time.
    pub fn new(api: KubeletApi, renew: impl Fn() -> Option<KubeletApi> + 'static) -> Self {
        Self { api: Mutex::new(api), renew: Box::new(renew) }
    }

    /// Reads the metrics once, and keeps the few series that a capture needs.
    pub async fn read(&self, clock: &dyn Clock) -> KubeletSample {
        let api = locked(&self.api).clone();
        let started = clock.mono();
        let answer = api.get("/metrics", TIME_LIMIT).await;
        let took = clock.mono().since(started).into();
        match answer.and_then(|answer| answer.document(&api.url("/metrics"))) {
            Ok(text) => {
                KubeletSample { took, text: Some(Metrics::relevant(&text)), ..KubeletSample::default() }
            }
            Err(why) => {
                if matches!(why, http::Error::Unauthorized { .. })
                    && let Some(api) = (self.renew)()
                {
                    *locked(&self.api) = api;
                }
                KubeletSample { took, silent: why.is_silent(), why: Some(why.to_string()), text: None }
            }
        }
    }
}
