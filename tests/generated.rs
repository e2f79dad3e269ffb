//! The committed Rust is what `proto/` says: made again in a temporary folder and compared.
//!
//! After an edit of a `.proto` file: `PLEGCTL_BLESS=1 cargo test --test generated -- --nocapture` shows what it changes.

#[path = "support/difference.rs"]
mod difference;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Makes Rust from `proto` (a file in `folder`) and holds it against `committed`.
fn compare(folder: &str, proto: &str, committed: &str, configure: impl FnOnce(Builder) -> Builder) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Scratch::new(&committed.replace('/', "-"));
    let descriptors = protox::compile([proto], [root.join(folder)]).unwrap();
    configure(tonic_prost_build::configure().build_client(false).build_server(false))
        .out_dir(&out.0)
        .compile_fds(descriptors)
        .unwrap();
    let fresh = fs::read_to_string(out.0.join("runtime.v1.rs")).unwrap();
    let committed = root.join(committed);
    if difference::blessed(&committed, &fresh) {
        return;
    }
    let current = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        fresh == current,
        "{} is not what {folder}/{proto} generates; run PLEGCTL_BLESS=1 cargo test --test generated -- --nocapture\n{}",
        committed.display(),
        difference::difference(&current, &fresh)
    );
}

type Builder = tonic_prost_build::Builder;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("plegctl-generated-{}-{name}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn product_messages_are_current() {
    compare("proto", "cri.proto", "src/cri/generated/runtime.v1.rs", |builder| builder);
}

#[test]
fn harness_client_is_current() {
    compare(
        "tests/proto",
        "cri_harness.proto",
        "tests/real_runtime/harness/generated/runtime.v1.rs",
        |builder| builder.build_client(true).build_transport(false),
    );
}
