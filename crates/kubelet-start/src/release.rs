//! The kubelet whose start is predicted: its release, and whether it is `OpenShift`'s.

use super::tables::Known;
use plegctl_base::report::Confidence;
use plegctl_node::kubelet::KubeletVersion;

/// Who built the kubelet, as far as the node or the settings show this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builder {
    /// Not `OpenShift`.
    Upstream,
    /// `OpenShift`, whose kubelet only warns about unknown feature gates.
    OpenShift,
    /// Unknown, because settings are checked without a node.
    Unknown,
}

/// The kubelet whose start is predicted.
#[derive(Clone, Copy, Debug)]
pub struct TargetKubelet {
    /// The release whose rules are applied.
    pub release: KubeletVersion,
    /// Who built it.
    pub builder: Builder,
}

impl TargetKubelet {
    /// Returns an upstream kubelet of this release.
    #[cfg(test)]
    pub fn upstream(release: &str) -> Self {
        Self { release: KubeletVersion::parse(release).unwrap(), builder: Builder::Upstream }
    }

    /// Whether the kubelet may be `OpenShift`'s.
    pub fn may_be_openshift(self) -> bool {
        self.builder != Builder::Upstream
    }

    /// Whether the tables list every gate, flag and field of this release. The lists of releases that are not confirmed come
    /// partly from release notes, and the tables do not have releases after them.
    pub fn is_fully_known(self) -> bool {
        self.release.is_known() && self.release <= KubeletVersion::CONFIRMED
    }

    /// Returns how certain it is that the kubelet refuses a name that no release in the tables knows.
    pub fn confidence_in_unknown_names(self) -> Confidence {
        match self.builder {
            Builder::Upstream if self.is_fully_known() => Confidence::Certain,
            _ => Confidence::Likely,
        }
    }
}

/// Returns how certain it is that a release made a change, from what is known about it.
pub const fn confidence_in_change(known: Known) -> Confidence {
    match known {
        Known::Certainly => Confidence::Certain,
        Known::FromNotes => Confidence::Likely,
        Known::NotOfKubelet => Confidence::Possible,
    }
}

/// Returns a note if plegctl's tables do not have all feature gates and flags of this release.
pub fn unlisted_gates_and_flags(release: KubeletVersion) -> Option<plegctl_base::report::NotChecked> {
    let (oldest, newest) = (KubeletVersion::OLDEST, KubeletVersion::NEWEST);
    let why = if release < oldest {
        format!("plegctl knows releases from {oldest} on; the rules of that release were used")
    } else if release > newest {
        format!("plegctl knows releases up to {newest}; the rules of that release were used")
    } else if !release.has_known_uids() {
        "plegctl's list for it comes from a draft of its release notes, and no such kubelet was tested"
            .to_owned()
    } else if release > KubeletVersion::CONFIRMED {
        "plegctl's list for it comes partly from release notes and was not tested with such a kubelet"
            .to_owned()
    } else {
        return None;
    };
    let what = format!("gates and flags that only kubelet {release} has");
    Some(plegctl_base::report::NotChecked::new(what, why))
}
