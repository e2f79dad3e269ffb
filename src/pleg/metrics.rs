//! The kubelet's PLEG metrics in Prometheus' text format, with the kubelet's buckets, help texts and peculiarities, and with its
//! names or with names of plegctl.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::pods::KubeletState;
use crate::clock::Wall;
use crate::cri::Rpc;

/// Prometheus' default buckets, which the kubelet's PLEG histograms use.
const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The buckets of `runtime_operations_duration_seconds`: 0.005 times powers of 2.5.
const OPERATION_BUCKETS: [f64; 14] = [
    0.005,
    0.0125,
    0.03125,
    0.078_125,
    0.195_312_5,
    0.488_281_25,
    1.220_703_125,
    3.051_757_812_5,
    7.629_394_531_25,
    19.073_486_328_125,
    47.683_715_820_312_5,
    119.209_289_550_781_25,
    298.023_223_876_953_1,
    745.058_059_692_382_8,
];

/// The names of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricNames {
    /// `plegctl_pleg_last_seen_seconds`: a query of the kubelet's metrics does not find them, whatever labels it looks at.
    Plegctl,
    /// `kubelet_pleg_last_seen_seconds`, as the kubelet's own, and all of them.
    Kubelet,
}

impl MetricNames {
    /// Returns the first word of each name.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Plegctl => "plegctl",
            Self::Kubelet => "kubelet",
        }
    }
}

/// A Prometheus histogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(&DEFAULT_BUCKETS)
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], count: 0, sum: 0.0 }
    }

    /// Adds one value.
    pub fn observe(&mut self, value: f64) {
        for (bound, count) in self.bounds.iter().zip(&mut self.counts) {
            if value <= *bound {
                *count += 1;
            }
        }
        self.count += 1;
        self.sum += value;
    }

    /// Returns the number of added values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    fn render(&self, out: &mut dyn fmt::Write, name: &str, label: &str) -> fmt::Result {
        let comma = if label.is_empty() { "" } else { "," };
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            writeln!(out, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {count}")?;
        }
        writeln!(out, "{name}_bucket{{{label}{comma}le=\"+Inf\"}} {}", self.count)?;
        let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        writeln!(out, "{name}_sum{braces} {}", self.sum)?;
        writeln!(out, "{name}_count{braces} {}", self.count)
    }
}

/// The calls of one operation type.
#[derive(Clone, Debug)]
struct Operation {
    errors: u64,
    duration: Histogram,
}

/// The metrics about PLEG on the kubelet's `/metrics` endpoint.
#[derive(Clone, Debug, Default)]
pub struct PlegMetrics {
    /// The durations of the relists of all pods, including failed ones.
    pub relist_duration: Histogram,
    /// For each relist, the time since the start of the last relist whose list calls succeeded.
    pub relist_interval: Histogram,
    /// For each stream event, the time of receipt minus the time stamp.
    pub connection_latency: Histogram,
    /// The number of streams that have ended.
    pub connection_errors: u64,
    /// The number of streams that were opened.
    pub connection_successes: u64,
    last_seen: Option<i64>,
    running_pods: Option<i64>,
    running_containers: BTreeMap<KubeletState, i64>,
    operations: BTreeMap<&'static str, Operation>,
}

impl PlegMetrics {
    /// Sets the time at which PLEG was last seen active, in whole seconds. The kubelet does this in its health check.
    pub fn set_last_seen(&mut self, at: Wall) {
        self.last_seen = Some(at.nanos().div_euclid(1_000_000_000));
    }

    /// Sets the gauges after a relist. A state that no container has any more keeps its last value, because the
    /// kubelet sets only the states that it counted.
    pub fn set_running(&mut self, pods: i64, containers: &BTreeMap<KubeletState, i64>) {
        self.running_pods = Some(pods);
        self.running_containers.extend(containers);
    }

    /// Changes the gauges by the difference that an event makes.
    pub fn adjust_running(&mut self, pods: i64, containers: &BTreeMap<KubeletState, i64>) {
        *self.running_pods.get_or_insert(0) += pods;
        for (state, change) in containers {
            *self.running_containers.entry(*state).or_insert(0) += change;
        }
    }

    /// Returns the number of pods with at least one ready sandbox.
    pub fn running_pods(&self) -> i64 {
        self.running_pods.unwrap_or(0)
    }

    /// Returns the number of containers in a state; `None` if no container was ever in this state.
    pub fn running_containers(&self, state: KubeletState) -> Option<i64> {
        self.running_containers.get(&state).copied()
    }

    /// Counts a call to the runtime.
    pub fn operation(&mut self, rpc: Rpc, duration: Duration, failed: bool) {
        let Some(name) = operation_type(rpc) else { return };
        let operation = self
            .operations
            .entry(name)
            .or_insert_with(|| Operation { errors: 0, duration: Histogram::new(&OPERATION_BUCKETS) });
        operation.errors += u64::from(failed);
        operation.duration.observe(duration.as_secs_f64());
    }

    /// Writes all metrics in Prometheus' text format.
    pub fn render(&self, names: MetricNames, out: &mut dyn fmt::Write) -> fmt::Result {
        let prefix = names.prefix();
        let name = |rest: &str| format!("{prefix}_{rest}");
        let help = "Duration in seconds for relisting pods in PLEG.";
        histogram(out, &name("pleg_relist_duration_seconds"), help, &self.relist_duration)?;
        let help = "Interval in seconds between relisting in PLEG.";
        histogram(out, &name("pleg_relist_interval_seconds"), help, &self.relist_interval)?;
        if let Some(seconds) = self.last_seen {
            let help = "Timestamp in seconds when PLEG was last seen active.";
            single(out, &name("pleg_last_seen_seconds"), "gauge", help, seconds)?;
        }
        // plegctl simulates no caller that relists a single pod and no sync loop that is too slow, so these stay zero.
        if names == MetricNames::Kubelet {
            let help = "Duration in seconds for relisting a single pod in PLEG.";
            histogram(out, &name("pleg_pod_relist_duration_seconds"), help, &Histogram::default())?;
            let help = "The number of discard events in PLEG.";
            single(out, &name("pleg_discard_events"), "counter", help, 0)?;
        }
        if let Some(pods) = self.running_pods {
            let help = "Number of pods that have a running pod sandbox";
            single(out, &name("running_pods"), "gauge", help, pods)?;
        }
        if !self.running_containers.is_empty() {
            let name = &name("running_containers");
            head(out, name, "gauge", "Number of containers currently running")?;
            for (state, count) in &self.running_containers {
                writeln!(out, "{name}{{container_state=\"{}\"}} {count}", state.as_str())?;
            }
        }
        self.render_connection(prefix, out)?;
        self.render_operations(prefix, out)
    }

    fn render_connection(&self, prefix: &str, out: &mut dyn fmt::Write) -> fmt::Result {
        let name = &format!("{prefix}_evented_pleg_connection_error_count");
        let help = "The number of errors encountered during the establishment of streaming connection with the CRI runtime.";
        single(out, name, "counter", help, self.connection_errors)?;
        let name = &format!("{prefix}_evented_pleg_connection_success_count");
        let help = "The number of times a streaming client was obtained to receive CRI Events.";
        single(out, name, "counter", help, self.connection_successes)?;
        let name = &format!("{prefix}_evented_pleg_connection_latency_seconds");
        let help = "The latency of streaming connection with the CRI runtime, measured in seconds.";
        histogram(out, name, help, &self.connection_latency)
    }

    fn render_operations(&self, prefix: &str, out: &mut dyn fmt::Write) -> fmt::Result {
        if self.operations.is_empty() {
            return Ok(());
        }
        let name = &format!("{prefix}_runtime_operations_total");
        head(out, name, "counter", "Cumulative number of runtime operations by operation type.")?;
        for (kind, operation) in &self.operations {
            writeln!(out, "{name}{{operation_type=\"{kind}\"}} {}", operation.duration.count)?;
        }
        let name = &format!("{prefix}_runtime_operations_errors_total");
        head(out, name, "counter", "Cumulative number of runtime operation errors by operation type.")?;
        for (kind, operation) in &self.operations {
            if operation.errors > 0 {
                writeln!(out, "{name}{{operation_type=\"{kind}\"}} {}", operation.errors)?;
            }
        }
        let name = &format!("{prefix}_runtime_operations_duration_seconds");
        let help = "Duration in seconds of runtime operations. Broken down by operation type.";
        head(out, name, "histogram", help)?;
        for (kind, operation) in &self.operations {
            operation.duration.render(out, name, &format!("operation_type=\"{kind}\""))?;
        }
        Ok(())
    }
}

/// Returns the kubelet's `operation_type` of a call; `None` for calls that the kubelet's PLEG does not make or count.
const fn operation_type(rpc: Rpc) -> Option<&'static str> {
    match rpc {
        Rpc::Version => Some("version"),
        Rpc::Status => Some("status"),
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => Some("list_podsandbox"),
        Rpc::ListContainers | Rpc::StreamContainers => Some("list_containers"),
        Rpc::PodSandboxStatus => Some("podsandbox_status"),
        Rpc::ContainerStatus => Some("container_status"),
        Rpc::RuntimeConfig | Rpc::GetContainerEvents | Rpc::ContainerStats => None,
    }
}

/// Writes the help text and the type of a metric.
fn head(out: &mut dyn fmt::Write, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} [ALPHA] {help}\n# TYPE {name} {kind}")
}

/// Writes a metric with one value.
fn single(
    out: &mut dyn fmt::Write,
    name: &str,
    kind: &str,
    help: &str,
    value: impl fmt::Display,
) -> fmt::Result {
    head(out, name, kind, help)?;
    writeln!(out, "{name} {value}")
}

/// Writes a histogram with its help text.
fn histogram(out: &mut dyn fmt::Write, name: &str, help: &str, values: &Histogram) -> fmt::Result {
    head(out, name, "histogram", help)?;
    values.render(out, name, "")
}
