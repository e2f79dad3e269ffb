//! Reads the kubelet metrics that plegctl uses, from a page in the Prometheus text format.

use std::collections::HashSet;

use plegctl_base::report::Rename;
use serde::{Deserialize, Serialize};

/// The metrics that were found; a missing series is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[names(Version(version))]
#[serde(rename_all = "camelCase", default)]
pub struct Metrics {
    /// `kubelet_pleg_last_seen_seconds`
    pub last_seen: Option<f64>,
    /// `kubelet_pleg_discard_events`
    pub discarded: Option<f64>,
    /// `kubelet_pleg_relist_duration_seconds_count`
    pub relists: Option<f64>,
    /// `kubelet_pleg_relist_duration_seconds_sum`
    pub relist_seconds: Option<f64>,
    /// `kubelet_evented_pleg_connection_success_count`
    pub evented_connections: Option<f64>,
    /// `kubelet_evented_pleg_connection_error_count`
    pub evented_errors: Option<f64>,
    /// `kubelet_runtime_operations_total{operation_type="exec_sync"}`
    pub exec_calls: Option<f64>,
    /// `kubelet_runtime_operations_errors_total{operation_type="exec_sync"}`
    pub exec_errors: Option<f64>,
    /// `kubelet_pleg_relist_duration_seconds_bucket`: upper bound and cumulative count.
    #[serde(skip)]
    pub relist_buckets: Vec<(f64, f64)>,
    /// The sum of all `kubelet_runtime_operations_errors_total`.
    pub runtime_errors: Option<f64>,
    /// The sum of all `kubelet_runtime_operations_total`.
    pub runtime_calls: Option<f64>,
    /// `kubelet_cri_streaming_enabled{service="runtime"}`: whether the kubelet lists with streams. No series while the feature
    /// gate is off, and before the first list.
    pub streams_lists: Option<bool>,
    /// `git_version` of `kubernetes_build_info`
    pub version: Option<String>,
}

/// Why a text has no kubelet metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not in the Prometheus text format.
    #[error("line {line} is not in the Prometheus text format")]
    NotMetrics {
        /// Line number, from 1.
        line: usize,
    },
    /// The text has metrics, but none of a kubelet.
    #[error("none of its series is a kubelet's")]
    NotKubelet,
}

struct Series<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl Series<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }
}

impl Metrics {
    /// Parses a whole page of metrics.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut found = Self::default();
        let mut any = false;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            // From 1.37 on, a kubelet sends native histograms by default. They are skipped, because the kubelet also
            // sends the classic buckets.
            if line.is_empty() || line.starts_with('#') || line.contains("{count:") {
                continue;
            }
            let series = parse_line(line).ok_or(Error::NotMetrics { line: at + 1 })?;
            any |= series.name.starts_with("kubelet_") || series.name == "kubernetes_build_info";
            found.add(&series);
        }
        if any { Ok(found) } else { Err(Error::NotKubelet) }
    }

    /// Keeps only the lines of a text that [`Self::parse`] uses.
    pub fn relevant(text: &str) -> String {
        const NAMES: [&str; 5] = [
            "kubelet_pleg_",
            "kubelet_evented_pleg_",
            "kubelet_runtime_operations_",
            "kubelet_cri_streaming_",
            "kubernetes_build_info",
        ];
        let is_used = |line: &&str| NAMES.iter().any(|name| line.starts_with(name));
        let is_no_distribution = |line: &&str| !line.starts_with("kubelet_runtime_operations_duration");
        text.lines().filter(is_used).filter(is_no_distribution).flat_map(|line| [line, "\n"]).collect()
    }

    /// Stores the value of a series, if plegctl uses the series.
    fn add(&mut self, series: &Series<'_>) {
        let is_exec = series.label("operation_type") == Some("exec_sync");
        let place = match series.name {
            "kubelet_pleg_last_seen_seconds" => &mut self.last_seen,
            "kubelet_pleg_discard_events" => &mut self.discarded,
            "kubelet_pleg_relist_duration_seconds_count" => &mut self.relists,
            "kubelet_pleg_relist_duration_seconds_sum" => &mut self.relist_seconds,
            "kubelet_evented_pleg_connection_success_count" => &mut self.evented_connections,
            "kubelet_evented_pleg_connection_error_count" => &mut self.evented_errors,
            "kubelet_pleg_relist_duration_seconds_bucket" => {
                let bound = series.label("le").and_then(|bound| bound.parse().ok());
                self.relist_buckets.extend(bound.map(|bound: f64| (bound, series.value)));
                return;
            }
            "kubelet_runtime_operations_errors_total" => {
                *self.runtime_errors.get_or_insert(0.0) += series.value;
                if !is_exec {
                    return;
                }
                &mut self.exec_errors
            }
            "kubelet_runtime_operations_total" => {
                let all = self.runtime_calls.get_or_insert(0.0);
                *all += series.value;
                if !is_exec {
                    return;
                }
                &mut self.exec_calls
            }
            "kubelet_cri_streaming_enabled" => {
                if series.label("service") == Some("runtime") {
                    self.streams_lists = Some(series.value > 0.0);
                }
                return;
            }
            "kubernetes_build_info" => {
                self.version = series.label("git_version").map(str::to_owned);
                return;
            }
            _ => return,
        };
        *place = Some(series.value);
    }
}

/// A container that the kubelet measures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeasuredContainer {
    /// The namespace of its pod.
    pub namespace: String,
    /// The name of its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
}

impl MeasuredContainer {
    /// Returns the containers of the kubelet's page `/metrics/resource`.
    pub fn all(text: &str) -> HashSet<Self> {
        let lines = text.lines().filter(|line| line.starts_with("container_start_time_seconds{"));
        lines.filter_map(parse_line).filter_map(|series| Self::of(&series)).collect()
    }

    fn of(series: &Series<'_>) -> Option<Self> {
        let label = |name| series.label(name).map(str::to_owned);
        Some(Self { namespace: label("namespace")?, pod: label("pod")?, container: label("container")? })
    }
}

fn parse_line(line: &str) -> Option<Series<'_>> {
    let name_end = line.find(|letter: char| letter == '{' || letter.is_ascii_whitespace())?;
    let (name, rest) = line.split_at_checked(name_end)?;
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
    if !is_name {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => parse_labels(inner)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Series { name, labels, value })
}

type Pairs<'a> = Vec<(&'a str, String)>;

fn parse_labels(mut rest: &str) -> Option<(Pairs<'_>, &str)> {
    let mut pairs = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((pairs, after));
        }
        let (key, after) = rest.split_once('=')?;
        let quoted = after.strip_prefix('"')?;
        let (value, after) = parse_quoted(quoted)?;
        pairs.push((key.trim(), value));
        rest = after;
    }
}

fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_used_series_are_read() {
        let text = "# HELP kubelet_pleg_last_seen_seconds x\n# TYPE kubelet_pleg_last_seen_seconds gauge\n\
            kubelet_pleg_last_seen_seconds 1.7e+09\n\
            kubelet_runtime_operations_total{operation_type=\"exec_sync\"} 30\n\
            kubelet_runtime_operations_total{operation_type=\"version\"} 10\n\
            kubernetes_build_info{build_date=\"a,b}\",git_version=\"v1.36.2\"} 1\n";
        let metrics = Metrics::parse(text).unwrap();
        assert_eq!(metrics.last_seen, Some(1.7e9));
        assert_eq!(metrics.exec_calls, Some(30.0));
        assert_eq!(metrics.runtime_calls, Some(40.0));
        assert_eq!(metrics.version.as_deref(), Some("v1.36.2"));
        assert_eq!(metrics.discarded, None);
    }

    #[test]
    fn the_gauge_of_streamed_lists_is_that_of_the_runtime_and_not_of_the_images() {
        let of = |text: &str| Metrics::parse(&Metrics::relevant(text)).unwrap().streams_lists;
        let images = "kubelet_cri_streaming_enabled{service=\"image\"} 1\n";
        assert_eq!(of(images), None);
        assert_eq!(
            of(&format!("{images}kubelet_cri_streaming_enabled{{service=\"runtime\"}} 0\n")),
            Some(false)
        );
        assert_eq!(of("kubelet_cri_streaming_enabled{service=\"runtime\"} 1\n"), Some(true));
    }

    #[test]
    fn native_histogram_is_skipped_and_classic_buckets_are_read() {
        let text = "kubelet_pleg_relist_duration_seconds{count:3,sum:0.5,schema:3,zero_threshold:0.0,zero_count:0}\n\
            kubelet_runtime_operations_duration_seconds{operation_type=\"version\"} {count:3,sum:0.5,schema:3}\n\
            kubelet_pleg_relist_duration_seconds_bucket{le=\"+Inf\"} 3\n";
        let metrics = Metrics::parse(text).unwrap();
        assert_eq!(metrics.relist_buckets, [(f64::INFINITY, 3.0)]);
    }

    #[test]
    fn text_without_metrics_and_metrics_of_another_program_are_different_errors() {
        assert_eq!(Metrics::parse("<html>\n"), Err(Error::NotMetrics { line: 1 }));
        assert_eq!(Metrics::parse("node_load1 0.5\n"), Err(Error::NotKubelet));
        assert_eq!(Metrics::parse(""), Err(Error::NotKubelet));
    }
}
