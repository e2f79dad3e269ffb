//! Which kubelet: the minor release decides which fields exist, which gates are open and which rules apply.

/// The minor release of the kubelet, between [`KubeletVersion::OLDEST`] and [`KubeletVersion::NEWEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubeletVersion(u8);

impl KubeletVersion {
    /// The oldest release whose rules are known here: 1.28.
    pub const OLDEST: Self = Self(28);
    /// The newest release whose rules are known here: 1.36.
    pub const NEWEST: Self = Self(36);

    /// The release `1.minor`, or the nearest one whose rules are known.
    pub fn nearest(minor: u8) -> Self {
        Self(minor.clamp(Self::OLDEST.0, Self::NEWEST.0))
    }

    /// The minor number: 36 for 1.36.
    pub const fn minor(self) -> u8 {
        self.0
    }

    /// True from release `1.minor` on.
    pub const fn at_least(self, minor: u8) -> bool {
        self.0 >= minor
    }
}
