//! Settings for plegctl's own tests, in debug builds only: the node's root, the time after which a call is silent,
//! and whether the machine's load counts.
//!
//! In a release build these functions return constants, and the program does not contain the names of the environment
//! variables. plegctl reads no other setting that is not documented for users.

use std::path::PathBuf;

/// The directory that replaces the node's root. Its process table is the directory `proc` in it.
#[cfg(debug_assertions)]
pub fn node() -> Option<PathBuf> {
    std::env::var_os("PLEGCTL_TEST_NODE").map(PathBuf::from)
}

/// A release build has no such directory.
#[cfg(not(debug_assertions))]
pub const fn node() -> Option<PathBuf> {
    None
}

/// The divisor of the silence limits, so that tests of reports do not wait for the real limits. Tests of the limits
/// themselves leave it at 1.
#[cfg(debug_assertions)]
pub fn silence_divisor() -> u32 {
    let said = std::env::var("PLEGCTL_TEST_SILENCE_DIVISOR").ok();
    said.and_then(|divisor| divisor.parse().ok()).filter(|divisor| *divisor > 0).unwrap_or(1)
}

/// A release build uses the limits of the contract.
#[cfg(not(debug_assertions))]
pub const fn silence_divisor() -> u32 {
    1
}

/// Whether plegctl measures how long it waited for a CPU. Most tests turn this off, so that a call that never answers
/// is silent on a busy machine too.
#[cfg(debug_assertions)]
pub fn sees_load() -> bool {
    std::env::var_os("PLEGCTL_TEST_NO_LOAD").is_none()
}

/// A release build always measures it.
#[cfg(not(debug_assertions))]
pub const fn sees_load() -> bool {
    true
}
