//! Predicts whether a kubelet of a given release starts with the given settings on this node.
//!
//! [`settings_findings`] is a pure function of the command line, the configuration files and the node's properties
//! ([`StartSettings`]). `tables.txt` lists the feature gates, flags and fields that each release knows. Only `node_facts`,
//! `node_resources`, `node_settings` and `credential_providers` read files of the node. This crate calls no runtime: its
//! caller gives it a [`RuntimeAnswer`].

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

mod catalogue;
mod command_line;
mod config_file;
mod configz;
mod credential_providers;
mod finding;
mod gates;
mod late_start;
mod node_checks;
mod node_facts;
mod node_resources;
mod node_settings;
mod openshift;
mod refusals;
mod release;
mod resource_checks;
mod runtime_checks;
mod settings;
mod subordinate_ids;
mod tables;
mod validation;

#[cfg(test)]
mod tests;

pub use catalogue::StartCheck;
pub use configz::configz_findings;
pub use finding::StartFinding;
pub use node_facts::{
    CallRefusal, CertificateUse, KubeletCertificates, NodeFacts, RuntimeAnswer, Validity, socket_below,
};
pub use node_settings::{LARGEST_CONFIG, builder_of_node, read_node_settings};
pub use openshift::is_of_openshift;
pub use refusals::{continues, exit_reason, known_part, refusal};
pub use release::{Builder, TargetKubelet, unlisted_gates_and_flags};
pub use runtime_checks::unjudged_answer;
pub use tables::RELEASES;
pub use validation::CgroupVersion;

use std::sync::Arc;

use config_file::{ConfigText, DecodedConfig};
use gates::GateSetting;
use plegctl_api_values::tree::ManifestNode;
use plegctl_base::report::Confidence;
use settings::{MergedSettings, Origin};

/// A configuration file of the kubelet, or why it could not be read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The path, as the kubelet sees it.
    pub path: Arc<str>,
    /// The bytes; an error for a file that does not exist or cannot be read.
    pub content: Result<Vec<u8>, ConfigFileError>,
    /// Whether the file is a drop-in file.
    pub is_drop_in: bool,
}

/// Why a configuration file has no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    /// The file does not exist.
    #[error("no such file or directory")]
    Missing,
    /// plegctl cannot read the file. The kubelet runs as root and may be able to.
    #[error("{0}")]
    Unreadable(String),
}

/// The settings and the node with which a kubelet is to start.
#[derive(Clone, Debug, Default)]
pub struct StartSettings {
    /// The arguments, without the program's name.
    pub arguments: Vec<String>,
    /// The configuration file and the drop-in files, in the order in which they are merged.
    pub files: Vec<ConfigFile>,
    /// The cgroup version of the node; `None` if files are checked without a node.
    pub cgroups: Option<CgroupVersion>,
    /// The other properties of the node; `None` if files are checked without a node.
    pub node: Option<NodeFacts>,
}

/// The findings, and the texts of the files, from which the output shows the lines of the findings.
#[derive(Debug, Default)]
pub struct JudgedSettings {
    /// The findings, in the order in which the kubelet would report the errors.
    pub findings: Vec<StartFinding>,
    /// The texts of the files.
    pub texts: Vec<SourceText>,
}

/// The text of a configuration file, from which the output shows the line of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// The path, as the kubelet sees it.
    pub path: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// Returns the findings about settings for a kubelet.
pub fn settings_findings(settings: &StartSettings, kubelet: TargetKubelet) -> JudgedSettings {
    let flags = command_line::parse(&settings.arguments, kubelet);
    let mut judged = JudgedSettings { findings: flags.findings.clone(), texts: Vec::new() };
    let mut merged = MergedSettings::default();
    let mut gates = Vec::new();
    for file in &settings.files {
        match &file.content {
            Err(why) => {
                judged.findings.push(unread_file(file, why, kubelet));
                merged.is_incomplete = true;
            }
            Ok(bytes) => {
                let text = ConfigText { path: &file.path, bytes, is_drop_in: file.is_drop_in };
                let DecodedConfig { root, text, findings } = config_file::decode(&text, kubelet);
                judged.texts.push(SourceText { path: Arc::clone(&file.path), text });
                match root {
                    Some(root) => {
                        gates.extend(gates_of_file(&root, file));
                        merged.add_file(&root, &file.path);
                    }
                    None => merged.is_incomplete = true,
                }
                let mistyped = findings.iter().filter(|finding| finding.id == StartCheck::WrongType);
                mistyped.filter_map(|finding| finding.field.as_deref()).for_each(|path| merged.forget(path));
                judged.findings.extend(findings);
            }
        }
    }
    gates.extend(gates_of_flags(&flags));
    merged.add_flags(&flags.flags);
    let is_undecoded = merged.is_incomplete;
    merged.is_incomplete |= settings.node.as_ref().is_some_and(|node| !node.resources.has_known_defaults);
    judged.findings.extend(gates::check(&gates, kubelet));
    let mut later = validation::validate(&merged, &gates, kubelet, settings.cgroups);
    later.extend(late_start::check(&merged, &flags, kubelet));
    if let Some(node) = &settings.node {
        later.extend(node_checks::check(node, &merged, kubelet));
        later.extend(resource_checks::check(&node.resources, &merged, &flags));
    }
    if is_undecoded {
        // A value in this file may override the value on which a finding rests.
        for finding in &mut later {
            finding.confidence = finding.confidence.max(Confidence::Likely);
        }
    }
    later.retain(|finding| !(merged.is_incomplete && finding.rests_on_default));
    judged.findings.extend(later);
    judged
}

/// Returns the finding about a file that cannot be read, with the kubelet's message.
fn unread_file(file: &ConfigFile, why: &ConfigFileError, kubelet: TargetKubelet) -> StartFinding {
    let path = &file.path;
    let mut finding =
        StartFinding::new(StartCheck::ConfigUnreadable, format!("cannot read the configuration file: {why}"));
    finding.file = Some(path.to_string());
    match why {
        ConfigFileError::Unreadable(_) => finding.with_confidence(Confidence::Possible),
        ConfigFileError::Missing if file.is_drop_in => finding.with_reason(format!(
            "failed to merge kubelet configs: failed to walk through kubelet dropin directory \"{path}\": lstat {path}: no such file or directory"
        )),
        ConfigFileError::Missing => {
            let error = format!(
                "failed to read kubelet config file \"{path}\", error: open {path}: no such file or directory"
            );
            finding.with_reason(config_file::load_error(path, &error, kubelet))
        }
    }
}

/// Returns the feature gates that a configuration file sets.
fn gates_of_file(root: &ManifestNode, file: &ConfigFile) -> Vec<GateSetting> {
    let Some(map) = root.get("featureGates").and_then(ManifestNode::as_map) else { return Vec::new() };
    let gates = map.entries().iter().filter_map(|entry| {
        Some(GateSetting {
            name: entry.key.to_string(),
            on: entry.value.as_bool()?,
            origin: Origin::File { file: Arc::clone(&file.path), position: entry.key_position },
            is_drop_in: file.is_drop_in,
        })
    });
    gates.collect()
}

/// Returns the feature gates that the command line sets.
fn gates_of_flags(flags: &command_line::ParsedFlags) -> Vec<GateSetting> {
    let pairs = flags.all("feature-gates").flat_map(|value| value.split(','));
    let gates = pairs.filter_map(|pair| {
        let (name, on) = pair.split_once('=')?;
        Some(GateSetting {
            name: name.trim().to_owned(),
            on: plegctl_node::host::parse_boolean(on.trim())?,
            origin: Origin::Flag("feature-gates".to_owned()),
            is_drop_in: false,
        })
    });
    gates.collect()
}

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
