//! Tests of `packaging/`: the address of the project is in one place, and a release without one stops.

use std::fs;
use std::process::Command;

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
