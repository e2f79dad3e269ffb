//! Whether what runs was made from a file as it is, as far as a UID tells, and by which release of the kubelet.

use serde::Serialize;

use crate::kubelet::RELEASES;
use crate::manifests::{FileReport, Kubelet, KubeletVersion};

/// What can be said of the text that a pod was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "text", rename_all = "camelCase")]
pub enum Made {
    /// It is that of the file, as far as the kubelet tells texts apart: it prints lists without quotes, so that
    /// `["a", "b"]` and `["a b"]` have one UID, and does not see such an edit itself.
    Same {
        /// The releases that give it the UID that runs.
        #[serde(rename = "madeBy")]
        by: Vec<String>,
    },
    /// It is not that of the file: no release gives the file this UID, while others on the node are explained.
    Another,
    /// The UID says nothing: it is fixed, or depends on more than the file, or nothing on this node is explained.
    Unknown,
}

/// What the UID that runs says of the file, before it is known whether the UIDs of this node are understood.
pub fn made(file: &FileReport, running: &str, kubelet: &Kubelet) -> Made {
    if file.fixed_uid().is_some() {
        return Made::Unknown;
    }
    let uid_by = |version: KubeletVersion| {
        let kubelet = Kubelet { version, ..kubelet.clone() };
        crate::manifests::pipeline::uid_by(file, &kubelet)
    };
    match uid_by(kubelet.version) {
        Some(Ok(uid)) if uid == running => return Made::Same { by: vec![kubelet.version.to_string()] },
        Some(Ok(_)) => {}
        Some(Err(_)) | None => return Made::Unknown,
    }
    let by: Vec<String> = RELEASES
        .iter()
        .map(|release| KubeletVersion::nearest(release.minor))
        .filter(|version| uid_by(*version).is_some_and(|uid| uid.as_deref() == Ok(running)))
        .map(|version| version.to_string())
        .collect();
    if by.is_empty() { Made::Another } else { Made::Same { by } }
}
