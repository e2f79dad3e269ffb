//! Requests the kubelet's `/healthz`, metrics, configuration and pods, all in parallel. It also decides whether a silence
//! is the kubelet's: an API server between plegctl and the kubelet may cause it too.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::lazy_api::LazyKubeletApi;
use super::pods;
use super::{Healthz, KubeletEvidence, KubeletInputs, MetricsReading, MetricsSource, StuckPod};
use crate::clock::Wall;
use crate::cri::Outcome;
use crate::diagnosis::Inputs;
use crate::diagnosis::budget::RunBudget;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::words::seconds;
use crate::diagnosis::{limits, offload};
use crate::kubelet::{Configz, KubeletVersion, Metrics, http};
use crate::report::NotChecked;
use crate::report::load::{self, LARGEST_REPORT, load};
use crate::report::redaction::without_secret_values;

/// The part of a URL that shows that an API server or `kubectl proxy` forwards the request to a kubelet.
const PROXY: &str = "/proxy/";

/// The path, below `/metrics`, of a document that needs the same permission and for which the kubelet makes no list call.
const PROBES_PATH: &str = "/probes";

/// The explanation for a silent request through an API server, which does not prove that the kubelet is silent.
const SILENT_THROUGH_SERVER: &str = "not known: no request through the API server is answered; the API server, \
    the connection to the kubelet or the kubelet may hang";

/// The explanation if all requests with a credential are silent, which does not prove that the kubelet is silent.
const SILENT_WITH_CREDENTIAL: &str = "not known: neither /metrics nor /metrics/probes answers; \
    the kubelet may be waiting for the API server to check the credential";

/// The explanation for a silence in a capture, which proves nothing.
const RECORDED_SILENCE: &str =
    "not known: /metrics was silent, and the recorder requested no other path of the kubelet at that time";

/// The kubelet's answers, and the notes on what was not checked.
#[derive(Default)]
pub(in crate::diagnosis) struct KubeletAnswers {
    pub(in crate::diagnosis) found: KubeletEvidence,
    pub(in crate::diagnosis) not_checked: Vec<NotChecked>,
    pub(in crate::diagnosis) bad_input: Vec<String>,
    pub(in crate::diagnosis) input_files: Vec<InputFile>,
}

impl KubeletAnswers {
    fn skip(&mut self, what: &str, why: impl Display) {
        self.not_checked.push(NotChecked::new(what, why));
    }

    fn note_error(&mut self, what: &str, error: FetchError) {
        match error {
            FetchError::Silent(_) | FetchError::SilentButOthersAnswer(_) => {
                self.skip(what, "it did not answer in time");
            }
            FetchError::Failed(why) => self.skip(what, why),
            FetchError::NotAccepted(why) => {
                self.found.not_accepted.get_or_insert_with(|| why.clone());
                self.skip(what, why);
            }
            FetchError::BadInput(why) => {
                self.bad_input.push(why.clone());
                self.skip(what, why);
            }
        }
    }

    /// Stores the answer of the Pods API.
    fn own_pods(&mut self, answer: Option<(Result<Vec<StuckPod>, String>, Duration)>) {
        let Some((pods, took)) = answer else { return };
        let outcome = if pods.is_ok() { Outcome::Ok } else { Outcome::Error };
        self.found.requests.push(("kubelet Pods API".into(), outcome, took));
        match pods {
            Ok(stuck) => self.found.stuck_pods = stuck,
            Err(why) => self.skip("the kubelet's own pods", why),
        }
    }

    /// Stores the answer of `/configz`.
    fn configz(&mut self, answer: Result<(Configz, String), FetchError>, keeps_input_files: bool) {
        match answer {
            Ok((configz, text)) => {
                self.found.config = configz.config;
                if keeps_input_files {
                    let text = without_secret_values(&text);
                    self.input_files.push(InputFile::new("kubelet/configz.json", "its configuration", text));
                }
            }
            Err(error) => self.note_error("the kubelet's configz", error),
        }
    }
}

/// What the kubelet's metrics show about its lists: its release, and the gauge.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::diagnosis) struct ListMetrics {
    pub(in crate::diagnosis) release: Option<KubeletVersion>,
    pub(in crate::diagnosis) streams: Option<bool>,
}

impl ListMetrics {
    fn of(metrics: &Metrics) -> Self {
        let release = metrics.version.as_deref().and_then(|version| KubeletVersion::parse(version).ok());
        Self { release, streams: metrics.streams_lists }
    }
}

/// Requests `/healthz`, the metrics, the configuration and the pods in parallel. As soon as the metrics are known or will not
/// come, sends what they show about the kubelet's lists.
pub(in crate::diagnosis) async fn fetch_all<R>(
    inputs: &Inputs<R>,
    budget: &RunBudget,
    lists: watch::Sender<Option<ListMetrics>>,
) -> KubeletAnswers {
    let mut answers = KubeletAnswers::default();
    let limit = inputs.deadlines().http.min(budget.left());
    let mut written_at = None;
    let flags = &inputs.kubelet;
    let (on_node, healthz, metrics, configz, pods) = tokio::join!(
        timed(inputs, flags.healthz_on_node.as_deref().map(|url| healthz(flags, url, limit, budget))),
        timed(inputs, flags.healthz.as_deref().map(|url| healthz(flags, url, limit, budget))),
        async {
            let metrics = flags.metrics.as_ref().map(async |source| {
                let source = load_source(source, budget).await?;
                written_at = written_file(&source);
                // Boxed, because this future is far larger than most of the others.
                Box::pin(metrics_or_silence(&source, limit, budget)).await
            });
            let metrics = timed(inputs, metrics).await;
            let shown = metrics.as_ref().and_then(|(answer, _)| answer.as_ref().ok());
            lists.send_replace(Some(shown.map(|(metrics, _)| ListMetrics::of(metrics)).unwrap_or_default()));
            metrics
        },
        timed(inputs, flags.api.as_ref().map(|api| configz(api, limit, budget))),
        timed(inputs, flags.pods.as_ref().map(|source| Box::pin(pods::read(source, limit, &inputs.clock)))),
    );
    answers.own_pods(pods);
    let (healthz, on_node) = preferred(on_node, healthz);
    let through_server = !on_node && is_proxied(flags, flags.healthz.as_deref());
    match healthz {
        None => answers.skip("the kubelet's /healthz", "left out"),
        Some((answer, took)) => {
            let outcome = match &answer {
                Ok(Healthz::Ok) => Outcome::Ok,
                Err((FetchError::Silent(_), _)) => Outcome::Silent,
                _ => Outcome::Error,
            };
            answers.found.requests.push(("kubelet /healthz".into(), outcome, took));
            let another_answers =
                matches!(&configz, Some((Ok(_), _))) || matches!(&metrics, Some((Ok(_), _)));
            match answer {
                Ok(found) => answers.found.healthz = Some(found),
                Err((FetchError::Silent(_), _)) if through_server && !another_answers => {
                    answers.skip("the kubelet's /healthz", SILENT_THROUGH_SERVER);
                }
                Err((FetchError::Silent(waited), _)) => answers.found.healthz = Some(Healthz::Silent(waited)),
                Err((error, refused)) => {
                    answers.found.healthz = refused.then_some(Healthz::Refused);
                    answers.note_error("the kubelet's /healthz", error);
                }
            }
        }
    }
    if let Some((answer, took)) = configz {
        answers.found.requests.push(("kubelet /configz".into(), outcome(&answer), took));
        answers.configz(answer, inputs.keeps_input_files());
    }
    if flags.api.as_ref().is_some_and(LazyKubeletApi::is_insecure) {
        answers.skip("the kubelet's identity", "its certificate is not verified, as configured");
    }
    if let Some((answer, took)) = &metrics {
        answers.found.requests.push(("kubelet metrics".into(), outcome(answer), *took));
    }
    match metrics.map(|(answer, _)| answer) {
        None => answers.skip(
            "the kubelet's metrics",
            "give them with --kubelet-metrics, or a credential with --kubelet-token-file",
        ),
        Some(Ok((metrics, text))) => {
            if inputs.keeps_input_files() {
                answers.input_files.push(InputFile::new(
                    "kubelet/metrics.txt",
                    "the kubelet's metrics",
                    text,
                ));
            }
            // Metrics in a file are as old as the file.
            let now = inputs.clock.wall();
            let at = written_at.as_ref().map_or(now, |(_, written)| (*written).min(now));
            if let Some((name, _)) = &written_at
                && now.duration_since(at) >= limits::READING_OLD
            {
                let old = seconds(now.duration_since(at));
                answers.skip("current kubelet metrics", format!("`{name}` was written {old} ago"));
            }
            answers.found.first = Some(MetricsReading { at, metrics });
        }
        Some(Err(FetchError::SilentButOthersAnswer(waited))) => {
            answers.found.metrics_silent = Some(waited);
            answers.note_error("the kubelet's metrics", FetchError::Silent(waited));
        }
        Some(Err(FetchError::Silent(_))) => {
            let proxied = matches!(&flags.metrics, Some(MetricsSource::Api(api)) if api.is_proxied())
                || matches!(&flags.metrics, Some(MetricsSource::Url(url)) if url.contains(PROXY));
            let why = match &flags.metrics {
                Some(MetricsSource::Silent(_)) => RECORDED_SILENCE,
                _ if proxied => SILENT_THROUGH_SERVER,
                _ => SILENT_WITH_CREDENTIAL,
            };
            answers.skip("the kubelet's metrics", why);
        }
        Some(Err(error)) => answers.note_error("the kubelet's metrics", error),
    }
    answers
}

/// Why a document could not be fetched.
pub(in crate::diagnosis) enum FetchError {
    /// The request got no answer, or only the beginning of an answer.
    Silent(Duration),
    /// The request got no answer, while another path with the same permission was answered.
    SilentButOthersAnswer(Duration),
    /// The file or URL that the user named has the wrong content or cannot be read.
    BadInput(String),
    /// The request failed for a reason that shows nothing about the kubelet.
    Failed(String),
    /// The kubelet does not accept plegctl's credential, or plegctl does not accept the kubelet's certificate.
    NotAccepted(String),
}

impl From<http::Error> for FetchError {
    fn from(why: http::Error) -> Self {
        match (&why, why.hint()) {
            (http::Error::Silent { waited, .. } | http::Error::SilentMidAnswer { waited, .. }, _) => {
                Self::Silent(*waited)
            }
            (why, hint) => {
                let hint = hint.map(|hint| format!("; {hint}"));
                let text = format!("{why}{}", hint.unwrap_or_default());
                match why {
                    http::Error::Unauthorized { .. }
                    | http::Error::Forbidden { .. }
                    | http::Error::Certificate { .. } => Self::NotAccepted(text),
                    _ => Self::Failed(text),
                }
            }
        }
    }
}

const fn outcome<T>(answer: &Result<T, FetchError>) -> Outcome {
    match answer {
        Ok(_) => Outcome::Ok,
        Err(FetchError::Silent(_) | FetchError::SilentButOthersAnswer(_)) => Outcome::Silent,
        Err(_) => Outcome::Error,
    }
}

/// Runs `work`, if it is given, and measures its duration.
async fn timed<R, T>(inputs: &Inputs<R>, work: Option<impl Future<Output = T>>) -> Option<(T, Duration)> {
    let started = inputs.clock.mono();
    let done = work?.await;
    Some((done, inputs.clock.mono().since(started)))
}

/// Requests `/healthz`. With an error, it also returns whether the connection was refused.
async fn healthz(
    flags: &KubeletInputs,
    url: &str,
    limit: Duration,
    budget: &RunBudget,
) -> Result<Healthz, (FetchError, bool)> {
    let refused = |why: http::Error| {
        let refused = matches!(why, http::Error::Refused { .. });
        (FetchError::from(why), refused)
    };
    let api = flags.api.as_ref().filter(|_| url.starts_with('/'));
    let (url, answer) = match api {
        Some(api) => match api.document(url, limit, budget).await {
            Ok(found) => found,
            // A connection that the API server refuses shows nothing about the kubelet.
            Err(why) => return Err((why, false)),
        },
        None => (url.to_owned(), get(url, limit, budget).await.map_err(refused)?),
    };
    let text = answer.text();
    // An API server may itself answer with an error status; only the kubelet's text shows that the kubelet failed.
    if answer.status >= 500 && (api.is_none() || text.contains("healthz check failed")) {
        return Ok(Healthz::Failing { status: answer.status, text: text.chars().take(500).collect() });
    }
    answer.document(&url).map(|_| Healthz::Ok).map_err(refused)
}

/// Requests the configuration. Returns it parsed, and as indented text.
async fn configz(
    api: &LazyKubeletApi,
    limit: Duration,
    budget: &RunBudget,
) -> Result<(Configz, String), FetchError> {
    let (url, answer) = api.document("/configz", limit, budget).await?;
    let text = answer.document(&url)?;
    let parsed = Configz::parse(&text);
    let wrong = || FetchError::Failed(format!("the answer of `{url}` is not a kubelet configuration"));
    let indented = serde_json::from_str::<serde_json::Value>(&text).map(|value| format!("{value:#}\n"));
    Ok((parsed.ok_or_else(wrong)?, indented.unwrap_or_default()))
}

/// Sends a request to the kubelet; `limit` counts only the time in which this program could have read the
/// answer.
async fn get(url: &str, limit: Duration, budget: &RunBudget) -> Result<http::HttpAnswer, http::Error> {
    let answer = budget.listening.within(limit, http::get(url, budget.left())).await;
    answer.unwrap_or_else(|| Err(http::Error::Silent { url: url.to_owned(), waited: limit }))
}

/// Returns the name of the file that contained the metrics, and when it was written.
fn written_file(source: &MetricsSource) -> Option<(String, Wall)> {
    match source {
        MetricsSource::Text { name, written, .. } => written.map(|written| (name.clone(), written)),
        _ => None,
    }
}

/// Reads a source that is a file or the standard input; other sources stay unchanged. It reads in a separate thread,
/// because the other end of a pipe may write until the run is over.
async fn load_source(source: &MetricsSource, budget: &RunBudget) -> Result<MetricsSource, FetchError> {
    let (name, path) = match source {
        MetricsSource::File(path) => (path.display().to_string(), Some(path.clone())),
        MetricsSource::Stdin => ("stdin".to_owned(), None),
        other => return Ok(other.clone()),
    };
    let limit = budget.for_new_calls();
    let work = move || match path {
        Some(path) => (load(&path, LARGEST_REPORT), written(&path)),
        None => (load::stdin(LARGEST_REPORT), written(Path::new("/dev/stdin"))),
    };
    let Some((text, written)) = offload::value(limit, work).await else {
        return Err(FetchError::BadInput(format!("`{name}` did not end within {}", seconds(limit))));
    };
    let text = text.map_err(|why| FetchError::BadInput(format!("cannot read `{name}`: {why}")))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(MetricsSource::Text { name, text, written })
}

/// Returns the time at which a regular file was written; `None` for a pipe.
fn written(path: &Path) -> Option<Wall> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let since = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Wall::from_nanos(0).plus(since))
}

/// The result of a request for `/healthz`, and its duration.
type HealthzAnswer = Option<(Result<Healthz, (FetchError, bool)>, Duration)>;

/// Chooses the answer from the node itself if it is an answer or a silence, otherwise the other answer. Returns also
/// whether the node's answer was chosen.
fn preferred(on_node: HealthzAnswer, other: HealthzAnswer) -> (HealthzAnswer, bool) {
    let is_from_kubelet = |answer: &Result<_, (FetchError, bool)>| {
        answer.is_ok() || matches!(answer, Err((FetchError::Silent(_), _)))
    };
    match on_node {
        Some((answer, took)) if is_from_kubelet(&answer) => (Some((answer, took)), true),
        _ => (other, false),
    }
}

/// Returns whether a request to this URL or path goes through an API server.
fn is_proxied(flags: &KubeletInputs, url: Option<&str>) -> bool {
    url.is_some_and(|url| match &flags.api {
        Some(api) if url.starts_with('/') => api.is_proxied(),
        _ => url.contains(PROXY),
    })
}

/// Fetches the metrics. If they are silent for half of `limit`, it also requests another document that needs the same
/// permission. If the kubelet answers that request, the silence of the metrics is caused by the kubelet itself, not by an
/// API server and not by the check of the credential.
async fn metrics_or_silence(
    source: &MetricsSource,
    limit: Duration,
    budget: &RunBudget,
) -> Result<(Metrics, String), FetchError> {
    let mut metrics = std::pin::pin!(read_metrics(source, limit, budget));
    if let Ok(ended) = tokio::time::timeout(limit / 2, &mut metrics).await {
        return ended;
    }
    let (ended, other_answers) = tokio::join!(metrics, probes_path_answers(source, limit / 2, budget));
    ended.map_err(|error| match error {
        FetchError::Silent(waited) if other_answers => FetchError::SilentButOthersAnswer(waited),
        other => other,
    })
}

/// Returns whether the kubelet answers a request for `/metrics/probes`. A refusal is an answer too, except through an API
/// server, because the API server itself may refuse.
async fn probes_path_answers(source: &MetricsSource, limit: Duration, budget: &RunBudget) -> bool {
    let (answer, proxied) = match source {
        MetricsSource::Api(api) => {
            let answer = api.document(&format!("/metrics{PROBES_PATH}"), limit, budget).await;
            (answer.ok().map(|(_, answer)| answer), api.is_proxied())
        }
        MetricsSource::Url(url) => {
            let answer = get(&format!("{}{PROBES_PATH}", url.trim_end_matches('/')), limit, budget).await;
            (answer.ok(), url.contains(PROXY))
        }
        _ => (None, false),
    };
    answer.is_some_and(|answer| answer.status == 200 || !proxied)
}

/// Fetches the metrics. Returns them parsed, and as text.
pub(in crate::diagnosis) async fn read_metrics(
    source: &MetricsSource,
    limit: Duration,
    budget: &RunBudget,
) -> Result<(Metrics, String), FetchError> {
    let (name, text) = match source {
        MetricsSource::Text { name, text, .. } => (name.clone(), text.clone()),
        MetricsSource::Url(url) => {
            (url.clone(), get(url, limit, budget).await.and_then(|answer| answer.document(url))?)
        }
        MetricsSource::Api(api) => {
            let (url, answer) = api.document("/metrics", limit, budget).await?;
            let text = answer.document(&url)?;
            (url, text)
        }
        MetricsSource::Silent(waited) => return Err(FetchError::Silent(*waited)),
        MetricsSource::File(_) | MetricsSource::Stdin => {
            return Err(FetchError::Failed("it can be read only once".to_owned()));
        }
    };
    match Metrics::parse(&text) {
        Ok(metrics) => Ok((metrics, text)),
        Err(why) => Err(FetchError::BadInput(format!("`{name}` does not contain kubelet metrics: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn healthz_on_the_node_overrides_a_silence_through_the_api_server() {
        let second = Duration::from_secs(1);
        let silent = || Some((Err((FetchError::Silent(second), false)), second));
        let (answer, on_node) = preferred(Some((Ok(Healthz::Ok), second)), silent());
        assert!(on_node && matches!(answer, Some((Ok(Healthz::Ok), _))));
        let refused = Some((Err((FetchError::Failed("refused".into()), true)), second));
        let (answer, on_node) = preferred(refused, silent());
        assert!(!on_node && matches!(answer, Some((Err((FetchError::Silent(_), _)), _))));
    }
}
