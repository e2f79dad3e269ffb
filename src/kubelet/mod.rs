//! A kubelet as a program: how it is found under each of its names, what it was told, which release it is and how that one
//! relists, its times and limits, how it reads durations and addresses, and what it answers over HTTP.
//!
//! One home for what we know of it. Nothing here judges what is found.
//!
//! ```
//! use plegctl::kubelet::{Era, KubeletVersion, go_duration};
//!
//! let version = KubeletVersion::parse("v1.31.4+k3s1")?;
//! assert_eq!(version.era(), Era::A);
//! assert_eq!(go_duration("1m30s"), Some(std::time::Duration::from_secs(90)));
//! # Ok::<(), plegctl::kubelet::BadVersion>(())
//! ```

mod address;
mod api;
mod config;
mod configz;
mod duration;
mod era;
pub(crate) mod http;
pub(crate) mod kubeconfig;
mod metrics;
mod process;
mod release;
pub(crate) mod timing;
mod told;

pub use crate::host::scalars;
pub use address::is_address;
pub use api::{Credentials, KubeletApi};
pub use config::{Config, Sourced};
pub use configz::Configz;
pub use duration::{GoDuration, go_duration};
pub use era::Era;
pub use metrics::Metrics;
pub use process::{KubeletProcess, Search, doubt, kubelet_of, node_name};
pub use release::{BadVersion, KubeletVersion, RELEASES, Release};
pub use told::{Setting, Told};
