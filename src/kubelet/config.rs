//! What the kubelet was told: the few settings that matter here, from its configuration file and its command line.

use std::time::Duration;

use super::{Told, go_duration};
use crate::host::truth;

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
    /// What a kubelet was told, its command line before its files.
    pub fn of(told: &Told) -> Self {
        // Gates that are given in several flags are all set, the later ones last.
        let gates = told.every("feature-gates").into_iter().flat_map(|gates| gates.split(','));
        let evented = gates.filter_map(|gate| gate.trim().strip_prefix("EventedPLEG=")).next_back();
        let evented = evented.and_then(truth);
        Self {
            request_timeout: sourced(told, "runtime-request-timeout", "runtimeRequestTimeout", go_duration),
            endpoint: sourced(told, "container-runtime-endpoint", "containerRuntimeEndpoint", |endpoint| {
                Some(endpoint.to_owned())
            }),
            cgroup_driver: told.flag("cgroup-driver").or_else(|| told.key("cgroupDriver")).map(str::to_owned),
            evented: evented.or_else(|| told.key("featureGates.EventedPLEG").and_then(truth)),
            verbosity: sourced(told, "v", "logging.verbosity", |value| value.parse().ok())
                .map(|verbosity| verbosity.value),
        }
    }
}

impl Config {
    /// These settings, and what they leave open as `below` has it.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            request_timeout: self.request_timeout.or(below.request_timeout),
            endpoint: self.endpoint.or(below.endpoint),
            cgroup_driver: self.cgroup_driver.or(below.cgroup_driver),
            evented: self.evented.or(below.evented),
            verbosity: self.verbosity.or(below.verbosity),
        }
    }

    /// The sources of its settings, for who knows them better.
    pub(super) fn sources(&mut self) -> impl Iterator<Item = &mut String> {
        let timeout = self.request_timeout.as_mut().map(|timeout| &mut timeout.source);
        timeout.into_iter().chain(self.endpoint.as_mut().map(|endpoint| &mut endpoint.source))
    }
}

/// A value that can be read: the flag's, else that of the files.
fn sourced<T>(told: &Told, flag: &str, key: &str, read: impl Fn(&str) -> Option<T>) -> Option<Sourced<T>> {
    let of_flag = || Some(Sourced::new(read(told.flag(flag)?)?, "the kubelet's command line"));
    let of_files = || Some(Sourced::new(read(told.key(key)?)?, "the kubelet's configuration file"));
    of_flag().or_else(of_files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(line: &str, file: &str) -> Config {
        Config::of(&Told::of(line.split(' ').collect(), file.as_bytes()))
    }

    #[test]
    fn a_file_in_yaml_and_in_json_says_the_same() {
        let yaml = "kind: KubeletConfiguration\nauthentication:\n  x509: {clientCAFile: /a}\nclusterDNS:\n- 10.0.0.10\n\
            runtimeRequestTimeout: 4m0s\nfeatureGates:\n  EventedPLEG: true\ncgroupDriver: systemd\n";
        let json = r#"{"clusterDNS":["10.0.0.10"],"runtimeRequestTimeout":"4m0s","featureGates":{"EventedPLEG":true},"cgroupDriver":"systemd"}"#;
        for text in [yaml, json] {
            let config = config("kubelet", text);
            assert_eq!(config.request_timeout.unwrap().value, Duration::from_secs(240), "{text}");
            assert_eq!(config.evented, Some(true));
            assert_eq!(config.cgroup_driver.as_deref(), Some("systemd"));
        }
    }

    #[test]
    fn the_command_line_beats_the_file_and_its_last_word_its_first() {
        let line = "kubelet --runtime-request-timeout=5m --feature-gates=A=true,EventedPLEG=false \
            --feature-gates=EventedPLEG=true --runtime-request-timeout 10m";
        let config = config(line, "runtimeRequestTimeout: 4m0s\nfeatureGates: {EventedPLEG: false}\n");
        assert_eq!(
            config.request_timeout.unwrap(),
            Sourced::new(Duration::from_secs(600), "the kubelet's command line")
        );
        assert_eq!(config.evented, Some(true));
    }

    #[test]
    fn a_flag_that_means_nothing_leaves_the_file_its_say() {
        let config = config("kubelet --runtime-request-timeout=soon", "runtimeRequestTimeout: 4m0s\n");
        assert_eq!(config.request_timeout.unwrap().value, Duration::from_secs(240));
    }
}
