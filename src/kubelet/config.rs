//! What the kubelet was told: the few settings that matter here, from its configuration file and its command line.

use std::time::Duration;

use super::go_duration;
use crate::host::{Arguments, scalars, truth};

/// A figure and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The figure.
    pub value: T,
    /// A flag, a file, a series or "the kubelet's default".
    pub source: String,
}

impl<T> Sourced<T> {
    /// A figure from `source`.
    pub fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

/// The settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Its time-out of one call.
    pub request_timeout: Option<Sourced<Duration>>,
    /// Its endpoint of the runtime.
    pub endpoint: Option<Sourced<String>>,
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: Option<String>,
    /// Whether Evented PLEG is switched on.
    pub evented: Option<bool>,
    /// How much it logs.
    pub verbosity: Option<u8>,
}

impl Config {
    /// Adds what a configuration file says.
    pub fn read_file(&mut self, text: &str) {
        // A file that is not what it should be says nothing.
        let values = scalars(text.as_bytes()).unwrap_or_default();
        let source = "the kubelet's configuration file";
        let get = |key: &str| values.get(key).map(String::as_str).filter(|value| !value.is_empty());
        if let Some(timeout) = get("runtimeRequestTimeout").and_then(go_duration) {
            self.request_timeout = Some(Sourced::new(timeout, source));
        }
        if let Some(endpoint) = get("containerRuntimeEndpoint") {
            self.endpoint = Some(Sourced::new(endpoint.to_owned(), source));
        }
        self.cgroup_driver = get("cgroupDriver").map(str::to_owned).or(self.cgroup_driver.take());
        self.evented = get("featureGates.EventedPLEG").and_then(truth).or(self.evented);
        self.verbosity = get("logging.verbosity").and_then(|value| value.parse().ok()).or(self.verbosity);
    }

    /// Adds what the command line says, which beats the file.
    pub fn read_flags(&mut self, kubelet: &Arguments) {
        let source = "the kubelet's command line";
        if let Some(timeout) = kubelet.flag("runtime-request-timeout").and_then(go_duration) {
            self.request_timeout = Some(Sourced::new(timeout, source));
        }
        if let Some(endpoint) = kubelet.flag("container-runtime-endpoint") {
            self.endpoint = Some(Sourced::new(endpoint.to_owned(), source));
        }
        self.cgroup_driver = kubelet.flag("cgroup-driver").map(str::to_owned).or(self.cgroup_driver.take());
        // Gates that are given in several flags are all set, the later ones last.
        let gates = kubelet.every("feature-gates").into_iter().flat_map(|gates| gates.split(','));
        let evented = gates.filter_map(|gate| gate.trim().strip_prefix("EventedPLEG=")).next_back();
        self.evented = evented.and_then(truth).or(self.evented);
        self.verbosity = kubelet.flag("v").and_then(|value| value.parse().ok()).or(self.verbosity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_yaml_and_in_json_says_the_same() {
        let yaml = "kind: KubeletConfiguration\nauthentication:\n  x509: {clientCAFile: /a}\nclusterDNS:\n- 10.0.0.10\n\
            runtimeRequestTimeout: 4m0s\nfeatureGates:\n  EventedPLEG: true\ncgroupDriver: systemd\n";
        let json = r#"{"clusterDNS":["10.0.0.10"],"runtimeRequestTimeout":"4m0s","featureGates":{"EventedPLEG":true},"cgroupDriver":"systemd"}"#;
        for text in [yaml, json] {
            let mut config = Config::default();
            config.read_file(text);
            assert_eq!(config.request_timeout.unwrap().value, Duration::from_secs(240), "{text}");
            assert_eq!(config.evented, Some(true));
            assert_eq!(config.cgroup_driver.as_deref(), Some("systemd"));
        }
    }

    #[test]
    fn the_command_line_beats_the_file() {
        let mut config = Config::default();
        config.read_file("runtimeRequestTimeout: 4m0s\n");
        let line = "kubelet --runtime-request-timeout=5m --feature-gates=A=true,EventedPLEG=false \
            --feature-gates=EventedPLEG=true --runtime-request-timeout 10m";
        let kubelet: Arguments = line.split_ascii_whitespace().collect();
        config.read_flags(&kubelet);
        assert_eq!(config.request_timeout.unwrap().value, Duration::from_secs(600));
        assert_eq!(config.evented, Some(true));
    }
}
