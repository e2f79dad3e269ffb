//! What this project's own tests may change in a debug build: where the node is, after which time a call without an
//! answer hangs, and whether the load of the machine counts.
//!
//! A release build has no such settings: the functions below return constants there, and the names of the environment
//! variables are not in the program. Nothing else in the product reads a setting that is not documented for users.

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

/// By how much the limits of silence are shorter than the contract's, so that a test of what is reported does not wait
/// for them. Tests of the limits themselves leave it at one.
#[cfg(debug_assertions)]
pub fn silence_divisor() -> u32 {
    let said = std::env::var("PLEGCTL_TEST_SILENCE_DIVISOR").ok();
    said.and_then(|divisor| divisor.parse().ok()).filter(|divisor| *divisor > 0).unwrap_or(1)
}

/// The limits of a release build are the contract's.
#[cfg(not(debug_assertions))]
pub const fn silence_divisor() -> u32 {
    1
}

/// Whether plegctl sees how long it waited for a processor. What a busy machine makes of a verdict has tests of its own;
/// in the others a call that never answers is silent, however busy the machine is.
#[cfg(debug_assertions)]
pub fn sees_load() -> bool {
    std::env::var_os("PLEGCTL_TEST_NO_LOAD").is_none()
}

/// A release build always does.
#[cfg(not(debug_assertions))]
pub const fn sees_load() -> bool {
    true
}
