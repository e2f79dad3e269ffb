//! What is asked of the kubelet over HTTP.

use std::time::Duration;

use super::{Healthz, KubeletEvidence, MetricsSource, Reading};
use crate::cri::Outcome;
use crate::diagnosis::Inputs;
use crate::diagnosis::budget::Budget;
use crate::diagnosis::limits;
use crate::diagnosis::words::seconds;
use crate::kubelet::{Metrics, http};
use crate::report::NotChecked;

/// What the kubelet said, and what it was not asked.
#[derive(Default)]
pub(in crate::diagnosis) struct Answers {
    pub(in crate::diagnosis) found: KubeletEvidence,
    pub(in crate::diagnosis) not_checked: Vec<NotChecked>,
    pub(in crate::diagnosis) bad_input: Vec<String>,
}

impl Answers {
    fn skip(&mut self, what: &str, why: String) {
        self.not_checked.push(NotChecked { what: what.to_owned(), why });
    }
}

/// Asks `/healthz` and for the metrics, side by side.
pub(in crate::diagnosis) async fn ask<R>(inputs: &Inputs<R>, budget: &Budget) -> Answers {
    let mut answers = Answers::default();
    let limit = inputs.deadlines().http.min(budget.left());
    let (healthz, metrics) = tokio::join!(
        async {
            match &inputs.kubelet.healthz {
                Some(url) => {
                    let started = inputs.clock.mono();
                    let answer = http::get(url, limit).await;
                    Some((answer, inputs.clock.mono().since(started)))
                }
                None => None,
            }
        },
        async {
            match &inputs.kubelet.metrics {
                Some(source) => {
                    let started = inputs.clock.mono();
                    let answer = read_metrics(source, limit).await;
                    Some((answer, inputs.clock.mono().since(started)))
                }
                None => None,
            }
        }
    );
    if let Some((answer, took)) = &healthz {
        let outcome = match answer {
            Ok(answer) if answer.status == 200 => Outcome::Ok,
            Err(http::Error::Silent { .. }) => Outcome::Silent,
            _ => Outcome::Error,
        };
        answers.found.asked.push(("kubelet /healthz", outcome, *took));
    }
    if let Some((answer, took)) = &metrics {
        let outcome = match answer {
            Ok(_) => Outcome::Ok,
            Err(MetricsTrouble::Silent(_)) => Outcome::Silent,
            Err(_) => Outcome::Error,
        };
        answers.found.asked.push(("kubelet metrics", outcome, *took));
    }
    let healthz = healthz.map(|(answer, _)| answer);
    let metrics = metrics.map(|(answer, _)| answer);
    match healthz {
        None => answers.skip("the kubelet's /healthz", "left out".into()),
        Some(Ok(answer)) if answer.status == 200 => answers.found.healthz = Some(Healthz::Ok),
        Some(Ok(answer)) => {
            answers.found.healthz = Some(Healthz::Failing {
                status: answer.status,
                text: answer.text().chars().take(500).collect(),
            });
        }
        Some(Err(http::Error::Silent { waited, .. })) => {
            answers.found.healthz = Some(Healthz::Silent(waited));
        }
        Some(Err(why)) => {
            if matches!(why, http::Error::Refused { .. }) {
                answers.found.healthz = Some(Healthz::Refused);
            }
            answers.skip("the kubelet's /healthz", why.to_string());
        }
    }
    match metrics {
        None => answers.skip("the kubelet's metrics", "give them with --kubelet-metrics".into()),
        Some(Ok(metrics)) => {
            // A file says how things were when it was written, not how they are.
            let now = inputs.clock.wall();
            let at = match &inputs.kubelet.metrics {
                Some(MetricsSource::Text { written: Some(written), .. }) => (*written).min(now),
                _ => now,
            };
            if let Some(MetricsSource::Text { name, .. }) = &inputs.kubelet.metrics
                && now.duration_since(at) >= limits::READING_OLD
            {
                let old = seconds(now.duration_since(at));
                answers
                    .skip("the kubelet's metrics of this moment", format!("`{name}` was written {old} ago"));
            }
            answers.found.first = Some(Reading { at, metrics });
        }
        Some(Err(MetricsTrouble::Silent(waited))) => {
            answers.found.metrics_silent = Some(waited);
            answers.skip("the kubelet's metrics", "it did not answer in time".into());
        }
        Some(Err(MetricsTrouble::Bad(why))) => {
            answers.bad_input.push(why.clone());
            answers.skip("the kubelet's metrics", why);
        }
        Some(Err(MetricsTrouble::Away(why))) => answers.skip("the kubelet's metrics", why),
    }
    answers
}

/// Why there are no metrics.
pub(in crate::diagnosis) enum MetricsTrouble {
    Silent(Duration),
    Bad(String),
    Away(String),
}

/// Reads the metrics once.
pub(in crate::diagnosis) async fn read_metrics(
    source: &MetricsSource,
    limit: Duration,
) -> Result<Metrics, MetricsTrouble> {
    let (name, text) = match source {
        MetricsSource::Unreadable { name, why } => {
            return Err(MetricsTrouble::Bad(format!("cannot read `{name}`: {why}")));
        }
        MetricsSource::Text { name, text, .. } => (name.clone(), text.clone()),
        MetricsSource::Url(url) => match http::get(url, limit).await {
            Ok(answer) if answer.status == 200 => (url.clone(), answer.text().into_owned()),
            Ok(answer) => {
                return Err(MetricsTrouble::Away(format!("`{url}` answers {}", answer.status)));
            }
            Err(http::Error::Silent { waited, .. }) => return Err(MetricsTrouble::Silent(waited)),
            Err(why) => return Err(MetricsTrouble::Away(why.to_string())),
        },
    };
    Metrics::parse(&text)
        .map_err(|why| MetricsTrouble::Bad(format!("`{name}` is no metrics of a kubelet: {why}")))
}
