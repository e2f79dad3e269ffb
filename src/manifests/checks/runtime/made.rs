//! Decides by the UID whether a running pod was made from the present text of a file, and by which kubelet release.

use serde::Serialize;

use crate::kubelet::RELEASES;
use crate::manifests::{FileReport, Kubelet, KubeletVersion};

/// Whether a running pod was made from a file's present text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "text", rename_all = "camelCase")]
pub enum MadeFromFile {
    /// The pod was made from this text, as far as the UID shows. The kubelet prints lists without quotes, so
    /// `["a", "b"]` and `["a b"]` give the same UID, and the kubelet does not notice such an edit itself.
    Same {
        /// The releases that give the file the running UID.
        #[serde(rename = "madeBy")]
        by: Vec<String>,
    },
    /// The pod was made from another text: no release gives the file this UID, while other UIDs on the node were
    /// reproduced.
    Another,
    /// Not known: the UID is fixed, depends on more than the file, or no UID on this node was reproduced.
    Unknown,
}

/// Compares the running UID with the file, before it is known whether the UIDs of this node can be reproduced.
pub fn made(file: &FileReport, running: &str, kubelet: &Kubelet) -> MadeFromFile {
    if file.fixed_uid().is_some() {
        return MadeFromFile::Unknown;
    }
    let uid_by = |version: KubeletVersion| {
        let kubelet = kubelet.with_release(version);
        crate::manifests::pipeline::uid_by(file, &kubelet)
    };
    match uid_by(kubelet.release) {
        Some(Ok(uid)) if uid == running => {
            return MadeFromFile::Same { by: vec![kubelet.version.to_string()] };
        }
        Some(Ok(_)) => {}
        Some(Err(_)) | None => return MadeFromFile::Unknown,
    }
    let by: Vec<String> = RELEASES
        .iter()
        .map(|release| KubeletVersion::nearest(release.minor))
        .filter(|version| uid_by(*version).is_some_and(|uid| uid.as_deref() == Ok(running)))
        .map(|version| version.to_string())
        .collect();
    if by.is_empty() { MadeFromFile::Another } else { MadeFromFile::Same { by } }
}
