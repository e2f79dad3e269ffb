//! The messages of the CRI, which `tests/generated.rs` generates from `proto/cri.proto`. Never edit them by hand. Only `cri`
//! uses them.

include!("runtime.v1.rs");
