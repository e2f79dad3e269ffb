//! The kubelet releases that plegctl knows, with their dates and eras.

use std::fmt;

use super::Era;

/// One minor release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// 30 for 1.30.
    pub minor: u8,
    /// The date of its `.0` release.
    pub released: &'static str,
    /// How this release relists.
    pub era: Era,
    /// Which part of the knowledge about this release is confirmed and which is inferred, if no kubelet of this
    /// release has judged the recordings.
    pub inferred: Option<&'static str>,
}

const fn release(minor: u8, released: &'static str, era: Era) -> Release {
    Release { minor, released, era, inferred: None }
}

/// The releases whose relist and manifest rules plegctl knows, oldest first. Everything that
/// differs between releases is known for these and no others: see `docs/adding-a-kubelet-release.md`.
pub const RELEASES: [Release; 10] = [
    release(28, "2023-08-15", Era::A),
    release(29, "2023-12-13", Era::A),
    release(30, "2024-04-17", Era::A),
    release(31, "2024-08-13", Era::A),
    release(32, "2024-12-11", Era::B),
    release(33, "2025-04-23", Era::B),
    release(34, "2025-08-27", Era::B),
    release(35, "2025-12-17", Era::B),
    release(36, "2026-04-22", Era::C),
    Release {
        inferred: Some(
            "two UIDs that kubelets 1.37.0 logged confirm how 1.37 prints PodSpec, PodStatus, PodSecurityContext, \
             Container, VolumeSource, VolumeMount and HTTPGetAction; everything else about 1.37 is inferred from its \
             published modules and release notes",
        ),
        ..release(37, "2026-08-26", Era::C)
    },
];

/// The text is not a kubelet version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a kubelet version: give it as 1.30 or v1.30.4")]
pub struct BadVersion {
    /// The text.
    pub text: String,
}

/// The minor release of a kubelet, which decides how it relists, which fields exist and which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubeletVersion {
    minor: u8,
}

impl KubeletVersion {
    /// The oldest known release.
    pub const OLDEST: Self = match RELEASES.first() {
        Some(oldest) => Self { minor: oldest.minor },
        None => Self { minor: 0 },
    };
    /// The newest known release.
    pub const NEWEST: Self = match RELEASES.last() {
        Some(newest) => Self { minor: newest.minor },
        None => Self { minor: 0 },
    };

    /// The newest release that a kubelet's recordings confirm. plegctl assumes it where nothing names the release.
    pub const CONFIRMED: Self = Self::newest_confirmed(&RELEASES);

    const fn newest_confirmed(releases: &[Release]) -> Self {
        match releases {
            [] => Self::NEWEST,
            [.., last] if last.inferred.is_none() => Self { minor: last.minor },
            [earlier @ .., _] => Self::newest_confirmed(earlier),
        }
    }

    /// Parses `1.30`, `v1.30.4+rke2r1`, `v1.29.3-eks-…` and the like; everything after the minor number is ignored.
    pub fn parse(text: &str) -> Result<Self, BadVersion> {
        let bad = || BadVersion { text: text.to_owned() };
        let rest = text.trim();
        let rest = rest.strip_prefix('v').unwrap_or(rest);
        let rest = rest.strip_prefix("1.").ok_or_else(bad)?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (minor, tail) = rest.split_at(end);
        if !tail.is_empty() && !tail.starts_with(['.', '+', '-']) {
            return Err(bad());
        }
        minor.parse().map(|minor| Self { minor }).map_err(|_| bad())
    }

    /// The known release that is nearest to `1.minor`.
    pub fn nearest(minor: u8) -> Self {
        Self { minor }.known()
    }

    /// This release if it is known, otherwise the nearest known release.
    #[must_use]
    pub fn known(self) -> Self {
        self.clamp(Self::OLDEST, Self::NEWEST)
    }

    /// Whether plegctl knows this release.
    pub fn is_known(self) -> bool {
        self.known() == self
    }

    /// Which part of the knowledge about this release, or about the nearest known one, is confirmed and which is
    /// inferred; `None` if a kubelet of the release has judged the recordings.
    pub fn inferred(self) -> Option<&'static str> {
        RELEASES.iter().find(|release| release.minor == self.known().minor)?.inferred
    }

    /// The minor number: 30 for 1.30.
    pub const fn minor(self) -> u8 {
        self.minor
    }

    /// Whether this is release `1.minor` or later.
    pub const fn at_least(self, minor: u8) -> bool {
        self.minor >= minor
    }

    /// Whether `EventedPLEG` only speeds up relists: a stop event makes the kubelet list that pod, and full relists
    /// still run every second. This is so from 1.37 on according to the kubelet's code; no such kubelet was recorded.
    pub const fn evented_is_a_hint(self) -> bool {
        self.at_least(37)
    }

    /// The era of this release, or of the nearest known release.
    pub fn era(self) -> Era {
        let known = RELEASES.iter().find(|release| release.minor == self.known().minor);
        known.map_or(Era::C, |release| release.era)
    }

    /// A warning if the release is not known and the nearest known one is used.
    pub fn note(self) -> Option<String> {
        let nearest = self.known();
        let newer = if self > nearest { "; a newer plegctl may know it" } else { "" };
        (nearest != self).then(|| {
            format!(
                "kubelet {self} is not known; using the relist of {nearest}, the nearest known release{newer}"
            )
        })
    }
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KubeletVersion {
        KubeletVersion::parse(text).unwrap()
    }

    #[test]
    fn the_minor_counts_and_the_rest_does_not() {
        for text in ["1.30", "v1.30", "v1.30.4+rke2r1", "v1.30.3-eks-036c24b", " 1.30.0-rc.1 "] {
            assert_eq!(version(text).to_string(), "1.30", "{text}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "1", "1.", "v2.30", "1.x", "1.30x", "1.99999999", "kubelet"] {
            assert!(KubeletVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn eras_change_at_32_and_36() {
        let eras = [
            ("1.28", Era::A),
            ("1.31", Era::A),
            ("1.32", Era::B),
            ("1.35", Era::B),
            ("1.36", Era::C),
            ("1.37", Era::C),
        ];
        for (text, era) in eras {
            assert_eq!((version(text).era(), version(text).note()), (era, None), "{text}");
        }
    }

    #[test]
    fn the_event_stream_is_a_hint_from_37_on() {
        assert_eq!(
            ["1.28", "1.36", "1.37", "1.40"].map(|text| version(text).evented_is_a_hint()),
            [false, false, true, true]
        );
    }

    #[test]
    fn only_a_release_without_recordings_is_inferred() {
        assert_eq!(version("1.36").inferred(), None);
        assert!(version("1.37").inferred().unwrap().contains("two UIDs"));
        assert_eq!(KubeletVersion::CONFIRMED.to_string(), "1.36");
        assert_eq!([36, 37, 38].map(|minor| KubeletVersion { minor }.is_known()), [true, true, false]);
    }

    #[test]
    fn a_release_out_of_range_takes_the_nearest_and_says_so() {
        assert_eq!(version("1.20").era(), Era::A);
        assert!(version("1.20").note().unwrap().contains("1.28"));
        assert_eq!(version("1.40").era(), Era::C);
        let newer = version("1.40").note().unwrap();
        assert!(newer.contains("1.37") && newer.ends_with("a newer plegctl may know it"), "{newer}");
    }
}
