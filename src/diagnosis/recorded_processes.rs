//! The processes of a node as a recorder sampled them: the runtime's daemons, the kubelet and the stopped shims. All others
//! are *not recorded*.

use std::time::Duration;

use super::proc::ProcSample;
use crate::clock::Wall;

/// The last samples before a moment of a capture.
#[derive(Clone, Debug)]
pub struct RecordedProcesses {
    /// When the last sample was taken.
    pub taken_at: Wall,
    /// The last sample. It is not complete.
    pub latest: ProcSample,
    /// An earlier sample, and the time between the two.
    pub earlier: Option<(Duration, ProcSample)>,
    /// Whether a kubelet ran on the node at some time, so that its absence is a problem.
    pub has_kubelet: bool,
}

impl RecordedProcesses {
    /// Returns the first of the two samples.
    pub(super) fn first(&self) -> ProcSample {
        self.earlier.as_ref().map_or(&self.latest, |(_, earlier)| earlier).clone()
    }

    /// Returns the second sample, and the time since the first one.
    pub(super) fn second(&self) -> Option<(Duration, ProcSample)> {
        self.earlier.as_ref().map(|(apart, _)| (*apart, self.latest.clone()))
    }
}
