//! Decides from the UID whether a running pod was made from the present text of a file, and by which kubelet release.

use serde::Serialize;

use crate::{FileReport, Kubelet, KubeletVersion};
use plegctl_node::kubelet::RELEASES;

/// Whether a running pod was made from a file's present text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "text", rename_all = "camelCase")]
pub enum MadeFromFile {
    /// The pod was made from this text, as far as the UID shows. The kubelet prints lists without quotes, so
    /// `["a", "b"]` and `["a b"]` give the same UID, and the kubelet does not notice such an edit itself.
    Same {
        /// The releases that give the file the UID of the running pod.
        #[serde(rename = "madeBy")]
        by: Vec<String>,
    },
    /// The pod was made from another text: no release gives the file this UID, but plegctl reproduced the UID of another
    /// pod on the node.
    Another,
    /// Not known: the file sets the UID, the UID depends on more than the file, or plegctl reproduced no UID on this node.
    Unknown,
}

/// Compares the UID of a running pod with the UIDs that the known releases give the file.
///
/// The answer [`MadeFromFile::Another`] is preliminary: it counts only if another UID of this node was reproduced.
pub fn compare_uid(file: &FileReport, running_uid: &str, kubelet: &Kubelet) -> MadeFromFile {
    if file.fixed_uid().is_some() {
        return MadeFromFile::Unknown;
    }
    let uid_by = |version: KubeletVersion| {
        let kubelet = kubelet.with_release(version);
        crate::pipeline::uid_by(file, &kubelet)
    };
    match uid_by(kubelet.release) {
        Some(Ok(uid)) if uid == running_uid => {
            return MadeFromFile::Same { by: vec![kubelet.version.to_string()] };
        }
        Some(Ok(_)) => {}
        Some(Err(_)) | None => return MadeFromFile::Unknown,
    }
    let by: Vec<String> = RELEASES
        .iter()
        .map(|release| KubeletVersion::nearest(release.minor))
        .filter(|version| uid_by(*version).is_some_and(|uid| uid.as_deref() == Ok(running_uid)))
        .map(|version| version.to_string())
        .collect();
    if by.is_empty() { MadeFromFile::Another } else { MadeFromFile::Same { by } }
}
