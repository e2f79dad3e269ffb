//! The Rust of `tests/proto/cri_harness.proto`, and the test that keeps it current.
//!
//! To write it again after a change: `PLEGCTL_REGENERATE=1 cargo test --test real_runtime harness_proto`.

#![expect(
    clippy::pedantic,
    clippy::enum_variant_names,
    reason = "the generator does not write to our lints, nor does the CRI name its values for Rust"
)]

include!("runtime.v1.rs");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn generated_code_is_what_the_harness_proto_makes() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let made = generate(&package.join("tests/proto"));
        let committed = package.join("tests/real_runtime/generated/runtime.v1.rs");
        if std::env::var_os("PLEGCTL_REGENERATE").is_some() {
            fs::write(&committed, &made).unwrap();
        }
        let committed = fs::read_to_string(committed).unwrap();
        assert!(
            committed == made,
            "tests/proto/cri_harness.proto has changed; see the top of tests/real_runtime/generated/mod.rs"
        );
    }

    fn generate(protos: &Path) -> String {
        let descriptors = protox::compile(["cri_harness.proto"], [protos]).unwrap();
        let folder = std::env::temp_dir().join(format!("plegctl-harness-proto-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let written = tonic_prost_build::configure()
            .build_server(false)
            .build_transport(false)
            .out_dir(&folder)
            .compile_fds(descriptors)
            .and_then(|()| fs::read_to_string(folder.join("runtime.v1.rs")));
        fs::remove_dir_all(&folder).unwrap();
        written.unwrap()
    }
}
