//! `cargo xtask check` compares the Rust code of the messages in `proto/` with what prost-build generates, and
//! `cargo xtask write` writes it. protox reads the `.proto` files, so nobody needs protoc.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use prost_build::{Config, Module};

const PROTOS: [&str; 2] = ["cri.proto", "pods.proto"];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent directory")?;
    let is_check = match env::args().nth(1).as_deref() {
        Some("check") => true,
        Some("write") => false,
        _ => return Err("usage: cargo xtask check|write".into()),
    };
    let mut is_current = true;
    for (path, code) in generated(root)? {
        let path = root.join("src/cri/generated").join(path);
        if fs::read_to_string(&path).is_ok_and(|committed| committed == code) {
            continue;
        }
        is_current = false;
        if is_check {
            eprintln!("{} is out of date; run `cargo xtask write`", path.display());
        } else {
            fs::write(&path, code)?;
        }
    }
    Ok(if is_current || !is_check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the name and the content of each generated file. It has the messages only: plegctl has no generated client.
fn generated(root: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let files = protox::compile(PROTOS, [root.join("proto")])?.file;
    let modules = files.into_iter().map(|file| (Module::from_protobuf_package_name(file.package()), file));
    let generated = Config::new().generate(modules.collect())?;
    Ok(generated.into_iter().map(|(module, code)| (module.to_file_name_or("messages"), code)).collect())
}
