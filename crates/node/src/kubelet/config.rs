//! [`Config`]: the typed values of the few kubelet settings that the diagnosis needs. The time-out and the endpoint also
//! have their source.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::list_calls::{self, ListGates};
use super::{KubeletSettings, go_duration};
use crate::host::parse_boolean;
use plegctl_base::report::rename::{NameKind, Rename, RenameAs, ReplaceName};

/// The names of two sources in reports.
const COMMAND_LINE: &str = "the kubelet's command line";
const CONFIGURATION_FILE: &str = "the kubelet's configuration file";

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// A flag, a file, a metric or "the kubelet's default".
    pub source: String,
}

impl<T> Sourced<T> {
    /// Creates a value from `source`.
    pub fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

/// The kubelet settings that PLEG depends on. A setting is `None` if neither a flag nor a file sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Endpoint(endpoint), Word(cgroup_driver))]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// The timeout of one CRI call.
    pub request_timeout: Option<Sourced<Duration>>,
    /// The pause between two updates of the node's status.
    pub status_update_frequency: Option<Duration>,
    /// The runtime's endpoint.
    pub endpoint: Option<Sourced<String>>,
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: Option<String>,
    /// Whether `EventedPLEG` is enabled.
    pub evented: Option<bool>,
    /// The settings of `CRIListStreaming`.
    pub list_gates: ListGates,
    /// The log verbosity.
    pub verbosity: Option<u8>,
}

impl Config {
    /// Reads the settings; a flag overrides a file.
    pub fn from_settings(settings: &KubeletSettings) -> Self {
        Self {
            request_timeout: sourced(
                settings,
                "runtime-request-timeout",
                "runtimeRequestTimeout",
                go_duration,
            ),
            status_update_frequency: sourced(
                settings,
                "node-status-update-frequency",
                "nodeStatusUpdateFrequency",
                go_duration,
            )
            .map(|frequency| frequency.value),
            endpoint: sourced(
                settings,
                "container-runtime-endpoint",
                "containerRuntimeEndpoint",
                |endpoint| Some(endpoint.to_owned()),
            ),
            cgroup_driver: settings
                .flag("cgroup-driver")
                .or_else(|| settings.key("cgroupDriver"))
                .map(str::to_owned),
            evented: gate(settings, "EventedPLEG").map(|gate| gate.value),
            list_gates: ListGates {
                own: gate(settings, list_calls::GATE),
                all_alpha: gate(settings, "AllAlpha"),
                all_beta: gate(settings, "AllBeta"),
            },
            verbosity: sourced(settings, "v", "logging.verbosity", |value| value.parse().ok())
                .map(|verbosity| verbosity.value),
        }
    }

    /// Returns these settings; where one is missing, the setting of `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            request_timeout: self.request_timeout.or(below.request_timeout),
            status_update_frequency: self.status_update_frequency.or(below.status_update_frequency),
            endpoint: self.endpoint.or(below.endpoint),
            cgroup_driver: self.cgroup_driver.or(below.cgroup_driver),
            evented: self.evented.or(below.evented),
            list_gates: self.list_gates.over(below.list_gates),
            verbosity: self.verbosity.or(below.verbosity),
        }
    }

    /// Returns the sources of all settings, so that a caller can replace them.
    pub(super) fn sources(&mut self) -> impl Iterator<Item = &mut String> {
        let timeout = self.request_timeout.as_mut().map(|timeout| &mut timeout.source);
        let ListGates { own, all_alpha, all_beta } = &mut self.list_gates;
        let gates = [own, all_alpha, all_beta].into_iter().flatten().map(|gate| &mut gate.source);
        timeout.into_iter().chain(gates).chain(self.endpoint.as_mut().map(|endpoint| &mut endpoint.source))
    }
}

/// Returns the parsed value of a flag; if the flag is missing or invalid, the value of the configuration key.
fn sourced<T>(
    settings: &KubeletSettings,
    flag: &str,
    key: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<Sourced<T>> {
    let of_flag = || Some(Sourced::new(read(settings.flag(flag)?)?, COMMAND_LINE));
    let of_files = || Some(Sourced::new(read(settings.key(key)?)?, CONFIGURATION_FILE));
    of_flag().or_else(of_files)
}

/// Returns whether a feature gate is enabled, if it is set. If the flag is repeated, all of its gates apply, and the last
/// value of a gate wins.
fn gate(settings: &KubeletSettings, name: &str) -> Option<Sourced<bool>> {
    let gates = settings.all_values("feature-gates").into_iter().flat_map(|gates| gates.split(','));
    let mut values = gates.filter_map(|gate| gate.trim().strip_prefix(name)?.strip_prefix('='));
    let of_flag = values.next_back().and_then(parse_boolean).map(|value| Sourced::new(value, COMMAND_LINE));
    let key = format!("featureGates.{name}");
    let of_files = || Some(Sourced::new(settings.key(&key).and_then(parse_boolean)?, CONFIGURATION_FILE));
    of_flag.or_else(of_files)
}

impl<T: Rename> Rename for Sourced<T> {
    fn rename(&mut self, replace: ReplaceName<'_>) {
        self.value.rename(replace);
        self.source.rename_as(NameKind::Text, replace);
    }
}

/// The value and its source are texts; the value is of this kind.
impl RenameAs for Sourced<String> {
    fn rename_as(&mut self, kind: NameKind, replace: ReplaceName<'_>) {
        self.value.rename_as(kind, replace);
        self.source.rename_as(NameKind::Text, replace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(line: &str, file: &str) -> Config {
        Config::from_settings(&KubeletSettings::parse(line.split(' ').collect(), file.as_bytes()))
    }

    #[test]
    fn yaml_and_json_files_give_the_same_settings() {
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
    fn a_flag_overrides_the_file_and_the_last_of_repeated_flags_wins() {
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
    fn the_gate_of_streamed_lists_is_read_with_its_source_and_not_mistaken_for_a_longer_name() {
        let file = "featureGates: {CRIListStreaming: false}\n";
        let of_flag = config("kubelet --feature-gates=CRIListStreaming=true,CRIListStreamingX=false", file);
        assert_eq!(of_flag.list_gates.own.unwrap(), Sourced::new(true, "the kubelet's command line"));
        let of_file = config("kubelet", file).list_gates.own.unwrap();
        assert_eq!(of_file, Sourced::new(false, "the kubelet's configuration file"));
        assert_eq!(config("kubelet", "").list_gates, ListGates::default());
    }

    #[test]
    fn an_invalid_flag_does_not_override_the_file() {
        let config = config("kubelet --runtime-request-timeout=soon", "runtimeRequestTimeout: 4m0s\n");
        assert_eq!(config.request_timeout.unwrap().value, Duration::from_secs(240));
    }
}
