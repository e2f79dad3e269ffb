//! Computes the UID that the kubelet gives a static pod: a hash of the printed Pod, the node and the path.
//!
//! Two pods with the same UID were made from the same content, by the same release, from the same path, for the same
//! node. The kubelet prints its internal types, so each release gives the same file a different UID.

mod convert;
mod hash;
mod print;

use std::path::Path;

use super::tree::ManifestNode;
use super::{Kubelet, KubeletVersion};

/// Why a UID cannot be computed from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UidUnknown {
    /// The file contains a time.
    #[error(
        "the file contains a time, and the kubelet hashes times with its node's time zone and daylight \
         saving time: remove creationTimestamp, managedFields and the times in the status"
    )]
    Time,
    /// The file is JSON with field ownership.
    #[error("the file has managedFields, whose JSON is hashed as it is written")]
    Raw,
    /// The release is not known. Each release prints a Pod in its own way, so that no other release has the same UIDs.
    #[error("kubelet {0} is not known, and each release computes UIDs in its own way")]
    Release(KubeletVersion),
    /// The path that the kubelet hashes is not known.
    #[error(
        "the path under which the kubelet reads the file is not known: give its directory there with --as"
    )]
    Path,
}

/// The first release that uses FNV instead of MD5.
const FNV: u8 = 35;

/// Returns the UID that `kubelet` gives a decoded Pod with defaults that it reads from the file `source`. `json` says
/// that the file is JSON.
pub fn uid(pod: &ManifestNode, kubelet: &Kubelet, source: &Path, json: bool) -> Result<String, UidUnknown> {
    hashed(pod, kubelet, ["file:".as_bytes(), source.as_os_str().as_encoded_bytes()], json)
}

/// Returns the UID of a Pod that the kubelet reads from `url`.
pub fn uid_from_url(
    pod: &ManifestNode,
    kubelet: &Kubelet,
    url: &str,
    json: bool,
) -> Result<String, UidUnknown> {
    hashed(pod, kubelet, ["url:".as_bytes(), url.as_bytes()], json)
}

fn hashed(
    pod: &ManifestNode,
    kubelet: &Kubelet,
    source: [&[u8]; 2],
    json: bool,
) -> Result<String, UidUnknown> {
    let given = pod.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(ManifestNode::as_str);
    if let Some(given) = given.filter(|uid| !uid.is_empty()) {
        return Ok(given.to_owned());
    }
    if !kubelet.release.is_known() {
        return Err(UidUnknown::Release(kubelet.release));
    }
    let minor = kubelet.version.minor();
    let mut text = print::print(&convert::internal(pod), minor, json)?;
    text.push_str("host:");
    text.push_str(&kubelet.node_name);
    let mut bytes = text.into_bytes();
    bytes.extend(source.concat());
    let hash = if minor >= FNV { hash::fnv1a_128(&bytes) } else { hash::md5(&bytes) };
    Ok(format!("{hash:032x}"))
}
