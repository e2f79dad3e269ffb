//! Environment variables with which plegctl's own tests replace the node's root, shorten the times after which a
//! silent call counts as hung, make a recorder sample its node faster, exclude the machine's load, and make `top` panic. They
//! exist in debug builds only.
//!
//! In a release build, these functions return constants, and the program does not contain the names of the variables.
//! There are no other undocumented settings.

use std::path::PathBuf;

/// Returns the directory that replaces the node's root; the process table is its subdirectory `proc`.
#[cfg(debug_assertions)]
pub fn node() -> Option<PathBuf> {
    std::env::var_os("PLEGCTL_TEST_NODE").map(PathBuf::from)
}

/// Returns `None`: a release build always uses the real node.
#[cfg(not(debug_assertions))]
pub const fn node() -> Option<PathBuf> {
    None
}

/// Returns the divisor of the silence limits, so that tests of reports do not wait for the real limits. Tests of the
/// limits use 1.
#[cfg(debug_assertions)]
pub fn silence_divisor() -> u32 {
    let divisor = std::env::var("PLEGCTL_TEST_SILENCE_DIVISOR").ok();
    divisor.and_then(|divisor| divisor.parse().ok()).filter(|divisor| *divisor > 0).unwrap_or(1)
}

/// Returns 1: a release build uses the real limits.
#[cfg(not(debug_assertions))]
pub const fn silence_divisor() -> u32 {
    1
}

/// Returns how many times more often a recorder samples its node, as if its time passed that much faster, so that a test sees a
/// growth of half an hour in a few seconds.
#[cfg(debug_assertions)]
pub fn sampling_speed() -> u32 {
    let speed = std::env::var("PLEGCTL_TEST_SAMPLING_SPEED").ok();
    speed.and_then(|speed| speed.parse().ok()).filter(|speed| *speed > 0).unwrap_or(1)
}

/// Returns 1: a release build samples in real time.
#[cfg(not(debug_assertions))]
pub const fn sampling_speed() -> u32 {
    1
}

/// Whether plegctl measures how long it waited for a CPU. Most tests turn this off, because on a busy machine plegctl
/// would extend the silence limits by that time.
#[cfg(debug_assertions)]
pub fn sees_load() -> bool {
    std::env::var_os("PLEGCTL_TEST_NO_LOAD").is_none()
}

/// Returns `true`: a release build always measures the time.
#[cfg(not(debug_assertions))]
pub const fn sees_load() -> bool {
    true
}

/// Panics if a test chose this key of `top` to cause a panic. No input is known that makes `top` panic.
///
/// # Panics
///
/// In a test that asks for it.
#[cfg(debug_assertions)]
pub fn panic_at_key(key: char) {
    let chosen = std::env::var("PLEGCTL_TEST_PANIC_KEY").is_ok_and(|chosen| chosen.starts_with(key));
    assert!(!chosen, "a test pressed the key for a panic");
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub const fn panic_at_key(_: char) {}
