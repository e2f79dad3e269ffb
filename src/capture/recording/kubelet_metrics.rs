//! Reads the kubelet's own `/metrics` for the capture, and keeps only the few metrics that a capture needs.

use std::sync::Mutex;
use std::time::Duration;

use crate::capture::node::KubeletMetricsSample;
use crate::clock::Clock;
use crate::kubelet::{KubeletApi, Metrics, http};
use crate::threads::locked;

/// The time limit for the kubelet's answer.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Creates the client for the kubelet's API again, with the present credentials.
type Renew = Box<dyn Fn() -> Option<KubeletApi>>;

/// Reads metrics through the kubelet's API.
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

    /// Reads the metrics once. A failed request gives a sample with the error.
    pub async fn read(&self, clock: &dyn Clock) -> KubeletMetricsSample {
        let api = locked(&self.api).clone();
        let started = clock.mono();
        let answer = api.get("/metrics", TIME_LIMIT).await;
        let took = clock.mono().since(started).into();
        match answer.and_then(|answer| answer.document(&api.url("/metrics"))) {
            Ok(text) => KubeletMetricsSample {
                took,
                text: Some(Metrics::relevant(&text)),
                ..KubeletMetricsSample::default()
            },
            Err(why) => {
                if matches!(why, http::Error::Unauthorized { .. })
                    && let Some(api) = (self.renew)()
                {
                    *locked(&self.api) = api;
                }
                KubeletMetricsSample { took, silent: why.is_silent(), why: Some(why.to_string()), text: None }
            }
        }
    }
}
