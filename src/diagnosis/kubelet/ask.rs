//! What is asked of the kubelet over HTTP.

use std::path::Path;
use std::time::Duration;

use super::{Healthz, KubeletEvidence, MetricsSource, Reading};
use crate::clock::Wall;
use crate::cri::Outcome;
use crate::diagnosis::Inputs;
use crate::diagnosis::budget::Budget;
use crate::diagnosis::papers::Paper;
use crate::diagnosis::words::seconds;
use crate::diagnosis::{limits, offload};
use crate::kubelet::{Metrics, http};
use crate::report::NotChecked;
use crate::report::load::{self, LARGEST_REPORT, load};

/// What the kubelet said, and what it was not asked.
#[derive(Default)]
pub(in crate::diagnosis) struct Answers {
    pub(in crate::diagnosis) found: KubeletEvidence,
    pub(in crate::diagnosis) not_checked: Vec<NotChecked>,
    pub(in crate::diagnosis) bad_input: Vec<String>,
    pub(in crate::diagnosis) papers: Vec<Paper>,
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
    let mut written = None;
    let (healthz, metrics) = tokio::join!(
        async {
            match &inputs.kubelet.healthz {
                Some(url) => {
                    let started = inputs.clock.mono();
                    let answer = get(url, limit, budget).await;
                    Some((answer, inputs.clock.mono().since(started)))
                }
                None => None,
            }
        },
        async {
            match &inputs.kubelet.metrics {
                Some(source) => {
                    let started = inputs.clock.mono();
                    let answer = match given(source, budget).await {
                        Ok(Given { source, at }) => {
                            written = at;
                            read_metrics(&source, limit, budget).await
                        }
                        Err(why) => Err(why),
                    };
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
        Some(Ok((metrics, text))) => {
            if inputs.keeps_papers() {
                answers.papers.push(Paper::new("kubelet/metrics.txt", "the kubelet's metrics", text));
            }
            // A file says how things were when it was written, not how they are.
            let now = inputs.clock.wall();
            let at = written.as_ref().map_or(now, |(_, written)| (*written).min(now));
            if let Some((name, _)) = &written
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

/// Asks a kubelet, for as long as we listen for its answer.
async fn get(url: &str, limit: Duration, budget: &Budget) -> Result<http::Answer, http::Error> {
    let answer = budget.listening.within(limit, http::get(url, budget.left())).await;
    answer.unwrap_or_else(|| Err(http::Error::Silent { url: url.to_owned(), waited: limit }))
}

/// A source whose text is there, and by which name and when it was written, if it is a file.
struct Given {
    source: MetricsSource,
    at: Option<(String, Wall)>,
}

/// Reads a file or standard input, in a thread that can be left behind: who writes into a pipe may take as long as the
/// run does.
async fn given(source: &MetricsSource, budget: &Budget) -> Result<Given, MetricsTrouble> {
    let (name, path) = match source {
        MetricsSource::Text { name, written, .. } => {
            let at = written.map(|written| (name.clone(), written));
            return Ok(Given { source: source.clone(), at });
        }
        MetricsSource::Url(_) => return Ok(Given { source: source.clone(), at: None }),
        MetricsSource::File(path) => (path.display().to_string(), Some(path.clone())),
        MetricsSource::Stdin => ("stdin".to_owned(), None),
    };
    let limit = budget.for_asking();
    let work = move || match path {
        Some(path) => (load(&path, LARGEST_REPORT), written(&path)),
        None => (load::stdin(LARGEST_REPORT), written(Path::new("/dev/stdin"))),
    };
    let Some((text, at)) = offload::value(limit, work).await else {
        return Err(MetricsTrouble::Bad(format!("`{name}` did not end within {}", seconds(limit))));
    };
    let text = text.map_err(|why| MetricsTrouble::Bad(format!("cannot read `{name}`: {why}")))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let source = MetricsSource::Text { name: name.clone(), text, written: at };
    Ok(Given { source, at: at.map(|at| (name, at)) })
}

/// When a regular file was written; a pipe has no such time.
fn written(path: &Path) -> Option<Wall> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let since = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Wall::from_nanos(0).plus(since))
}

/// Reads the metrics once; they, and the text that they were in.
pub(in crate::diagnosis) async fn read_metrics(
    source: &MetricsSource,
    limit: Duration,
    budget: &Budget,
) -> Result<(Metrics, String), MetricsTrouble> {
    let (name, text) = match source {
        MetricsSource::Text { name, text, .. } => (name.clone(), text.clone()),
        MetricsSource::Url(url) => match get(url, limit, budget).await {
            Ok(answer) if answer.status == 200 => (url.clone(), answer.text().into_owned()),
            Ok(answer) => {
                return Err(MetricsTrouble::Away(format!("`{url}` answers {}", answer.status)));
            }
            Err(http::Error::Silent { waited, .. }) => return Err(MetricsTrouble::Silent(waited)),
            Err(why) => return Err(MetricsTrouble::Away(why.to_string())),
        },
        MetricsSource::File(_) | MetricsSource::Stdin => {
            return Err(MetricsTrouble::Away("it is read once".to_owned()));
        }
    };
    match Metrics::parse(&text) {
        Ok(metrics) => Ok((metrics, text)),
        Err(why) => Err(MetricsTrouble::Bad(format!("`{name}` is no metrics of a kubelet: {why}"))),
    }
}
