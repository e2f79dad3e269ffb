//! The kubelet releases that plegctl knows, with their dates and eras, and [`KubeletVersion`], which selects one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Era;

/// One minor release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// 30 for 1.30.
    pub minor: u8,
    /// The date of release `1.MINOR.0`; the planned date if there is no such release yet.
    pub released: &'static str,
    /// How this release relists.
    pub era: Era,
    /// Which part of plegctl's knowledge about this release is confirmed and which is inferred; `None` if recordings
    /// of a kubelet of this release confirm everything.
    pub inferred: Option<&'static str>,
    /// Whether the UIDs are known that a kubelet of this release gives static pods.
    pub has_uids: bool,
}

const fn release(minor: u8, released: &'static str, era: Era) -> Release {
    Release { minor, released, era, inferred: None, has_uids: true }
}

/// The releases whose relist and manifest rules plegctl knows, oldest first. To add one, see
/// `docs/adding-a-kubelet-release.md`.
pub const RELEASES: [Release; 11] = [
    release(28, "2023-08-15", Era::TwoRounds),
    release(29, "2023-12-13", Era::TwoRounds),
    release(30, "2024-04-17", Era::TwoRounds),
    release(31, "2024-08-13", Era::TwoRounds),
    release(32, "2024-12-11", Era::OneRound),
    release(33, "2025-04-23", Era::OneRound),
    release(34, "2025-08-27", Era::OneRound),
    release(35, "2025-12-17", Era::OneRound),
    release(36, "2026-04-22", Era::OnDemand),
    Release {
        inferred: Some(
            "two UIDs that kubelets 1.37.0 logged confirm how 1.37 prints PodSpec, PodStatus, PodSecurityContext, \
             Container, VolumeSource, VolumeMount and HTTPGetAction; everything else about 1.37 is inferred from its \
             published modules and release notes",
        ),
        ..release(37, "2026-08-26", Era::OnDemand)
    },
    Release {
        inferred: Some(
            "1.38.0 is planned for 2026-12-16, and no kubelet 1.38 was recorded: its relist is that of 1.37, its gates, \
             fields and checks are inferred from a draft of its release notes, and the UIDs of its static pods are not \
             known",
        ),
        has_uids: false,
        ..release(38, "2026-12-16", Era::OnDemand)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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

    /// The newest release of which the UIDs of static pods are known.
    pub const NEWEST_WITH_UIDS: Self = Self::newest_with_uids(&RELEASES);

    const fn newest_with_uids(releases: &[Release]) -> Self {
        match releases {
            [] => Self::NEWEST,
            [.., last] if last.has_uids => Self { minor: last.minor },
            [earlier @ .., _] => Self::newest_with_uids(earlier),
        }
    }

    /// The newest release whose rules are confirmed by recordings of a kubelet. plegctl assumes this release if the
    /// running kubelet's release is not known.
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

    /// Returns the known release that is nearest to `1.minor`.
    pub fn nearest(minor: u8) -> Self {
        Self { minor }.known()
    }

    /// Returns this release if it is known, otherwise the nearest known release.
    #[must_use]
    pub fn known(self) -> Self {
        self.clamp(Self::OLDEST, Self::NEWEST)
    }

    /// Whether plegctl knows this release.
    pub fn is_known(self) -> bool {
        self.known() == self
    }

    /// Whether plegctl knows which UIDs a kubelet of this release gives static pods.
    pub fn has_known_uids(self) -> bool {
        RELEASES.iter().any(|release| release.minor == self.minor && release.has_uids)
    }

    /// Returns which part of plegctl's knowledge about this release, or about the nearest known release, is inferred;
    /// `None` if recordings of a kubelet confirm everything.
    pub fn inferred(self) -> Option<&'static str> {
        RELEASES.iter().find(|release| release.minor == self.known().minor)?.inferred
    }

    /// Returns the minor number: 30 for 1.30.
    pub const fn minor(self) -> u8 {
        self.minor
    }

    /// Whether this is release `1.minor` or later.
    pub const fn at_least(self, minor: u8) -> bool {
        self.minor >= minor
    }

    /// Whether `EventedPLEG` is only a hint: an event about a stopped container makes the kubelet relist that pod at
    /// once, and full relists still run every second. This holds from 1.37 on according to the kubelet's code; there
    /// is no recording of such a kubelet.
    pub const fn evented_is_a_hint(self) -> bool {
        self.at_least(37)
    }

    /// Returns the era of this release, or of the nearest known release.
    pub fn era(self) -> Era {
        let known = RELEASES.iter().find(|release| release.minor == self.known().minor);
        known.map_or(Era::OnDemand, |release| release.era)
    }

    /// Returns a warning if this release is not known, so that the nearest known release is used.
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
    fn only_the_minor_number_of_a_version_matters() {
        for text in ["1.30", "v1.30", "v1.30.4+rke2r1", "v1.30.3-eks-036c24b", " 1.30.0-rc.1 "] {
            assert_eq!(version(text).to_string(), "1.30", "{text}");
        }
    }

    #[test]
    fn text_that_is_no_kubelet_version_is_refused() {
        for text in ["", "1", "1.", "v2.30", "1.x", "1.30x", "1.99999999", "kubelet"] {
            assert!(KubeletVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn eras_change_at_32_and_36() {
        let eras = [
            ("1.28", Era::TwoRounds),
            ("1.31", Era::TwoRounds),
            ("1.32", Era::OneRound),
            ("1.35", Era::OneRound),
            ("1.36", Era::OnDemand),
            ("1.37", Era::OnDemand),
            ("1.38", Era::OnDemand),
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
        assert_eq!([37, 38, 39].map(|minor| KubeletVersion { minor }.is_known()), [true, true, false]);
    }

    #[test]
    fn the_uids_of_a_release_are_known_only_if_a_kubelet_gave_some() {
        let known = [27, 28, 37, 38, 39].map(|minor| KubeletVersion { minor }.has_known_uids());
        assert_eq!(known, [false, true, true, false, false]);
        assert_eq!(KubeletVersion::NEWEST_WITH_UIDS.to_string(), "1.37");
        assert!(version("1.38").inferred().unwrap().contains("the UIDs of its static pods are not known"));
    }

    #[test]
    fn an_unknown_release_has_the_era_of_the_nearest_known_release_and_a_warning() {
        assert_eq!(version("1.20").era(), Era::TwoRounds);
        assert!(version("1.20").note().unwrap().contains("1.28"));
        assert_eq!(version("1.40").era(), Era::OnDemand);
        let newer = version("1.40").note().unwrap();
        assert!(newer.contains("1.38") && newer.ends_with("a newer plegctl may know it"), "{newer}");
    }
}
