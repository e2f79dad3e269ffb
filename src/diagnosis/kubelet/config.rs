//! What the kubelet was told: the few settings that matter here, from its configuration file and its command line.

use std::time::Duration;

use crate::diagnosis::evidence::Sourced;
use crate::diagnosis::proc::Process;
use crate::host::scalars;

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
    pub fn read_flags(&mut self, kubelet: &Process) {
        let source = "the kubelet's command line";
        if let Some(timeout) = kubelet.flag("runtime-request-timeout").and_then(go_duration) {
            self.request_timeout = Some(Sourced::new(timeout, source));
        }
        if let Some(endpoint) = kubelet.flag("container-runtime-endpoint") {
            self.endpoint = Some(Sourced::new(endpoint.to_owned(), source));
        }
        self.cgroup_driver = kubelet.flag("cgroup-driver").map(str::to_owned).or(self.cgroup_driver.take());
        let gates = kubelet.flag("feature-gates").unwrap_or_default();
        let evented = gates.split(',').find_map(|gate| gate.trim().strip_prefix("EventedPLEG="));
        self.evented = evented.and_then(truth).or(self.evented);
        self.verbosity = kubelet.flag("v").and_then(|value| value.parse().ok()).or(self.verbosity);
    }
}

fn truth(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// A duration as Go writes and reads it: `2m0s`, `1.5h`, `90s`. Zero is Go's "use the default".
pub fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at_checked(unit_at)?;
        let unit_end =
            after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    Duration::try_from_secs_f64(total).ok().filter(|found| !found.is_zero())
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
        let kubelet = Process {
            command: ["kubelet", "--runtime-request-timeout=10m", "--feature-gates=A=true,EventedPLEG=true"]
                .map(str::to_owned)
                .to_vec(),
            ..Process::default()
        };
        config.read_flags(&kubelet);
        assert_eq!(config.request_timeout.unwrap().value, Duration::from_secs(600));
        assert_eq!(config.evented, Some(true));
    }

    #[test]
    fn go_durations() {
        assert_eq!(go_duration("2m0s"), Some(Duration::from_secs(120)));
        assert_eq!(go_duration("1.5h"), Some(Duration::from_secs(5400)));
        assert_eq!(go_duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(go_duration("0s"), None);
        assert_eq!(go_duration("soon"), None);
        assert_eq!(go_duration("5"), None);
    }
}
