//! Tests of `packaging/`: the address of the project is in one place, a release without one stops, and its parts fit together.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{file, output_of, text};
use crate::support::plegctl::{Invocation, Output};
use crate::support::socket::TempDir;

const ADDRESS: &str = "https://github.com/Example/Plegctl";

/// Runs `packaging/address.sh` for a project with this address.
fn address_of(project: &str, arguments: &[&str]) -> Output {
    let script = file("packaging/address.sh");
    Invocation::program(script.to_str().unwrap(), arguments).env("PLEGCTL_ADDRESS", project).run()
}

#[test]
fn release_without_an_address_stops_and_says_which_line_to_set() {
    let folder = TempDir::new();
    let manifest = text("Cargo.toml");
    let line =
        manifest.lines().find(|line| line.starts_with("repository = ")).expect("a line for the address");
    fs::write(folder.path().join("Cargo.toml"), manifest.replace(line, "repository = \"\"")).unwrap();
    output_of(Command::new("cp").arg("-r").arg(file("packaging")).arg(folder.path()));
    let script = folder.path().join("packaging/release.sh");
    let output = Invocation::program(script.to_str().unwrap(), &[] as &[&str]).run();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("`repository` in Cargo.toml is empty"), "{output}");
    assert!(output.stderr.contains("release.sh --address"), "{output}");
    assert!(!folder.path().join("dist").exists(), "{output}");
}

#[test]
fn every_address_is_derived_from_that_of_the_repository() {
    let source = format!("{ADDRESS}/blob/v9\n");
    let download = format!("{ADDRESS}/releases/download/v9\n");
    for (arguments, expected) in [
        (&[] as &[&str], format!("{ADDRESS}\n")),
        (&["source", "9"], source),
        (&["download", "9"], download),
        (&["image"], "ghcr.io/example/plegctl\n".to_owned()),
    ] {
        let output = address_of(ADDRESS, arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), expected.as_str()), "{output}");
    }
    // No image is named on a host whose registry is not known.
    let output = address_of("https://git.example/o/n", &["image"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{output}");
}

#[test]
fn text_that_is_no_address_is_refused() {
    for wrong in
        ["github.com/o/n", "https://github.com/", "https://h.example/o/n/", "https://h.example/$(id)/n"]
    {
        let output = address_of(wrong, &[]);
        assert_eq!(output.code, Some(1), "{wrong}: {output}");
        assert!(output.stderr.contains("not of the form"), "{wrong}: {output}");
    }
}

#[test]
fn chart_of_a_release_names_the_project_and_its_image() {
    let folder = TempDir::new();
    let packed = folder.path().join("chart.tgz");
    let mut script = Command::new(file("packaging/chart.sh"));
    output_of(script.arg(&packed).env("PLEGCTL_ADDRESS", ADDRESS).env("SOURCE_DATE_EPOCH", "0"));
    output_of(Command::new("tar").arg("xzf").arg(&packed).arg("-C").arg(folder.path()));
    let read = |name: &str| fs::read_to_string(folder.path().join("plegctl").join(name)).unwrap();
    let about = read("Chart.yaml");
    assert!(about.contains(&format!("\nhome: {ADDRESS}\nsources: [{ADDRESS}]\n")), "{about}");
    let values = read("values.yaml");
    assert!(values.contains("\n  repository: ghcr.io/example/plegctl\n"), "{values}");
}

#[test]
fn notes_of_a_release_are_its_dated_section_of_the_changelog() {
    let folder = TempDir::new();
    output_of(Command::new("cp").arg("-r").args([file("packaging"), file("Cargo.toml")]).arg(folder.path()));
    let version = env!("CARGO_PKG_VERSION");
    let notes = |tag: &str, changelog: &str| {
        fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
        let script = folder.path().join("packaging/notes.sh");
        Invocation::program(script.to_str().unwrap(), &[tag]).run()
    };
    let tag = format!("v{version}");
    let changelog =
        format!("# Changelog\n\n## Unreleased\n\n## {version} (2026-12-01)\n\n- new\n\n## 0.0.1\n\n- old\n");
    let output = notes(&tag, &changelog);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), "- new"), "{output}");
    for (tag, changelog, why) in [
        ("v9.9.9", changelog.clone(), "the tag is v9.9.9"),
        (&tag, changelog.replace(" (2026-12-01)", ""), "no heading"),
        (&tag, changelog.replace("Unreleased\n", "Unreleased\n\n- later\n"), "under Unreleased"),
    ] {
        let output = notes(tag, &changelog);
        assert!(output.code == Some(1) && output.stderr.contains(why), "{why}: {output}");
    }
}

/// Returns the JSON of a file in an OCI layout.
fn json_in(layout: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(layout.join(name)).unwrap()).unwrap()
}

#[test]
fn one_image_has_both_architectures() {
    let folder = TempDir::new();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("plegctl"), "binary").unwrap();
    fs::write(at("bundle"), "certificates").unwrap();
    let script = |name: &str| {
        let mut script = Command::new(file("packaging").join(name));
        script.env("SOURCE_DATE_EPOCH", "0").env("IMAGE_NAME", "ghcr.io/o/n").env("CA_BUNDLE", at("bundle"));
        script
    };
    for architecture in ["amd64", "arm64"] {
        let mut image = script("image.sh");
        image.arg(at("plegctl")).arg("9").arg(at(architecture)).env("IMAGE_ARCHITECTURE", architecture);
        output_of(&mut image);
    }
    output_of(script("index.sh").arg("9").args([at("joined"), at("amd64"), at("arm64")]));
    let layout = at("layout");
    fs::create_dir(&layout).unwrap();
    output_of(Command::new("tar").arg("xf").arg(at("joined")).arg("-C").arg(&layout));

    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let name = format!("blobs/{}", digest.replace(':', "/"));
        let sum = output_of(Command::new("sha256sum").arg(layout.join(&name)));
        assert!(digest.ends_with(sum.split(' ').next().unwrap()), "{digest}");
        assert_eq!(fs::metadata(layout.join(&name)).unwrap().len(), descriptor["size"].as_u64().unwrap());
        json_in(&layout, &name)
    };
    let top = json_in(&layout, "index.json");
    let named = &top["manifests"][0];
    assert_eq!(named["annotations"]["io.containerd.image.name"], "ghcr.io/o/n:9");
    let index = blob(named);
    for (descriptor, architecture) in index["manifests"].as_array().unwrap().iter().zip(["amd64", "arm64"]) {
        assert_eq!(descriptor["platform"]["architecture"], architecture);
        assert_eq!(blob(&blob(descriptor)["config"])["architecture"], architecture);
    }
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
}
