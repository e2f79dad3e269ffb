//! Builds an SBOM from the output of `cargo metadata`: all crates that are linked into the binary, and no crate that only
//! tests or builds need.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The dependencies of each package that are linked with it, by id. The crates of the workspace have optional dependencies
/// only for the tests of other crates, which cargo includes in its metadata.
pub fn linked_dependencies(metadata: &Value) -> Option<BTreeMap<&str, Vec<&str>>> {
    let root = metadata["resolve"]["root"].as_str()?;
    let mut for_tests = BTreeSet::new();
    for package in metadata["packages"].as_array()? {
        let id = package["id"].as_str()?;
        if package["source"].is_null() && id != root {
            let optional =
                package["dependencies"].as_array()?.iter().filter(|needed| needed["optional"] == true);
            for_tests.extend(optional.filter_map(|needed| Some((id, needed["name"].as_str()?))));
        }
    }
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut dependencies = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        let id = node["id"].as_str()?;
        let linked = node["deps"].as_array()?.iter().filter_map(|dependency| {
            // `kind` is null for a linked dependency, and "dev" or "build" for any other.
            let is_linked = dependency["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null());
            let needed = dependency["pkg"].as_str()?;
            (is_linked && !for_tests.contains(&(id, *names.get(needed)?))).then_some(needed)
        });
        dependencies.insert(id, linked.collect());
    }
    Some(dependencies)
}

/// The package ids of the crates that are linked into the binary.
fn linked(metadata: &Value) -> Option<BTreeSet<&str>> {
    let needs = linked_dependencies(metadata)?;
    let mut found = BTreeSet::new();
    let mut open = vec![metadata["resolve"]["root"].as_str()?];
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(needs.get(id)?);
        }
    }
    Some(found)
}

/// The entry of the SBOM for a crate.
fn component(package: &Value) -> Option<Value> {
    let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
    });
    if let Some(license) = package["license"].as_str() {
        // Old crates write a slash where SPDX requires OR.
        let words: Vec<&str> = license.split_whitespace().collect();
        component["licenses"] = json!([{"expression": words.join(" ").replace('/', " OR ")}]);
    } else if let Some(file) = package["license_file"].as_str() {
        component["licenses"] = json!([{"license": {"name": file}}]);
    }
    if let Some(repository) = package["repository"].as_str().filter(|address| !address.is_empty()) {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    Some(component)
}

/// The library from which `crates/go-yaml` is derived.
fn yaml_origin() -> Value {
    let purl = "pkg:cargo/libyaml-safer@0.3.0";
    json!({
        "type": "library", "bom-ref": purl, "name": "libyaml-safer", "version": "0.3.0", "purl": purl,
        "licenses": [{"expression": "MIT"}],
        "externalReferences": [{"type": "vcs", "url": "https://github.com/simonask/libyaml-safer"}],
        "pedigree": {"notes": "part of plegctl, modified: crates/go-yaml"},
    })
}

/// The SBOM for the output of `cargo metadata`, or `None` if `metadata` is something else. `address` is where plegctl is
/// published, if this is not the address in `metadata`.
pub fn bom(metadata: &Value, address: Option<&str>) -> Option<Value> {
    let root = metadata["resolve"]["root"].as_str()?;
    let linked = linked(metadata)?;
    let packages = metadata["packages"].as_array()?;
    let (mut components, mut reference) = (Vec::new(), BTreeMap::new());
    let mut subject = Value::Null;
    for package in packages {
        let id = package["id"].as_str()?;
        if !linked.contains(id) {
            continue;
        }
        let mut component = component(package)?;
        reference.insert(id, component["bom-ref"].clone());
        if id == root {
            component["type"] = "application".into();
            if let Some(address) = address {
                component["externalReferences"] = json!([{"type": "vcs", "url": address}]);
            }
            subject = component;
        } else {
            components.push(component);
        }
    }
    components.push(yaml_origin());
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies = Vec::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        let Some(from) = reference.get(node["id"].as_str()?) else { continue };
        let mut to: Vec<&Value> =
            node["deps"].as_array()?.iter().filter_map(|dep| reference.get(dep["pkg"].as_str()?)).collect();
        to.sort_by_key(ToString::to_string);
        dependencies.push(json!({"ref": from, "dependsOn": to}));
    }
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    Some(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": subject},
        "components": components, "dependencies": dependencies,
    }))
}
