//! The Rust of `tests/proto/cri_harness.proto`; `tests/generated.rs` keeps it current.

#![expect(clippy::pedantic, missing_docs, reason = "the generator does not write to our lints")]

include!("runtime.v1.rs");
