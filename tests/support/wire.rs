//! The CRI messages of plegctl's own proto file. The fake sends bytes and not messages, so that it encodes a big node
//! only once and can send invalid answers too.

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
