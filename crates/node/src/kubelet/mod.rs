//! Everything that plegctl knows about the kubelet as a program: its process, flags and configuration, its releases
//! and how each relists, its times and limits, its duration and address formats, and its HTTP API.
//!
//! This module collects facts and makes no findings.
//!
//! ```
//! use plegctl_node::kubelet::{Era, KubeletVersion, go_duration};
//!
//! let version = KubeletVersion::parse("v1.31.4+k3s1")?;
//! assert_eq!(version.era(), Era::TwoRounds);
//! assert_eq!(go_duration("1m30s"), Some(std::time::Duration::from_secs(90)));
//! # Ok::<(), plegctl_node::kubelet::BadVersion>(())
//! ```

mod address;
mod api;
mod certificate;
mod cluster;
mod config;
mod configz;
mod duration;
mod era;
pub mod http;
mod kubeadm;
pub mod kubeconfig;
mod list_calls;
mod metrics;
pub mod pod_status;
mod process;
mod program;
mod proxy;
mod release;
mod settings;
pub mod timing;
mod unit;

pub use crate::host::scalars;
pub use address::is_address;
pub use api::{Credentials, KubeletApi};
pub use certificate::{CertificateChain, CertificateFacts};
pub use config::{Config, Sourced};
pub use configz::Configz;
pub use duration::{GoDuration, go_duration, go_nanoseconds};
pub use era::Era;
pub use kubeadm::stopped_settings;
pub use list_calls::{KubeletLists, ListCalls, ListCallsSource, ListGates, ListLimit, ListSigns};
pub use metrics::{MeasuredContainer, Metrics};
pub use process::{KubeletProcess, Search, doubt, kubelet_of, kubelet_pid, node_name, release_of_process};
pub use release::{BadVersion, KubeletVersion, RELEASES, Release};
pub use settings::drop_ins;
pub use settings::{KubeletSettings, Setting};
