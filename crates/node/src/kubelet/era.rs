//! [`Era`]: the three ways in which kubelet releases relist. The code that relists decides by the era and
//! never compares versions.

use std::fmt;

/// A range of releases that relist in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// Up to 1.31: a relist has two rounds. The first round fetches the status of the pods that changed, and the
    /// second round fetches again the status of the pods whose fetch failed in the previous relist.
    TwoRounds,
    /// 1.32 to 1.35: a relist has one round, which fetches the status of each of these pods once.
    OneRound,
    /// From 1.36 on: as [`Self::OneRound`], but the status fetch uses the pod from the relist's lists, the kubelet
    /// can also relist a single pod on demand, and a pod that is inspected again emits `PodSync`.
    OnDemand,
}

impl Era {
    /// Whether a relist ends with a second round for the pods whose status fetch failed in the previous relist. A pod
    /// that has new events too is then fetched in both rounds.
    pub const fn reinspects_in_a_second_round(self) -> bool {
        matches!(self, Self::TwoRounds)
    }

    /// Whether a pod that is inspected again without a new event emits `PodSync`.
    pub const fn announces_reinspection(self) -> bool {
        matches!(self, Self::OnDemand)
    }

    /// Whether a status fetch lists the pod again by its UID, instead of using the relist's lists.
    pub const fn lists_again_for_status(self) -> bool {
        !matches!(self, Self::OnDemand)
    }

    /// Whether the time of a cached status is the time of the list calls instead of the time of its fetch.
    pub const fn stamps_status_with_list_time(self) -> bool {
        matches!(self, Self::OnDemand)
    }

    /// Returns the warning about what a kubelet of this era sees and a relist of all pods cannot show.
    pub const fn unseen(self) -> Option<&'static str> {
        match self {
            Self::TwoRounds | Self::OneRound => None,
            Self::OnDemand => Some(
                "a kubelet from 1.36 on also lists a pod right after it has acted on that pod. A watch \
                 does not, so it may miss events of short-lived containers that the kubelet saw",
            ),
        }
    }

    /// Whether a pod's sandboxes and containers are sorted newest first, instead of in the order of the lists.
    pub const fn holds_members_newest_first(self) -> bool {
        matches!(self, Self::OnDemand)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoRounds => "up to 1.31",
            Self::OneRound => "1.32 to 1.35",
            Self::OnDemand => "1.36 on",
        })
    }
}
