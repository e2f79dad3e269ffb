//! Checks README.md and the pages in `docs`: their console blocks and pictures show what the program prints, their links
//! lead somewhere, and the README stays short.
//!
//! A block after `<!-- run: plegctl … -->` must be equal to the output, except for figures that differ between runs
//! (durations, ages, times of day). In a block after `<!-- sample: plegctl … -->`, events and calls depend on the
//! moment, so their content and number may differ too. A command after `<!-- fleet: plegctl … -->` has the simulated fleet as
//! its cluster, whose nodes change with time, so only the first words of each line are compared. A command may end with ` | head -n N`. After a change of the
//! output, `cargo xtask write docs` updates the blocks and the pictures.

mod pictures;
mod queries;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::support::simulated_fleet::simulated_fleet;
use crate::support::{difference, plegctl};

/// Marks a block whose text must be equal except for figures.
const RUN: &str = "<!-- run: plegctl ";
/// Marks a block whose events and calls may differ too.
const SAMPLE: &str = "<!-- sample: plegctl ";
/// Marks a block whose command has the simulated fleet as its cluster.
const FLEET: &str = "<!-- fleet: plegctl ";
/// The page whose commands take long.
const WALKTHROUGH: &str = "docs/walkthrough.md";
/// The table of contents of the site.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The first line of a block.
const FENCE: &str = "```console\n";

/// The longest section of the README, in lines: one screen.
const SCREEN: usize = 40;
/// The longest line of a paragraph of the README, in columns.
const COLUMNS: usize = 80;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the README, the other pages of the root, and the pages in `docs`.
fn documents() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "llms.txt"]
            .map(|page| root().join(page))
            .into();
    for folder in ["docs", "docs/runbooks"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|end| end == "md")));
    }
    pages.sort();
    pages
}

/// Runs the command of every block of a document and compares its output with the block.
fn check(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let mut fresh = String::new();
    let mut rest = text.as_str();
    let mut stale = Vec::new();
    while let Some((start, open)) =
        [RUN, SAMPLE, FLEET].into_iter().filter_map(|open| Some((rest.find(open)?, open))).min()
    {
        let line_end = start + rest[start..].find("-->\n").expect("the comment ends") + "-->\n".len();
        let arguments = rest[start + open.len()..line_end - "-->\n".len()].trim();
        let essence = match open {
            RUN => masked,
            SAMPLE => lines,
            _ => first_words,
        };
        let block = rest[line_end..].strip_prefix(FENCE).expect("a console block follows");
        let block_end = block.find("```\n").expect("the block ends");
        let kubeconfig = (open == FLEET).then(|| simulated_fleet().kubeconfig.as_str());
        let printed = format!("$ plegctl {arguments}\n{}", printed(arguments, kubeconfig));
        if essence(&printed) == essence(&block[..block_end]) {
            fresh += &rest[..line_end];
            fresh += FENCE;
            fresh += &block[..block_end];
        } else {
            let changed = difference::difference(&essence(&block[..block_end]), &essence(&printed));
            stale.push(format!("plegctl {arguments}\n{changed}"));
            fresh += &rest[..line_end];
            fresh += FENCE;
            fresh += &printed;
        }
        rest = &block[block_end..];
    }
    fresh += rest;
    let blessed = difference::update_if_blessed(path, &fresh);
    assert!(
        blessed || stale.is_empty(),
        "{} does not show the output:\n{}",
        path.display(),
        stale.join("\n")
    );
}

/// Returns the output of a command; of its first lines, if it ends with ` | head -n N`.
fn printed(arguments: &str, kubeconfig: Option<&str>) -> String {
    let (arguments, most) = match arguments.split_once(" | head -n ") {
        Some((arguments, most)) => (arguments, most.parse().unwrap()),
        None => (arguments, usize::MAX),
    };
    let mut words: Vec<&str> = arguments.split_whitespace().collect();
    // A debug build on a busy machine takes longer than a short silence, or even the budget, for large lists.
    let has_large_lists = arguments.contains("list-too-large");
    if has_large_lists {
        words.extend(["--budget", "10m"]);
    }
    // A status call fails if its pod is removed after the list. At this moment, the simulated node removes none for 14 s.
    if arguments.contains("--inspect all") {
        words.extend(["--at", "611s"]);
    }
    // The figures are masked, so a shorter silence has the same text. What is kept has the real figures.
    let has_real_silences = env::var_os("PLEGCTL_BLESS").is_some() || has_large_lists;
    let run = || {
        let command = plegctl::Invocation::new(&words);
        let command = kubeconfig.into_iter().fold(command, |command, path| command.env("KUBECONFIG", path));
        if has_real_silences { command } else { command.with_short_silences() }.run().stdout
    };
    let mut text = run();
    // plegctl waits at most 4 s for each part of a large list, which no option changes.
    for _ in 0..20 {
        if !has_large_lists || !text.contains("without an answer") {
            break;
        }
        text = run();
    }
    text.lines().take(most).flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Returns the anchors of the headings of a page, as GitHub and GitLab make them.
fn headings(text: &str) -> BTreeSet<String> {
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => {
            Some(letter.to_ascii_lowercase())
        }
        _ => None,
    };
    titles.map(|title| title.chars().filter_map(letter).collect()).collect()
}

/// Replaces each figure that differs between runs with `#`, and several blanks with one. Omits the lines of a histogram,
/// and the line about a relist that took long, which a busy machine adds.
fn masked(text: &str) -> String {
    let is_kept =
        |line: &&str| !line.trim_start().starts_with('≤') && !line.contains("; its slowest call was ");
    text.lines().filter(is_kept).map(|line| words(line) + "\n").collect()
}

/// Returns the sorted lines without repetitions. Each event becomes `an event`, and each call `a call`.
fn lines(text: &str) -> String {
    let masked = masked(text);
    let lines: BTreeSet<&str> = masked.lines().map(without_the_moment).collect();
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// Returns the first words of each line, without figures.
fn first_words(text: &str) -> String {
    let first = |line: &str| line.split(' ').take(3).collect::<Vec<_>>().join(" ") + "\n";
    masked(text).lines().map(first).collect()
}

/// Returns the part of a line that does not depend on the moment.
fn without_the_moment(line: &str) -> &str {
    let second = line.split(' ').nth(1).unwrap_or_default();
    let is_call = second.starts_with("List") || second.contains("Status");
    match line.split(' ').next() {
        Some("#") if second.contains('/') => "an event",
        Some("#") if is_call => "a call",
        Some("slowest") => "slowest",
        Some("events") => "events",
        _ => line,
    }
}

fn words(line: &str) -> String {
    let words: Vec<&str> =
        line.split_whitespace().map(|word| if is_figure(word) { "#" } else { word }).collect();
    words.join(" ")
}

/// Whether a word has only digits, points, colons, signs and units of time or size.
fn is_figure(word: &str) -> bool {
    let word = word.trim_matches(|edge: char| "(),;~≈".contains(edge));
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_digit() || ".:+-%µmsdhyTZ".contains(letter))
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    check(&root().join("README.md"));
}

#[test]
fn the_pages_of_the_commands_show_what_the_program_prints() {
    for page in documents().iter().filter(|page| !page.ends_with("README.md") && !page.ends_with(WALKTHROUGH))
    {
        check(page);
    }
}

#[test]
fn long_the_walkthrough_shows_what_the_program_prints() {
    check(&root().join(WALKTHROUGH));
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut links = 0;
    for page in documents() {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            if target.contains("://") || target.is_empty() {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(file.exists(), "{}: {target}", page.display());
            let leads = heading.is_empty() || headings(&fs::read_to_string(&file).unwrap()).contains(heading);
            assert!(leads, "{}: no heading for {target}", page.display());
            links += 1;
        }
    }
    assert!(links > 50, "the search finds too few links: {links}");
}

#[test]
fn files_that_the_guide_for_contributors_names_exist() {
    let guide = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let names = guide.split('`').skip(1).step_by(2).map(|name| name.split([':', ' ']).next().unwrap());
    let is_path =
        |name: &&str| ["src/", "tests/", "docs/", "crates/"].iter().any(|top| name.starts_with(top));
    let paths: BTreeSet<&str> = names.filter(is_path).filter(|name| !name.contains("NAME")).collect();
    assert!(paths.len() > 15, "{paths:?}");
    let missing: Vec<&&str> = paths.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_index_lists_every_page() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in documents() {
        let name = page.strip_prefix(root().join("docs")).map(|name| name.display().to_string());
        if let Ok(name) = name
            && name != "README.md"
            && name != "SUMMARY.md"
            && !name.starts_with("runbooks/Kubelet")
            && !name.starts_with("runbooks/Plegctl")
        {
            assert!(index.contains(&format!("]({name})")), "docs/README.md does not list {name}");
        }
    }
}

#[test]
fn the_first_command_of_the_readme_prints_its_picture_without_optimisation_and_the_second_one_tests() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, block) = text.split_once("```sh\n").unwrap();
    let (first, rest) = block.split_once('\n').unwrap();
    assert!(rest.starts_with("make test\n```\n"), "{rest}");
    let command = first.strip_prefix("cargo run --profile ").unwrap();
    let (profile, arguments) = command.split_once(" --locked -- ").unwrap();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, settings) = manifest.split_once(&format!("[profile.{profile}]\n")).unwrap();
    let settings = settings.split("\n\n").next().unwrap();
    assert!(settings.lines().any(|line| line == "opt-level = 0"), "{settings}");
    assert!(text.contains(&format!("<!-- picture: plegctl {arguments} -->")), "{arguments}");
}

#[test]
fn the_site_has_every_page_once() {
    let contents = fs::read_to_string(root().join(SUMMARY)).unwrap();
    let listed: Vec<&str> =
        contents.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    let pages = documents().into_iter().filter(|page| !page.ends_with(SUMMARY));
    let pages: BTreeSet<String> = pages
        .filter_map(|page| Some(page.strip_prefix(root().join("docs")).ok()?.display().to_string()))
        .collect();
    assert_eq!(listed.iter().map(|page| (*page).to_owned()).collect::<BTreeSet<_>>(), pages);
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
    let settings = fs::read_to_string(root().join("book.toml")).unwrap();
    assert!(settings.contains("src = \"docs\"") && settings.contains("[output.html.search]"), "{settings}");
}

#[test]
fn a_section_of_the_readme_fits_a_screen() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let mut in_block = false;
    let (mut title, mut lines) = ("", 0);
    for line in text.lines() {
        lines += 1;
        in_block ^= line.starts_with("```");
        if line.starts_with('#') && !in_block {
            (title, lines) = (line, 1);
        }
        assert!(lines <= SCREEN, "`{title}` has more than {SCREEN} lines");
        let wraps = !in_block && !line.starts_with(['|', '!', '<', '>', '#']);
        assert!(!wraps || line.chars().count() <= COLUMNS, "more than {COLUMNS} columns: {line}");
    }
}

#[test]
fn masking_replaces_figures_and_keeps_names() {
    assert_eq!(words("relist 4.12ms  (1 B)  web-0 3m20s 12:03:04.512"), "relist # # B) web-0 # #");
}

#[test]
fn samples_are_compared_except_for_their_times() {
    let first =
        "12:00:01.5  first relist took 5ms: 16 pods\n12:00:02  shop/a  x  running → exited\nevents  A 1\n";
    let later = "11:00:01.5  first relist took 9ms: 17 pods\n11:00:02  shop/b  y  exited → running\n\
        11:00:03  shop/b  z  exited → running\nevents  B 2\n";
    assert_eq!(lines(first), lines(later));
    assert_ne!(lines(first), lines(&later.replace("first relist took", "relist 1 took")));
}
