//! Reads the document `/configz`, in which a running kubelet reports its settings.

use serde::Deserialize;
use serde_json::Value;

use super::{Config, KubeletSettings};
use crate::host::Arguments;

/// The name of this source in reports.
pub const SOURCE: &str = "the kubelet's configz";

/// The settings with which a kubelet runs. They include its flags and its defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configz {
    /// The settings that plegctl uses.
    pub config: Config,
}

#[derive(Deserialize)]
struct ConfigzDocument {
    kubeletconfig: Value,
}

impl Configz {
    /// Parses the document; `None` if it is not a configz document.
    pub fn parse(text: &str) -> Option<Self> {
        let document: ConfigzDocument = serde_json::from_str(text).ok()?;
        // `kubeletconfig` has the format of the configuration file.
        let settings =
            KubeletSettings::parse(Arguments::default(), document.kubeletconfig.to_string().as_bytes());
        let mut config = Config::from_settings(&settings);
        for source in config.sources() {
            SOURCE.clone_into(source);
        }
        Some(Self { config })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn configz_is_read_like_a_file_and_is_named_as_the_source() {
        let text = r#"{"kubeletconfig":{"runtimeRequestTimeout":"4m0s","featureGates":{"EventedPLEG":true},
            "containerRuntimeEndpoint":"unix:///run/containerd/containerd.sock"}}"#;
        let config = Configz::parse(text).unwrap().config;
        let timeout = config.request_timeout.unwrap();
        assert_eq!((timeout.value, timeout.source.as_str()), (Duration::from_secs(240), SOURCE));
        assert_eq!(config.evented, Some(true));
        assert_eq!(config.endpoint.unwrap().source, SOURCE);
        assert_eq!(Configz::parse("<html>"), None);
        assert_eq!(Configz::parse("{}"), None);
    }
}
