//! What differs between kubelet releases, all of it.
//!
//! The rest of the engine asks an [`Era`] and never a version.

use std::fmt;

use super::pods::MemberOrder;

/// Oldest minor release whose relist is known from its own code.
const OLDEST_MINOR: u16 = 28;
/// Newest minor release whose relist is known from its own code.
const NEWEST_MINOR: u16 = 36;

/// A text that is no kubelet version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no kubelet version: give it as 1.30 or v1.30.4")]
pub struct BadVersion {
    /// What was given.
    pub text: String,
}

/// The release of a kubelet, as far as PLEG cares: its minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeletVersion {
    minor: u16,
}

impl KubeletVersion {
    /// The newest release whose relist is known.
    pub const NEWEST: Self = Self { minor: NEWEST_MINOR };

    /// Reads `1.30`, `v1.30.4+rke2r1`, `v1.29.3-eks-…` and the like; what follows the minor does not count.
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

    /// The minor number: 30 for 1.30.
    pub const fn minor(self) -> u16 {
        self.minor
    }

    /// The algorithm of this release, or of the nearest one that is known.
    pub const fn era(self) -> Era {
        match self.minor {
            0..=31 => Era::A,
            32..=35 => Era::B,
            _ => Era::C,
        }
    }

    /// A word of warning where the release itself is not known and the nearest one stands in.
    pub fn note(self) -> Option<String> {
        let nearest = Self { minor: self.minor.clamp(OLDEST_MINOR, NEWEST_MINOR) };
        (nearest != self).then(|| {
            format!("kubelet {self} is not known; taking the relist of {nearest}, the nearest that is")
        })
    }
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

/// A generation of the relist algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// Up to 1.31: all pods are compared first; pods whose status failed are asked again at the end.
    A,
    /// 1.32 to 1.35: one loop, one fetch a pod and relist.
    B,
    /// From 1.36: the fetch uses the listed pod, on-demand relists, `PodSync` after a reinspection.
    C,
}

impl Era {
    /// Pods that failed in the previous relist are fetched in a second round, and those with pending events in both.
    pub const fn reinspects_in_a_second_round(self) -> bool {
        matches!(self, Self::A)
    }

    /// A pod that was only inspected again is announced as `PodSync`.
    pub const fn announces_reinspection(self) -> bool {
        matches!(self, Self::C)
    }

    /// A status fetch lists the pod again, filtered by its UID, instead of using the pass.
    pub const fn lists_again_for_status(self) -> bool {
        !matches!(self, Self::C)
    }

    /// A cached status is as old as the lists, not as the fetch.
    pub const fn stamps_status_with_list_time(self) -> bool {
        matches!(self, Self::C)
    }

    /// Single pods are relisted on request.
    pub const fn relists_on_demand(self) -> bool {
        matches!(self, Self::C)
    }

    /// In which order a pod holds its members.
    pub const fn member_order(self) -> MemberOrder {
        match self {
            Self::A | Self::B => MemberOrder::AsListed,
            Self::C => MemberOrder::NewestFirst,
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "up to 1.31",
            Self::B => "1.32 to 1.35",
            Self::C => "1.36 on",
        })
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
        let eras = [("1.28", Era::A), ("1.31", Era::A), ("1.32", Era::B), ("1.35", Era::B), ("1.36", Era::C)];
        for (text, era) in eras {
            assert_eq!((version(text).era(), version(text).note()), (era, None), "{text}");
        }
    }

    #[test]
    fn a_release_out_of_range_takes_the_nearest_and_says_so() {
        assert_eq!(version("1.20").era(), Era::A);
        assert!(version("1.20").note().unwrap().contains("1.28"));
        assert_eq!(version("1.40").era(), Era::C);
        assert!(version("1.40").note().unwrap().contains("1.36"));
    }
}
