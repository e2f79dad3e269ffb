//! The CRI messages, generated from `proto/cri.proto`. Tests build requests and read answers with them, and the fake
//! runtime encodes its answers.

#[expect(missing_docs, reason = "generated from proto/cri.proto, which has the comments")]
#[expect(clippy::pedantic, reason = "generated")]
mod generated {
    include!("../../src/cri/generated/runtime.v1.rs");
}

pub use generated::*;

/// Returns a label or an annotation.
pub fn pair(key: &str, value: &str) -> Pair {
    Pair { key: key.to_owned(), value: value.to_owned() }
}
