//! Compares the tables of `docs/supply.md` with the crates that are really linked into plegctl.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use crate::fleet::licences::sbom;

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// Returns the rows of the table below `heading` in a document, without its head.
fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let text = text(document);
    let (_, section) = text.split_once(heading).unwrap_or_else(|| panic!("{document} lacks {heading}"));
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

#[test]
fn every_duplicate_crate_has_a_reason() {
    let lock = text("Cargo.lock");
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]\n").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(" = ").trim_matches('"')
        };
        versions.entry(field("name")).or_default().insert(field("version"));
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    let built: BTreeMap<String, String> = several
        .map(|(name, versions)| (name.to_owned(), versions.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    let rows = table("docs/supply.md", "## Crates that are there twice");
    let documented: BTreeMap<String, String> =
        rows.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    assert_eq!(documented, built, "docs/supply.md and Cargo.lock");
    assert!(rows.iter().all(|row| row[2].len() > 20), "each has a reason");
}

/// Returns the crates that are linked into the program, as cargo resolves them for x86-64 Linux.
fn linked() -> Vec<Value> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = "x86_64-unknown-linux-gnu";
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--offline", "--format-version=1", "--filter-platform", target])
        .current_dir(file(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let by_id = |value: &Value| -> BTreeMap<String, Value> {
        list(value).into_iter().map(|entry| (entry["id"].as_str().unwrap().to_owned(), entry)).collect()
    };
    let (packages, needs) = (by_id(&metadata["packages"]), sbom::linked_dependencies(&metadata).unwrap());
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut left = vec![metadata["resolve"]["root"].as_str().unwrap().to_owned()];
    while let Some(id) = left.pop() {
        let package = &packages[&id];
        let is_macro = list(&package["targets"])
            .iter()
            .any(|target| list(&target["kind"]).iter().any(|kind| kind == "proc-macro"));
        // A macro runs at build time and is not linked into the program.
        if is_macro || seen.contains_key(&id) {
            continue;
        }
        left.extend(needs[id.as_str()].iter().map(|needed| (*needed).to_owned()));
        seen.insert(id, package.clone());
    }
    seen.into_values().collect()
}

/// Returns the lines of Rust code below `folder` that begin something unsafe.
fn unsafe_places(folder: &Path) -> usize {
    const BEGINNINGS: [&str; 5] =
        ["unsafe {", "unsafe fn ", "unsafe impl", "unsafe trait ", "unsafe extern "];
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let places = entries.map(|path| {
        if path.is_dir() {
            return unsafe_places(&path);
        }
        if path.extension().is_none_or(|ending| ending != "rs") {
            return 0;
        }
        let bytes = fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let begins = |line: &&str| {
            let line = line.trim_start();
            let is_begun = |place: usize| {
                !line[..place].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            };
            !line.starts_with("//")
                && BEGINNINGS.iter().any(|word| line.match_indices(word).any(|(place, _)| is_begun(place)))
        };
        text.lines().filter(begins).count()
    });
    places.sum()
}

#[test]
fn linked_unsafe_code_is_listed_by_crate() {
    let mut built = BTreeMap::new();
    for package in linked() {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().join("src");
        let places = unsafe_places(&folder);
        if !name.starts_with("plegctl") && places > 0 {
            built.insert(name.to_owned(), (version.to_owned(), places.to_string()));
        }
    }
    let rows = table("docs/supply.md", "## Unsafe code");
    let documented: BTreeMap<String, (String, String)> =
        rows.iter().map(|row| (row[0].clone(), (row[1].clone(), row[2].clone()))).collect();
    assert_eq!(documented, built, "docs/supply.md and the sources: look at what is new, then write it down");
    assert!(rows.iter().all(|row| matches!(row[3].as_str(), "yes" | "no") && !row[4].is_empty()));
}

#[test]
fn code_of_others_names_its_origin_and_has_its_licence() {
    let licence = text("crates/go-yaml/LICENSE-libyaml-safer");
    assert!(licence.contains("free of charge") && licence.contains("shall be included in all copies"));
    for document in ["crates/go-yaml/src/lib.rs", "docs/supply.md"] {
        let text = text(document);
        for words in ["libyaml-safer", "0.3.0", "Simon Ask Ulsnes", "LICENSE-libyaml-safer"] {
            assert!(text.contains(words), "{document} lacks {words}");
        }
    }
    assert!(text("packaging/deb.sh").contains("Files: crates/go-yaml/*"));
}
