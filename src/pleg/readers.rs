//! How many readers the event stream of a runtime has room for.

use crate::cri::Version;

/// What a second reader of the event stream does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Each reader gets every event.
    Several,
    /// It takes events away from the first, or may; why that is believed.
    Compete(String),
    /// There is no stream to read; in words.
    NoStream(String),
}

/// What is known of the runtime that introduced itself so.
pub fn readers_of(version: &Version) -> Readers {
    let (name, text) = (version.runtime_name.as_str(), version.runtime_version.as_str());
    match (name, release(text)) {
        ("containerd", Some(release)) if release >= (2, 0) => Readers::Several,
        ("containerd", Some((1, 7))) => Readers::Compete(format!(
            "containerd {text} hands each event to one reader only, so a second reader steals the kubelet's events"
        )),
        ("containerd", Some(_)) => Readers::NoStream(format!(
            "containerd {text} has no event stream: GetContainerEvents came with containerd 1.7"
        )),
        ("cri-o", Some(release)) if release >= (1, 28) => Readers::Several,
        ("cri-o", Some(_)) => Readers::Compete(format!(
            "CRI-O {text} hands each event to one reader only, so a second reader steals the kubelet's events"
        )),
        _ => Readers::Compete(format!(
            "nothing is known about the event stream of `{name} {text}`: a second reader may steal the kubelet's events"
        )),
    }
}

/// Why this runtime tells no stream that a sandbox and its containers were removed, if it does not.
pub fn silent_about_removal(version: &Version) -> Option<&'static str> {
    (version.runtime_name == "cri-o").then_some("CRI-O sends no event for what RemovePodSandbox removes")
}

/// What it means that this runtime ends a stream in good order before the first event.
pub fn empty_stream(version: &Version) -> Option<&'static str> {
    (version.runtime_name == "cri-o").then_some(
        "CRI-O ended the stream at once and without an event: its pod events are off (enable_pod_events = false)",
    )
}

/// Major and minor of `v2.1.9+unknown`, `1.6.20~ds1`, `1.36.3`.
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
            Readers::Several => "several",
            Readers::Compete(_) => "compete",
            Readers::NoStream(_) => "none",
        }
    }

    #[test]
    fn each_runtime_is_known_for_what_it_is() {
        let cases = [
            ("containerd", "2.1.9+unknown", "several"),
            ("containerd", "v2.0.0-rc.1", "several"),
            ("containerd", "1.7.24~ds1", "compete"),
            ("containerd", "1.6.20~ds1", "none"),
            ("containerd", "", "compete"),
            ("cri-o", "1.36.3", "several"),
            ("cri-o", "1.28.0", "several"),
            ("cri-o", "1.27.8", "compete"),
            ("docker", "27.0", "compete"),
        ];
        for (name, version, expected) in cases {
            assert_eq!(readers(name, version), expected, "{name} {version}");
        }
    }
}
