//! The messages of the CRI as the product's own proto has them.
//!
//! The fake speaks in bytes so that a big node is encoded once, and so that it can also say what no message says.

#[expect(missing_docs, reason = "generated from proto/cri.proto, which has the comments")]
#[expect(clippy::pedantic, reason = "generated")]
mod generated {
    include!("../../src/cri/generated/runtime.v1.rs");
}

pub use generated::*;

/// A label or an annotation.
pub fn pair(key: &str, value: &str) -> Pair {
    Pair { key: key.to_owned(), value: value.to_owned() }
}
