//! `plegctl docs [PAGE]`: shows a page of the documentation, so that it can be read on a node without a network. Without a
//! page: the one to read during an incident.
//!
//! ```text
//! $ plegctl docs KubeletPlegUnhealthy
//! # KubeletPlegUnhealthy
//! …
//! ```
//!
//! The program contains the pages (`docs/*.md` with its folders, `README.md` and `CHANGELOG.md`) and the skill for agents. On a
//! terminal, the pager shows them: `$PAGER`, else `less`. The pager replaces plegctl, so that Ctrl-C and Ctrl-Z reach only the
//! pager.

use std::env;
use std::io::{self, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use clap::Args;
use clap_complete::ArgValueCompleter;
use rustix::fs::{MemfdFlags, memfd_create};

use super::render::page::Page;
use super::render::{PLAIN, markdown};
use super::{Error, Exit, complete};
use crate::cmd::term::streams;
use crate::report::most_similar;

/// Defines the table of the pages, each with its name and its text.
macro_rules! pages {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../docs/", $name, ".md")))),*]
    };
}

/// The name and the text of each page. The first page is the one that is shown without a name.
const PAGES: &[(&str, &str)] = pages![
    "oncall"
    "README"
    "adding-a-kubelet-release"
    "captures"
    "comparison"
    "design"
    "faq"
    "glossary"
    "health"
    "install"
    "json"
    "kernel-reasons"
    "nodes"
    "performance"
    "pods"
    "preflight"
    "releasing"
    "safety"
    "scenarios"
    "security"
    "stacks"
    "static-pods"
    "supply"
    "support"
    "testing"
    "top"
    "walkthrough"
    "watch"
    "../CHANGELOG"
    "../README"
    "runbooks/README"
    "runbooks/KubeletMetricsHang"
    "runbooks/KubeletPlegAgeHigh"
    "runbooks/KubeletPlegEventsDiscarded"
    "runbooks/KubeletPlegNeverSeen"
    "runbooks/KubeletPlegPodRelistSlow"
    "runbooks/KubeletPlegRelistSlow"
    "runbooks/KubeletPlegUnhealthy"
    "runbooks/PlegctlAbsent"
    "runbooks/PlegctlHealthUnhealthy"
    "runbooks/PlegctlLimitSoon"
    "runbooks/PlegctlPlegUnhealthy"
    "runbooks/PlegctlRuntimeUnreachable"
    "../skills/plegctl/SKILL"
];

#[derive(Debug, Args)]
pub struct DocsArgs {
    /// The page, as links name it, or an alert: `health`, `captures.md#cost`, `KubeletPlegUnhealthy`; README lists all
    /// pages
    #[arg(value_name = "PAGE", default_value = "oncall", add = ArgValueCompleter::new(complete::pages))]
    page: String,
}

/// Runs the command.
pub fn run(arguments: &DocsArgs) -> Result<Exit, Error> {
    let text = find(&arguments.page).ok_or_else(|| Error::Unknown {
        wanted: format!("page `{}`", arguments.page),
        nearest: most_similar(&arguments.page, names()).map(str::to_owned),
        list: "docs README lists every page",
    })?;
    let text = &with_address(text, env!("CARGO_PKG_REPOSITORY"));
    let Some((_, columns)) = streams::terminal_size() else {
        streams::text(PLAIN, |out| out.lines(text))?;
        return Ok(Exit::Good);
    };
    let mut shown = Vec::new();
    // The lines that are longer than the terminal must not be broken.
    let mut page = Page::new(&mut shown, PLAIN);
    markdown::lines(text, columns).iter().try_for_each(|line| page.line(&line.as_str().into()))?;
    show_in_pager(&shown);
    streams::document(|out| out.write_all(&shown))?;
    Ok(Exit::Good)
}

/// Returns the names of the pages, and the names of the runbooks without their folder.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    let name = |path: &'static str| match path.rsplit_once('/') {
        Some((_, name)) if name != INDEX => name,
        _ => path,
    };
    PAGES.iter().map(move |(path, _)| name(path))
}

/// Where the pages are that are not in `docs`.
const PARENT: &str = "../";
/// The page that lists the pages of a folder.
const INDEX: &str = "README";

/// Returns the text of the page that a name or a link means.
fn find(wanted: &str) -> Option<&'static str> {
    let wanted = wanted.split_once('#').map_or(wanted, |(page, _)| page);
    let wanted = wanted.strip_suffix(".md").unwrap_or(wanted).trim_start_matches("./");
    let named = |wanted: &str| {
        let is_wanted = |one: &str| one.eq_ignore_ascii_case(wanted);
        let mut pages = PAGES.iter().zip(names());
        pages.find(|((path, _), name)| {
            [path, path.trim_start_matches(PARENT), name].into_iter().any(is_wanted)
        })
    };
    let from_elsewhere = wanted.trim_start_matches(PARENT).trim_start_matches("docs/");
    named(wanted).or_else(|| named(from_elsewhere)).map(|((_, text), _)| *text)
}

/// Returns the text of a page with the address of the project, if it has one.
fn with_address(text: &str, address: &str) -> String {
    const IN_PAGES: &str = "https://HOST/OWNER/NAME";
    text.replace(IN_PAGES, if address.is_empty() { IN_PAGES } else { address })
}

/// Replaces plegctl with a pager that shows the text. Returns if there is no pager.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's pager shows the page; nothing of a node reaches it"
)]
fn show_in_pager(text: &[u8]) {
    let chosen = env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let mut words = chosen.split_whitespace();
    let Some(program) = words.next() else { return };
    let Ok(file) = in_memory(text) else { return };
    let mut pager = Command::new(program);
    pager.args(words).stdin(Stdio::from(file));
    if env::var_os("LESS").is_none() {
        // As git does: a short page ends the pager at once and stays on the screen.
        pager.env("LESS", "FRX");
    }
    // It returns only if the pager cannot be started; then the page is printed.
    let _ = pager.exec();
}

/// Returns an open file without a name, with this content. A pipe would need a process that fills it.
fn in_memory(text: &[u8]) -> io::Result<std::fs::File> {
    let mut file = std::fs::File::from(memfd_create("page", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::report::shell_lines::without_comment;

    #[test]
    fn every_page_is_in_the_program() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let mut files = BTreeSet::new();
        for folder in ["", "runbooks/", "../skills/plegctl/"] {
            for file in fs::read_dir(docs.join(folder)).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                // The site's table of contents is no page.
                let page = name.strip_suffix(".md").filter(|name| *name != "SUMMARY");
                files.extend(page.map(|name| format!("{folder}{name}")));
            }
        }
        files.extend(["../README".to_owned(), "../CHANGELOG".to_owned()]);
        assert_eq!(PAGES.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>(), files);
    }

    /// The targets of the links of a page, without their anchors. The schemas are files; `plegctl schema` prints them.
    fn links(text: &str) -> impl Iterator<Item = &str> {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        targets.filter(|link| !link.is_empty() && !link.contains(':') && *link != "schema/")
    }

    #[test]
    fn each_link_of_a_page_to_another_one_is_a_name_of_it() {
        let of_docs = PAGES.iter().filter(|(path, _)| !path.starts_with(PARENT));
        for (page, text) in of_docs {
            let lost: Vec<_> = links(text).filter(|link| find(link).is_none()).collect();
            assert!(lost.is_empty(), "{page}: {lost:?}");
        }
    }

    /// Removes the comments of a script, and joins the lines of each command as a shell does.
    fn commands(script: &str) -> Vec<String> {
        let joined = script.replace("'\\\n'", "").replace("\\\n", "");
        let lines = joined.lines().map(|line| without_comment(line).0);
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn every_command_of_every_page_can_be_pasted_from_a_narrow_terminal() {
        let scripts = |text: &str| -> Vec<String> {
            let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
            blocks.flat_map(commands).filter(|line| !line.is_empty()).collect()
        };
        for (page, text) in PAGES {
            for columns in [40, 80] {
                let shown = markdown::lines(text, columns).join("\n");
                assert_eq!(scripts(&shown), scripts(text), "{page}");
                assert!(!shown.contains("<!--"), "{page}");
            }
        }
    }

    #[test]
    fn a_page_is_found_by_its_name_by_a_link_and_by_its_alert() {
        for name in ["health", "health.md", "Health", "docs/health.md#how-sure-it-is", "../health.md"] {
            assert!(find(name).unwrap().starts_with("# "), "{name}");
        }
        assert!(find("KubeletPlegUnhealthy").unwrap().contains("KubeletPlegUnhealthy"));
        assert_ne!(find("README"), find("runbooks/README"));
        assert!(find("skill").unwrap().starts_with("---\nname: plegctl\n"));
        assert_eq!(find("../skills/plegctl/SKILL.md"), find("skill"));
        for name in ["../CHANGELOG.md", "changelog"] {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(
            find("../README.md").unwrap().starts_with("# plegctl") && find("README") != find("../README")
        );
        assert_eq!(find("healt"), None);
    }

    #[test]
    fn pages_have_the_address_of_the_project() {
        let page = find("install").unwrap();
        assert!(with_address(page, "https://h.example/o/n").contains("=https://h.example/o/n/releases/"));
        assert_eq!(with_address(page, ""), page);
    }
}
