//! Compares the linked crates with the licences, banned crates and sources in `deny.toml`, and with the SBOM.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{file, output_of, text};

#[path = "../../packaging/sbom/bom.rs"]
mod sbom;

fn metadata() -> String {
    let host = output_of(Command::new(cargo().replace("cargo", "rustc")).arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    output_of(
        Command::new(cargo())
            .args(["metadata", "--locked", "--offline", "--format-version=1", "--filter-platform", &host])
            .current_dir(file("")),
    )
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Returns the SBOM as `packaging/release.sh` creates it.
fn bom() -> Value {
    sbom::bom(&serde_json::from_str(&metadata()).unwrap(), None).expect("cargo metadata has every field")
}

/// Returns the strings of a list in `deny.toml`.
fn listed(table: &str, key: &str) -> BTreeSet<String> {
    let deny = text("deny.toml");
    let table = deny.split_once(&format!("[{table}]\n")).unwrap().1;
    let list = table
        .split_once(&format!("\n{key} = ["))
        .or_else(|| table.split_once(&format!("{key} = [")))
        .unwrap()
        .1;
    list.split(']').next().unwrap().split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether these licences satisfy an expression. Cargo's expressions have no nested brackets.
fn acceptable(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace(['(', ')'], "");
    expression.split(" AND ").all(|part| part.split(" OR ").any(|license| allowed.contains(license.trim())))
}

#[test]
fn the_sbom_names_everything_that_is_linked_and_nothing_else() {
    let bom = bom();
    assert_eq!(bom["metadata"]["component"]["name"], "plegctl");
    let names: BTreeSet<&str> =
        bom["components"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert!(["clap", "tokio", "tonic", "prost"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(names.contains("libyaml-safer"), "crates/go-yaml is derived from it: {names:?}");
    assert!(!names.contains("proptest") && !names.contains("schemars"), "tests are not shipped: {names:?}");
    for dependency in bom["dependencies"].as_array().unwrap() {
        assert!(dependency["ref"].as_str().unwrap().starts_with("pkg:cargo/"));
    }

    let allowed = listed("licenses", "allow");
    let banned = listed("bans", "deny");
    for part in bom["components"].as_array().unwrap() {
        let name = part["name"].as_str().unwrap();
        let license = part["licenses"][0]["expression"].as_str().unwrap_or_default();
        assert!(acceptable(license, &allowed), "{} is under {license:?}", part["purl"]);
        assert!(!banned.contains(name), "{} is banned", part["purl"]);
    }
}

#[test]
fn the_page_about_the_supply_chain_names_every_linked_crate() {
    let page = text("docs/supply.md");
    let (_, table) = page.split_once("| what for |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows = table.lines().filter_map(|row| row.trim_end_matches(" |").rsplit_once(" | "));
    let named: BTreeSet<&str> = rows.flat_map(|(_, crates)| crates.split('`').skip(1).step_by(2)).collect();
    let bom = bom();
    let components = bom["components"].as_array().unwrap().iter();
    let linked: BTreeSet<&str> = components
        .map(|part| part["name"].as_str().unwrap())
        .filter(|name| !name.starts_with("plegctl-") && *name != "libyaml-safer")
        .collect();
    assert_eq!(named, linked, "docs/supply.md: look at what is new, then name it");
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

#[test]
fn every_crate_is_from_the_registry() {
    let metadata: Value = serde_json::from_str(&metadata()).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let source = package["source"].as_str();
        if package["name"].as_str().is_some_and(|name| name == "plegctl" || name.starts_with("plegctl-")) {
            assert_eq!(source, None);
        } else {
            assert!(source.is_some_and(|source| source.starts_with("registry+")), "{}", package["id"]);
        }
    }
}

#[test]
fn licence_expression_needs_one_allowed_licence_of_each_part() {
    let allowed: BTreeSet<String> = ["MIT", "ISC"].map(str::to_owned).into();
    assert!(acceptable("MIT OR GPL-3.0", &allowed));
    assert!(acceptable("(Apache-2.0 OR MIT) AND ISC", &allowed));
    assert!(!acceptable("MIT AND OpenSSL", &allowed));
    assert!(!acceptable("", &allowed));
}
