//! Options that several commands have, each with what it stands for: what makes the exit status 1, a kubelet, another node,
//! list calls, a URL with manifests, and a selection of pods.

pub mod fail_on;
pub mod kubelet_access;
pub mod list_calls;
pub mod manifest_url;
pub mod remote_node;
pub mod select;
