//! Determines from a runtime's name and version whether its event stream can have several readers, and which events are
//! missing in it.

use crate::cri::{Version, program_of};

/// The effect of a second reader on the event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamReaders {
    /// Each reader receives every event.
    Several,
    /// Each event goes to only one reader, or may do so, for this reason.
    Compete(String),
    /// The runtime has no event stream, for this reason.
    NoStream(String),
}

/// Returns the effect of a second reader on the event stream of this runtime.
pub fn readers_of(version: &Version) -> StreamReaders {
    let (name, text) = (version.runtime_name.as_str(), version.runtime_version.as_str());
    match (program_of(name), release(text)) {
        ("containerd", Some(release)) if release >= (2, 0) => StreamReaders::Several,
        ("containerd", Some((1, 7))) => StreamReaders::Compete(format!(
            "containerd {text} sends each event to only one reader, so a second reader steals events from the kubelet"
        )),
        ("containerd", Some(_)) => StreamReaders::NoStream(format!(
            "containerd {text} has no event stream: GetContainerEvents came with containerd 1.7"
        )),
        ("cri-o", Some(release)) if release >= (1, 28) => StreamReaders::Several,
        ("cri-o", Some(_)) => StreamReaders::Compete(format!(
            "CRI-O {text} sends each event to only one reader, so a second reader steals events from the kubelet"
        )),
        _ => StreamReaders::Compete(format!(
            "nothing is known about the event stream of `{name} {text}`: a second reader may steal events from the kubelet"
        )),
    }
}

/// Returns why this runtime sends no event for a removed sandbox and its containers; `None` if it sends one.
pub fn no_removal_events(version: &Version) -> Option<&'static str> {
    (version.runtime_name == "cri-o")
        .then_some("CRI-O sends no events for a sandbox and containers that RemovePodSandbox removes")
}

/// Returns why this runtime ends a stream without an error before the first event; `None` if the reason is not known.
pub fn reason_of_empty_stream(version: &Version) -> Option<&'static str> {
    (version.runtime_name == "cri-o").then_some(
        "CRI-O ended the stream at once and without an event: its pod events are off (enable_pod_events = false)",
    )
}

/// Returns the major and minor numbers of a version, for example of `v2.1.9+unknown`, `1.6.20~ds1` or `1.36.3`.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers(name: &str, version: &str) -> &'static str {
        let version = Version {
            version: "0.1.0".into(),
            runtime_name: name.into(),
            runtime_version: version.into(),
            runtime_api_version: "v1".into(),
        };
        match readers_of(&version) {
            StreamReaders::Several => "several",
            StreamReaders::Compete(_) => "compete",
            StreamReaders::NoStream(_) => "none",
        }
    }

    #[test]
    fn each_runtime_release_has_the_right_effect_of_a_second_reader() {
        let cases = [
            ("containerd", "2.1.9+unknown", "several"),
            ("containerd", "v2.0.0-rc.1", "several"),
            ("containerd", "2.4.0", "several"),
            ("containerd", "1.7.24~ds1", "compete"),
            ("moby-containerd", "1.7.32-1", "compete"),
            ("moby-containerd", "2.3.5", "several"),
            ("containerd", "1.6.20~ds1", "none"),
            ("containerd", "", "compete"),
            ("cri-o", "1.36.3", "several"),
            ("cri-o", "1.37.0", "several"),
            ("cri-o", "1.28.0", "several"),
            ("cri-o", "1.27.8", "compete"),
            ("docker", "27.0", "compete"),
        ];
        for (name, version, expected) in cases {
            assert_eq!(readers(name, version), expected, "{name} {version}");
        }
    }
}
