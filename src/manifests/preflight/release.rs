//! The kubelet whose start is predicted: its release, and whether it is `OpenShift`'s.

use super::tables;
use crate::kubelet::KubeletVersion;
use crate::report::Confidence;

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

    /// Whether the tables list every gate, flag and field of this release. The list of the newest release comes partly from
    /// release notes, and the tables do not have releases after it.
    pub fn is_fully_known(self) -> bool {
        let minor = self.release.minor();
        tables::RELEASES.contains(&minor) && minor != tables::NEWEST
    }

    /// Returns how certain it is that the kubelet refuses a name that no release in the tables knows.
    pub fn confidence_in_unknown_names(self) -> Confidence {
        match self.builder {
            Builder::Upstream if self.is_fully_known() => Confidence::Certain,
            _ => Confidence::Likely,
        }
    }
}

/// Returns how certain it is that the release `minor` made a change. `is_in_code` means that the change was read in the code
/// and not only in release notes.
pub fn confidence_in_change(minor: u8, is_in_code: bool) -> Confidence {
    if minor >= tables::NEWEST && !is_in_code { Confidence::Likely } else { Confidence::Certain }
}

/// Returns a note if plegctl's tables do not have all feature gates and flags of this release.
#[cfg(feature = "cli")]
pub fn unlisted_gates_and_flags(release: KubeletVersion) -> Option<crate::report::NotChecked> {
    let minor = release.minor();
    let (oldest, newest) = (tables::RELEASES.start(), tables::NEWEST);
    let why = match minor {
        _ if minor < *oldest => {
            format!("plegctl knows releases from 1.{oldest} on; the rules of that release were used")
        }
        _ if minor > newest => {
            format!("plegctl knows releases up to 1.{newest}; the rules of that release were used")
        }
        _ if minor == newest => {
            "plegctl's list for it comes partly from release notes and was not tested with such a kubelet"
                .to_owned()
        }
        _ => return None,
    };
    Some(crate::report::NotChecked { what: format!("gates and flags that only kubelet {release} has"), why })
}
