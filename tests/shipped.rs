//! Checks the pages that the packages and the tarball contain: each link in them leads to a file that is there too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::support::socket::TempDir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a shell script in the root of the repository.
fn shell(script: &str, arguments: &[&Path]) {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(arguments).current_dir(root());
    let status = command.env("PLEGCTL_ADDRESS", "https://example.com/owner/plegctl").status();
    assert!(status.unwrap().success(), "{script}");
}

/// Returns the pages below a directory.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    found
}

/// Returns the targets of the links and pictures of a page that are files.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains(' '))
        .collect()
}

fn assert_no_dead_link(directory: &Path) {
    let pages = pages(directory);
    assert!(pages.iter().any(|page| page.ends_with("docs/oncall.md")), "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let file = link.split_once('#').map_or(link, |(file, _)| file);
            assert!(page.parent().unwrap().join(file).exists(), "{} links to {link}", page.display());
        }
    }
}

#[test]
fn no_link_in_a_package_is_dead() {
    let folder = TempDir::new();
    shell(
        "packaging/stage.sh \"$1\" \"$2\"",
        &[Path::new(env!("CARGO_BIN_EXE_plegctl")), &folder.path().join("staged")],
    );
    assert_no_dead_link(&folder.path().join("staged/usr/share/doc/plegctl"));
}

/// Runs the lines of `release.sh` that fill the tarball.
#[test]
fn no_link_in_the_tarball_is_dead() {
    let folder = TempDir::new();
    let script = fs::read_to_string(root().join("packaging/release.sh")).unwrap();
    let (_, filling) = script.split_once("\nname=plegctl-").unwrap();
    let (filling, _) = filling.split_once("\ntar --create").unwrap();
    let script =
        format!("binary=$1 work=$2 version=0 target=x RUN=\nmkdir $2/staged\nname=plegctl-{filling}");
    shell(&script, &[Path::new(env!("CARGO_BIN_EXE_plegctl")), folder.path()]);
    assert_no_dead_link(&folder.path().join("plegctl-0-x"));
}
