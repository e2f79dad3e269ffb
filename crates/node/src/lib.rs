//! A node's own files, read only: in [`host`] its process table, control groups, disks and the configuration of its
//! runtimes, and in [`kubelet`] its kubelet as a program, with its settings, releases, times and HTTP API.
//!
//! This crate collects facts and judges nothing. It writes no file.

// Unit tests do not have to follow these lints.
#![cfg_attr(
    not(test),
    warn(missing_docs, clippy::disallowed_methods, clippy::large_futures, clippy::missing_panics_doc)
)]

pub mod host;
pub mod kubelet;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
