//! Checks beyond the kubelet's verdict, one file for each part of the catalogue.
//!
//! Each check reads the result of [`super::inspect`] and adds findings to it. No check changes a verdict.

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

use crate::host::HostRoot;
use crate::kubelet::KubeletSettings;

use super::{Kubelet, SourceReport};

/// What the checks know in addition to the files.
#[derive(Clone, Copy, Debug)]
pub struct CheckContext<'a> {
    /// The kubelet whose rules are applied.
    pub kubelet: &'a Kubelet,
    /// The manifest path of the kubelet of this node, if a kubelet was found and has one.
    pub configured: Option<&'a Path>,
    /// Whether the inspected path is this node's own, and not a copy.
    pub on_node: bool,
    /// The root of the node's file system, if paths that pods mount can be looked up.
    pub host: Option<&'a HostRoot>,
    /// The configuration of the kubelet on this node, if one was found and the path is its own.
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
