//! Made from `proto/cri.proto` by `tests/generated.rs`; never edited by hand, never seen outside `cri`, but by the
//! simulator, which answers in the same messages.

include!("runtime.v1.rs");
