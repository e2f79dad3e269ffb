//! The differences between kubelet releases in how they relist.
//!
//! The engine checks an [`Era`] and never a version.

use std::fmt;

/// A range of releases that relist in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// Up to 1.31: a relist first compares all pods; pods whose status call failed get a second call at the end.
    A,
    /// 1.32 to 1.35: one loop, and one status fetch for each pod and relist.
    B,
    /// From 1.36: the status fetch uses the listed pod, single pods are relisted on demand, and a reinspected pod
    /// emits `PodSync`.
    C,
}

impl Era {
    /// Whether pods whose status fetch failed in the previous relist are fetched in a second round, and pods with
    /// pending events in both rounds.
    pub const fn reinspects_in_a_second_round(self) -> bool {
        matches!(self, Self::A)
    }

    /// Whether a pod that was only inspected again emits `PodSync`.
    pub const fn announces_reinspection(self) -> bool {
        matches!(self, Self::C)
    }

    /// Whether a status fetch lists the pod again by its UID, instead of using the relist's lists.
    pub const fn lists_again_for_status(self) -> bool {
        !matches!(self, Self::C)
    }

    /// Whether a cached status gets the time of the lists, not of the fetch.
    pub const fn stamps_status_with_list_time(self) -> bool {
        matches!(self, Self::C)
    }

    /// Whether single pods are relisted on demand.
    pub const fn relists_on_demand(self) -> bool {
        matches!(self, Self::C)
    }

    /// What this kubelet can see that relists of all pods cannot show.
    pub const fn unseen(self) -> Option<&'static str> {
        match self {
            Self::A | Self::B => None,
            Self::C => Some(
                "a kubelet from 1.36 on also lists a pod right after it has acted on that pod. A watch does \
                 not, so the kubelet may have seen events of short-lived containers that are missing here",
            ),
        }
    }

    /// Whether a pod keeps its members newest first, instead of in the order of the lists.
    pub const fn holds_members_newest_first(self) -> bool {
        matches!(self, Self::C)
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
