//! The UID that the kubelet gives a static pod: a hash of the whole Pod as it prints it, of the node and of the path.
//!
//! Whoever has the same UID was made from the same content, by the same release, from the same path, for the same node.
//! The kubelet prints types of its own, so that each release gives another UID to the same file.

mod convert;
mod hash;
mod layout;
mod print;

use std::path::Path;

use super::Kubelet;
use super::tree::Node;

/// Why a UID cannot be told from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTold {
    /// A time is given.
    #[error(
        "the file gives a time, and the kubelet hashes times together with its node's zone and season: remove creationTimestamp, managedFields and times of the status"
    )]
    Time,
    /// Field ownership in a JSON file.
    #[error("the file has managedFields, whose JSON is hashed as it is written")]
    Raw,
    /// A quantity is far too long.
    #[error("a quantity has more than 20000 digits")]
    Digits,
    /// The path that the kubelet hashes is not known.
    #[error(
        "the path under which the kubelet reads the file is not known: give its directory there with --as"
    )]
    Path,
}

/// The first release that uses FNV instead of MD5.
const FNV: u8 = 35;

/// The UID that `kubelet` gives a decoded and completed Pod that it reads from the file `source`. `json` says that the
/// file is JSON.
pub fn uid(pod: &Node, kubelet: &Kubelet, source: &Path, json: bool) -> Result<String, NotTold> {
    hashed(pod, kubelet, ["file:".as_bytes(), source.as_os_str().as_encoded_bytes()], json)
}

/// The same of a Pod that it reads from `url`.
pub fn uid_from_url(pod: &Node, kubelet: &Kubelet, url: &str, json: bool) -> Result<String, NotTold> {
    hashed(pod, kubelet, ["url:".as_bytes(), url.as_bytes()], json)
}

fn hashed(pod: &Node, kubelet: &Kubelet, source: [&[u8]; 2], json: bool) -> Result<String, NotTold> {
    let given = pod.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Node::as_str);
    if let Some(given) = given.filter(|uid| !uid.is_empty()) {
        return Ok(given.to_owned());
    }
    let minor = kubelet.version.minor();
    let mut text = print::print(&layout::POD, &convert::internal(pod), minor, json)?;
    text.push_str("host:");
    text.push_str(&kubelet.node_name);
    let mut bytes = text.into_bytes();
    bytes.extend(source.concat());
    let hash = if minor >= FNV { hash::fnv1a_128(&bytes) } else { hash::md5(&bytes) };
    Ok(format!("{hash:032x}"))
}
