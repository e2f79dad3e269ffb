//! What a kubelet does with manifests: the crate `plegctl-static-pods`, the runtime's pods as it takes them (`running`),
//! and whether a kubelet starts (`preflight`).
//!
//! ```no_run
//! use plegctl::manifests::{Kubelet, KubeletVersion, inspect};
//!
//! let kubelet = Kubelet::new(KubeletVersion::NEWEST, "node1");
//! let report = inspect("/etc/kubernetes/manifests".as_ref(), &kubelet);
//! for file in &report.files {
//!     println!("{}: {:?}", file.path.display(), file.verdict);
//! }
//! ```

pub(crate) mod preflight;
pub(crate) mod running;

pub use plegctl_static_pods::*;
