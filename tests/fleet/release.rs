//! Tests of `packaging/`: the address of the project is in one place, a release without one stops, and its parts fit together.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{file, output_of, text, tool};
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

/// Without this, rustup reads `rust-toolchain.toml` and downloads the newest Rust, and the hash of the image pins nothing.
#[test]
fn workflows_use_the_rust_of_their_image() {
    let workflows = text(".github/workflows/ci.yml") + &text(".github/workflows/release.yml");
    let images: Vec<&str> = workflows.split("image: rust:").skip(1).collect();
    assert_eq!(images.len(), 2, "{workflows}");
    for image in images {
        let (version, job) = image.split_once('-').unwrap();
        let settings = job.split("    steps:\n").next().unwrap();
        assert!(settings.contains(&format!("\n      RUSTUP_TOOLCHAIN: {version} #")), "{settings}");
    }
    // The image has neither; rustup downloads them in the version of the toolchain.
    assert!(text(".github/workflows/ci.yml").contains("rustup component add clippy rustfmt\n"));
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
    for (arguments, expected) in
        [(["source", "9"], "/-/blob/v9\n"), (["download", "9"], "/-/releases/v9/downloads\n")]
    {
        let output = address_of("https://gitlab.com/o/n", &arguments);
        assert_eq!(output.stdout, format!("https://gitlab.com/o/n{expected}"), "{output}");
    }
    // No image is named on a host whose registry is not known.
    let output = address_of("https://git.example/o/n", &["image"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{output}");
}

#[test]
fn text_that_is_no_address_is_refused() {
    for wrong in [
        "github.com/o/n",
        "https://github.com/",
        "https://github.com/a",
        "https://h.example/o/n/",
        "https://h.example/$(id)/n",
    ] {
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
    let runbooks = format!("\n  runbooks: {ADDRESS}/blob/v{}/docs/runbooks\n", env!("CARGO_PKG_VERSION"));
    assert!(values.contains(&runbooks), "{values}");
    // In the checkout, this file is a link.
    assert!(read("plegctl.rules.yaml").contains("KubeletPlegUnhealthy"));
}

#[test]
fn notes_of_a_release_are_its_dated_section_of_the_changelog() {
    let folder = TempDir::new();
    output_of(Command::new("cp").arg("-r").args([file("packaging"), file("Cargo.toml")]).arg(folder.path()));
    let version = env!("CARGO_PKG_VERSION");
    let notes = |tag: &str, changelog: &str| {
        fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
        let script = folder.path().join("packaging/notes.sh");
        Invocation::program(script.to_str().unwrap(), &[tag]).env("PLEGCTL_ADDRESS", ADDRESS).run()
    };
    let tag = format!("v{version}");
    let changelog = format!(
        "# Changelog\n\n## Unreleased\n\n## {version} (2026-12-01)\n\n- [new](docs/x.md), [h](https://h)\n\n## 0.0.1\n\n- old\n"
    );
    let output = notes(&tag, &changelog);
    let expected = format!("- [new]({ADDRESS}/blob/{tag}/docs/x.md), [h](https://h)");
    assert_eq!((output.code, output.stdout.trim()), (Some(0), expected.as_str()), "{output}");
    for (tag, changelog, why) in [
        ("v9.9.9", changelog.clone(), "the tag is v9.9.9"),
        (&tag, changelog.replace(" (2026-12-01)", ""), "no heading"),
        (&tag, changelog.replace("Unreleased\n", "Unreleased\n\n- later\n"), "under Unreleased"),
    ] {
        let output = notes(tag, &changelog);
        assert!(output.code == Some(1) && output.stderr.contains(why), "{why}: {output}");
    }
}

/// plegctl is not on crates.io, where cargo binstall looks for a name alone.
#[test]
fn pages_give_cargo_binstall_the_repository() {
    let page = text("docs/install.md");
    assert!(page.matches("cargo binstall ").count() == 1 && page.contains("cargo binstall --git "), "{page}");
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
        let manifest = blob(descriptor);
        assert_eq!(blob(&manifest["config"])["architecture"], architecture);
        let layer = manifest["layers"][0]["digest"].as_str().unwrap().replace(':', "/");
        let files = output_of(Command::new("tar").arg("tzf").arg(layout.join("blobs").join(layer)));
        for name in ["plegctl", "licenses/LICENSE", "licenses/LICENSE-libyaml-safer"] {
            assert!(files.lines().any(|file| file == format!("./{name}")), "no {name}: {files}");
        }
    }
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
}

/// Runs a program that checks a file, and returns what it prints.
fn checked_by(name: &str, package: &str, arguments: &[&str], path: &Path) -> Option<String> {
    let program = tool(name, package)?;
    Some(output_of(Command::new(program).args(arguments).arg(path)))
}

#[test]
fn templates_of_other_package_managers_are_filled_in_and_can_be_read() {
    let folder = TempDir::new();
    let version = env!("CARGO_PKG_VERSION");
    let mut sums = Vec::new();
    for machine in ["x86_64", "aarch64"] {
        let tarball = folder.path().join(format!("plegctl-{version}-{machine}-unknown-linux-gnu.tar.gz"));
        fs::write(&tarball, machine).unwrap();
        let sum = output_of(Command::new("sha256sum").arg(&tarball));
        sums.push((tarball, sum.split(' ').next().unwrap().to_owned()));
    }
    let mut script = Command::new(file("packaging/templates.sh"));
    output_of(script.arg(version).arg(folder.path()).env("PLEGCTL_ADDRESS", ADDRESS));
    for name in ["plegctl.rb", "flake.nix", "PKGBUILD"] {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(
            text.contains(&format!("{ADDRESS}/releases/download/v{version}/plegctl-{version}-")),
            "{text}"
        );
        assert!(sums.iter().all(|(_, sum)| text.matches(sum).count() == 1), "{text}");
        let left = text
            .split('@')
            .skip(1)
            .step_by(2)
            .find(|word| word.chars().all(|letter| letter.is_ascii_uppercase()));
        assert_eq!(left, None, "{text}");
    }
    checked_by("ruby", "ruby", &["-c"], &folder.path().join("plegctl.rb"));
    checked_by("nix-instantiate", "nix-bin", &["--parse"], &folder.path().join("flake.nix"));
    // The PKGBUILD is a script of bash, which makepkg reads as a plain user only.
    let fields = "source \"$0\"; printf '%s\\n' \"$pkgname\" \"$pkgver\" \"${source_aarch64[@]}\" \"${sha256sums_aarch64[@]}\"; type package";
    let shown = output_of(Command::new("bash").args(["-euc", fields]).arg(folder.path().join("PKGBUILD")));
    let shown: Vec<&str> = shown.lines().take(4).collect();
    let (tarball, sum) = &sums[1];
    let address =
        format!("{ADDRESS}/releases/download/v{version}/{}", tarball.file_name().unwrap().display());
    assert_eq!(shown, ["plegctl-bin", version, &address, sum]);
}

#[test]
fn statement_of_provenance_names_the_files_and_the_commit() {
    let folder = TempDir::new();
    for name in ["one.tar.gz", "two.deb"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let statement = |workflow: &str| -> Value {
        let mut script = Command::new(file("packaging/provenance.sh"));
        script.env("PLEGCTL_ADDRESS", ADDRESS).env("GITHUB_SERVER_URL", "https://github.com");
        let text = output_of(script.arg("9").arg(folder.path()).env("GITHUB_WORKFLOW_REF", workflow));
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
    };
    let by_hand = statement("");
    assert_eq!(
        (&by_hand["_type"], &by_hand["predicateType"]),
        (&"https://in-toto.io/Statement/v1".into(), &"https://slsa.dev/provenance/v1".into())
    );
    let subjects = by_hand["subject"].as_array().unwrap();
    assert_eq!(subjects.len(), 2);
    for subject in subjects {
        let sum =
            output_of(Command::new("sha256sum").arg(folder.path().join(subject["name"].as_str().unwrap())));
        assert_eq!(subject["digest"]["sha256"], sum.split(' ').next().unwrap());
    }
    let predicate = &by_hand["predicate"];
    assert_eq!(predicate["buildDefinition"]["externalParameters"]["repository"], ADDRESS);
    let source = &predicate["buildDefinition"]["resolvedDependencies"][0];
    assert_eq!(source["uri"], format!("git+{ADDRESS}"));
    assert!(
        predicate["buildDefinition"]["internalParameters"]["rustc"].as_str().unwrap().starts_with("rustc ")
    );
    let builder = |statement: &Value| {
        statement["predicate"]["runDetails"]["builder"]["id"].as_str().unwrap().to_owned()
    };
    assert!(builder(&by_hand).ends_with("#by-hand"), "{by_hand}");
    let workflow = "Example/Plegctl/.github/workflows/release.yml@refs/tags/v9";
    assert_eq!(builder(&statement(workflow)), format!("https://github.com/{workflow}"));
}
