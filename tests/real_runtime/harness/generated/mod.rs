//! The Rust of `tests/proto/cri_harness.proto`; `tests/generated.rs` keeps it current.

#![expect(
    clippy::pedantic,
    clippy::enum_variant_names,
    missing_docs,
    reason = "the generator does not write to our lints, nor does the CRI name its values for Rust"
)]

include!("runtime.v1.rs");
