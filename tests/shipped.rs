//! Checks the pages that the packages, the tarball and the site contain: each link in them leads to a file that is there too,
//! and they have the address of the project.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::fleet::tool;
use crate::support::socket::TempDir;

const ADDRESS: &str = "https://example.com/owner/plegctl";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a shell script in the root of the repository.
fn shell(script: &str, arguments: &[&Path]) {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(arguments).current_dir(root());
    let status = command.env("PLEGCTL_ADDRESS", ADDRESS).status();
    assert!(status.unwrap().success(), "{script}");
}

/// Returns the files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
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
    let mut pages = files(directory);
    pages.retain(|file| file.extension().is_some_and(|end| end == "md" || end == "txt"));
    assert!(pages.iter().any(|page| page.ends_with("docs/oncall.md")), "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let file = link.split_once('#').map_or(link, |(file, _)| file);
            assert!(page.parent().unwrap().join(file).exists(), "{} links to {link}", page.display());
        }
    }
}

/// The tarball has the same files, from the same script.
#[test]
fn packages_have_every_page_and_no_dead_link_in_it() {
    let folder = TempDir::new();
    let staged = folder.path().join("staged");
    shell("packaging/stage.sh \"$1\" \"$2\"", &[Path::new(env!("CARGO_BIN_EXE_plegctl")), &staged]);
    let pages = staged.join("usr/share/doc/plegctl");
    assert_no_dead_link(&pages);
    for kind in ["deploy", "docs", "skills"] {
        assert_eq!(files(&pages.join(kind)).len(), files(&root().join(kind)).len(), "{kind}");
    }
}

#[test]
fn shipped_pages_have_the_address_of_the_project() {
    let folder = TempDir::new();
    shell("packaging/pages.sh \"$1\"", &[folder.path()]);
    for page in files(folder.path()) {
        let text = String::from_utf8_lossy(&fs::read(&page).unwrap()).into_owned();
        assert!(!text.contains("://HOST/"), "{}", page.display());
        assert!(!text.contains("runbook_url: docs/"), "{}", page.display());
    }
    let release = concat!("/releases/download/v", env!("CARGO_PKG_VERSION"));
    for (page, path) in [("README.md", release), ("docs/install.md", release), ("docs/install.md", "\n")] {
        let text = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(&format!("{ADDRESS}{path}")), "{page}: {path}");
    }
}

/// `docs/install.md` has this command.
#[test]
fn tests_of_the_shipped_rules_pass() {
    let Some(promtool) = tool("promtool", "prometheus") else { return };
    let folder = TempDir::new();
    let script = "packaging/pages.sh \"$1\"; cd \"$1\"; \"$2\" test rules deploy/prometheus/tests/*.yaml";
    shell(script, &[folder.path(), &promtool]);
}

/// Stands for mdBook: makes an empty page of the site for each page of the book.
const MDBOOK: &str = r#"#!/bin/sh
cd "$4/docs"
find . -name '*.md' | sed 's/\.md$//' | while read -r page; do mkdir -p "$(dirname "$3/$page")"; : >"$3/$page.html"; done
"#;

#[test]
fn links_for_agents_lead_to_pages_of_the_site_and_to_files_of_the_repository() {
    let folder = TempDir::new();
    let (program, site) = (folder.path().join("mdbook"), folder.path().join("site"));
    fs::write(&program, MDBOOK).unwrap();
    shell("chmod +x \"$2/mdbook\"; PATH=$2:$PATH packaging/site.sh \"$1\"", &[&site, folder.path()]);
    let text = fs::read_to_string(site.join("llms.txt")).unwrap();
    let source = format!("]({ADDRESS}/blob/v{}/", env!("CARGO_PKG_VERSION"));
    let files: Vec<&str> =
        text.split(&source).skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
    assert!(files.contains(&"skills/plegctl/SKILL.md") && files.len() < 5, "{files:?}");
    for (folder, links) in [(site.as_path(), links(&text)), (root(), files)] {
        assert!(!links.is_empty(), "{text}");
        for link in links {
            assert!(folder.join(link).is_file(), "llms.txt links to {link}");
        }
    }
}
