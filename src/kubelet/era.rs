//! What differs between kubelet releases in how they relist, all of it.
//!
//! The engine asks an [`Era`] and never a version.

use std::fmt;

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

    /// What relists of every pod alone cannot show of what such a kubelet sees.
    pub const fn unseen(self) -> Option<&'static str> {
        match self {
            Self::A | Self::B => None,
            Self::C => Some(
                "a kubelet from 1.36 on also lists a pod right after it has done something to it; a watch does not, so that of \
                 what lived for less than a period the kubelet may have seen events that are not here",
            ),
        }
    }

    /// A pod holds its members newest first, and not in the order of the lists.
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
