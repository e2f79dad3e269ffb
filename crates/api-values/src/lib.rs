//! Values in the files of the Kubernetes API, as a kubelet reads them.
//!
//! [`reader`] reads a file, YAML or JSON, into a [`tree`] whose nodes have their positions, with the rules of the kubelet's own
//! parsers. [`quantity`], [`names`] and [`timestamp`] judge the texts in it. Manifests of static pods and the kubelet's
//! configuration are such files; what their fields mean is known to the crates that read them.

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

pub mod names;
pub mod quantity;
pub mod reader;
pub mod timestamp;
pub mod tree;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
