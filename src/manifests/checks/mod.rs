//! What is worth saying beyond the kubelet's verdict: one file for each part of the catalogue.
//!
//! Each check reads what [`super::inspect`] found and adds findings to it; none changes a verdict.

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
use crate::kubelet::Told;

use super::{Kubelet, SourceReport};

/// What the checks know besides the files.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The kubelet whose eyes are borrowed.
    pub kubelet: &'a Kubelet,
    /// Where the kubelet of this node looks, if a kubelet was found and says so.
    pub configured: Option<&'a Path>,
    /// Whether the path that is looked at is this node's own, and not a copy of one somewhere.
    pub on_node: bool,
    /// The root of the node, if the paths that pods mount can be looked up.
    pub host: Option<&'a HostRoot>,
    /// What the kubelet was told that runs on this node, if one was found and the path is its own.
    pub told: Option<&'a Told>,
}

/// Adds what the checks find to what the kubelet says.
pub fn run(report: &mut SourceReport, surroundings: &Surroundings<'_>) {
    path::check(report, surroundings);
    for file in &mut report.files {
        files::check(file, surroundings);
        bytes::check(file);
        fields::check(file, surroundings.kubelet.version);
        metadata::check(file, surroundings);
        containers::check(file);
    }
    files::check_together(&mut report.files);
    across::check(&mut report.files);
    admission::check(&mut report.files, surroundings);
    if let Some(host) = surroundings.host.filter(|_| surroundings.on_node) {
        host_paths::check(&mut report.files, host);
    }
}
