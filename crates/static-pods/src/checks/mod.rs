//! Checks for problems that the kubelet itself does not report, one file for each group of checks.
//!
//! The input is the result of [`super::inspect`], which has the kubelet's verdict on each file. The checks add findings
//! to it, but never change a verdict. Each check has an id SP… in the catalogue (`catalogue.rs`).

mod across;
mod admission;
mod bytes;
mod containers;
mod fields;
mod files;
mod host_paths;
mod metadata;
mod path;
pub mod runtime;
#[cfg(test)]
mod testing;

use std::path::Path;

use plegctl_node::host::HostRoot;
use plegctl_node::kubelet::KubeletSettings;

use super::{Kubelet, SourceReport};

/// What the checks know about the kubelet and the node, in addition to the files.
#[derive(Clone, Copy, Debug)]
pub struct CheckContext<'a> {
    /// The kubelet whose rules are applied.
    pub kubelet: &'a Kubelet,
    /// The manifest path in the configuration of the node's kubelet, if a kubelet was found and has a manifest path.
    pub configured: Option<&'a Path>,
    /// Whether the kubelet of this node reads the inspected path. Otherwise the path is a copy.
    pub on_node: bool,
    /// The root of the node's file system, if plegctl can read it.
    pub host: Option<&'a HostRoot>,
    /// The settings of the node's kubelet, if a kubelet was found and reads the inspected path.
    pub kubelet_settings: Option<&'a KubeletSettings>,
}

/// Runs all checks and adds their findings to the report.
pub fn run(report: &mut SourceReport, context: &CheckContext<'_>) {
    path::check(report, context);
    for file in &mut report.files {
        files::check(file, context);
        bytes::check(file);
        fields::check(file, context.kubelet.version);
        metadata::check(file, context);
        containers::check(file);
    }
    files::check_together(&mut report.files);
    across::check(&mut report.files);
    admission::check(&mut report.files, context);
    if let Some(host) = context.host.filter(|_| context.on_node) {
        host_paths::check(&mut report.files, host);
    }
}
