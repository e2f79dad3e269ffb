//! What a kubelet does with manifests, and whether it starts: the crates `plegctl-static-pods` and
//! `plegctl-kubelet-start`, the runtime's pods as the first of them takes them (`running`), and the report that needs
//! both (`preflight`).
//!
//! ```no_run
//! use plegctl_engine::manifests::{Kubelet, KubeletVersion, inspect};
//!
//! let kubelet = Kubelet::new(KubeletVersion::NEWEST, "node1");
//! let report = inspect("/etc/kubernetes/manifests".as_ref(), &kubelet);
//! for file in &report.files {
//!     println!("{}: {:?}", file.path.display(), file.verdict);
//! }
//! ```

pub mod preflight;
pub mod running;

pub use plegctl_static_pods::*;
