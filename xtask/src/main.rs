//! `cargo xtask check` says which generated files are out of date, and `cargo xtask write` writes them. Both take the names of
//! some [`GROUPS`] instead of all. protox reads the `.proto` files, so nobody needs protoc.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use prost_build::{Config, Module};

const PROTOS: [&str; 2] = ["cri.proto", "pods.proto"];

/// The groups of generated files. Except those of `proto`, a test compares them with what the program has, and writes them if
/// it is run with `PLEGCTL_BLESS`: the arguments of `cargo test`. The pictures of `docs` show `screens`, which come first.
const GROUPS: [(&str, &str); 6] = [
    ("proto", ""),
    ("schemas", "--lib the_schemas_are_those_of_the_types"),
    ("screens", "--lib cmd::top::tests"),
    ("completions", "--test product committed_completions_are_current"),
    ("docs", "--test product what_the_program_prints"),
    ("alerts", "--test product object_for_the_prometheus_operator_has_the_rules"),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent directory")?;
    let mut arguments = env::args().skip(1);
    let action = arguments.next().unwrap_or_default();
    let chosen: Vec<String> = arguments.collect();
    let names = GROUPS.map(|(group, _)| group);
    if !["check", "write"].contains(&&*action) || !chosen.iter().all(|group| names.contains(&&**group)) {
        return Err(format!("usage: cargo xtask check|write [{}]", names.join("|")).into());
    }
    let is_check = action == "check";
    let mut failed = Vec::new();
    for (group, tests) in GROUPS {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == group) {
            continue;
        }
        let is_current = match tests {
            "" => proto(root, is_check)?,
            tests => passes(root, tests, is_check)?,
        };
        if !is_current {
            failed.push(group);
        }
    }
    for group in &failed {
        if is_check {
            eprintln!("{group}: not up to date, as shown above; run `cargo xtask write {group}`");
        } else {
            eprintln!("{group}: not written, for the reason above");
        }
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares or writes the code of the messages in `proto/`. Returns whether it is current.
fn proto(root: &Path, is_check: bool) -> Result<bool, Box<dyn Error>> {
    let mut is_current = true;
    for (path, code) in generated(root)? {
        let path = root.join("src/cri/generated").join(path);
        if fs::read_to_string(&path).is_ok_and(|committed| committed == code) {
            continue;
        }
        if is_check {
            eprintln!("{} differs", path.display());
            is_current = false;
        } else {
            fs::write(&path, code)?;
        }
    }
    Ok(is_current)
}

/// Returns the name and the content of each generated file. It has the messages only: plegctl has no generated client.
fn generated(root: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let files = protox::compile(PROTOS, [root.join("proto")])?.file;
    let modules = files.into_iter().map(|file| (Module::from_protobuf_package_name(file.package()), file));
    let generated = Config::new().generate(modules.collect())?;
    Ok(generated.into_iter().map(|(module, code)| (module.to_file_name_or("messages"), code)).collect())
}

/// Runs the tests that compare or write the files of a group. Returns whether there are some, and all pass.
fn passes(root: &Path, tests: &str, is_check: bool) -> io::Result<bool> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["test", "--locked"]).args(tests.split(' ')).stderr(Stdio::inherit());
    // These variables describe xtask. Without this, a dependency whose build script reads them is compiled again each time.
    let is_of_xtask = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_xtask(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    let cargo = if is_check { cargo.env_remove("PLEGCTL_BLESS") } else { cargo.env("PLEGCTL_BLESS", "1") };
    let output = cargo.output()?;
    io::stdout().write_all(&output.stdout)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let has_passed = |line: &str| line.starts_with("test result: ok. ") && !line.contains(" 0 passed");
    Ok(output.status.success() && text.lines().any(has_passed))
}
