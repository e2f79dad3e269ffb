//! Made from `proto/cri.proto` by `tests/generated.rs`; never edited by hand, never seen outside `cri`.

include!("runtime.v1.rs");
