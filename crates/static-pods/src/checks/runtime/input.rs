//! [`CompareInput`]: what the comparison of manifest files with running pods needs to know about the kubelet and the
//! time.

use crate::Kubelet;
use plegctl_base::clock::Wall;

/// What the comparison knows about the kubelet, the files and the time.
#[derive(Clone, Copy, Debug)]
pub struct CompareInput<'a> {
    /// The kubelet whose pods are compared.
    pub kubelet: &'a Kubelet,
    /// Whether the user gave the kubelet release; if not, the newest one is assumed.
    pub version_given: bool,
    /// Whether the files are all files that the kubelet reads. Only then is a running pod without a file reported.
    pub whole_directory: bool,
    /// The current time.
    pub now: Wall,
}
