//! What this project's own tests may change in a debug build: where the node is.
//!
//! A release build has no such setting: the function below returns nothing there, and the name of the environment
//! variable is not in the program. Nothing else in the product reads a setting that is not documented for users.

use std::path::PathBuf;

/// The directory that takes the place of the node's root. Its process table is the directory `proc` below it.
#[cfg(debug_assertions)]
pub fn node() -> Option<PathBuf> {
    std::env::var_os("PLEGCTL_TEST_NODE").map(PathBuf::from)
}

/// There is none in a release build.
#[cfg(not(debug_assertions))]
pub const fn node() -> Option<PathBuf> {
    None
}
