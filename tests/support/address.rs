//! Addresses on which a test lets a program listen.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns an address of this machine without a listener. The kernel gives its port to no connection, and the random
/// loopback address belongs to one test, so nothing else takes it before the program listens there.
pub fn free_address() -> String {
    let [a, b, c, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    format!("127.{a}.{b}.{c}:9188")
}
