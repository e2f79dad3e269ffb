//! Checks that the committed Rust code is equal to the code generated from the files in `proto/`. After a change of such a
//! file, `PLEGCTL_BLESS=1 cargo test --test product generated -- --nocapture` updates the code and shows the
//! difference.

use std::path::Path;
use std::{env, fs};

use crate::support::difference;
use crate::support::socket::TempDir;

/// The directory with the generated messages.
const COMMITTED: &str = "src/cri/generated";

#[test]
fn product_messages_are_current() {
    check_is_current("cri.proto", "runtime.v1.rs");
}

#[test]
fn messages_of_the_pods_api_are_current() {
    check_is_current("pods.proto", "v1alpha1.rs");
}

/// Compares the committed `file` with the code generated from `proto`.
fn check_is_current(proto: &str, file: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = TempDir::new();
    let descriptors = protox::compile([proto], [root.join("proto")]).unwrap();
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .out_dir(out.path())
        .compile_fds(descriptors)
        .unwrap();
    let fresh = fs::read_to_string(out.path().join(file)).unwrap();
    let committed = root.join(COMMITTED).join(file);
    if difference::update_if_blessed(&committed, &fresh) {
        return;
    }
    let current = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        fresh == current,
        "{COMMITTED}/{file} is not what proto/{proto} generates; run PLEGCTL_BLESS=1 cargo test --test product generated -- --nocapture\n{}",
        difference::difference(&current, &fresh)
    );
}

#[test]
fn the_calls_of_137_that_checkpoint_or_restore_a_pod_are_not_in_the_client() {
    for file in ["proto/cri.proto", "src/cri/generated/runtime.v1.rs", "src/cri/rpc.rs"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains("PodSandboxStatus"), "{file}");
        for call in ["CheckpointPod", "RestorePod"] {
            assert!(!text.contains(call), "{file} has {call}");
        }
    }
}
