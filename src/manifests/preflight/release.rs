//! The kubelet that is to start: its release and whether it may be `OpenShift`'s.

use super::tables;
use crate::kubelet::KubeletVersion;
use crate::report::Confidence;

/// Who built the kubelet, as far as the node or its settings show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builder {
    /// Not `OpenShift`.
    Upstream,
    /// `OpenShift`, whose kubelet only warns about unknown feature gates.
    OpenShift,
    /// Unknown: there are settings without a node.
    Unknown,
}

/// The kubelet that is to start.
#[derive(Clone, Copy, Debug)]
pub struct TargetKubelet {
    /// The release whose tables count.
    pub release: KubeletVersion,
    /// Who built it.
    pub builder: Builder,
}

impl TargetKubelet {
    /// Returns a kubelet of upstream, for tests.
    #[cfg(test)]
    pub fn upstream(release: &str) -> Self {
        Self { release: KubeletVersion::parse(release).unwrap(), builder: Builder::Upstream }
    }

    /// Whether the kubelet may be `OpenShift`'s.
    pub fn may_be_openshift(self) -> bool {
        self.builder != Builder::Upstream
    }

    /// Whether the tables list every name of this release. The list of the newest release comes partly from release
    /// notes, and releases outside of the tables are not listed at all.
    pub fn is_fully_known(self) -> bool {
        let minor = self.release.minor();
        tables::RELEASES.contains(&minor) && minor != tables::NEWEST
    }

    /// How certain it is that the kubelet refuses a name which no release knows.
    pub fn confidence_in_unknown_names(self) -> Confidence {
        match self.builder {
            Builder::Upstream if self.is_fully_known() => Confidence::Certain,
            _ => Confidence::Likely,
        }
    }
}

/// How certain a change is that the release `minor` made.
pub fn confidence_in_change(minor: u8, is_in_code: bool) -> Confidence {
    if minor >= tables::NEWEST && !is_in_code { Confidence::Likely } else { Confidence::Certain }
}
