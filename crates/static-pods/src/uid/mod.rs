//! Computes the UID that the kubelet gives a static pod: a hash of the Pod as text, the node's name and the file's
//! path.
//!
//! The text is the printed form of the kubelet's internal types (`convert`, `print`), so each release gives the same
//! file a different UID. Two pods have the same UID only if the same release made them from the same content and the
//! same path on the same node.

mod convert;
mod hash;
mod print;

use std::path::Path;

use super::{Kubelet, KubeletVersion};
use plegctl_api_values::tree::ManifestNode;

/// Why a UID cannot be computed from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UidUnknown {
    /// The file contains a time.
    #[error(
        "the file contains a time, and the kubelet hashes times with its node's time zone and daylight \
         saving time: remove creationTimestamp, managedFields and the times in the status"
    )]
    Time,
    /// The file is JSON, and its `managedFields` contain `fieldsV1`. The kubelet hashes the bytes of `fieldsV1` as they
    /// are in the file, and plegctl does not keep these bytes.
    #[error("the file has managedFields, whose JSON the kubelet hashes as it is written")]
    JsonManagedFields,
    /// The UIDs of the release are not known. Each release prints a Pod in its own way, so that no other release has the
    /// same UIDs.
    #[error("no UID that a kubelet {0} gave is known, and each release computes UIDs in its own way")]
    Release(KubeletVersion),
    /// The path that the kubelet hashes is not known.
    #[error(
        "the path under which the kubelet reads the file is not known: give its directory there with --as"
    )]
    Path,
}

/// The first minor release that uses FNV instead of MD5.
const FNV_SINCE: u8 = 35;

/// Returns the UID that `kubelet` gives the Pod in the file `source`. `pod` is the decoded Pod with its default values.
/// `json` means that the file is JSON.
pub fn uid(pod: &ManifestNode, kubelet: &Kubelet, source: &Path, json: bool) -> Result<String, UidUnknown> {
    fixed_or_hashed(pod, kubelet, ["file:".as_bytes(), source.as_os_str().as_encoded_bytes()], json)
}

/// Returns the UID that `kubelet` gives a Pod from `url`.
pub fn uid_from_url(
    pod: &ManifestNode,
    kubelet: &Kubelet,
    url: &str,
    json: bool,
) -> Result<String, UidUnknown> {
    fixed_or_hashed(pod, kubelet, ["url:".as_bytes(), url.as_bytes()], json)
}

/// Returns the UID in the Pod's metadata if there is one, otherwise the hash.
fn fixed_or_hashed(
    pod: &ManifestNode,
    kubelet: &Kubelet,
    source: [&[u8]; 2],
    json: bool,
) -> Result<String, UidUnknown> {
    let fixed = pod.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(ManifestNode::as_str);
    if let Some(fixed) = fixed.filter(|uid| !uid.is_empty()) {
        return Ok(fixed.to_owned());
    }
    if !kubelet.release.has_known_uids() {
        return Err(UidUnknown::Release(kubelet.release));
    }
    // plegctl knows the kubelet's own release, so `version` (the release whose rules are applied) is the same release.
    let minor = kubelet.version.minor();
    let mut text = print::print(&convert::internal(pod), minor, json)?;
    text.push_str("host:");
    text.push_str(&kubelet.node_name);
    let mut bytes = text.into_bytes();
    bytes.extend(source.concat());
    let hash = if minor >= FNV_SINCE { hash::fnv1a_128(&bytes) } else { hash::md5(&bytes) };
    Ok(format!("{hash:032x}"))
}
